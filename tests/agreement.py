"""What it means that two computations of the same numbers agree, on any processor.

Processors add in different orders, and some round once where others round twice (fused
multiply-add). Two computations agree if

    |actual - expected| ≤ k · ε · scale,    scale = Σ|term|,    k = min(n, 8 √n),

where n is the number of roundings on a number's longest way and ε the distance from 1 to the next
number. The scale is that of the terms and not of the result: a sum of large terms that cancel is
as far off as its terms are large. For a product x W it is |x| |W|; for layer upon layer, the same
formula on absolute values (:func:`absolute`); where all terms have one sign, the result itself.

Why k: whatever the order, a sum of n terms is off by at most n · ε/2 · Σ|term| (Higham, Accuracy
and Stability of Numerical Algorithms, section 4.2). Where there are many, they go either way and
add up like the steps of a random walk: λ √n · ε/2 is exceeded with probability 2 exp(-λ²/2)
(Higham and Mary, SIAM J. Sci. Comput. 41, 2019), for λ = 8 less than once in 10¹³ numbers. So a
test that finds this broken has found a mistake and not an unlucky order of summation.

What is copied, counted or computed by the same code is compared exactly, and what is drawn by the
spread of its distribution. A number worked out on paper is compared with ``pytest.approx`` if it
was computed in float64, where its 1e-6 is thousands of millions of roundings, and with
:func:`assert_agree` in float32, where it is eight.
"""

from collections.abc import Mapping
from copy import deepcopy
from math import ceil
from typing import Any

import numpy as np
import torch
from torch import nn

from feddep.learning.spec import LearningSpec
from feddep.models.sage import Convolution, FusedSage


def assert_agree(
    actual: Any,
    expected: Any,
    *,
    terms: float,
    scale: Any = None,
    precision: type[np.floating[Any]] | None = None,
    name: str = "",
) -> None:
    """Every number agrees; the arguments are those of :func:`agreeing`."""
    agree = agreeing(actual, expected, terms=terms, scale=scale, precision=precision)
    if agree.all():
        return
    apart = np.abs(_numbers(actual) - _numbers(expected))
    worst = np.unravel_index(np.argmax(np.where(agree, -1, apart)), agree.shape)
    raise AssertionError(
        f"{name or 'numbers'}: {np.count_nonzero(~agree)} of {agree.size} differ by more than "
        f"rounding; at {tuple(map(int, worst))} {_numbers(actual)[worst]!r} is "
        f"{apart[worst]:.3g} from what was expected"
    )


def agreeing(
    actual: Any,
    expected: Any,
    *,
    terms: float,
    scale: Any = None,
    precision: type[np.floating[Any]] | None = None,
) -> np.ndarray[Any, np.dtype[np.bool]]:
    """Which of the numbers agree.

    Args:
        actual: an array, a tensor or a number.
        expected: as many numbers, or one for all.
        terms: the number of roundings on a number's longest way.
        scale: Σ|term|, for every number or one for all; None where all terms have one sign, so
            that it is |expected|.
        precision: of the computation, if the numbers are held in a finer one (a float32 that
            became a Python number); None takes the coarser of the two.
    """
    one, other = _numbers(actual), _numbers(expected)
    assert other.ndim == 0 or one.shape == other.shape, (one.shape, other.shape)
    unit = max(map(_unit, (actual, expected))) if precision is None else np.finfo(precision).eps
    size = np.abs(other if scale is None else _numbers(scale))
    assert np.isfinite(size).all()
    return np.abs(one - other) <= min(terms, 8 * terms**0.5) * float(unit) * size


def assert_weights_agree(
    actual: Mapping[str, Any], expected: Mapping[str, Any], *, terms: float
) -> None:
    """Weights of two models agree after as many roundings.

    Every weight has its part in the gradient of every other, so all of them have one scale: the
    largest of them.
    """
    assert actual.keys() == expected.keys()
    scale = max(np.abs(_numbers(array)).max() for array in expected.values())
    for name, array in expected.items():
        assert_agree(actual[name], array, terms=terms, scale=scale, name=name)


def absolute(model: FusedSage) -> FusedSage:
    """The model with the absolute values of its weights.

    On absolute inputs it gives Σ|term| of every score: an error in a layer reaches the next by
    that layer's weights, and ReLU makes none larger.
    """
    copy = deepcopy(model)
    with torch.no_grad():
        for parameter in copy.parameters():
            parameter.abs_()
    return copy


def forward_terms(model: nn.Module, degree: int) -> int:
    """Roundings on the longest way through the model, with so many neighbours to each node."""
    rows = sum(len(parameter) + 1 for parameter in model.parameters() if parameter.ndim == 2)
    means = sum(isinstance(module, Convolution) for module in model.modules())
    return rows + means * (degree + 2)


def training_terms(model: nn.Module, degree: int, *, batch: int, steps: int = 1) -> int:
    """Roundings in steps of SGD: through the model, back again, and over the batch."""
    return steps * (2 * forward_terms(model, degree) + batch + 1)


def rounds_terms(spec: LearningSpec, nodes: int, rounds: int = 1) -> int:
    """Roundings in rounds of training F on so many nodes."""
    training = spec.training
    steps = rounds * training.local_epochs * ceil(nodes / training.batch_size)
    return training_terms(
        spec.classifier(), training.fanout, batch=training.batch_size, steps=steps
    )


def _numbers(given: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.asarray(_array(given), np.float64)


def _unit(given: Any) -> float:
    """ε of the type in which numbers are held; of whole numbers, that of float64."""
    kind = np.asarray(_array(given)).dtype
    return float(np.finfo(kind if kind.kind == "f" else np.float64).eps)


def _array(given: Any) -> Any:
    return given.detach().numpy() if isinstance(given, torch.Tensor) else given
