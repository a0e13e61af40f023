"""A hundred runs in random order, recounted with nothing of the code's own accountant.

The recount goes by what the silo agreed to and by the graphs that it showed. Randomised response
is added up from its rates. DP-SGD is composed from the definition: the density of a step's sum
with and without the examples that an edge touches, its losses on a grid, convolved step by step.
Losses are shared between the two nearest points of the grid, so that the recount is neither above
nor below, where the code's own must be above.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest
import torch
from envelopes import CONSENT, SiloWithMemory, agree, agreement_on, request
from scipy.stats import binom, norm

from feddep.learning.silo import Secret, open_silo
from feddep.models.weights import to_arrays
from feddep.runtime.envelope import Envelope

BUDGET, DELTA = 6.0, 1e-6
RUNS = 100
GRID = 2.0**-10
FINE = 1.002  # what the recount may differ by, for its grid


@dataclass(frozen=True)
class Asked:
    """What the server asks for."""

    settings: dict
    version: int


def drawn(rng: np.random.Generator) -> Asked:
    """Any settings that a server might send, most of them within the consent."""
    kind = rng.choice(["response", "response", "sparse", "noise", "none"])
    epsilon = float(rng.choice([0.25, 0.5, rng.uniform(0.02, 1.0)]))
    settings = {
        "seed": int(rng.integers(5)),
        "training.fanout": int(rng.integers(1, 6)),
        "training.rounds": int(rng.integers(1, 4)),
        "privacy.delta": float(rng.choice([1e-6, 1e-7])),
    }
    if kind in ("response", "sparse"):
        settings |= {"privacy.mechanism": "randomised-response", "privacy.epsilon": epsilon}
    if kind == "sparse":
        settings["privacy.keep_edge"] = float(rng.choice([0.1, 0.3, 0.9]))
    if kind == "noise":
        settings |= {
            "privacy.mechanism": "dp-sgd",
            "privacy.occurrences": int(rng.integers(1, 3)),
            "privacy.noise": float(rng.choice([150.0, 250.0])),
            "training.batch_size": int(rng.choice([6, 12])),
        }
    return Asked(settings, int(rng.choice([0, 0, 0, 1])))


def test_no_order_of_runs_exceeds_the_budget(silo, graph):
    rng = np.random.default_rng(2027)
    versions = [graph, graph.with_edges(graph.edge_list()[1:])]
    consent = CONSENT.model_copy(update={"budget_epsilon": BUDGET, "budget_delta": DELTA})
    agreed: list[tuple[Asked, str]] = []
    memory: dict[str, dict[str, bytes]] = {}
    refusals = 0
    for number in range(RUNS):
        asked, run = drawn(rng), f"run-{number}"
        if agreed and rng.random() < 0.15:  # a run that was begun goes on, or is asked for again
            asked, run = agreed[rng.integers(len(agreed))]
        own = versions[asked.version]
        service = replace(silo.service, consent=consent, graph=lambda own=own: own)  # restarted
        here = SiloWithMemory(service, memory)
        known = replace(agreement_on(own, **asked.settings), run=run)
        if "refused" in here(agree(known)).header:
            refusals += 1
            continue
        agreed.append((asked, run))
        if rng.random() < 0.5:  # the others stop before anything has left
            assert asks(here, known).arrays
        assert recount(agreed, versions, service.secret) <= BUDGET * FINE
    spent = recount(agreed, versions, service.secret)
    assert spent > 0.9 * BUDGET, "the budget was put to use"
    assert refusals > RUNS / 4
    assert {"dp-sgd", "randomised-response"} == {
        asked.settings["privacy.mechanism"] for asked, _ in agreed
    }


def asks(silo: SiloWithMemory, known) -> Envelope:
    weights = {
        f"classifier/{name}": array
        for name, array in to_arrays(known.learning.classifier()).items()
    }
    return silo(Envelope(request(known).header, weights))


def recount(agreed, versions, secret) -> float:
    """ε of everything together, at the budget's δ."""
    shown: dict[bytes, float] = {}
    trained: dict[str, tuple] = {}
    for asked, run in agreed:
        graph, settings = versions[asked.version], asked.settings
        if settings["privacy.mechanism"] == "randomised-response":
            seen = flipped(graph, settings, secret)
            shown[seen] = max(shown.get(seen, 0.0), response_epsilon(settings))
        else:
            trained[run] = steps_of(graph, settings)
    return sum(shown.values()) + gaussian_epsilon(list(trained.values()))


_flipped: dict[tuple, bytes] = {}


def flipped(graph, settings, secret) -> bytes:
    """The graph that is shown, bit by bit."""
    key = (graph.edges, str(sorted(settings.items())))
    if key not in _flipped:
        spec = agreement_on(graph, **settings).learning
        seen = open_silo(0, graph, spec, torch.device("cpu"), Secret(secret, "any")).graph
        _flipped[key] = bytes([graph.edges % 251]) + seen.edge_list().tobytes()
    return _flipped[key]


def response_epsilon(settings) -> float:
    """ln of the larger ratio of the two rates."""
    epsilon, keep = settings["privacy.epsilon"], settings.get("privacy.keep_edge")
    if keep is None:
        return epsilon
    create = max(keep * math.exp(-epsilon), 1 - (1 - keep) * math.exp(epsilon))
    return max(math.log(keep / create), math.log((1 - create) / (1 - keep)))


def steps_of(graph, settings) -> tuple[float, float, int, int]:
    """σ, q, T and k of a run of two layers with one epoch in a round."""
    examples = int((graph.split == 1).sum())
    batch = settings["training.batch_size"]
    steps = settings["training.rounds"] * math.ceil(examples / batch)
    touched = min(examples, 2 * (1 + settings["privacy.occurrences"]))
    return settings["privacy.noise"], batch / examples, steps, touched


def gaussian_epsilon(trainings) -> float:
    """2ε₁, where δ₁(1 + e^ε₁) is δ and (ε₁, δ₁) the price of adding the touched examples."""
    if not trainings:
        return 0.0
    both = [spectrum(trainings, direction) for direction in (1, -1)]

    def delta(half: float) -> float:
        return max(hockey_stick(*found, half) for found in both) * (1 + math.exp(half))

    low, high = 0.0, 8.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if delta(middle) <= DELTA else (middle, high)
    return 2 * high


POINTS = 1 << 15


def spectrum(trainings, direction: int):
    """The distribution of the summed losses on a grid from -POINTS/2 on."""
    product = np.ones(POINTS // 2 + 1, complex)
    for training in sorted(set(trainings)):
        count = trainings.count(training) * training[2]
        product *= step_losses(training, direction) ** count
    masses = np.fft.irfft(product, POINTS)
    values = np.fft.fftfreq(POINTS, 1 / POINTS) * GRID
    return values, np.maximum(masses, 0)


@lru_cache
def step_losses(training, direction: int) -> np.ndarray:
    """The transformed distribution of ln(P/Q) under P: with and without the touched examples.

    Args:
        training: its settings.
        direction: 1, or -1 for without and with.
    """
    noise, rate, _, touched = training
    y = np.linspace(-12 * noise, 12 * noise + touched, 40_001)
    chances = binom.pmf(np.arange(touched + 1), touched, rate)
    added = sum(chance * norm.pdf(y, j, noise) for j, chance in enumerate(chances))
    plain = norm.pdf(y, 0, noise)
    first, second = (added, plain) if direction == 1 else (plain, added)
    masses = first / first.sum()
    found = np.zeros(POINTS)
    losses = np.log(first) - np.log(second)
    # Shared between two points of the grid, which keeps the mean: most losses are below its step.
    below = np.floor(losses / GRID)
    share = losses / GRID - below
    np.add.at(found, below.astype(int) % POINTS, masses * (1 - share))
    np.add.at(found, (below.astype(int) + 1) % POINTS, masses * share)
    return np.fft.rfft(found)


def hockey_stick(values, masses, epsilon: float) -> float:
    above = values > epsilon
    return float((masses[above] * -np.expm1(epsilon - values[above])).sum())


@pytest.mark.parametrize(("noise", "epsilon"), [(20.0, 3.98), (50.0, 1.40)])
def test_the_recount_agrees_with_the_table(noise, epsilon, monkeypatch):
    """The figures of docs/privacy.md: q = 0.1, T = 500, K = 1, δ = 10⁻⁵."""
    monkeypatch.setitem(globals(), "DELTA", 1e-5)
    assert gaussian_epsilon([(noise, 0.1, 500, 4)]) == pytest.approx(epsilon, rel=0.015)
