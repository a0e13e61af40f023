"""`feddep disclosures budget`: what a silo's owner is told about what was spent."""

import json

import pytest

from feddep.deployment.operations.kit import init
from feddep.deployment.operations.silo_setup import open_service
from feddep.deployment.protocol.agreement import Agreement
from feddep.graph.folder import write_graph
from feddep.runtime.envelope import Envelope
from feddep.scenario.spec import RunSpec

RESPONSE = {"privacy.mechanism": "randomised-response"}
NOISED = {
    "privacy.mechanism": "dp-sgd",
    "privacy.occurrences": 1,
    "privacy.noise": 300.0,
    "privacy.delta": 1e-6,
    "training.rounds": 2,
}


@pytest.fixture
def silo(tmp_path, small_shards):
    folder = init(tmp_path / "kit", hosts=["localhost"], silos=["a"], proxy=False).silos["a"]
    write_graph(small_shards[0], folder / "data")
    return folder


def allow(silo, *more: str):
    lines = [
        'methods = ["fedavg"]',
        'messages = ["classifier"]',
        "rounds = 50",
        "smallest_cluster = 5",
        'highest_epsilon = "unbounded"',
        *more,
    ]
    (silo / "consent.toml").write_text("\n".join(lines) + "\n")
    open_service.cache_clear()


def ask(silo, run, graph, **settings):
    spec = RunSpec().with_settings({"method": "fedavg", "partition.clients": 2, **settings})
    asked = Agreement(run, spec, graph.feature_count, graph.classes, 2 * graph.nodes)
    service, pieces = open_service(silo / "silo.toml")
    answer = service.answer(Envelope({"kind": "agree", "client": 0, **asked.to_plain()}), pieces)
    assert "sound" in answer.header, answer.header
    return answer.header["head"]


def test_what_is_spent_and_left(feddep, silo, small_shards):
    allow(silo, "budget_epsilon = 2", "budget_delta = 1e-6")
    ask(silo, "a", small_shards[0], **RESPONSE, **{"privacy.epsilon": 1.0})
    ask(silo, "b", small_shards[0], **RESPONSE, **{"privacy.epsilon": 1.0, "seed": 4})
    head = ask(silo, "c", small_shards[0], **RESPONSE, **{"privacy.epsilon": 0.25})
    done = feddep("ledger", "budget", silo / "silo.toml")
    assert done.code == 0, done.err
    assert "the silo's data: ε = 1.25 at δ = 0 is spent" in done.out
    assert "the budget is ε = 2 at δ = 1e-06; ε = 0.75 is left" in done.out
    assert "a, b" in done.out
    assert done.out.endswith(f"head {head}\n")


def test_noise_on_gradients_uses_up_the_delta(feddep, silo, small_shards):
    allow(silo, "budget_epsilon = 2", "budget_delta = 1e-6")
    ask(silo, "a", small_shards[0], **NOISED)
    found = json.loads(feddep("disclosures", "budget", silo / "silo.toml", "--json").out)
    (account,) = found["accounts"]
    assert account["delta"] == 1e-6
    assert 0 < account["epsilon"] < 1
    assert account["releases"][0]["mechanism"].startswith("dp-sgd, σ = 300")


def test_other_data_have_an_account_of_their_own(feddep, silo, small_shards):
    allow(silo, "budget_epsilon = 2")
    ask(silo, "a", small_shards[0], **RESPONSE, **{"privacy.epsilon": 1.0})
    write_graph(small_shards[1], silo / "other")
    text = (silo / "silo.toml").read_text().replace('data = "data"', 'data = "other"')
    (silo / "silo.toml").write_text(text)
    allow(silo, "budget_epsilon = 2", 'budget_graph = "May"')
    ask(silo, "b", small_shards[1], **RESPONSE, **{"privacy.epsilon": 0.5})
    found = json.loads(feddep("disclosures", "budget", silo / "silo.toml", "--json").out)
    assert [(own["graph"], own["epsilon"]) for own in found["accounts"]] == [
        ("May", 0.5),
        ("", 1.0),
    ]


def test_without_a_bound_nothing_is_left(feddep, silo, small_shards):
    allow(silo)
    ask(silo, "a", small_shards[0])
    done = feddep("disclosures", "budget", silo / "silo.toml")
    assert "no bound on what is spent" in done.out
    assert "the consent sets no budget" in done.out
    allow(silo, "budget_epsilon = 2")
    assert "ε = 0 is left" in feddep("disclosures", "budget", silo / "silo.toml").out
    allow(silo, "budget_epsilon = 2", "budget_since = 1")
    assert (
        "nothing is spent since line 1" in feddep("disclosures", "budget", silo / "silo.toml").out
    )


def test_it_changes_nothing(feddep, silo):
    allow(silo, "budget_epsilon = 2")
    assert "nothing is spent" in feddep("disclosures", "budget", silo / "silo.toml").out
    assert not (silo / "state").exists() or not list((silo / "state").iterdir())


def test_a_file_that_is_not_there(feddep):
    done = feddep("disclosures", "budget", "nowhere.toml")
    assert (done.code, done.out) == (2, "")
    assert "cannot read nowhere.toml" in done.err


class TestStatement:
    """`feddep statement silo.toml`."""

    @pytest.fixture
    def spent(self, silo, small_shards):
        allow(silo, "budget_epsilon = 2")
        ask(silo, "a", small_shards[0], **RESPONSE, **{"privacy.epsilon": 1.0})
        return silo, ask(silo, "b", small_shards[0], **RESPONSE, **{"privacy.epsilon": 0.25})

    def test_of_a_silo(self, feddep, spent):
        silo, head = spent
        done = feddep("statement", silo / "silo.toml", "--run", "a")
        assert done.code == 0, done.err
        text = (silo / "privacy-statement.md").read_text()
        assert text.startswith("# Privacy statement: a at a\n")
        for told in (
            "ε = 1 and δ = 0, for everything that left in this run",
            "| ε of this run | 1 |",
            "ε = 1.25 at δ = 0 is spent",
            "ε = 0.75 is left",
            "of 100 links that an observer could name",
            "under the silo's secret",
            f"| head of the log | {head} |",
        ):
            assert told in text, told
        assert head in (silo / "privacy-statement.html").read_text()

    def test_of_several_edges_of_a_node(self, feddep, silo, small_shards):
        allow(silo, "budget_epsilon = 2", "budget_delta = 1e-6")
        sums = {"privacy.mechanism": "aggregation-perturbation", "privacy.delta": 1e-6}
        ask(silo, "a", small_shards[0], **sums, **{"privacy.epsilon": 1, "privacy.max_degree": 3})
        assert feddep("statement", silo / "silo.toml").code == 0
        text = (silo / "privacy-statement.md").read_text()
        assert "Up to 3 edges of one node, all together, inside one silo are protected" in text
        assert "Whether up to 3 given edges of one node exist changes the odds" in text
        assert "Whether a given edge exists" not in text

    def test_the_last_run_unless_one_is_named(self, feddep, spent, tmp_path):
        silo, _ = spent
        assert feddep("statement", silo / "silo.toml", "--out", "new").code == 0
        assert "| ε of this run | 0.25 |" in (tmp_path / "new" / "privacy-statement.md").read_text()

    def test_nothing_is_written_for_a_run_that_there_is_not(self, feddep, spent):
        silo, _ = spent
        done = feddep("statement", silo / "silo.toml", "--run", "c")
        assert (done.code, done.out) == (2, "")
        assert "no agreement to a run 'c'; it knows: a, b" in done.err
        assert not (silo / "privacy-statement.md").exists()

    def test_nor_for_a_folder_that_is_none(self, feddep, tmp_path):
        assert feddep("statement", "nowhere").code == 2
        done = feddep("statement", tmp_path, "--run", "a")
        assert done.code == 2
        assert "give the silo's silo.toml" in done.err
