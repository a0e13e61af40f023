"""FedGraph on six nodes in two silos: whose hidden states go where, and when."""

import numpy as np
import pytest
import torch

from agreement import absolute, assert_agree, forward_terms
from feddep.algorithms.fedgraph import METHOD
from feddep.federation.client import Client
from feddep.federation.messages import group
from feddep.federation.metering import Meter
from feddep.federation.run_phases import Progress, run_phases
from feddep.graph.graph import Graph, Part
from feddep.graph.sampling import Block
from feddep.graph.shard import Shards
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec, TrainingSpec
from feddep.models.generator import GeneratorSpec
from feddep.models.sage import ModelSpec
from feddep.scenario.build import initial_server_state

# Silo 0 holds nodes 0, 2, 4 and silo 1 nodes 1, 3, 5. Lost: 0-1, 0-3, 2-3.
GRAPH = Graph.from_edges(
    [[0, 2], [0, 1], [0, 3], [2, 3], [3, 5]],
    np.random.default_rng(0).random((6, 4)).astype(np.float32),
    [0, 1, 1, 0, 1, 0],
    split=[Part.TRAIN] * 4 + [Part.VAL, Part.TEST],
)
SHARDS = Shards(GRAPH, np.array([0, 1, 0, 1, 0, 1]), "given", 0)
HIDDEN, ROUNDS, REFRESH = 5, 3, 2
CPU = torch.device("cpu")


class Run:
    """A whole run with all that was said, and what the clients knew after every round."""

    def __init__(self, shards=SHARDS, *, refresh=REFRESH, centred=False):
        self.spec = LearningSpec(
            features=4,
            classes=2,
            model=ModelSpec(hidden=HIDDEN),
            training=TrainingSpec(rounds=ROUNDS),
            generator=GeneratorSpec(refresh=refresh, centred=centred),
            fusion=METHOD.fusion,
        )
        self.silos = [Silo(i, g, self.spec, CPU) for i, g in enumerate(shards)]
        self.nodes = [Client(silo, METHOD.phases, silo.spec) for silo in self.silos]
        self.states, self.said, self.after = [{} for _ in self.silos], [], []
        self.meter = Meter(self)
        run_phases(
            METHOD.phases,
            self.spec,
            len(self.silos),
            self.meter,
            Progress(state=initial_server_state(shards, METHOD)),
            lambda phase, report, progress: self.after.append(list(self.states)),
        )

    def exchange(self, requests):
        replies = []
        for request in requests:
            client = request.client
            reply, self.states[client] = self.nodes[client].handle(request, self.states[client])
            self.said.append((request, reply))
            replies.append(reply)
        return replies

    def of(self, step, round):
        """Requests and replies of one step, in the clients' order."""
        return [(q, a) for q, a in self.said if (q.step, q.round) == (step, round)]


@pytest.fixture(scope="module")
def run():
    return Run()


def rounding(run, weights):
    """In what hidden states may differ: by the largest of them on absolute weights."""
    sizes = [hidden_of(absolute(silo.classifier(weights)), silo) for silo in run.silos]
    terms = forward_terms(run.silos[0].classifier(), degree=2)
    return {"terms": terms, "scale": max(size.max() for size in sizes)}


def hidden_by_hand(silo, weights):
    return hidden_of(silo.classifier(weights), silo)


def hidden_of(model, silo):
    """The input layer and the first of two convolutions, on the silo's own graph."""
    block = Block(silo.graph.indptr, silo.graph.indices, silo.graph.nodes)
    with torch.no_grad():
        x = (torch.tensor(silo.graph.features) @ model.features + model.bias).relu()
        return model.convolutions[0](x, block, None).relu().numpy()


def test_the_last_layer_has_weights_for_hidden_states_and_no_other(run):
    weights = group(run.of("train", 0)[0][0].arrays, "classifier")
    shapes = {name: a.shape for name, a in weights.items() if "embedding" in name}
    assert shapes == {"convolutions.1.embedding": (HIDDEN, 2)}


@pytest.mark.parametrize("round", [0, 2])
def test_nodes_that_others_link_to_show_their_hidden_states_of_this_round_s_classifier(run, round):
    for request, reply in run.of("show", round):
        assert request.arrays["nodes"].tolist() == [0, 1]  # 0 and 2; 1 and 3
        weights = group(request.arrays, "classifier")
        sent = group(run.of("train", round)[request.client][0].arrays, "classifier")
        assert all(np.array_equal(weights[name], sent[name]) for name in sent)
        expected = hidden_by_hand(run.silos[request.client], weights)[[0, 1]]
        assert_agree(reply.arrays["hidden"], expected, **rounding(run, weights))


def test_each_node_gets_the_mean_of_its_lost_neighbours_hidden_states(run):
    weights = group(run.of("show", 0)[0][0].arrays, "classifier")
    h = np.concatenate([hidden_by_hand(silo, weights) for silo in run.silos])
    one, three = h[3], h[4]
    zero, two, nothing = h[0], h[1], np.zeros(HIDDEN)
    first, second = (state["missing_embeddings"] for state in run.after[0])
    rounded = rounding(run, weights)
    assert_agree(first, [(one + three) / 2, three, nothing], **rounded)
    assert_agree(second, [zero, (zero + two) / 2, nothing], **rounded)


def test_they_are_refreshed_in_rounds_divisible_by_refresh_only(run):
    asked = [(q.round, q.step) for q, _ in run.said if q.client == 0]
    assert asked == [
        (0, "show"),
        (0, "receive"),
        (0, "train"),
        (1, "train"),
        (2, "show"),
        (2, "receive"),
        (2, "train"),
        (3, "score"),
    ]
    zero, one, two, three = (after[0]["missing_embeddings"] for after in run.after)
    assert zero is one
    assert not np.array_equal(one, two)
    assert two is three


def test_bytes_by_hand(run):
    layer = 2 * HIDDEN * HIDDEN + HIDDEN  # own, neighbours, bias
    last = 2 * HIDDEN * 2 + 2 + HIDDEN * 2  # and for two classes, with hidden states
    classifier = 4 * (4 * HIDDEN + HIDDEN + layer + last)
    # Two clients show two nodes each; three lost edges have two ends.
    shown, number, ends = 2 * 2, 8, 2 * 3
    hidden, refreshed = 4 * HIDDEN, 2
    up = ROUNDS * 2 * classifier + refreshed * shown * hidden
    down = (ROUNDS + 1) * 2 * classifier
    down += refreshed * (2 * classifier + shown * number + ends * (number + hidden))
    assert run.meter.counts() == {"averaging": {"up_bytes": up, "down_bytes": down}}


def test_refreshed_every_round_they_cost_more(run):
    often = Run(refresh=1).meter.counts()["averaging"]
    once = Run(refresh=100).meter.counts()["averaging"]
    some = run.meter.counts()["averaging"]
    # Rounds 0 to 3, the last of which scores; rounds 0 and 2; round 0.
    for way in ("up_bytes", "down_bytes"):
        assert often[way] - once[way] == 3 * (some[way] - once[way]) > 0


def test_centred_hidden_states_have_mean_zero_where_there_are_any():
    found = Run(centred=True)
    first, _ = (state["missing_embeddings"] for state in found.after[0])
    weights = group(found.of("show", 0)[0][0].arrays, "classifier")
    assert_agree(first[[0, 1]].sum(axis=0), 0, **rounding(found, weights))
    assert not first[2].any()


def test_hidden_states_change_what_is_learnt(run):
    together, apart = (
        group(found.of("score", ROUNDS)[0][0].arrays, "classifier")
        for found in (run, Run(Shards(GRAPH, np.zeros(6, int), "given", 0)))
    )
    name = "convolutions.1.embedding"
    assert together[name].any()
    assert not apart[name].any()  # nobody is lost, and these weights start at zero
