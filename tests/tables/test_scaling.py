"""Scales agreed on from sums: worked numbers, noise and its price, consent, log, files."""

import json
from pathlib import Path

import numpy as np
import pytest

from feddep.deployment.operations.scaling import Noise, tell_sums
from feddep.deployment.protocol.disclosure_log import verify
from feddep.errors import ConsentError, DataError, InputError
from feddep.graph.schema import Schema
from feddep.privacy.noised_scaling import noised, spread_for
from feddep.privacy.secret_stream import SecretStream
from feddep.tables.agreeing import join_schemas, make_schema, read_schema, write_schema
from feddep.tables.encoder import fit
from feddep.tables.files import open_tables
from feddep.tables.scaling import Sums, sums_of, with_scales

HEADER = "id,age,turnover,label,split\n"
NORTH = ["1,20,1,a,train", "2,40,3,b,train", "3,,5,a,train", "4,99,7,b,test"]
SOUTH = ["1,60,10,a,train", "2,80,20,b,train"]
CONSENT = """
methods = ["fedavg"]
messages = ["classifier"{more}]
rounds = 1
smallest_cluster = 1
highest_epsilon = {highest}
"""


@pytest.fixture
def silos(tmp_path):
    folders = []
    for name, rows in (("north", NORTH), ("south", SOUTH)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "nodes.csv").write_text(HEADER + "\n".join(rows) + "\n")
        (folder / "edges.csv").write_text("source,target\n1,2\n")
        folders.append(folder)
    return folders


@pytest.fixture
def agreed(silos, tmp_path):
    schema, _ = join_schemas({folder.name: make_schema(folder, log="none") for folder in silos})
    write_schema(schema, tmp_path / "agreed.json")
    return tmp_path / "agreed.json"


def test_sums_are_over_training_nodes_alone(silos, agreed):
    sums = sums_of(open_tables(silos[0]), read_schema(agreed))
    assert sums.columns == ("age", "turnover")
    assert sums.table.tolist() == [[2, 60, 2000], [3, 9, 35]]


def test_all_silos_encode_by_one_scale(silos, agreed):
    schema = read_schema(agreed)
    told = {folder.name: sums_of(open_tables(folder), schema) for folder in silos}
    scaled = with_scales(schema, told)
    age = scaled.columns[0]
    ages = np.array([20, 40, 60, 80])
    assert (age.mean, age.deviation) == pytest.approx((ages.mean(), ages.std()))
    graphs = [fit(open_tables(folder), scaled).graph for folder in silos]
    own = fit(open_tables(silos[1]), schema).graph
    shown = [graph.features[:, graph.schema.features.index("age")] for graph in (*graphs, own)]
    assert shown[0].tolist() == pytest.approx([*(ages[:2] - 50) / ages.std(), 0, 49 / ages.std()])
    assert shown[1].tolist() == pytest.approx((ages[2:] - 50) / ages.std())
    assert shown[2].tolist() == [-1, 1]  # by itself


def test_a_file_of_sums_comes_back_and_what_is_none_is_refused(silos, agreed, tmp_path):
    sums = sums_of(open_tables(silos[0]), read_schema(agreed))
    sums.write(tmp_path / "sums.json")
    assert np.array_equal(Sums.read(tmp_path / "sums.json").table, sums.table)
    for text in ("", "[]", '{"format": "feddep-sums", "version": 2}'):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(DataError, match=r"bad\.json holds no sums"):
            Sums.read(tmp_path / "bad.json")
    with pytest.raises(InputError, match="sums for another schema"):
        with_scales(Schema.of_numbers(["age", "turnover"]), {"north": sums})


def test_the_noise_has_the_price_that_an_accountant_gives_it():
    from dp_accounting import GaussianDpEvent
    from dp_accounting.pld import PLDAccountant

    spread = spread_for(2, 1.0, 1e-5)
    accountant = PLDAccountant()
    accountant.compose(GaussianDpEvent(spread / np.sqrt(6)))
    assert 0.99 < accountant.get_epsilon(1e-5) < 1.001


def test_noised_sums_are_the_sums_and_noise_of_that_spread():
    sums = Sums("", ("age",), np.array([[1000.0, 40_000.0, 1_700_000.0]]))
    limits, drawn = [(0.0, 100.0)], []
    for number in range(400):
        rng = SecretStream(number.to_bytes(32, "big"))
        drawn.append(noised(sums, limits, 1.0, 1e-5, rng).table[0])
    count, total, squares = np.array(drawn).T
    spread = spread_for(1, 1.0, 1e-5)
    assert count.std() == pytest.approx(spread, rel=0.2)
    assert (total - 50 * count).std() == pytest.approx(50 * spread, rel=0.2)
    # In units of u the columns are independent: Σu² = (Σx² - 100 Σx + 2500 n) / 2500.
    within = (squares - 100 * total + 2500 * count) / 2500
    assert within.std() == pytest.approx(spread, rel=0.2)
    assert np.mean(count) == pytest.approx(1000, abs=spread)


def test_cells_are_cut_to_their_range(silos, agreed):
    bounds = {"age": (0.0, 30.0), "turnover": (0.0, 4.0)}
    sums = sums_of(open_tables(silos[0]), read_schema(agreed), bounds)
    assert sums.table.tolist() == [[2, 50, 1300], [3, 8, 26]]


def configured(tmp_path: Path, silos, *, more="", highest='"unbounded"') -> Path:
    (tmp_path / "consent.toml").write_text(CONSENT.format(more=more, highest=highest))
    (tmp_path / "silo.toml").write_text(
        f'name = "north"\nserver = "localhost:8000"\nca = "ca.pem"\nkey = "key"\n'
        f'data = "{silos[0]}"\nstate = "state"\nconsent = "consent.toml"\n'
    )
    return tmp_path / "silo.toml"


class TestConsent:
    def test_nothing_leaves_that_is_not_allowed(self, silos, agreed, tmp_path):
        config = configured(tmp_path, silos)
        with pytest.raises(ConsentError, match="does not allow 'scaling'"):
            tell_sums(silos[0], agreed, tmp_path / "out.json", config=config)
        assert not (tmp_path / "out.json").exists()
        assert not (tmp_path / "state/disclosures.jsonl").exists()

    def test_what_leaves_is_logged_before(self, silos, agreed, tmp_path):
        config = configured(tmp_path, silos, more=', "scaling"')
        tell_sums(silos[0], agreed, tmp_path / "out.json", config=config)
        log = tmp_path / "state/disclosures.jsonl"
        assert verify(log).bytes == 2 * 3 * 8
        line = json.loads(log.read_text())
        assert (line["phase"], line["step"], line["epsilon"]) == ("scaling", "sums", None)
        assert line["names"]["scaling/sums"]["shape"] == [2, 3]

    def test_a_bound_on_epsilon_needs_noise_within_it(self, silos, agreed, tmp_path):
        config = configured(tmp_path, silos, more=', "scaling"', highest="2.0")
        bounds = {"age": (0.0, 100.0), "turnover": (0.0, 30.0)}
        for noise, told in ((None, "no noise at all"), (Noise(epsilon=3, bounds=bounds), "ε = 3")):
            with pytest.raises(ConsentError, match=told):
                tell_sums(silos[0], agreed, tmp_path / "o.json", config=config, noise=noise)
        noise = Noise(epsilon=2, bounds=bounds)
        tell_sums(silos[0], agreed, tmp_path / "o.json", config=config, noise=noise)
        assert json.loads((tmp_path / "state/disclosures.jsonl").read_text())["epsilon"] == 2.0


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ({"age": (0, 1)}, "none for 'turnover'"),
        ({"age": (0, 1), "turnover": (0, 1), "x": (0, 1)}, "one for 'x'"),
        ({"age": (0, 1), "turnover": (1, 1)}, "expected lowest below highest"),
    ],
)
def test_noise_needs_a_range_for_every_number(silos, agreed, tmp_path, bounds, told):
    with pytest.raises(InputError, match=told):
        tell_sums(silos[0], agreed, tmp_path / "o.json", noise=Noise(epsilon=1, bounds=bounds))


def test_noise_does_not_cover_a_split_that_is_drawn(silos, agreed, tmp_path):
    text = (silos[0] / "nodes.csv").read_text().replace("split", "part")
    (silos[0] / "nodes.csv").write_text(text)
    noise = Noise(epsilon=1, bounds={"age": (0, 1), "turnover": (0, 1)})
    with pytest.raises(InputError, match="one node more would change it"):
        tell_sums(silos[0], agreed, tmp_path / "o.json", noise=noise)
