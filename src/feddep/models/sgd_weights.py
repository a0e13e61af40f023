"""The weights of a GraphSAGE as arrays, for gradients worked out by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from feddep.models.sage import Convolution, FusedSage
from feddep.models.sgd_layers import Layer

Floats = npt.NDArray[np.float32]
Array = npt.NDArray[Any]

_ABSENT = np.empty((0, 0), np.float32)


class Head(NamedTuple):
    """A linear layer between tanh of the model's outputs and the classes."""

    weight: nn.Parameter
    bias: nn.Parameter


class Rows(NamedTuple):
    """Sparse features, row after row."""

    indptr: Array
    columns: Array
    values: Floats

    @classmethod
    def of(cls, features: Any) -> "Rows":
        """The rows of a sparse table."""
        return cls(features.indptr, features.indices, features.data)


@dataclass(frozen=True, eq=False)
class Weights:
    """All weights of a model, or arrays of the same shapes."""

    input: Layer
    layers: Sequence[Layer]
    head: tuple[Floats, Floats] | None

    @classmethod
    def of(cls, model: FusedSage, head: Head | None, *, with_missing: bool) -> "Weights":
        """The model's own memory; without ``with_missing`` its embeddings' part is left out."""
        return cls(
            _layer(model, with_missing),
            [_layer(cast(Convolution, c), with_missing) for c in model.convolutions],
            None if head is None else (_array(head.weight), _array(head.bias)),
        )

    def arrays(self) -> list[Floats]:
        """Every array, in a fixed order."""
        layers = (self.input, *self.layers)
        return [*(array for layer in layers for array in layer), *(self.head or ())]

    def zeros(self, kind: npt.DTypeLike = np.float32) -> "Weights":
        """Zeros of the same shapes."""

        def like(array: Floats) -> Floats:
            return np.zeros(array.shape, kind)

        return Weights(
            Layer(*map(like, self.input)),
            [Layer(*map(like, layer)) for layer in self.layers],
            None if self.head is None else (like(self.head[0]), like(self.head[1])),
        )


def _array(weight: Tensor | None) -> Floats:
    """A weight's own memory."""
    if weight is None:
        return _ABSENT
    found: Floats = weight.detach().numpy()
    return found


def _layer(layer: FusedSage | Convolution, with_missing: bool) -> Layer:
    """A layer's weights, the model's own memory."""
    embedding = _array(layer.embedding if with_missing else None)
    if isinstance(layer, FusedSage):
        return Layer(_array(layer.features), _ABSENT, _array(layer.bias), embedding)
    return Layer(_array(layer.neighbours), _array(layer.own), _array(layer.bias), embedding)
