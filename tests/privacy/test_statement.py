"""What is said about a run is true of all its clients and of what was done."""

import pytest

from feddep.privacy.accountant import price, worst_of
from feddep.privacy.events import (
    CappedGradients,
    FullNeighbours,
    KnownCrossings,
    Message,
    NeighbourSampling,
    NoisedGradients,
    OneShotSampling,
    RandomisedResponse,
)
from feddep.privacy.statement import statement

LEFT = Message("averaging", "classifier", 50, 1000)
READ = NeighbourSampling("classifier", 5, 2, 50, ((4, 10),))


def said(mechanism, *events_by_client, edges=100):
    counts = [edges] * len(events_by_client) if isinstance(edges, int) else edges
    prices = [price(own, count) for own, count in zip(events_by_client, counts, strict=True)]
    return statement(mechanism, worst_of(prices), events_by_client)


def capped(touched, trainings=50):
    return CappedGradients(
        "classifier",
        60.0,
        1.0,
        0.1,
        500,
        phase="averaging",
        occurrences=2,
        touched=touched,
        delta=1e-5,
        edges=100,
        trainings=trainings,
    )


class TestAllClients:
    def test_the_largest_probability_of_disclosure_is_named(self):
        events_by_client = [[OneShotSampling(5, d, d), LEFT] for d in (0.1, 1.0)]
        assert "probability of up to 1;" in said("one-shot", *events_by_client)
        assert "probability of up to 1;" in said("one-shot", *reversed(events_by_client))

    def test_so_it_is_where_another_client_has_the_worse_verdict(self):
        events_by_client = [[OneShotSampling(5, d, d), LEFT] for d in (0.05, 0.01)]
        found = said("one-shot", *events_by_client, edges=(10, 1000))
        assert "probability of up to 0.05;" in found
        assert "That is no privacy guarantee." in found

    def test_an_edge_changes_as_many_gradients_as_at_the_client_where_it_changes_most(self):
        events_by_client = [[capped(touched), LEFT] for touched in (2, 6, 4)]
        assert "a single edge can change 6 at most" in said("dp-sgd", *events_by_client)

    def test_whatever_left_any_client_is_named(self):
        more = Message("averaging", "numbers", 51, 8)
        assert "(classifier, numbers)" in said("dp-sgd", [capped(2), LEFT], [capped(2), LEFT, more])

    def test_one_client_without_a_promise_leaves_none(self):
        found = said("dp-sgd", [capped(2), LEFT], [capped(2, trainings=49), LEFT])
        assert found.startswith("No privacy guarantee is given. The noise was priced for a number")


class TestEdgesBetweenSilos:
    SHOWN = "Edges between silos are not protected: the server was given every one of them"

    def test_the_promise_is_about_edges_inside_a_silo(self):
        found = said("randomised-response", [RandomisedResponse(3.0), READ, LEFT])
        assert "Whether a given edge inside one silo exists" in found
        assert "between silos" not in found

    @pytest.mark.parametrize(
        ("mechanism", "events"),
        [
            ("randomised-response", [RandomisedResponse(3.0), READ]),
            ("one-shot", [OneShotSampling(5, 0.5, 0.75), READ]),
            ("nfdp", [READ]),
        ],
    )
    def test_edges_that_the_server_was_given_are_said_to_be_shown(self, mechanism, events):
        assert self.SHOWN in said(mechanism, [KnownCrossings(), *events, LEFT])


class TestDpSgd:
    def test_without_a_local_gnn_it_changed_nothing(self):
        found = said("dp-sgd", [READ, LEFT])
        assert found.startswith("No privacy guarantee is given. DP-SGD adds noise to the gradients")
        assert "in this run there is none: it changed nothing" in found

    def test_with_one_its_gradients_were_noised_and_nothing_else(self):
        noised = NoisedGradients("embeddings", 2.0, 1.0, 0.1, 500)
        found = said("dp-sgd", [FullNeighbours("embeddings"), noised, READ, LEFT])
        assert "Noise was added to the gradients of the local GNN; what else" in found

    def test_a_delta_that_promises_nothing_is_not_called_a_large_epsilon(self):
        found = said("dp-sgd", [capped(2), LEFT], edges=10**6)
        assert "or δ is not below one in the number of edges" in found


def test_noised_updates_are_not_called_free_of_noise():
    updates = NoisedGradients("updates", 2.0, 0.1, 1.0, 50)
    assert "not all of it is noised" in said("none", [updates, READ, LEFT])
    assert "computed from their edges without noise" in said("none", [READ, LEFT])
