"""Clipped and noised updates: what a client sends in place of its trained weights."""

import math

import numpy as np

from feddep.models.weights import Weights


def noised_update(
    before: Weights, after: Weights, *, clip: float, noise: float, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """``before`` plus the change since, clipped to norm C, plus N(0, (σC)²) on every number.

    Args:
        before: the weights that the client was sent.
        after: the weights that it has trained.
        clip: C, the largest norm of the change over all weights together.
        noise: σ, noise multiplier.
        rng: for the noise.
    """
    change = {name: after[name] - before[name] for name in after}
    norm = math.sqrt(sum(float(np.vdot(array, array)) for array in change.values()))
    scale = np.float32(min(1.0, clip / max(norm, 1e-12)))
    spread = np.float32(noise * clip)
    return {
        name: before[name]
        + scale * array
        + spread * rng.standard_normal(array.shape, dtype=np.float32)
        for name, array in change.items()
    }
