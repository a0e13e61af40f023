"""What a rare class counts: class weights and the focal loss.

The loss of a node of class y with probability p of being one is

    w_y (1 − p)^γ (−log p),

the cross-entropy where all w are 1 and γ is 0. A weight says how much a class counts; γ takes from
nodes that are told right already (Lin et al. 2017, "Focal Loss for Dense Object Detection").
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from numba import njit
from torch import Tensor
from torch.nn.functional import cross_entropy

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
ClassWeights = Literal["none", "balanced"]


@dataclass(frozen=True, eq=False)
class ClassLoss:
    """The loss of a batch: its nodes' mean.

    Attributes:
        weights: ``(k,)``, w of every class.
        focal: γ.
    """

    weights: Floats
    focal: float

    def of(self, scores: Tensor, labels: Tensor) -> Tensor:
        """For torch to differentiate."""
        losses = cross_entropy(scores, labels, reduction="none")
        weights = torch.from_numpy(self.weights).to(scores.device)[labels]
        return (weights * (-torch.expm1(-losses)) ** self.focal * losses).mean()


def class_loss(kind: ClassWeights, focal: float, labels: Longs, classes: int) -> ClassLoss | None:
    """The loss for training nodes with these labels; None where it is the cross-entropy.

    Balanced weights are n/(k n_y) with the k classes that there are: every class counts the same
    in all, and a node 1 in the mean, so that the learning rate keeps its meaning.
    """
    if kind == "none" and not focal:
        return None
    weights = np.ones(classes, np.float32)
    counts = np.bincount(labels, minlength=classes)
    if kind == "balanced" and len(labels):
        there = counts > 0
        weights[there] = len(labels) / (there.sum() * counts[there])
    return ClassLoss(weights, focal)


@njit(cache=True, nogil=True, boundscheck=False)
def weighted_loss(
    scores: Floats, labels: Longs, weights: Floats, focal: float
) -> tuple[float, Floats]:
    """The mean loss, and its gradient.

    With d = p − 1 at y and p_j elsewhere, the gradient of a node's loss is
    w d ((1 − p)^γ + γ (1 − p)^(γ−1) p (−log p)).
    """
    gradient = np.empty_like(scores)
    mean = 0.0
    for i in range(len(scores)):
        row, slope, label = scores[i], gradient[i], labels[i]
        highest = row.max()
        total = np.float32(0)
        for j in range(len(row)):
            slope[j] = np.exp(row[j] - highest)
            total += slope[j]
        loss = np.log(total) + highest - row[label]
        right = slope[label] / total
        rest = max(1.0 - right, 0.0)
        share = rest**focal
        steep = share
        if focal > 0 and rest > 0:
            steep += focal * rest ** (focal - 1) * right * loss
        mean += weights[label] * share * loss
        factor = np.float32(weights[label] * steep / len(scores))
        for j in range(len(row)):
            slope[j] *= factor / total
        slope[label] -= factor
    return mean / len(scores), gradient
