"""FedGSL's conversation: noised codes up, means of the nearest ones down."""

import numpy as np
import pytest
import torch

from agreement import assert_agree
from feddep.federation.messages import Request
from feddep.federation.phase import Ask
from feddep.graph.graph import Graph
from feddep.learning.prototypes import EmbeddingSpec
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.generator import GeneratorSpec
from feddep.phases.code_graph import CodeGraph

PHASE = CodeGraph()


def silo(nodes, client=0, *, noise=0.0, keep=1.0, centred=False, k=1):
    spec = LearningSpec(
        features=1,
        classes=1,
        embedding=EmbeddingSpec(code_noise=noise, code_neighbours=k),
        generator=GeneratorSpec(keep=keep, centred=centred),
        fusion="all",
    )
    graph = Graph.from_edges([], np.ones((nodes, 1)), np.zeros(nodes, int))
    return Silo(client, graph, spec, torch.device("cpu"))


def show(own, embeddings):
    state = {"embeddings": embeddings, "kept": np.ones(1)}
    return PHASE.answer(Request(own.client, PHASE.name, "show", 0), state, own)


def receive(own, neighbours):
    request = Request(own.client, PHASE.name, "receive", 0, {"neighbours": neighbours})
    reply, state = PHASE.answer(request, {}, own)
    assert not reply.arrays
    return state["missing_embeddings"]


def test_each_node_is_told_the_mean_of_the_nearest_codes_of_other_clients():
    embeddings = [np.array(rows, np.float32) for rows in ([[0], [10]], [[1], [3], [9]])]
    silos = [silo(2, 0, k=2), silo(3, 1, k=2)]
    states = [{"embeddings": rows} for rows in embeddings]

    def send(requests):
        replies = []
        for request in requests:
            state, own = states[request.client], silos[request.client]
            reply, states[request.client] = PHASE.answer(request, state, own)
            replies.append(reply)
        return replies

    before = {"classifier/bias": np.ones(1)}
    after, _ = PHASE.serve(silos[0].spec, Ask(2, PHASE.name, 0, send), before)
    assert after is before
    assert states[0]["missing_embeddings"].tolist() == [[2], [6]]  # of 1 and 3; of 9 and 3
    assert states[1]["missing_embeddings"].tolist() == [[5], [5], [5]]  # both that there are


class TestCodes:
    @pytest.mark.parametrize("noise", [0.1, 2.0])
    def test_the_noise_has_the_standard_deviation_asked_for(self, noise):
        embeddings = np.linspace(-1, 1, 20_000, dtype=np.float32).reshape(400, 50)
        reply, _ = show(silo(400, noise=noise), embeddings)
        drawn = reply.arrays["codes"] - embeddings
        assert drawn.std() == pytest.approx(noise, rel=0.03)
        assert abs(drawn.mean()) < 4 * noise / 20_000**0.5
        assert reply.arrays["codes"].dtype == np.float32

    def test_without_noise_they_are_the_embeddings(self):
        embeddings = np.arange(6, dtype=np.float32).reshape(3, 2)
        reply, _ = show(silo(3), embeddings)
        assert np.array_equal(reply.arrays["codes"], embeddings)

    def test_clients_draw_their_own_noise(self):
        embeddings = np.zeros((3, 2), np.float32)
        one, other = (show(silo(3, c, noise=1.0), embeddings)[0].arrays["codes"] for c in (0, 1))
        assert (np.abs(one - other) > 1e-3).all()  # far below the spread, far above rounding

    def test_embeddings_stay_in_the_silo_s_memory(self):
        _, state = show(silo(3), np.zeros((3, 2), np.float32))
        assert state.keys() == {"kept", "embeddings"}


class TestKeeping:
    NODES = 1000

    @pytest.mark.parametrize("keep", [0.2, 0.7])
    def test_a_share_of_the_nodes_keeps_its_neighbours_as_they_are(self, keep):
        told = np.random.default_rng(0).normal(size=(self.NODES, 3)).astype(np.float32)
        missing = receive(silo(self.NODES, keep=keep), told)
        kept = missing.any(axis=1)
        spread = (keep * (1 - keep) / self.NODES) ** 0.5
        assert kept.mean() == pytest.approx(keep, abs=4 * spread)
        assert np.array_equal(missing[kept], told[kept])

    def test_all_of_them_at_rate_one(self):
        told = np.ones((self.NODES, 3), np.float32)
        assert np.array_equal(receive(silo(self.NODES), told), told)

    def test_what_is_kept_is_centred_and_the_rest_stays_zero(self):
        told = np.random.default_rng(0).normal(3, 1, size=(self.NODES, 3)).astype(np.float32)
        plain = receive(silo(self.NODES, keep=0.2), told)
        missing = receive(silo(self.NODES, keep=0.2, centred=True), told)
        kept = plain.any(axis=1)
        assert not missing[~kept].any()
        scale = np.abs(told[kept]) + np.abs(told[kept]).mean(axis=0)
        expected = told[kept] - told[kept].mean(axis=0)
        assert_agree(missing[kept], expected, terms=kept.sum() + 2, scale=scale)

    def test_the_message_itself_is_not_changed(self):
        told = np.ones((self.NODES, 3), np.float32)
        told.flags.writeable = False  # as those are that come over the wire
        receive(silo(self.NODES, keep=0.2), told)

    def test_a_client_alone_is_told_zeros_and_has_zeros(self):
        for centred in (True, False):
            assert not receive(silo(3, centred=centred), np.zeros((3, 2), np.float32)).any()
