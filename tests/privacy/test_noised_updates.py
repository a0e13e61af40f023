"""Noised updates: their price for a whole silo, and a clip that holds for any weights."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp
from hypothesis import given, settings
from hypothesis import strategies as st

from feddep.learning.updates import noised_update
from feddep.privacy.noised_updates import SLACK, gaussian_delta, silo_epsilon

CASES = [(2.0, 50, 1e-5), (15.3, 50, 1e-5), (10.0, 1, 1e-7), (100.0, 10, 1e-9), (0.5, 3, 1e-5)]


@pytest.mark.parametrize(("noise", "rounds", "delta"), CASES)
def test_the_price_is_that_of_gaussians_of_sensitivity_2c(noise, rounds, delta):
    """dp_accounting's noise multiplier is for sensitivity 1, so that 2C has half of it."""
    step = dp_accounting.GaussianDpEvent(noise / 2)
    exact = pld.PLDAccountant(value_discretization_interval=1e-3)
    exact.compose(step, rounds)
    renyi = rdp.RdpAccountant()
    renyi.compose(step, rounds)
    found = silo_epsilon(noise, rounds, delta)
    assert found == pytest.approx(exact.get_epsilon(delta), rel=2e-3)
    assert found <= renyi.get_epsilon(delta)


def test_without_noise_without_rounds_and_without_a_delta():
    assert silo_epsilon(0.0, 5, 1e-5) == math.inf
    assert silo_epsilon(2.0, 5, 0.0) == math.inf
    assert silo_epsilon(0.0, 0, 1e-5) == 0


def test_the_attack_that_attains_it():
    """Replacing all data turns the change around; a threshold test then wins what δ(ε) allows."""
    rng = np.random.default_rng(0)
    noise, draws = 4.0, 400_000
    first, second = (rng.normal(side, noise, draws) for side in (1.0, -1.0))
    mu = 2 / noise
    for epsilon in (0.0, 0.5):
        threshold = noise * epsilon / mu
        won = (first > threshold).mean() - math.exp(epsilon) * (second > threshold).mean()
        assert won == pytest.approx(gaussian_delta(mu, epsilon), abs=5e-3)


@settings(max_examples=60, deadline=None)
@given(
    exponent=st.integers(-30, 38),
    size=st.integers(1, 3000),
    clip=st.sampled_from([1e-3, 0.1, 1.0]),
    kind=st.sampled_from(["normal", "equal", "one large", "inf", "nan"]),
)
def test_no_change_is_longer_than_the_clip_norm(exponent, size, clip, kind):
    rng = np.random.default_rng(size)
    with np.errstate(over="ignore"):
        after = (10.0**exponent * rng.standard_normal(size)).astype(np.float32)
    if kind == "equal":
        after[:] = np.float32(10.0**exponent)
    if kind in ("one large", "inf", "nan"):
        after[0] = {"one large": 3e38, "inf": np.inf, "nan": np.nan}[kind]
    before = {"w": np.zeros(size, np.float32)}
    sent = noised_update(before, {"w": after}, clip=clip, noise=0.0, rng=np.random.default_rng(0))
    length = np.linalg.norm(sent["w"].astype(np.float64))
    assert length <= clip * (1 + SLACK), "and so it is a number"
