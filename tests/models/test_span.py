"""A short basis of wide embeddings, and F that learns in it."""

import numpy as np
import pytest
import torch

from agreement import absolute, assert_agree, assert_weights_agree, forward_terms, training_terms
from feddep.graph.graph import Graph
from feddep.graph.sampling import NeighbourSampler
from feddep.models.dropout import DropoutStream
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, ModelSpec, initialise
from feddep.models.sgd import SageSgd
from feddep.models.span import basis_of
from feddep.seeding import Seeds

WIDE = 1100


def rows_of(rank, count=300, width=WIDE):
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(count, rank)) @ rng.normal(size=(rank, width))).astype(np.float32)
    rows[::3] = 0
    return rows


def assert_spans(basis, rows):
    """What is made of coordinates are the rows again, each in units of its own length."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    terms = WIDE + len(basis)  # into the basis, and out of it
    assert_agree((rows @ basis.T) @ basis, rows, terms=terms, scale=lengths)


class TestBasis:
    @pytest.mark.parametrize(("rank", "size"), [(5, 64), (60, 64), (100, 256)])
    def test_it_is_orthonormal_and_spans_all_rows(self, rank, size):
        rows = rows_of(rank)
        basis = basis_of(rows, 1)
        assert basis.shape == (size, WIDE)
        assert basis.dtype == np.float32
        assert_agree(basis @ basis.T, np.eye(size), terms=WIDE, scale=1)  # rows of norm 1
        assert_spans(basis, rows)

    def test_there_is_none_for_narrow_rows_or_where_they_span_too_much(self):
        assert basis_of(rows_of(5, width=1023), 1) is None
        assert basis_of(rows_of(300, count=900), 1) is None

    def test_fewer_rows_than_directions(self):
        rows = rows_of(5, count=4)
        assert_spans(basis_of(rows, 1), rows)

    def test_rows_of_zeros_need_one_column(self):
        assert basis_of(np.zeros((3, WIDE), np.float32), 1).shape == (1, WIDE)

    def test_the_same_seed_gives_the_same_basis(self):
        rows = rows_of(5)
        assert np.array_equal(basis_of(rows, 7), basis_of(rows, 7))
        assert not np.array_equal(basis_of(rows, 7), basis_of(rows, 8))


class TestClassifierInABasis:
    """F on 40 nodes with embeddings of 12 columns that span three directions."""

    NODES, COLUMNS, WIDTH = 40, 8, 12

    @pytest.fixture
    def graph(self):
        rng = np.random.default_rng(0)
        edges = rng.integers(0, self.NODES, (90, 2))
        features = rng.normal(size=(self.NODES, self.COLUMNS)).astype(np.float32)
        labels = rng.integers(0, 3, self.NODES)
        return Graph.from_edges(edges[edges[:, 0] != edges[:, 1]], features, labels)

    @pytest.fixture
    def basis(self):
        directions = np.random.default_rng(1).normal(size=(self.WIDTH, 3))
        return torch.tensor(np.linalg.qr(directions)[0].T, dtype=torch.float32)

    @pytest.fixture
    def missing_embeddings(self, basis):
        rng = np.random.default_rng(2)
        return torch.tensor(rng.normal(size=(self.NODES, 3)), dtype=torch.float32) @ basis

    def model(self, last_only=False):
        spec = ModelSpec(hidden=6)
        model = FusedSage(spec, self.COLUMNS, 3, self.WIDTH, last_only=last_only)
        initialise(model, Seeds(0))
        return model

    @pytest.mark.parametrize("last_only", [False, True])
    def test_it_scores_as_on_the_embeddings_themselves(
        self, graph, basis, missing_embeddings, last_only
    ):
        model, table = self.model(last_only), FeatureTable(graph.features, torch.device("cpu"))
        wide = model.score_all(table, graph, missing_embeddings)
        short = model.within(basis).score_all(table, graph, missing_embeddings @ basis.T)
        sizes = missing_embeddings.abs()
        scale = (
            absolute(model)
            .within(basis.abs())
            .score_all(
                FeatureTable(abs(graph.features), torch.device("cpu")), graph, sizes @ basis.abs().T
            )
        )
        degree = int(np.diff(graph.indptr).max())
        terms = forward_terms(model, degree) + 2 * self.WIDTH  # into the basis and out of it
        assert_agree(short, wide, terms=terms, scale=scale)

    @pytest.mark.parametrize("last_only", [False, True])
    def test_it_learns_what_it_would_have_learnt(self, graph, basis, missing_embeddings, last_only):
        wide, short = self.model(last_only), self.model(last_only)
        start = self.model(last_only).state_dict()
        inner = short.within(basis)
        for model, given in ((wide, missing_embeddings), (inner, missing_embeddings @ basis.T)):
            sampler = NeighbourSampler(graph, 3, 2)
            step = SageSgd(
                model,
                graph.features,
                graph.labels,
                rate=0.5,
                decay=0.0,
                dropout=DropoutStream(0.5, 3),
                missing_embeddings=given.numpy(),
            ).step
            for ego in sampler.batches(np.arange(self.NODES), 8, np.random.default_rng(4), 3):
                step(ego)
        short.learn_from(inner, basis)
        learnt = wide.state_dict()
        assert not any(torch.equal(learnt[name], start[name]) for name in learnt)
        terms = training_terms(wide, 3, batch=8, steps=3 * 5) + 2 * self.WIDTH
        assert_weights_agree(short.state_dict(), learnt, terms=terms)
