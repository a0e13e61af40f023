"""What is said about a run is true of all its clients and of what was done."""

from dataclasses import replace

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
    SparseResponse,
)
from feddep.privacy.meaning import GraphSize
from feddep.privacy.response import response_rates
from feddep.privacy.statement import statement

LEFT = Message("averaging", "classifier", 50, 1000)
READ = NeighbourSampling("classifier", 5, 2, 50, ((4, 10),))


SIZE = GraphSize(100, 300)


def said(mechanism, *events_by_client, sizes=(SIZE,), planned=False):
    sizes = list(sizes) * (len(events_by_client) // len(sizes))
    prices = [price(own, size.nodes) for own, size in zip(events_by_client, sizes, strict=True)]
    return statement(mechanism, worst_of(prices), events_by_client, sizes, planned=planned)


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
        events_by_client = [[OneShotSampling(5, d, d), LEFT] for d in (9e-6, 1e-6)]
        found = said("one-shot", *events_by_client, sizes=(GraphSize(10, 9), GraphSize(1000, 9)))
        assert "probability of up to 9e-06;" in found
        assert "That is no privacy guarantee." in found

    def test_an_edge_changes_as_many_gradients_as_at_the_client_where_it_changes_most(self):
        events_by_client = [[capped(touched), LEFT] for touched in (2, 6, 4)]
        assert "a single edge can change 6 at most" in said("dp-sgd", *events_by_client)

    def test_whatever_left_any_client_is_named(self):
        more = Message("averaging", "numbers", 51, 8)
        assert "(classifier, numbers)" in said("dp-sgd", [capped(2), LEFT], [capped(2), LEFT, more])

    def test_one_client_without_a_promise_leaves_none(self):
        found = said("dp-sgd", [capped(2), LEFT], [capped(2, trainings=49), LEFT])
        assert found.startswith("No privacy guarantee is given. The noise is priced for a number")


class TestEdgesBetweenSilos:
    SHOWN = "Edges between silos are not protected: the server is given every one of them"

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
    def test_without_a_local_gnn_it_changes_nothing(self):
        found = said("dp-sgd", [READ, LEFT])
        assert found.startswith("No privacy guarantee is given. DP-SGD adds noise to the gradients")
        assert "this method has none: it changes nothing" in found

    def test_with_one_its_gradients_were_noised_and_nothing_else(self):
        noised = NoisedGradients("embeddings", 2.0, 1.0, 0.1, 500)
        found = said("dp-sgd", [FullNeighbours("embeddings"), noised, READ, LEFT])
        assert "Noise is added to the gradients of the local GNN; what else" in found

    def test_a_delta_that_promises_nothing_is_not_called_a_large_epsilon(self):
        found = said("dp-sgd", [capped(2), LEFT], sizes=[GraphSize(542, 945)])
        assert found == (
            "No privacy guarantee is given: δ is 1e-05, which is too large for a silo of 542 "
            "nodes; set privacy.delta to 6.8e-07 or less."
        )

    def test_what_it_says_to_set_is_enough(self):
        small = replace(capped(2), delta=6.8e-7)
        assert "but for a chance of 6.8e-07." in said(
            "dp-sgd", [small, LEFT], sizes=[GraphSize(542, 945)]
        )


class TestWhatItMeans:
    SIZE = GraphSize(542, 945)  # a client of Cora, of five

    def test_links_that_an_observer_could_name(self):
        found = said(
            "randomised-response", [RandomisedResponse(4.0), READ, LEFT], sizes=[self.SIZE]
        )
        assert (
            "In a silo of 542 nodes and 945 edges that means: of 100 links that an observer could "
            "name, about 26 are real (guessing: 0.6)." in found
        )

    def test_of_several_silos_the_one_that_is_worst_off(self):
        own = [RandomisedResponse(1.0), READ, LEFT]
        found = said("randomised-response", own, own, sizes=[self.SIZE, GraphSize(100, 990)])
        assert "In a silo of 100 nodes and 990 edges that means" in found
        assert "about 40 are real (guessing: 20)" in found

    def test_noised_gradients_need_not_show_so_many(self):
        found = said("dp-sgd", [capped(2), LEFT])
        assert "could name, at most" in found

    def test_nor_do_rates_that_keep_more_than_the_symmetric_form(self):
        for keep, word in ((0.5, "about 26"), (0.99, "at most 26")):
            event = SparseResponse(*response_rates(4.0, keep))
            found = said("randomised-response", [event, READ, LEFT], sizes=[self.SIZE])
            assert f"could name, {word} are real" in found

    @pytest.mark.parametrize("size", [GraphSize(542), GraphSize(542, 0)])
    def test_without_a_number_of_edges_nothing_is_said(self, size):
        found = said("randomised-response", [RandomisedResponse(4.0), READ, LEFT], sizes=[size])
        assert "means" not in found
        assert "  " not in found


class TestWhatItDoesNotCover:
    PROMISES = (
        ("randomised-response", [RandomisedResponse(2.0), READ, LEFT]),
        ("dp-sgd", None),
    )

    @pytest.mark.parametrize(("mechanism", "events"), PROMISES)
    def test_it_is_for_one_run_and_not_for_predictions_over_true_edges(self, mechanism, events):
        found = said(mechanism, events or [capped(2), LEFT])
        assert "That is for one run:" in found
        assert "Predictions that are made over the true edges are not covered" in found

    @pytest.mark.parametrize(("mechanism", "events"), PROMISES)
    def test_a_plan_is_no_simulation(self, mechanism, events):
        own = events or [capped(2), LEFT]
        assert "This was a simulation" in said(mechanism, own)
        assert "simulation" not in said(mechanism, own, planned=True)


def test_noised_updates_are_not_called_free_of_noise():
    updates = NoisedGradients("updates", 2.0, 0.1, 1.0, 50)
    found = said("none", [updates, READ, LEFT])
    assert "not all of it is noised" in found
    assert "the numbers that go with them (scores on true edges, loss) are not" in found
    assert "computed from their edges without noise" in said("none", [READ, LEFT])
