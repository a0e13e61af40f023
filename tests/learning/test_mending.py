"""Menders, and z̄ of known neighbours by hand."""

import gc
import weakref

import numpy as np
import pytest
import torch

from agreement import assert_agree
from feddep.graph.graph import Graph
from feddep.learning.generation import GeneratorTraining
from feddep.learning.mending import (
    AddedNodes,
    GeneratedNeighbours,
    KnownNeighbours,
    Mended,
    forget_generator_training,
    generator_training,
    mean_of,
)
from feddep.learning.prototypes import EmbeddingSpec
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec, TrainingSpec
from feddep.models.generator import GeneratorSpec
from feddep.models.sage import ModelSpec

GRAPH = Graph.from_edges([[0, 1], [1, 2]], np.eye(3, dtype=np.float32), [0, 1, 0])

MEMORY = {"prototypes": np.zeros((3, 128), np.float32), "cluster": np.arange(3)}


def silo(centred=False):
    spec = LearningSpec(features=3, classes=2, generator=GeneratorSpec(centred=centred))
    return Silo(0, GRAPH, spec, torch.device("cpu"))


def added(*links):
    return {"added/links": np.array(links), "added/rows": np.ones((1, 3), np.float32)}


class TestKnownNeighbours:
    NODES = np.array([0, 0, 2])
    NEIGHBOURS = np.array([[1, 2], [3, 6], [5, 0]], np.float32)

    def test_z_is_the_mean_of_a_node_s_neighbours_and_zero_without_any(self):
        found = mean_of(self.NODES, self.NEIGHBOURS, silo())
        assert found.tolist() == [[2, 4], [0, 0], [5, 0]]
        assert found.dtype == np.float32

    def test_centred_around_the_nodes_that_have_any(self):
        # (2, 4) and (5, 0) have the mean (3.5, 2).
        found = mean_of(self.NODES, self.NEIGHBOURS, silo(centred=True))
        assert found.tolist() == [[-1.5, 2], [0, 0], [1.5, -2]]

    def test_the_classifier_gets_what_is_in_the_memory(self):
        memory = {"missing_embeddings": np.arange(6, dtype=np.float32).reshape(3, 2)}
        own = silo()
        found, after = KnownNeighbours().mend(None, own, memory, 7)
        assert found.silo is own
        assert found.missing_embeddings.tolist() == memory["missing_embeddings"].tolist()
        assert after is memory


class TestAddedNodes:
    def test_the_silo_is_the_same_but_for_its_graph(self):
        own = silo()
        found, after = AddedNodes().mend(None, own, memory := added([2, 0]), 0)
        assert after is memory
        assert found.missing_embeddings is None
        assert found.silo.graph.edge_list().tolist() == [[0, 1], [1, 2], [2, 3]]
        assert found.silo.table is not own.table
        assert own.graph is GRAPH
        assert (found.silo.client, found.silo.spec) == (own.client, own.spec)

    def test_the_graph_is_made_once_and_again_for_another_memory(self):
        own, one, other = silo(), added([2, 0]), added([0, 0])
        first, second = (AddedNodes().mend(None, own, one, r)[0].silo for r in (0, 1))
        assert first is second
        third = AddedNodes().mend(None, own, other, 2)[0].silo
        assert third.graph.edge_list().tolist() == [[0, 1], [0, 3], [1, 2]]


class TestPrepared:
    """A generator's ground truth is made once, and goes when its silo goes."""

    def test_it_is_kept_until_the_prototypes_change_or_it_is_forgotten(self):
        own = silo()
        first = generator_training(own, MEMORY)
        assert generator_training(own, MEMORY) is first
        other = MEMORY | {"prototypes": np.ones((3, 128), np.float32)}
        assert generator_training(own, other) is not first
        second = generator_training(own, MEMORY)
        forget_generator_training(own)
        assert generator_training(own, MEMORY) is not second

    @pytest.mark.parametrize(
        "prepare",
        [
            lambda own: generator_training(own, MEMORY),
            lambda own: AddedNodes().mend(None, own, added([2, 0]), 0),
        ],
        ids=["generator", "added nodes"],
    )
    def test_a_silo_that_nobody_needs_is_not_kept_alive(self, prepare):
        own = silo()
        prepare(own)
        gone = weakref.ref(own)
        del own
        gc.collect()
        assert gone() is None


class TestGeneratedNeighbours:
    """Embeddings of depth 0 are as wide as the features: here 1,500 columns."""

    def mended(self, monkeypatch, decay, rounds=(0,)):
        rng = np.random.default_rng(0)
        features = (rng.random((30, 1500)) < 0.02).astype(np.float32)
        edges = rng.integers(0, 30, (80, 2))
        labels = rng.integers(0, 2, 30)
        graph = Graph.from_edges(edges[edges[:, 0] != edges[:, 1]], features, labels)
        spec = LearningSpec(
            features=1500,
            classes=2,
            fusion="all",
            model=ModelSpec(hidden=8),
            embedding=EmbeddingSpec(depth=0, clusters=2),
            generator=GeneratorSpec(epochs=1, keep=1.0),
            training=TrainingSpec(weight_decay=decay),
        )
        whole, mend = [], GeneratorTraining.mend

        def remembered(training, generator, seeds):
            found = mend(training, generator, seeds)
            whole.append(found[0])
            return found

        monkeypatch.setattr(GeneratorTraining, "mend", remembered)
        own, memory = Silo(0, graph, spec, torch.device("cpu")), {}
        for round in rounds:
            found, memory = GeneratedNeighbours().mend(spec.classifier(), own, memory, round)
        return found, memory, whole

    def assert_told(self, mended, whole):
        """Coordinates in a basis of 1,500 columns, and back; in units of each row's length."""
        lengths = np.linalg.norm(whole, axis=1, keepdims=True)
        told = mended.missing_embeddings @ mended.basis
        assert_agree(told, whole, terms=1500 + 64, scale=lengths)

    def test_wide_embeddings_are_told_in_a_short_basis(self, monkeypatch):
        found, memory, (whole,) = self.mended(monkeypatch, decay=0.0)
        assert found.missing_embeddings.shape == (30, 64)
        assert found.basis.shape == (64, 1500)
        assert whole.any()
        self.assert_told(found, whole)
        assert memory["missing_embeddings"].shape == (30, 64)

    def test_rounds_between_use_the_same_and_the_next_refresh_another(self, monkeypatch):
        first = self.mended(monkeypatch, decay=0.0)[0]
        between, _, whole = self.mended(monkeypatch, decay=0.0, rounds=(0, 1))
        assert torch.equal(between.basis, first.basis)
        assert torch.equal(between.missing_embeddings, first.missing_embeddings)
        assert len(whole) == 1
        later, _, whole = self.mended(monkeypatch, decay=0.0, rounds=(0, 10))
        self.assert_told(later, whole[1])

    def test_weight_decay_needs_all_columns(self, monkeypatch):
        found, memory, (whole,) = self.mended(monkeypatch, decay=0.01)
        assert found.basis is None
        assert "basis" not in memory
        assert np.array_equal(found.missing_embeddings.numpy(), whole)

    def test_the_classifier_learns_through_the_basis(self, monkeypatch):
        found = self.mended(monkeypatch, decay=0.0)[0]
        model = found.silo.classifier()
        with found.fitting(model) as inner, torch.no_grad():
            inner.embedding += 1.0
            inner.bias += 2.0
        # The basis is orthonormal, so the coordinates of what was learnt are what was added.
        assert_agree(found.basis @ model.embedding, 1, terms=1500 + 64, scale=64)
        assert (model.bias == 2).all()
        assert Mended(found.silo).fitting(model).__enter__() is model
