"""Menders, and z̄ of known neighbours by hand."""

import gc
import weakref

import numpy as np
import pytest
import torch

from feddep.graph.graph import Graph
from feddep.learning.mending import (
    AddedNodes,
    KnownNeighbours,
    centred,
    forget_generator_training,
    generator_training,
    mean_of,
)
from feddep.learning.recipe import Recipe, Silo
from feddep.models.generator import GeneratorSpec

GRAPH = Graph.from_edges([[0, 1], [1, 2]], np.eye(3, dtype=np.float32), [0, 1, 0])

MEMORY = {"prototypes": np.zeros((3, 128), np.float32), "cluster": np.arange(3)}


def silo(centred=False):
    recipe = Recipe(features=3, classes=2, generator=GeneratorSpec(centred=centred))
    return Silo(0, GRAPH, recipe, torch.device("cpu"))


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
        memory = {"mended": np.arange(6, dtype=np.float32).reshape(3, 2)}
        own = silo()
        found, after = KnownNeighbours().mend(None, own, memory, 7)
        assert found.silo is own
        assert found.embeddings.tolist() == memory["mended"].tolist()
        assert after is memory


class TestCentred:
    def test_nobody_has_any(self):
        assert centred(np.zeros((3, 2), np.float32)).tolist() == [[0, 0]] * 3

    def test_what_it_is_given_stays_as_it_is(self):
        given = np.array([[1, 1], [3, 5]], np.float32)
        assert centred(given).tolist() == [[-1, -2], [1, 2]]
        assert given.tolist() == [[1, 1], [3, 5]]


class TestAddedNodes:
    def test_the_silo_is_the_same_but_for_its_graph(self):
        own = silo()
        found, after = AddedNodes().mend(None, own, memory := added([2, 0]), 0)
        assert after is memory
        assert found.embeddings is None
        assert found.silo.graph.edge_list().tolist() == [[0, 1], [1, 2], [2, 3]]
        assert found.silo.table is not own.table
        assert own.graph is GRAPH
        assert (found.silo.client, found.silo.recipe) == (own.client, own.recipe)

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
