"""What collaboration bought: `feddep value` on a simulated run, and at one silo of a federation."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import feddep as library
from calls import Feddep
from feddep.errors import InputError
from feddep.graph.graph import Graph
from feddep.graph.marks import Marks
from feddep.graph.shard import Shards, write_shards
from feddep.reports.value_page import answers, silos_table, value_markdown, value_page
from feddep.seeding import Seeds
from feddep.value.measure import Interval, Way, measured
from feddep.value.scoring import Metric
from feddep.value.silo import silo_value
from feddep.value.ways import How, settings_of, value_of

SETTINGS = {"training.rounds": 3, "model.hidden": 8, "training.learning_rate": 0.3}


def banks(nodes: int = 240, clients: int = 3) -> Shards:
    """A rare class that one column tells, and half of its links go to others of it.

    Every launderer is of a ring of three.
    """
    rng = np.random.default_rng(1)
    labels = (np.arange(nodes) % 8 == 0).astype(np.int64)
    features = rng.normal(size=(nodes, 4)).astype(np.float32)
    features[:, 0] += 2 * labels
    split = (np.arange(nodes) // 8 % 3 + 1).astype(np.int8)
    edges = rng.integers(0, nodes, size=(nodes * 2, 2))
    rings = np.where(labels == 1, np.char.add("ring ", (np.arange(nodes) // 24).astype(str)), "")
    graph = Graph.from_edges(
        edges, features, labels, classes=2, split=split, name="banks", marks=Marks.of(nodes, rings)
    )
    return Shards(graph, (np.arange(nodes) // (nodes // clients)).astype(np.int32), "given", 0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("value")
    write_shards(banks(), place / "banks")
    library.run("fedavg", place / "banks", settings=SETTINGS, workers=1, out=place / "run")
    return place / "run"


def test_the_command_writes_a_page_that_needs_no_network(feddep: Feddep, run: Path):
    done = feddep("value", run, "--workers", 1)
    assert done.code == 0, done.err
    assert "training local" in done.err
    assert "Training with the others (fedavg)" in done.out
    page = (run / "value.html").read_text()
    assert "http" not in page.replace("http://www.w3.org", "")
    assert "Silo by silo" in page
    found = json.loads((run / "value.json").read_text())
    names = [way["name"] for way in found["ways"]]
    assert names == ["local", "fedavg", "trees", "trees, neighbours", "trees, pooled"]
    assert found["metric"] == "average precision"
    assert found["ways"][1]["up_bytes"] > 0
    assert found["ways"][0]["up_bytes"] == 0
    again = feddep("value", run, "--workers", 1, "--json")
    assert "training" not in again.err
    assert again.json == found


def test_scores_are_those_of_the_run_on_each_silo_s_own_test_nodes(run: Path):
    value, result, shards = value_of(run, how=How(workers=1)), library.open_run(run), banks()
    way = value.way("fedavg")
    for silo, graph in enumerate(shards):
        test = graph.split == 3
        assert value.test_nodes[silo] == test.sum()
        scores = result.predict(graph, client=silo)[test]
        expected = Metric("average precision", 1).score(graph.labels[test], scores)
        assert way.silos[silo] == expected
    gain = np.mean(way.silos) - np.mean(value.way("local").silos)
    assert way.gain.value == pytest.approx(gain)
    assert way.gain.low <= way.gain.value <= way.gain.high


def test_several_seeds_are_trained_and_resampled(run: Path):
    value = value_of(run, runs=2, how=How(workers=1))
    assert value.seeds == 2
    assert {path.name for path in (run / "value").iterdir()} == {
        "local-s0",
        "local-s1",
        "fedavg-s1",
    }


def ways_of(shards: Shards, **tellers: float) -> list[Way]:
    """Ways whose scores tell the class with so much noise."""
    found = []
    for name, noise in tellers.items():
        predictions = {}
        for silo, graph in enumerate(shards):
            rng = np.random.default_rng(silo)
            scores = graph.labels + noise * rng.normal(size=graph.nodes)
            predictions[silo] = np.stack([-scores, scores], axis=1)
        found.append(Way(name, name, [predictions], tree=name == "trees"))
    return found


def test_gains_are_paired_so_what_is_equal_has_no_interval():
    shards = banks()
    ways = ways_of(shards, local=1.0, copy=1.0, best=0.1, trees=0.3)
    found = measured(ways, [list(shards)], Metric("average precision", 1), "local", Seeds(0))
    local, copy, best, trees = found
    assert local.gain is None
    assert copy.gain == Interval(0.0, 0.0, 0.0)
    assert best.gain.above
    assert best.beyond_trees is not None
    assert trees.beyond_trees is None
    assert best.hits[0] >= local.hits[0]


def test_a_silo_without_test_nodes_of_the_class_is_left_out_of_the_mean():
    shards = banks()
    labels = shards.graph.labels.copy()
    labels[shards.owner == 0] = 0
    changed = Shards(replace(shards.graph, labels=labels), shards.owner, "given", 0)
    ways = ways_of(changed, local=1.0, fedavg=0.5)
    _, fedavg = measured(ways, [list(changed)], Metric("average precision", 1), "local", Seeds(0))
    assert fedavg.silos[0] is None
    assert fedavg.silo_gains[0] is None
    assert fedavg.score == np.mean(fedavg.silos[1:])


def test_the_sentences_follow_the_intervals(run: Path):
    value = value_of(run, how=How(workers=1))
    ways = {way.name: way for way in value.ways}
    for gain, said in (
        (Interval(0.1, 0.05, 0.2), "more than chance"),
        (Interval(-0.1, -0.2, -0.05), "*lowered*"),
        (Interval(0.1, -0.05, 0.2), "holds 0"),
    ):
        changed = ways | {"fedavg": replace(ways["fedavg"], gain=gain, beyond_trees=gain)}
        text = " ".join(answers(replace(value, ways=list(changed.values()))))
        assert said in text
    assert "trees" in value_markdown(value)
    assert len(silos_table(value).rows) == 3
    assert value_page(value).count("<h2>") == 3


def test_training_alone_has_no_noise_because_nothing_leaves(run: Path):
    spec = library.open_run(run).spec
    noisy = spec.with_settings({"privacy.mechanism": "randomised-response", "privacy.epsilon": 2.0})
    assert settings_of(noisy, "local", 0)["privacy.mechanism"] == "none"
    assert settings_of(noisy, "fedavg", 0)["privacy.epsilon"] == 2.0
    assert settings_of(spec, "local", 3) | {"seed": 0} == settings_of(spec, "local", 0)


def silo_results(run: Path, place: Path) -> Path:
    """What silo 1 would have kept: its part of the run, and no record of the whole."""
    folder = place / "results"
    folder.mkdir()
    for name in ("model.safetensors", "spec.toml"):
        (folder / name).write_bytes((run / name).read_bytes())
    for file in (run / "clients/1").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    report = {
        "run": "a1",
        "client": 1,
        "data": {"features": 4, "classes": 2},
        "privacy": {"sound": {"epsilon": 3.0, "delta": 1e-5, "verdict": "holds"}},
        "scores": None,
    }
    (folder / "silo.json").write_text(json.dumps(report))
    return folder


def test_a_silo_finds_out_for_itself_alone(feddep: Feddep, run: Path, tmp_path: Path):
    folder = silo_results(run, tmp_path)
    graph = tmp_path / "graph"
    library.write_graph(banks()[1], graph)
    done = feddep("value", folder, "--data", graph, "--workers", 1)
    assert done.code == 0, done.err
    assert "ε = 3 for one link" in done.out
    value = silo_value(folder, graph, How(workers=1))
    whole = value_of(run, how=How(workers=1))
    assert value.way("fedavg").silos == [whole.way("fedavg").silos[1]]
    assert len(value.silos) == 1
    assert value.way("trees, pooled") is None


def test_what_cannot_be_compared_is_refused(feddep: Feddep, run: Path, tmp_path: Path):
    nothing = feddep("value", tmp_path)
    assert nothing.code != 0
    assert "Traceback" not in nothing.err
    data = feddep("value", run, "--data", tmp_path)
    assert data.code == 2
    assert "leave out --data" in data.err
    folder = silo_results(run, tmp_path)
    with pytest.raises(InputError, match="each silo asks for itself"):
        value_of(folder)
    assert feddep("value", folder, "--data", tmp_path, "--runs", 2).code == 2


def test_a_split_like_the_future_stands_beside_the_run_s(feddep: Feddep, run: Path):
    done = feddep("value", run, "--workers", 1, "--split-by", "case")
    assert done.code == 0, done.err
    assert "training fedavg, split by case" in done.err
    assert "divided by case" in done.out
    found = json.loads((run / "value.json").read_text())
    assert found["beside"]["split"] == "by case"
    assert [way["name"] for way in found["ways"]] == [w["name"] for w in found["beside"]["ways"]]
    assert found["ways"][0]["score"] != found["beside"]["ways"][0]["score"]
    assert "The same with nodes divided by case" in (run / "value.html").read_text()
    assert "The same with nodes divided by case" in (run / "value.md").read_text()
    again = feddep("value", run, "--workers", 1, "--split-by", "case", "--json")
    assert "training" not in again.err
    refused = feddep("value", run, "--workers", 1, "--split-by", "time")
    assert (refused.code, "does not say what time" in refused.err) == (2, True)
