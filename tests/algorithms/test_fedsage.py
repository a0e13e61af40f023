"""FedSage+: what is generated must reach what is predicted."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from agreement import absolute, agreeing, forward_terms
from feddep.algorithms.fedsage import METHOD
from feddep.federation.run_phases import Progress, run_phases
from feddep.graph.graph import Graph
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.sage import ModelSpec
from feddep.runtime.client_pool import ClientPool
from feddep.scenario.build import learning_spec_for, settings_of
from feddep.scenario.spec import RunSpec

CPU = torch.device("cpu")
MENDER = METHOD.phases[-1].mender


def scores(classifier, silo):
    """Before softmax, of every node."""
    with torch.no_grad():
        return classifier.score_all(silo.table, silo.graph).numpy()


def reached(graph, own, hops):
    """The own nodes within so many hops of a generated one."""
    adjacency = sp.csr_array((np.ones(len(graph.indices)), graph.indices, graph.indptr))
    near = np.arange(graph.nodes) >= own
    for _ in range(hops):
        near = near | (adjacency @ near > 0)
    return near[:own]


def changed(classifier, silo, mended):
    """The own nodes whose prediction is another one on the mended graph."""
    before, after = scores(classifier, silo), scores(classifier, mended)[: silo.graph.nodes]
    scale = scores(absolute(classifier), silo).max()
    terms = forward_terms(classifier, int(mended.graph.degrees.max()))
    return ~agreeing(before, after, terms=terms, scale=scale).all(axis=1)


def path(layers, form, nodes=9):
    """A silo whose nodes stand in a row, and a classifier of so many convolutions."""
    features = np.random.default_rng(0).random((nodes, 5)).astype(np.float32)
    edges = np.stack([np.arange(nodes - 1), np.arange(1, nodes)], axis=1)
    graph = Graph.from_edges(edges, features, np.arange(nodes) % 2)
    learning = LearningSpec(
        features=5, classes=2, model=ModelSpec(layers=layers, hidden=16, form=form)
    )
    silo = Silo(0, graph, learning, CPU)
    return silo, silo.classifier()


@pytest.mark.parametrize("form", ["separate", "closed"])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_generated_neighbour_changes_the_real_node_s_prediction(layers, form):
    """And that of every node within K - 1 hops of it, K of the generated one; no other."""
    silo, classifier = path(layers, form)
    memory = {
        "added/links": np.array([[0, 0], [8, 1], [8, 2]]),
        "added/rows": np.random.default_rng(1).uniform(-1, 1, (3, 5)).astype(np.float32),
    }
    mended, _ = MENDER.mend(classifier, silo, memory, 0)
    from_node_0, from_node_8 = range(layers), range(9 - layers, 9)
    expected = {*from_node_0, *from_node_8}
    assert set(np.flatnonzero(changed(classifier, silo, mended.silo))) == expected
    assert set(np.flatnonzero(reached(mended.silo.graph, 9, layers))) == expected
    assert len(expected) < 9


@pytest.mark.parametrize("client", range(3))
def test_so_it_does_with_what_a_run_has_generated(small_shards, client):
    settings = {"method": METHOD.name, "model.hidden": 16, "training.rounds": 1}
    settings |= {"generator.epochs": 1, "generator.slots": 2} | METHOD.settings
    spec = RunSpec().with_settings(settings | settings_of(small_shards))
    learning = learning_spec_for(spec, small_shards.graph, METHOD)
    pool = ClientPool(
        METHOD, learning, CPU, dict(enumerate(small_shards)), lambda: small_shards.graph
    )
    phases = METHOD.phases[:-1]
    transport = type("Clients", (), {"exchange": staticmethod(pool.handle)})()
    run_phases(phases, learning, 3, transport, Progress(), lambda *_: None)

    memory = pool.states[client]
    silo = Silo(client, small_shards[client], learning, CPU)
    got = np.unique(memory["added/links"][:, 0])
    assert len(got)
    classifier = silo.classifier()
    mended, _ = MENDER.mend(classifier, silo, memory, 0)
    expected = reached(mended.silo.graph, silo.graph.nodes, spec.model.layers)
    assert expected[got].all()
    assert np.array_equal(changed(classifier, silo, mended.silo), expected)


def test_features_are_generated_and_all_that_is_missing_is_added():
    assert METHOD.settings["embedding.depth"] == 0
    assert METHOD.settings["generator.keep"] == 1
    assert METHOD.fusion == "none"
