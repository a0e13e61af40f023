"""`feddep predict`: a silo's graph or tables, old or new, as a table of probabilities."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

import feddep as library
from calls import Feddep
from feddep.graph.shard import Shards
from feddep.runs.data_to_predict import numbered
from feddep.tables.importing import import_folder
from missing import ONNX

SETTINGS = {"training.rounds": 2, "model.hidden": 8, "embedding.width": 4, "embedding.epochs": 1}
PARTS = ("train", "train", "train", "val", "test")
NODES = "id,colour,age,label,split\n"


def tables(folder: Path, rows: int = 60, *, labels: bool = True) -> Path:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(rows)
    lines = [
        f"n{i},{['red', 'blue'][i % 2]},{'' if i == 3 else 20 + i},"
        + (f"{('bad', 'good')[i % 3 > 0]},{PARTS[i % 5]}" if labels else ",")
        for i in range(rows)
    ]
    (folder / "nodes.csv").write_text(NODES + "\n".join(lines) + "\n")
    ends = rng.integers(0, rows, size=(rows * 2, 2))
    edges = "\n".join(f"n{a},n{b}" for a, b in ends)
    (folder / "edges.csv").write_text("source,target\n" + edges + "\n")
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of tables, and runs of two silos on it that keep the encoder."""
    place = tmp_path_factory.mktemp("predict")
    encoder = import_folder(tables(place / "tables"), place / "graph").encoder
    shards = shards_of(place)
    for method in ("fedavg", "local", "feddep"):
        out = place / method
        library.run(method, shards, settings=SETTINGS, workers=1, out=out)
        encoder.write(out / "clients/0")
    return place


def shards_of(place: Path) -> Shards:
    graph = library.load(place / "graph")
    return Shards(graph, (np.arange(graph.nodes) % 2).astype(np.int32), "given", 0, "given")


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("method", ["fedavg", "local", "feddep"])
def test_a_silo_s_own_nodes_are_predicted_as_in_the_run(feddep: Feddep, place: Path, method: str):
    result, own = library.open_run(place / method), shards_of(place)[1]
    library.write_graph(own, Path("own"))
    done = feddep("predict", place / method, "--data", "own", "--out", "p/found.csv")
    assert done.code == 0, done.err
    assert "as those of silo 1" in done.out
    found = rows_of(Path("p/found.csv"))
    assert [row["id"] for row in found] == own.node_ids.tolist()
    expected = result.predict(own, client=1)
    assert [float(row["probability_bad"]) for row in found] == expected[:, 0].tolist()
    called = [["bad", "good"][i] for i in result.called(expected, own)]
    assert [row["class"] for row in found] == called
    assert f"from a probability of {result.threshold:.3g} on" in done.out


def test_next_month_s_tables_without_labels_are_encoded_as_in_the_run(feddep: Feddep, place: Path):
    new = tables(Path("august"), 80, labels=False)
    done = feddep("predict", place / "feddep", "--data", new, "--silo", 0, "--out", "p.parquet")
    assert done.code == 0, done.err
    found = pyarrow.parquet.read_table("p.parquet")
    assert found.num_rows == 80
    assert found.column_names == ["id", "class", "probability_bad", "probability_good"]
    again = library.open_run(place / "feddep").predict_table(new, 0)
    assert found["probability_bad"].to_pylist() == again.probabilities[:, 0].tolist()
    # The same tables as in training are the same nodes, whatever stands beside them.
    same = library.open_run(place / "fedavg").predict_table(place / "tables", 0)
    graph = library.load(place / "graph")
    expected = library.open_run(place / "fedavg").predict(graph, client=0)
    assert (same.probabilities == expected).all()


def test_one_classifier_needs_no_silo_and_several_do(feddep: Feddep, place: Path):
    done = feddep("predict", place / "fedavg", "--data", place / "graph", "--out", "p.csv")
    assert done.code == 0
    assert "as those of" not in done.out
    several = feddep("predict", place / "local", "--data", place / "graph", "--out", "q.csv")
    assert several.code == 2
    assert "whose it is to be: 0, 1" in several.err
    assert not Path("q.csv").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "graph", "--out", "p.xlsx"), "ends in .csv or .parquet (got p.xlsx)"),
        (("--data", "graph", "--out", "p.csv", "--silo", "bank-7"), "silos are 0, 1 (got bank-7)"),
        (("--data", "tables", "--out", "p.csv"), "say whose"),
        (("--data", "tables", "--out", "p.csv", "--silo", "1"), "does not keep how tables"),
        (("--data", "nowhere", "--out", "p.csv"), "holds neither a graph"),
    ],
)
def test_what_cannot_be_predicted_is_said_in_a_line(
    feddep: Feddep, place: Path, words: tuple[str, ...], said: str
):
    placed = [str(place / word) if word in ("graph", "tables") else word for word in words]
    done = feddep("predict", place / "fedavg", *placed)
    assert done.code == 2
    assert said in done.err
    assert not list(Path().glob("p.*"))


def test_names_with_commas_are_quoted(tmp_path: Path):
    from feddep.runs.predictions import Predictions

    found = Predictions(np.array(["a,b", 'c"d']), ["yes", "no, no"], np.eye(2), np.arange(2))
    found.write(tmp_path / "p.csv")
    rows = rows_of(tmp_path / "p.csv")
    assert [row["id"] for row in rows] == ["a,b", 'c"d']
    assert [row["class"] for row in rows] == ["yes", "no, no"]
    assert rows[1]["probability_no, no"] == "1"


def test_a_classifier_is_exported_for_other_programs(feddep: Feddep, place: Path):
    onnx = pytest.importorskip("onnx", reason=ONNX)
    needed = feddep("export", place / "local", "--out", "m.onnx")
    assert needed.code == 2
    assert "whose it is to be: 0, 1" in needed.err
    done = feddep("export", place / "local", "--out", "new/m.onnx", "--silo", 1)
    assert done.code == 0, done.err
    told = {entry.key: json.loads(entry.value) for entry in onnx.load("new/m.onnx").metadata_props}
    assert told["method"] == "local"
    assert told["classes"] == ["bad", "good"]
    assert 0 < told["threshold"] < 1
    other = feddep("export", place / "fedavg", "--out", "m.pb")
    assert other.code == 2
    assert "ends in .onnx (got m.pb)" in other.err


def test_silos_are_known_by_name_or_number():
    assert numbered("bank-1", ["bank-0", "bank-1"]) == numbered(1, ["bank-0", "bank-1"]) == 1


def test_a_run_has_a_model_card(feddep: Feddep):
    settings = [f"--set={key}={value}" for key, value in SETTINGS.items()]
    done = feddep(
        *("run", "--method", "fedavg", "--clients", 2, "--workers", 1, "--out", "run"),
        *settings,
        "--set=synthetic.nodes=200",
        "--set=synthetic.feature_count=100",
    )
    assert done.code == 0, done.err
    card = json.loads(Path("run/model_card.json").read_text())
    text = Path("run/model_card.md").read_text()
    record = json.loads(Path("run/record.json").read_text())
    assert card["training"]["round_of_the_model"] == record["best_round"]
    assert record["privacy"]["statement"] in text
    assert all(line in text for line in card["limits"])
    assert "`feddep value` adds the scores of each silo" in text
    assert feddep("value", "run", "--workers", 1).code == 0
    assert "By silo, accuracy" in Path("run/model_card.md").read_text()
    again = feddep(
        "run",
        "--method",
        "fedavg",
        "--clients",
        2,
        "--workers",
        1,
        "--out",
        "run",
        *settings,
        "--set=synthetic.nodes=200",
        "--set=synthetic.feature_count=100",
    )
    assert again.code == 0
    assert not Path("run/value").exists()
