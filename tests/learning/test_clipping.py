"""No example adds more than the clip norm, whatever the weights: a server may have made them up.

What an example adds is read off the weights after one step without noise. The rate is so large
that the old weights vanish beside the step.
"""

from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from agreement import assert_agree
from feddep.graph.graph import Graph, Part
from feddep.learning.dp_sgd import dp_sgd
from feddep.models.dropout import DropoutStream
from feddep.models.sage import FusedSage, ModelSpec
from feddep.models.sgd import SageSgd
from feddep.models.weights import from_arrays, to_arrays
from feddep.privacy import noise
from feddep.privacy.secret_stream import SecretStream

NODES, COLUMNS, CLASSES, CLIP = 24, 10, 3, 0.7
RATE = 2.0**120


def some_graph(rng, *, sparse, filled=0.4):
    """Hubs, isolated nodes, twins with the same features, and nodes without any feature."""
    features = rng.integers(0, 3, (NODES, COLUMNS)) * (rng.random((NODES, COLUMNS)) < filled)
    features[1::2] = features[::2]
    features[rng.random(NODES) < 0.2] = 0
    hubs = [[0, other] for other in range(1, NODES // 2)]
    edges = np.vstack([hubs, rng.integers(0, NODES - 3, (30, 2))])
    edges = edges[edges[:, 0] != edges[:, 1]]
    features = features.astype(np.float32)
    labels = rng.integers(0, CLASSES, NODES)
    return Graph.from_edges(edges, sp.csr_array(features) if sparse else features, labels)


def some_weights(rng, spec, sizes):
    """Weights of these sizes; what a node gives and what its neighbours give may cancel."""
    arrays = {}
    for name, array in to_arrays(FusedSage(spec, COLUMNS, CLASSES)).items():
        arrays[name] = (rng.standard_normal(array.shape) * rng.choice(sizes)).astype(np.float32)
    return opposed(arrays) if rng.random() < 0.5 else arrays


def opposed(arrays):
    """What a node gives is the opposite of what its neighbours give."""
    names = {name: name.replace("own", "neighbours") for name in arrays}
    return {name: arrays[other] * (1 if other == name else -1) for name, other in names.items()}


def added(spec, graph, weights, targets, clip=CLIP):
    """What these examples add to the sum, over all weights: ``(weights,)`` in float64."""
    split = np.full(NODES, Part.TEST)
    split[targets] = Part.TRAIN
    graph = graph.with_split(split)
    model = FusedSage(spec, COLUMNS, CLASSES)
    from_arrays(model, weights)
    sgd = SageSgd(model, graph.features, graph.labels, rate=1, decay=0, dropout=DropoutStream(0, 0))
    dp_sgd(
        sgd,
        graph,
        layers=spec.layers,
        batch_size=len(targets),  # so every batch has them all
        epochs=1,
        rate=RATE * len(targets),
        noise=0.0,
        clip=clip,
        rng=np.random.default_rng(0),
    )
    after = to_arrays(model)
    before = {name: array.astype(np.float64) for name, array in weights.items()}
    return np.concatenate([((before[name] - after[name]) / RATE).ravel() for name in weights])


@st.composite
def cases(draw, sizes):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    spec = ModelSpec(
        form=draw(st.sampled_from(["separate", "closed"])),
        layers=draw(st.integers(1, 4)),
        hidden=draw(st.sampled_from([3, 40])),
    )
    graph = some_graph(rng, sparse=draw(st.booleans()))
    return spec, graph, some_weights(rng, spec, sizes)


@pytest.mark.parametrize("sizes", [[1e-3, 1.0, 1e3, 1e4], [0.0, 1.0, 1e10, 1e20, 1e37]])
def test_no_example_adds_more_than_the_clip_norm(sizes):
    @settings(max_examples=50, deadline=None, derandomize=True, database=None)
    @given(cases(sizes))
    def check(case):
        for target in range(NODES):
            contribution = added(*case, [target])
            assert np.isfinite(contribution).all()
            assert np.linalg.norm(contribution) <= CLIP * (1 + 1e-5)

    check()


@pytest.mark.parametrize("sparse", [True, False])
def test_large_terms_that_cancel_are_clipped(sparse):
    """Every node's row is about 1e4, and the slopes of an example's nodes add up to about 0."""
    spec, rng = ModelSpec(layers=2, hidden=40), np.random.default_rng(0)
    weights = opposed(some_weights(rng, spec, [1e3]))
    weights["bias"][:] = 1e4
    weights["convolutions.0.bias"][:] = 1e-3
    graph = some_graph(rng, sparse=sparse, filled=0.0)
    norms = [np.linalg.norm(added(spec, graph, weights, [target])) for target in range(NODES)]
    assert CLIP * (1 - 1e-5) <= max(norms) <= CLIP * (1 + 1e-5)


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(cases([0.3, 1e3, 1e10]))
def test_an_example_adds_the_same_whoever_is_in_the_batch(case):
    """Otherwise one edge could change what all of a batch adds, and not k examples."""
    single = [added(*case, [target]) for target in range(NODES)]
    for targets in (np.arange(NODES), np.arange(0, NODES, 3)):
        expected = sum(single[target] for target in targets)
        assert_agree(
            added(*case, targets),
            expected,
            terms=len(targets),
            scale=sum(np.abs(single[target]) for target in targets).max(),
            precision=np.float32,
        )


def test_an_example_that_is_not_finite_adds_nothing_and_spoils_no_other():
    """The first node's features meet a weight of 3e38, and those of no other node do."""
    spec = ModelSpec(layers=1, hidden=3)
    features = np.zeros((NODES, COLUMNS), np.float32)
    features[0, 0], features[1:, 1] = 10.0, 1.0
    graph = Graph.from_edges([[1, 2], [3, 4]], features, np.arange(NODES) % CLASSES)
    weights = some_weights(np.random.default_rng(0), spec, [0.5])
    weights["features"][0] = 3e38
    alone, others = added(spec, graph, weights, [0]), np.arange(1, NODES)
    assert not alone.any()
    everybody, without = (added(spec, graph, weights, t) for t in (np.arange(NODES), others))
    assert without.any()
    np.testing.assert_array_equal(everybody, without)


def sums_before_noise(monkeypatch, graph, weights, spec, rng, clip=CLIP):
    """What is summed in one step, before any noise hides it: ``(weights,)`` in float64."""
    seen = []

    @contextmanager
    def watched(rng, arrays, spread):
        with noise.noised_sum(rng, arrays, 0.0):
            yield
            seen.append(np.concatenate([a.astype(np.float64).ravel() for a in arrays]))

    monkeypatch.setattr("feddep.learning.dp_sgd.noised_sum", watched)
    model = FusedSage(spec, graph.feature_count, CLASSES)
    from_arrays(model, weights)
    sgd = SageSgd(model, graph.features, graph.labels, rate=1, decay=0, dropout=DropoutStream(0, 0))
    dp_sgd(
        sgd,
        graph,
        layers=spec.layers,
        batch_size=len(graph.members(Part.TRAIN)),
        epochs=1,
        rate=1.0,
        noise=1.0,
        clip=clip,
        rng=rng,
    )
    return seen[0]


def test_one_example_among_thousands_adds_no_more_than_the_clip_norm(monkeypatch):
    """A server may ask for one batch of all nodes: then the sum is thousands of times as long.

    In float32 the rounding of every later addition moves with an example that comes first, and the
    sum by more than C.
    """
    count, spec, width = 4000, ModelSpec(layers=1, hidden=2), 2
    rng = np.random.default_rng(0)
    weights = {
        name: rng.random(array.shape).astype(np.float32)
        for name, array in to_arrays(FusedSage(spec, width, CLASSES)).items()
    }
    split, labels = np.full(count, Part.TRAIN), np.zeros(count, int)
    added = []
    for first in rng.random((6, width)):
        features = np.vstack([first[None], np.full((count - 1, width), 5.0)])
        graph = Graph.from_edges([], features, labels, split=split)
        other = graph.with_split([Part.TEST, *split[1:]])
        sums = [
            sums_before_noise(monkeypatch, own, weights, spec, SecretStream(bytes(32)), clip=0.01)
            for own in (graph, other)
        ]
        added.append(np.linalg.norm(sums[0] - sums[1]))
    assert min(added) > 0.005
    assert max(added) <= 0.01


@pytest.mark.parametrize("clip", [0.7, 1e-9, 1e-42, 3e-45])
def test_no_clip_norm_that_a_server_may_choose_is_lost_in_rounding(clip, monkeypatch):
    """In single precision C = 3·10⁻⁴⁵ is two of the smallest numbers: an example added 1.9 C.

    With a learning rate of 10³⁸ the server would see it.
    """
    rng, secret = np.random.default_rng(2), SecretStream(bytes(32))
    spec, graph = ModelSpec(layers=2, hidden=40), some_graph(rng, sparse=False)
    weights, norms = some_weights(rng, spec, [0.3]), []
    for target in range(NODES):
        split = np.full(NODES, Part.TEST)
        split[target] = Part.TRAIN
        own = graph.with_split(split)
        found = sums_before_noise(monkeypatch, own, weights, spec, secret, clip)
        norms.append(np.linalg.norm(found / clip))
    assert 0.99 < max(norms) <= 1
