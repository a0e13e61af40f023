"""NeighGen across silos: gradients against autograd, and what is shared and generated."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from agreement import assert_agree, assert_weights_agree, training_terms
from feddep.graph.graph import Graph, Part
from feddep.learning.generation import GeneratorTraining
from feddep.learning.neighgen import (
    HEAD,
    NeighGen,
    descend,
    generate,
    largest_entries,
    pull,
    shared,
)
from feddep.learning.prototypes import EmbeddingSpec, Prototypes
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.generator import GeneratorSpec
from feddep.models.sage import ModelSpec
from feddep.models.weights import to_arrays
from feddep.seeding import Seeds

HIDDEN, SLOTS, COLUMNS, BATCH = 4, 3, 5, 6


def sent(seed=0):
    """A generating part and inputs of six nodes, of which the third has no row."""
    rng = np.random.default_rng(seed)
    drawn = {
        "hidden": (HIDDEN, HIDDEN),
        "hidden_bias": (HIDDEN,),
        "rows": (HIDDEN, SLOTS * COLUMNS),
        "rows_bias": (SLOTS * COLUMNS,),
        "inputs": (BATCH, HIDDEN),
    }
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in drawn.items()}
    return arrays | {"kept": np.arange(SLOTS) < np.array([1, 3, 0, 2, 3, 1])[:, None]}


def features(sparse, nodes=9):
    rows = np.random.default_rng(1).integers(0, 2, (nodes, COLUMNS)).astype(np.float32)
    return sp.csr_array(rows) if sparse else rows


class TestPull:
    @staticmethod
    def sizes(arrays):
        """Σ|term| of every gradient: back through the layers on absolute values.

        |2 (z̃ - x)| and tanh' are at most 4 and 1, and as wrong as what tanh is taken of.
        """
        size = {name: np.abs(array) for name, array in arrays.items()}
        hidden = size["inputs"] @ size["hidden"] + size["hidden_bias"]
        taken = hidden @ size["rows"] + size["rows_bias"]
        slopes = 4 * (1 + taken) * np.repeat(arrays["kept"], COLUMNS, axis=1) / BATCH
        back = slopes @ size["rows"].T
        return {
            "rows": hidden.T @ slopes,
            "rows_bias": slopes.sum(axis=0),
            "hidden": size["inputs"].T @ back,
            "hidden_bias": back.sum(axis=0),
        }

    @pytest.mark.parametrize("sparse", [True, False])
    def test_it_is_autograd_s_gradient_of_the_distances_to_the_nearest_nodes(self, sparse):
        arrays, nodes = sent(), features(sparse)
        tensors = {name: torch.tensor(arrays[name], requires_grad=True) for name in HEAD}
        hidden = (
            torch.tensor(arrays["inputs"]) @ tensors["hidden"] + tensors["hidden_bias"]
        ).relu()
        rows = torch.tanh(hidden @ tensors["rows"] + tensors["rows_bias"])
        table = torch.tensor(nodes.toarray() if sparse else nodes)
        total = torch.zeros(())
        for node in range(BATCH):
            for slot in range(SLOTS):
                if arrays["kept"][node, slot]:
                    row = rows[node, slot * COLUMNS : (slot + 1) * COLUMNS]
                    total = total + torch.cdist(row[None], table).square().min()
        (total / BATCH).backward()
        found = pull(arrays, nodes)
        assert found.keys() == set(HEAD)
        scale, terms = self.sizes(arrays), 3 * HIDDEN + COLUMNS + SLOTS * COLUMNS + BATCH
        for name in HEAD:
            assert_agree(found[name], tensors[name].grad, terms=terms, scale=scale[name], name=name)

    def test_worked_numbers(self):
        """One input, one hidden unit, one row of one column: z̃ = tanh(2·relu(1·3) - 6) = 0."""
        arrays = {
            "hidden": [[1.0]],
            "hidden_bias": [0.0],
            "rows": [[2.0]],
            "rows_bias": [-6.0],
            "inputs": [[3.0]],
        }
        arrays = {name: np.array(a, np.float32) for name, a in arrays.items()}
        nodes = np.array([[0.5], [-2.0]], np.float32)
        found = pull({**arrays, "kept": np.array([[True]])}, nodes)
        # (0 - 0.5)² has the slope -1, tanh at 0 the slope 1.
        assert found["rows_bias"].tolist() == [-1]
        assert found["rows"].tolist() == [[-3]]
        assert found["hidden_bias"].tolist() == [-2]
        assert found["hidden"].tolist() == [[-6]]

    @pytest.mark.parametrize("sparse", [True, False])
    def test_where_no_row_counts_nothing_is_pulled(self, sparse):
        arrays = sent()
        arrays["kept"] = np.zeros_like(arrays["kept"])
        found = pull(arrays, features(sparse))
        assert all(not array.any() for array in found.values())
        assert {name: array.shape for name, array in found.items()} == {
            name: arrays[name].shape for name in HEAD
        }


class TestLargest:
    ROWS = np.array([[0.1, -0.9, 0.3, 0.0], [0.5, 0.2, -0.6, 0.4]], np.float32)

    def test_the_largest_entries_stay_whatever_their_sign(self):
        found = largest_entries(self.ROWS, 2)
        assert sp.issparse(found)
        expected = np.array([[0, -0.9, 0.3, 0], [0.5, 0, -0.6, 0]], np.float32)
        assert np.array_equal(found.toarray(), expected)
        assert found.has_sorted_indices

    @pytest.mark.parametrize("entries", [4, 5, 100])
    def test_more_than_there_are_is_all(self, entries):
        assert np.array_equal(largest_entries(self.ROWS, entries).toarray(), self.ROWS)

    def test_no_rows(self):
        assert largest_entries(self.ROWS[:0], 2).shape == (0, 4)


@pytest.fixture(params=[True, False], ids=["sparse", "dense"])
def training(request):
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(
        rng.integers(0, 20, (30, 2)),
        features(request.param, 20),
        rng.integers(0, 2, 20),
        split=np.where(np.arange(20) % 3, Part.TRAIN, Part.TEST),
    )
    spec = LearningSpec(
        features=COLUMNS,
        classes=2,
        model=ModelSpec(hidden=HIDDEN),
        embedding=EmbeddingSpec(depth=0),
        generator=GeneratorSpec(slots=SLOTS, keep=1.0, batch_size=BATCH, learning_rate=0.5),
    )
    rows = graph.features.toarray() if request.param else graph.features
    silo = Silo(0, graph, spec, torch.device("cpu"))
    return GeneratorTraining(silo, Prototypes(rows, np.arange(20)))


def trained(training, epochs, **settings):
    """Loss and weights of generator and classifier after some epochs, with other settings."""
    generator, classifier = training.generator(), training.silo.classifier()
    generator.spec = replace(generator.spec, **settings)
    loss = NeighGen(training, generator, classifier).train(Seeds(1), epochs)
    return loss, to_arrays(generator), to_arrays(classifier)


class TestTrain:
    @pytest.mark.parametrize("keep", [0.5, 1.0])
    def test_without_labels_it_is_the_loss_of_all_rows_without_generating_all(self, training, keep):
        loss, weights, _ = trained(training, 3, keep=keep, class_weight=0.0)
        generator = training.generator()
        generator.spec = replace(generator.spec, keep=keep)
        expected = training.pretrain(generator, Seeds(1), 3)
        others = to_arrays(generator)
        fanout = training.silo.spec.training.fanout
        # Three epochs of the ten nodes that remain.
        terms = training_terms(training.generator(), fanout, batch=BATCH, steps=3 * 2)
        assert_agree(loss, expected, terms=terms, precision=np.float32)
        assert_weights_agree(weights, others, terms=terms)
        for name, start in to_arrays(training.generator()).items():
            assert not np.array_equal(weights[name], start), name

    def test_the_class_reaches_every_weight_through_what_is_generated(self, training):
        alone = {"degree_weight": 0.0, "own_weight": 0.0}
        _, weights, classifier = trained(training, 3, **alone)
        _, others, start = trained(training, 3, **alone, class_weight=0.0)
        for name in (*HEAD, "encoder.features"):
            assert not np.array_equal(weights[name], others[name]), name
        assert not np.array_equal(weights["rows"], to_arrays(training.generator())["rows"])
        assert all(
            np.array_equal(start[n], a) for n, a in to_arrays(training.silo.classifier()).items()
        )
        assert all(not np.array_equal(classifier[name], start[name]) for name in classifier)

    def test_labels_of_training_nodes_are_learnt_and_no_others(self, training):
        silo = training.silo
        flipped = np.where(silo.graph.mask(Part.TRAIN), silo.graph.labels, 1 - silo.graph.labels)
        others = replace(training, silo=replace(silo, graph=replace(silo.graph, labels=flipped)))
        assert not np.array_equal(flipped, silo.graph.labels)
        for one, other in zip(trained(training, 2)[1:], trained(others, 2)[1:], strict=True):
            assert all(np.array_equal(one[name], other[name]) for name in one)

    def test_it_learns(self, training):
        few, many = (trained(training, epochs, learning_rate=0.05)[0] for epochs in (2, 60))
        assert many < few

    def test_where_no_row_counts_only_the_degree_learns(self, training):
        generator = training.generator()
        with torch.no_grad():
            generator.degree_bias.fill_(-100.0)
        before = to_arrays(generator)
        NeighGen(training, generator, training.silo.classifier()).train(Seeds(1), 1)
        after = to_arrays(generator)
        assert all(np.array_equal(before[name], after[name]) for name in HEAD)


class TestShared:
    def test_the_generating_part_and_its_inputs_for_a_batch(self, training):
        generator = training.generator()
        found = shared(training, generator, Seeds(0))
        weights = to_arrays(generator)
        assert found.keys() == {*HEAD, "inputs", "kept"}
        assert all(np.array_equal(found[name], weights[name]) for name in HEAD)
        assert found["inputs"].shape == (BATCH, HIDDEN)
        assert found["kept"].shape == (BATCH, SLOTS)
        assert found["kept"].dtype == bool

    def test_as_many_rows_count_as_the_generator_thinks_are_missing(self, training):
        generator = training.generator()
        generator.spec = replace(generator.spec, keep=1.0)
        with torch.no_grad():
            generator.degree.zero_()
            for degree, rows in [(0.0, 0), (2.0, 2), (50.0, SLOTS)]:
                generator.degree_bias.fill_(degree)
                kept = shared(training, generator, Seeds(0))["kept"]
                assert kept.tolist() == [[slot < rows for slot in range(SLOTS)]] * BATCH

    def test_a_pull_makes_the_shared_rows_more_like_another_silo_s_nodes(self, training):
        generator, elsewhere = training.generator(), features(sparse=False, nodes=3)
        with torch.no_grad():
            generator.degree_bias.fill_(SLOTS)

        def distance():
            arrays = shared(training, generator, Seeds(0))
            hidden = np.maximum(arrays["inputs"] @ arrays["hidden"] + arrays["hidden_bias"], 0)
            rows = np.tanh(hidden @ arrays["rows"] + arrays["rows_bias"]).reshape(-1, COLUMNS)
            return ((rows[:, None] - elsewhere) ** 2).sum(axis=2).min(axis=1).mean()

        before = distance()
        for _ in range(5):
            gradients = pull(shared(training, generator, Seeds(0)), elsewhere)
            descend(generator, gradients, GeneratorSpec(learning_rate=0.1))
        assert distance() < before


def test_a_step_has_the_generator_s_rate_and_the_weight_of_foreign_distances(training):
    generator = training.generator()
    before = to_arrays(generator)
    gradients = {name: np.ones_like(before[name]) for name in HEAD}
    spec = GeneratorSpec(learning_rate=0.5, foreign_weight=3.0, distances="summed")
    descend(generator, gradients, spec)
    after = to_arrays(generator)
    for name in before:
        step = 1.5 if name in HEAD else 0
        scale = np.abs(before[name]) + step
        assert_agree(after[name], before[name] - step, terms=2, scale=scale, name=name)


class TestGenerate:
    def test_every_node_gets_as_many_new_nodes_as_it_misses(self, training):
        generator = training.generator()
        with torch.no_grad():
            generator.degree.zero_()
            generator.degree_bias.fill_(2.0)
        links, found = generate(training, generator, Seeds(0))
        assert links[:, 0].tolist() == np.repeat(np.arange(20), 2).tolist()
        assert links[:, 1].tolist() == list(range(40))
        assert found.shape == (40, COLUMNS)

    def test_rows_are_those_of_the_generator_in_the_order_of_the_links(self, training):
        generator = training.generator()
        links, found = generate(training, generator, Seeds(0))
        rows = []
        for _, generated in training.generated(generator, Seeds(0)):
            rows.append(generated.rows[generated.kept > 0])
        rows = torch.cat(rows).numpy()
        assert len(rows) == len(links) > 0
        if sp.issparse(found):
            kept = found.toarray() != 0
            found, rows = found.toarray()[kept], rows[kept]
        # Through tanh, whose slope is at most 1, of a sum over hidden units of size 10 at most.
        assert_agree(found, rows, terms=HIDDEN + 2, scale=10)

    def test_sparse_graphs_get_as_sparse_nodes(self, training):
        own = training.silo.graph.features
        _, found = generate(training, training.generator(), Seeds(0))
        assert sp.issparse(found) == sp.issparse(own)
        if sp.issparse(own):
            mean = round(own.nnz / own.shape[0])
            assert 0 < mean < COLUMNS
            assert set(np.diff(found.indptr).tolist()) == {mean}

    def test_nothing_missing_adds_nothing(self, training):
        generator = training.generator()
        with torch.no_grad():
            generator.degree.zero_()
            generator.degree_bias.zero_()
        links, found = generate(training, generator, Seeds(0))
        assert links.shape == (0, 2)
        assert found.shape == (0, COLUMNS)
