"""A server that asks a consenting silo again and again, with all that it may vary varied."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from envelopes import CONSENT, agree, agreement_on, changed

from feddep.learning.silo import Secret, open_silo

EPSILON = 1.0
RUNS = 60

# Everything in a run's spec or envelope that leaves the two rates of randomised response alone.
SAME_RATES = {
    "name": lambda i: {},
    "delta": lambda i: {"privacy.delta": 1e-6 * (i + 1)},
    "delta_prime": lambda i: {"privacy.delta_prime": 1e-6 * (i + 1)},
    "noise": lambda i: {"privacy.noise": 2.0 + i},
    "clip": lambda i: {"privacy.clip": 1.0 + i},
    "fan-out": lambda i: {"training.fanout": 1 + i},
    "seed": lambda i: {"seed": i},
    "batches": lambda i: {"training.batch_size": 8 + i},
    "width": lambda i: {"model.hidden": 4 + i},
    "clients": lambda i: {"partition.clients": 2 + i},
    "all": lambda i: {
        "privacy.delta": 1e-6 * (i + 1),
        "privacy.noise": 2.0 + i,
        "privacy.clip": 1.0 + i,
        "training.fanout": 1 + i,
        "seed": i,
    },
}


@pytest.fixture
def strict(silo):
    """A silo whose owner consents to ε = 1."""
    return changed(silo, consent=CONSENT.model_copy(update={"highest_epsilon": EPSILON}))


def shown(silo, graph, settings, number, client=0):
    """What the silo promises for one more run, and the graph that all its answers come from."""
    asked = agreement_on(
        graph,
        **{"privacy.mechanism": "randomised-response", "privacy.epsilon": EPSILON, **settings},
    )
    run = f"run-{number}"
    promised = silo(agree(asked, run=run, client=client)).header["sound"]
    secret = Secret(silo.service.secret, run)
    opened = open_silo(client, graph, asked.learning, torch.device("cpu"), secret)
    return promised, opened.graph


def pairs(graph):
    """For each pair of nodes, whether it is an edge."""
    found = np.zeros((graph.nodes, graph.nodes), bool)
    found[tuple(graph.edge_list().T)] = True
    return found[np.triu_indices(graph.nodes, 1)]


@pytest.mark.parametrize("varied", SAME_RATES)
def test_many_runs_at_one_epsilon_show_no_more_than_one(strict, graph, varied):
    """The majority of independent answers is the true graph; there must be only one answer."""
    votes = np.zeros(graph.nodes * (graph.nodes - 1) // 2)
    for number in range(RUNS):
        promised, seen = shown(strict, graph, SAME_RATES[varied](number), number)
        assert promised == {"epsilon": EPSILON, "delta": 0.0, "verdict": "holds"}
        votes += pairs(seen)
    true, guessed = pairs(graph), votes > RUNS / 2
    advantage = guessed[true].mean() - guessed[~true].mean()
    rate = 1 / (1 + math.exp(-EPSILON))  # of right answers about one pair, at this ε
    spread = math.sqrt(rate * (1 - rate) * (1 / true.sum() + 1 / (~true).sum()))
    assert advantage == pytest.approx(2 * rate - 1, abs=1.96 * spread)


def test_another_number_for_the_client_shows_no_more(strict, graph):
    seen = [shown(strict, graph, {}, number, client=number)[1] for number in range(3)]
    assert all(np.array_equal(seen[0].indices, other.indices) for other in seen)


def test_rates_written_in_two_ways_are_one_release(strict, graph):
    """keep_edge at the rate of the symmetric form is the symmetric form."""
    symmetric = 1 - 1 / (1 + math.exp(EPSILON))
    seen = [
        shown(strict, graph, {"privacy.keep_edge": keep}, number)[1]
        for number, keep in enumerate((0.0, symmetric))
    ]
    assert np.array_equal(seen[0].indices, seen[1].indices)


def test_other_rates_are_another_release_with_a_price_of_its_own(strict, graph):
    """Independent, so that no more follows from two of them than the sum of their ε."""
    promised, seen = zip(
        *(
            shown(strict, graph, settings, number)
            for number, settings in enumerate(
                ({}, {"privacy.epsilon": 0.5}, {"privacy.keep_edge": 0.4})
            )
        ),
        strict=True,
    )
    assert [found["epsilon"] for found in promised] == pytest.approx([1.0, 0.5, 1.0])
    errors = [pairs(one) ^ pairs(graph) for one in seen]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(errors[one], errors[other])[0, 1]) < 4 / math.sqrt(len(errors[0]))


def test_one_shot_samples_depend_on_the_fan_out_alone(strict, graph):
    free = changed(strict, consent=CONSENT)
    one_shot = {"privacy.mechanism": "one-shot", "privacy.epsilon": 0.0}
    varied = [
        {"training.fanout": 2},
        {"training.fanout": 2, "privacy.delta": 1e-7, "privacy.noise": 3.0, "seed": 1},
        {"training.fanout": 3},
    ]
    seen = [
        shown(free, graph, {**one_shot, **settings}, number)[1].edge_list().tolist()
        for number, settings in enumerate(varied)
    ]
    assert seen[0] == seen[1]
    kept = [edge for edge in seen[0] if edge in seen[2]]
    assert 0 < len(kept) < len(seen[0]), "drawn anew, not the first three of the same order"


SUMS = {"privacy.mechanism": "aggregation-perturbation", "privacy.delta": 1e-6}


def sums(silo, graph, settings, number, classes=0):
    """What the silo promises for one more run, and the sums that all its answers come from."""
    asked = agreement_on(graph, **{**SUMS, "privacy.epsilon": EPSILON, **settings})
    asked = replace(asked, classes=graph.classes + classes)
    promised = silo(agree(asked, run=f"run-{number}")).header["sound"]
    secret = Secret(silo.service.secret, f"run-{number}")
    opened = open_silo(0, graph, asked.learning, torch.device("cpu"), secret)
    columns = opened.graph.features.toarray()[:, graph.feature_count :]
    return promised, columns[:, : graph.classes]


SAME_NOISE = {
    name: vary for name, vary in SAME_RATES.items() if name not in ("delta", "clients", "all")
}


@pytest.mark.parametrize("varied", SAME_NOISE)
def test_settings_that_do_not_matter_give_the_same_sums(strict, graph, varied):
    first, *others = (sums(strict, graph, SAME_NOISE[varied](i), i) for i in range(5))
    assert first[0]["verdict"] == "holds"
    assert 0.9 * EPSILON < first[0]["epsilon"] <= EPSILON
    assert all(promised == first[0] for promised, _ in others)
    assert all(np.array_equal(seen, first[1]) for _, seen in others)


def test_classes_that_the_server_makes_up_give_the_same_sums(strict, graph):
    """They shape the classifier, and must not shape the encoder."""
    seen = [sums(strict, graph, {}, number, classes=number)[1] for number in range(5)]
    assert all(np.array_equal(seen[0], other) for other in seen)


def test_many_questions_at_lower_prices_show_no_more_than_the_dearest(strict, graph):
    """Whatever ε, δ and number of edges the server asks for, it gets the same noise and more.

    So it gains nothing over the run with the least noise, which it might combine them with: what
    it sees of the neighbours of a node does not grow with the number of runs.
    """
    lone = graph.with_edges([])  # sums of nothing: the noise itself
    silo = changed(strict, graph=lambda: lone)
    asked = [
        {
            "privacy.epsilon": 1 - 0.01 * i,
            "privacy.delta": 1e-6 * (1 - 0.01 * i),
            "privacy.max_degree": i % 3,
        }
        for i in range(RUNS)
    ]
    seen = np.stack([sums(silo, lone, settings, i)[1] for i, settings in enumerate(asked)])
    mean, least = seen.mean(axis=0), seen[0]
    together = (mean * least).sum(axis=1) / np.linalg.norm(mean, axis=1)
    independent = math.sqrt(2 / (math.pi * RUNS))
    assert np.median(together / np.linalg.norm(least, axis=1)) > 3 * independent
