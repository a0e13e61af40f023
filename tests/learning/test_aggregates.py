"""A silo under aggregation perturbation: what it works on, and on what that depends."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import feddep
from feddep.algorithms import METHODS
from feddep.errors import InputError
from feddep.graph.graph import Graph, Part
from feddep.learning.aggregates import aggregated, encodings
from feddep.learning.silo import Secret, open_silo
from feddep.learning.spec import LearningSpec
from feddep.privacy.aggregation import sums_epsilon, sums_event
from feddep.privacy.spec import PrivacySpec
from feddep.runs.accounting import mechanism_events
from feddep.scenario.build import learning_spec_for
from feddep.scenario.spec import RunSpec

CPU = torch.device("cpu")
SETTINGS = {"mechanism": "aggregation-perturbation", "epsilon": 4.0, "delta": 1e-7}


@pytest.fixture
def graph(small_shards):
    return small_shards.graph


def spec_for(graph, classes=None, **privacy):
    return LearningSpec(
        features=graph.feature_count,
        classes=classes or graph.classes,
        privacy=PrivacySpec(**{**SETTINGS, **privacy}),
    )


def dense(features):
    return features.toarray() if sp.issparse(features) else features


def columns(graph, opened):
    """The sums in an opened silo's features."""
    return dense(opened.features)[:, graph.feature_count :]


def opened(graph, secret=None, classes=None, **privacy):
    return open_silo(0, graph, spec_for(graph, classes, **privacy), CPU, secret).graph


class TestWhatASiloWorksOn:
    @pytest.mark.parametrize("hops", [1, 3])
    def test_no_edges_and_sums_beside_the_features(self, graph, hops):
        found = opened(graph, summed_hops=hops)
        assert found.edges == 0
        assert found.feature_count == spec_for(graph, summed_hops=hops).inputs
        before = dense(graph.features)
        assert np.array_equal(dense(found.features)[:, : before.shape[1]], before)
        sums = columns(graph, found).reshape(graph.nodes, hops, -1)
        length = np.sqrt((before**2).sum(axis=1).mean())
        assert np.linalg.norm(sums, axis=2) == pytest.approx(
            np.full((graph.nodes, hops), length), rel=1e-5
        )

    def test_dense_features_stay_dense(self, graph):
        graph = replace(graph, features=dense(graph.features))
        assert isinstance(opened(graph).features, np.ndarray)

    def test_without_noise_a_sum_points_where_the_neighbours_do(self, graph):
        found = columns(graph, aggregated(graph, spec_for(graph), None))
        rows = encodings(graph)
        u = int(np.argmax(graph.degrees))
        own = graph.indices[graph.indptr[u] : graph.indptr[u + 1]]
        total = rows[own].sum(axis=0)
        assert found[u] / np.linalg.norm(found[u]) == pytest.approx(
            total / np.linalg.norm(total), abs=1e-4
        )

    def test_other_edges_are_other_sums_and_nothing_else(self, graph):
        assert np.array_equal(encodings(graph), encodings(graph.with_edges([])))

    def test_the_encoder_has_learnt_its_training_nodes(self, graph):
        rows, nodes = encodings(graph), graph.members(Part.TRAIN)
        assert (rows[nodes].argmax(axis=1) == graph.labels[nodes]).mean() > 0.8

    def test_threads_do_not_change_a_bit(self, graph):
        """The noise is named after the encodings."""
        before, found = torch.get_num_threads(), []
        try:
            for threads in (1, 2):
                torch.set_num_threads(threads)
                found.append(encodings(graph))
        finally:
            torch.set_num_threads(before)
        assert np.array_equal(*found)


class TestOddData:
    @pytest.mark.parametrize("factor", [0.0, 1e-38, 1e38])
    def test_features_of_any_size(self, graph, factor):
        features = (dense(graph.features) * factor).astype(np.float32)
        found = opened(replace(graph, features=features))
        assert np.isfinite(dense(found.features)).all()

    def test_one_row_beyond_all_others(self, graph):
        features = dense(graph.features).copy()
        features[0] = 3e38
        assert np.isfinite(encodings(replace(graph, features=features))).all()

    def test_without_training_nodes_there_is_only_noise(self, graph):
        split = np.where(graph.split == Part.TRAIN, Part.NONE, graph.split)
        graph = graph.with_split(split)
        assert not encodings(graph).any()
        assert np.isfinite(dense(opened(graph).features)).all()

    def test_a_single_node_and_a_single_class(self):
        graph = Graph.from_edges([], [[1.0]], [0], split=[Part.TRAIN])
        assert opened(graph).feature_count == 2


class TestNoise:
    def test_a_secret_adds_the_same_in_every_run_whoever_asks(self, graph):
        first = opened(graph, Secret(7, "first"))
        again = opened(graph, Secret(7, "second"), clip=9.0, noise=5.0, delta_prime=1e-9)
        assert np.array_equal(dense(first.features), dense(again.features))

    def test_two_ways_to_the_same_noise_are_one_release(self, graph):
        one = opened(graph, Secret(7, "run"))
        other = opened(graph, Secret(7, "run"), epsilon=4.0001, delta=1.0001e-7)
        assert np.array_equal(dense(one.features), dense(other.features))

    def test_more_classes_than_the_silo_has_are_no_new_release(self, graph):
        """The server says how many classes there are."""
        classes = graph.classes
        one, more = (opened(graph, Secret(7, "run"), c) for c in (classes, classes + 3))
        padded = columns(graph, more)
        assert np.array_equal(padded[:, :classes], columns(graph, one))
        assert not padded[:, classes:].any()

    def test_one_hop_is_the_first_of_several_with_the_same_noise(self, graph):
        event = sums_event(spec_for(graph).privacy)
        for_two = sums_epsilon(replace(event, hops=2)) * (1 + 1e-9)
        one = opened(graph, Secret(7, "run"))
        two = opened(graph, Secret(7, "run"), epsilon=for_two, summed_hops=2)
        first, both = columns(graph, one), columns(graph, two)
        assert np.array_equal(first, both[:, : graph.classes])
        assert not np.array_equal(first, both[:, graph.classes :])

    @pytest.mark.parametrize("changed", ["secret", "edges", "features"])
    def test_another_graph_or_secret_has_noise_of_its_own(self, graph, changed):
        lonely = graph.with_edges([])
        one = columns(lonely, opened(lonely, Secret(7, "run")))
        graph, secret = lonely, Secret(7, "run")
        if changed == "secret":
            secret = Secret(8, "run")
        elif changed == "edges":
            graph = graph.with_edges([[0, 1]])
        else:
            features = dense(lonely.features).copy()
            features[0, 0] += 1
            graph = replace(lonely, features=features)
        other = columns(graph, opened(graph, secret))
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.25

    def test_a_simulation_draws_it_from_the_seed(self, graph):
        spec = spec_for(graph)
        found = [
            dense(open_silo(0, graph, replace(spec, seed=seed), CPU).graph.features)
            for seed in (0, 0, 1)
        ]
        assert np.array_equal(found[0], found[1])
        assert not np.array_equal(found[0], found[2])


class TestMethods:
    @pytest.mark.parametrize("name", METHODS)
    def test_those_that_add_neighbours_are_refused_by_name(self, graph, name):
        run = RunSpec(method=name).with_settings({f"privacy.{k}": v for k, v in SETTINGS.items()})
        method = METHODS[name]
        learning = learning_spec_for(run, graph, method)
        if name in ("fedavg", "fedavg-warm", "local", "global"):
            assert mechanism_events(method, learning, graph)
        else:
            with pytest.raises(InputError, match=f"^{name} adds missing neighbours"):
                mechanism_events(method, learning, graph)

    @pytest.mark.parametrize("method", ["fedavg", "fedavg-warm", "local"])
    def test_a_run_promises_and_predicts_what_it_was_scored_on(
        self, odd_shards, thread_workers, method
    ):
        settings = {f"privacy.{k}": v for k, v in SETTINGS.items()}
        result = feddep.run(
            method, odd_shards, rounds=2, workers=2, settings={"model.hidden": 8, **settings}
        )
        assert result.record["privacy"]["verdict"] == "holds"
        right = total = 0
        for client in range(odd_shards.clients):
            graph = odd_shards[client]
            test = graph.mask(Part.TEST)
            chosen = result.predict(graph, client).argmax(axis=1)
            right += int((chosen == graph.labels)[test].sum())
            total += int(test.sum())
        assert right / total == pytest.approx(result.record["scores"]["silo"]["test"])

    def test_a_graph_without_training_nodes_cannot_be_predicted(self, small_shards, thread_workers):
        result = feddep.run(
            "fedavg",
            small_shards,
            rounds=1,
            settings={"model.hidden": 8, **{f"privacy.{k}": v for k, v in SETTINGS.items()}},
        )
        graph = small_shards.graph
        assert len(result.predict(graph)) == graph.nodes
        with pytest.raises(InputError, match="encoder learns from the graph's training nodes"):
            result.predict(graph.with_split(np.zeros(graph.nodes, np.int8)))
