"""Clipped and noised updates: what a client sends in place of its trained weights."""

import math

import numpy as np

from feddep.models.weights import Weights
from feddep.privacy.noise import NoiseStream, with_noise
from feddep.privacy.noised_updates import SLACK


def noised_update(
    before: Weights, after: Weights, *, clip: float, noise: float, rng: NoiseStream
) -> dict[str, np.ndarray]:
    """``before`` plus the change since, clipped to norm C, plus N(0, (σC)²) on every number.

    Args:
        before: the weights that the client was sent.
        after: the weights that it has trained.
        clip: C, the largest norm of the change over all weights together.
        noise: σ, noise multiplier.
        rng: for the noise.
    """
    change = _clipped({name: after[name] - before[name] for name in after}, clip)
    return {
        name: with_noise(rng, array, noise * clip, before[name]) for name, array in change.items()
    }


def _clipped(change: Weights, clip: float) -> dict[str, np.ndarray]:
    """A change of norm C(1 + SLACK) at most, whatever it was; nothing if it is not finite.

    A server may send weights for which training overflows. A reply that is not finite would then
    tell about the data, noise or not.
    """
    with np.errstate(over="ignore"):
        norm = math.sqrt(sum(float(np.vdot(array, array)) for array in change.values()))
    if not math.isfinite(norm):
        return {name: np.zeros_like(array) for name, array in change.items()}
    scale = np.float32(min(1.0, clip / max(norm, 1e-12)))
    scaled = {name: scale * array for name, array in change.items()}
    # Sums of many single-precision squares may be off by more than the price allows for.
    exact = math.sqrt(sum(float((a.astype(np.float64) ** 2).sum()) for a in scaled.values()))
    if exact > clip * (1 + SLACK):
        shrink = np.float32(clip / exact)
        scaled = {name: shrink * array for name, array in scaled.items()}
    return scaled
