"""What ``feddep privacy`` answers before anything is run."""

import pytest

from feddep.errors import InputError
from feddep.reports.privacy import Question, answer, price_rows

SILO = {"nodes": 542, "edges": 945}  # a client of Cora, of five
CAPPED = {"mechanism": "dp-sgd", "occurrences": 1, "noise": 60.0, "delta": 6.8e-7, **SILO}

FEDAVG = {"method": "fedavg"}


class TestQuestion:
    def test_keys_are_those_of_the_contract(self):
        found = answer(Question(min_degree=15))
        assert found["per_step"] == pytest.approx({"epsilon": 0.3747, "delta": 0.3333}, abs=5e-5)
        assert found["composed"]["epsilon"] == pytest.approx(24.92, abs=5e-3)
        assert found["sound"] == {"epsilon": None, "delta": 1.0, "verdict": "none"}
        assert found["paper"]["verdict"] == "none"

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"mechanism": "magic"}, "unknown mechanism 'magic'"),
            ({"keep": 0}, "keep must be above 0"),
            ({"fanout": 0}, "fanout must be at least 1"),
            ({"epochs": -1}, "epochs must be 0 or more"),
            ({"delta_prime": 1}, "delta_prime must be between"),
            ({"mechanism": "randomised-response"}, "needs ε; give --epsilon"),
            ({"keep_edge": 1.0}, "keep_edge must be at least 0 and below 1"),
            ({"occurrences": -1}, "occurrences must be 0 or more"),
            ({"mechanism": "aggregation-perturbation", **FEDAVG}, "needs ε; give --epsilon"),
            ({"mechanism": "aggregation-perturbation", "epsilon": 1.0}, "feddep adds missing"),
            ({"summed_hops": 9}, "summed_hops must be from 1 to 8"),
            ({"max_degree": 5}, "privacy.max_degree is how many edges of one node are hidden"),
        ],
    )
    def test_what_cannot_be_is_refused(self, options, says):
        with pytest.raises(InputError, match=says):
            answer(Question(**options))

    def test_dp_sgd_is_calibrated_for_an_epsilon(self):
        found = answer(Question(mechanism="dp-sgd", epsilon=3.0))
        assert found["example_level"]["epsilon"] == pytest.approx(3.0, rel=1e-3)
        assert found["sound"]["verdict"] == "none"

    def test_dp_sgd_with_a_cap_is_calibrated_for_an_edge(self):
        found = answer(Question(mechanism="dp-sgd", occurrences=1, epsilon=4.0))
        assert found["edge_level"]["epsilon"] == pytest.approx(4.0, rel=5e-3)
        assert found["edge_level"]["noise"] == pytest.approx(19.9, rel=5e-3)
        assert found["example_level"]["epsilon"] < 1.5
        assert found["sound"]["verdict"] == "none"
        given_noise = answer(Question(mechanism="dp-sgd", occurrences=1, noise=20.0))
        assert given_noise["edge_level"]["epsilon"] == pytest.approx(3.98, rel=5e-3)

    def test_the_sparse_form_is_priced(self):
        found = answer(Question(mechanism="randomised-response", epsilon=4.0, keep_edge=0.2))
        assert found["sound"]["epsilon"] == pytest.approx(4.0)
        assert "probability 0.00366" in found["statement"]

    @pytest.mark.parametrize(
        ("settings", "noise", "says"),
        [
            ({}, "1.76", "Whether a given edge inside one silo exists changes"),
            (
                {"summed_hops": 2, "max_degree": 5},
                "9.51",
                "Whether up to 5 given edges of one node",
            ),
        ],
    )
    def test_noised_sums_are_calibrated_for_an_epsilon(self, settings, noise, says):
        asked = {"mechanism": "aggregation-perturbation", "epsilon": 4.0, "delta": 6e-7}
        found = answer(Question(**asked, **FEDAVG, **SILO, **settings))
        assert found["paper"] is found["composed"] is None
        assert found["sound"]["verdict"] == "holds"
        assert 3.9 < found["sound"]["epsilon"] <= 4.0
        assert f"noise of standard deviation {noise}, where one neighbour" in found["statement"]
        assert says in found["statement"]
        assert "of 100 links that an observer could name, at most 2" in found["statement"]
        assert "simulation" not in found["statement"]

    def test_noised_sums_at_too_large_a_delta_promise_nothing(self):
        asked = {"mechanism": "aggregation-perturbation", "epsilon": 4.0, **FEDAVG, **SILO}
        found = answer(Question(**asked))
        assert found["sound"] == {"epsilon": None, "delta": 1e-5, "verdict": "none"}
        assert "set privacy.delta to 6.8e-07 or less" in found["statement"]

    def test_one_shot_states_the_probability_of_disclosure(self):
        found = answer(Question(mechanism="one-shot", min_degree=10, fanout=5))
        assert found["sound"] == {"epsilon": None, "delta": 0.75, "verdict": "none"}

    def test_what_epsilon_means_is_told_in_words(self):
        found = answer(Question(mechanism="randomised-response", epsilon=4.0, **SILO))
        assert "542 nodes and 945 edges" in found["statement"]
        assert "about 26 are real (guessing: 0.6)" in found["statement"]

    def test_nothing_ran_so_it_was_no_simulation(self):
        for asked in (
            Question(mechanism="randomised-response", epsilon=2.0),
            Question(mechanism="dp-sgd", method="fedavg", occurrences=1, noise=60.0, delta=1e-8),
        ):
            found = answer(asked)
            assert found["sound"]["verdict"] == "holds"
            assert "simulation" not in found["statement"]

    @pytest.mark.parametrize(
        "options",
        [
            {"mechanism": "randomised-response", "epsilon": 2.0},
            {"mechanism": "one-shot"},
            {"mechanism": "dp-sgd"},
            {"mechanism": "none"},
            {"method": "fedavg"},  # the theorem is about embeddings
        ],
    )
    def test_the_paper_s_figures_stay_with_the_paper_s_sampler(self, options):
        found = answer(Question(**options))
        assert found["per_step"] is found["paper"] is found["composed"] is None
        assert not {"per_step", "paper", "composed"} & {row[0] for row in price_rows(found)}


class TestMethod:
    def test_a_price_of_gradients_is_a_promise_where_nothing_else_leaves(self):
        found = {
            method: answer(Question(method=method, **CAPPED)) for method in ("fedavg", "feddep")
        }
        assert found["fedavg"]["sound"]["verdict"] == "holds"
        assert found["fedavg"]["sound"]["epsilon"] == found["fedavg"]["edge_level"]["epsilon"]
        assert found["feddep"]["sound"]["verdict"] == "none"

    def test_it_decides_what_leaves_and_who_sees_edges_between_silos(self):
        said = {
            method: answer(Question(mechanism="randomised-response", epsilon=2.0, method=method))
            for method in ("fedavg", "feddep", "fedgraph")
        }
        assert "(classifier, numbers)" in said["fedavg"]["statement"]
        assert "(classifier, numbers, prototypes)" in said["feddep"]["statement"]
        assert "Edges between silos are not protected" in said["fedgraph"]["statement"]

    def test_a_method_with_a_mechanism_of_its_own_takes_no_other(self):
        with pytest.raises(InputError, match=r"give --mechanism dp-sgd"):
            answer(Question(method="fedgnn"))

    def test_an_unknown_one_is_refused(self):
        with pytest.raises(InputError, match="unknown method"):
            answer(Question(method="fedmagic"))


class TestNodes:
    def test_a_delta_that_is_too_large_for_them_is_named_with_what_to_set(self):
        found = answer(Question(**{**CAPPED, "delta": 1e-5}, method="fedavg"))
        assert found["sound"] == {"epsilon": None, "delta": 1e-5, "verdict": "none"}
        assert "set privacy.delta to 6.8e-07 or less" in found["statement"]

    def test_they_must_be_able_to_hold_the_edges(self):
        with pytest.raises(InputError, match="10 nodes have 45 pairs"):
            answer(Question(nodes=10, edges=46))
