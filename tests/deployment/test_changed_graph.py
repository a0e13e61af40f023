"""A silo whose data change while a run is under way: its ε was promised for one graph."""

import json

import numpy as np
import pytest
from envelopes import CONSENT, SiloWithMemory, agree, agreement_on, changed, lines, refused, request

from feddep.deployment.protocol.silo_service import SiloService
from feddep.graph.fingerprint import fingerprint
from feddep.runtime.envelope import Envelope

CHANGED = "bank-a has other data, or another secret, than when it agreed to run,"
CLOSE = Envelope({"kind": "close", "run": "run"})


@pytest.fixture
def agreement(graph):
    return agreement_on(
        graph, **{"privacy.mechanism": "randomised-response", "privacy.epsilon": 1.0}
    )


@pytest.fixture
def one_more(graph):
    """The graph with one more edge."""
    linked = set(map(tuple, graph.edge_list().tolist()))
    new = next((u, v) for u in range(graph.nodes) for v in range(u) if (v, u) not in linked)
    return graph.with_edges([*graph.edge_list().tolist(), new])


def restarted(silo: SiloWithMemory, graph, **fields) -> SiloWithMemory:
    """The silo's next process, with its disk and whatever its data are by now."""
    return SiloWithMemory(changed(silo, graph=lambda: graph, **fields).service, silo.runs)


def begun(silo, agreement):
    silo(agree(agreement))
    return silo(request(agreement))


class TestRestartedWithAnotherGraph:
    def test_one_more_edge_ends_the_silo_s_part(self, silo, agreement, one_more, handled):
        begun(silo, agreement)
        after = restarted(silo, one_more)
        said = refused(after(request(agreement, 1)))
        assert said.startswith(CHANGED)
        assert "start a run of another name" in said
        assert handled == [0], "nothing was computed from the new graph"
        assert len(lines(after)) == 1, "and nothing left"

    @pytest.mark.parametrize("memory", ["kept", "lost"])
    def test_nor_does_it_agree_again_under_the_name(self, silo, agreement, one_more, memory):
        begun(silo, agreement)
        if memory == "lost":
            silo.runs.clear()
        after = restarted(silo, one_more)
        assert refused(after(agree(agreement))).startswith(CHANGED)
        assert [line["reason"][: len(CHANGED)] for line in lines(after, "refused")] == [CHANGED]

    def test_without_a_log_the_memory_knows(self, silo, agreement, one_more):
        own = changed(silo, disclosures=None)
        begun(own, agreement)
        assert refused(restarted(own, one_more)(agree(agreement))).startswith(CHANGED)

    def test_the_result_is_not_kept_beside_other_data(self, silo, agreement, one_more, tmp_path):
        begun(silo, agreement)
        assert refused(restarted(silo, one_more)(CLOSE)).startswith(CHANGED)
        assert not (tmp_path / "results").exists()
        assert silo(CLOSE).header == {"done": True}, "with the earlier data it is"

    def test_other_features_are_other_data_too(self, silo, agreement, graph):
        begun(silo, agreement)
        other = graph.subgraph(np.arange(graph.nodes)[::-1])
        assert refused(restarted(silo, other)(request(agreement, 1))).startswith(CHANGED)

    @pytest.mark.parametrize("secret", [8, None])
    def test_another_secret_would_be_another_release(self, silo, agreement, graph, secret):
        begun(silo, agreement)
        after = restarted(silo, graph, secret=secret)
        assert refused(after(request(agreement, 1))).startswith(CHANGED)

    def test_the_same_data_go_on(self, silo, agreement, graph):
        begun(silo, agreement)
        again = graph.subgraph(np.arange(graph.nodes))
        assert restarted(silo, again)(request(agreement, 1)).arrays

    def test_under_another_name_the_new_graph_is_a_new_promise(self, silo, agreement, one_more):
        begun(silo, agreement)
        after = restarted(silo, one_more)
        assert after(agree(agreement, run="second")).header["sound"]["epsilon"] == 1.0
        first, second = lines(after, "agreed")
        assert first["graph"] != second["graph"], "the log tells the two releases apart"


class TestWhatIsKeptOfTheGraph:
    def test_it_is_recognised_by_the_silo_alone(self, silo, agreement, graph):
        """Whoever guesses the whole graph cannot check the guess without the silo's secret."""
        seals = set()
        for secret in (7, 8):
            own = changed(silo, secret=secret, disclosures=None)
            begun(own, agreement)
            seals.add(json.loads(own.runs["run"]["agreement.json"])["graph"])
        assert len(seals) == 2
        assert fingerprint(graph) not in seals

    def test_it_does_not_leave_the_silo(self, silo, agreement):
        answers = [silo(agree(agreement)), silo(request(agreement)), silo(CLOSE)]
        seal = lines(silo, "agreed")[0]["graph"]
        assert len(seal) == 64
        assert not any(seal in json.dumps(answer.header) for answer in answers)

    def test_without_a_secret_nothing_is_kept_and_nothing_promised(self, graph, agreement):
        own = SiloWithMemory(SiloService("bank-a", lambda: graph, consent=CONSENT))
        assert own(agree(agreement)).header["sound"]["verdict"] == "none"
        assert json.loads(own.runs["run"]["agreement.json"])["graph"] is None


def test_a_run_that_an_earlier_version_agreed_to_goes_on(silo, agreement):
    begun(silo, agreement)
    known = json.loads(silo.runs["run"]["agreement.json"])
    del known["graph"]
    silo.runs["run"]["agreement.json"] = json.dumps(known).encode()
    silo.service.disclosures.path.unlink()
    assert silo(request(agreement, 1)).arrays
    assert "sound" in silo(agree(agreement)).header
