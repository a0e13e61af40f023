"""A classifier as an ONNX file, for programs without this library.

The file takes nodes with their neighbourhoods laid out as trees of a fixed depth, one level for
each convolution: the features of a node, of its neighbours, of their neighbours. Lists of different
lengths are padded, and a mask says which entries are there. Missing neighbours are not generated
(z̄ = 0, the paper's inference). ``onnx`` is optional: ``pip install 'feddep[onnx]'``.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from feddep.errors import InputError
from feddep.graph.graph import Graph
from feddep.learning.classifier import Classifier
from feddep.runs.files import write_atomically

Floats = npt.NDArray[np.float32]

OPSET, FORMAT = 17, 8
"""Of 2022: what most programs that read ONNX know."""

OUTPUT = "probabilities"


def features_at(level: int) -> str:
    """The input with the features of the nodes that are so many steps away."""
    return f"features_{level}"


def present_at(level: int) -> str:
    """The input that is 1 where there is such a node, and 0 where a list was padded."""
    return f"present_{level}"


def export_onnx(classifier: Classifier, file: Path, about: dict[str, Any] | None = None) -> None:
    """Writes a classifier as an ONNX file.

    Args:
        classifier: to be written.
        file: a name that ends in ``.onnx``.
        about: what else to say in the file's metadata, as JSON.

    Raises:
        InputError: onnx is not installed, or the classifier reads more than features.
    """
    if file.suffix != ".onnx":
        raise InputError(f"expected a file that ends in .onnx (got {file})")
    if classifier.spec.privacy.sums:
        raise InputError(
            "this classifier reads sums over neighbours that each silo makes with an encoder of "
            "its own (aggregation perturbation), so its weights alone do not predict"
        )
    onnx = _onnx()
    if classifier.spec.model.reads_flows:
        raise InputError(
            "this classifier reads direction or weight of edges, which the ONNX file has no input "
            "for; use feddep predict"
        )
    model = onnx.helper.make_model(
        _Network(onnx, classifier).graph(),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=FORMAT,
        producer_name="feddep",
    )
    onnx.helper.set_model_props(model, _told(classifier, about or {}))
    onnx.checker.check_model(model, full_check=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, model.SerializeToString())


def neighbourhoods(graph: Graph, nodes: Sequence[int], levels: int) -> dict[str, Floats]:
    """What the ONNX file takes for some nodes of a graph, by the names of its inputs.

    Each level is padded to its longest list, so memory grows with the product of these lengths;
    take a few nodes at a time where some have thousands of neighbours.

    Args:
        graph: with the columns of the run.
        nodes: numbers of the nodes to predict.
        levels: convolutions of the classifier.
    """
    places = np.asarray(nodes, np.int64)
    present = np.ones(places.shape, bool)
    found = {features_at(0): _rows(graph, places, present)}
    for level in range(1, levels + 1):
        places, present = _neighbours(graph, places, present)
        found[features_at(level)] = _rows(graph, places, present)
        found[present_at(level)] = present.astype(np.float32)
    return found


def _neighbours(
    graph: Graph, places: npt.NDArray[np.int64], present: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The neighbours of nodes in a new last dimension, and which of these entries are there."""
    first = graph.indptr[places]
    count = np.where(present, graph.indptr[places + 1] - first, 0)
    step = np.arange(max(int(count.max(initial=0)), 1))
    there = step < count[..., None]
    entry = np.where(there, first[..., None] + step, 0)
    lists = graph.indices if len(graph.indices) else np.zeros(1, np.int32)
    return np.where(there, lists[entry], 0).astype(np.int64), there


def _rows(graph: Graph, places: npt.NDArray[np.int64], present: npt.NDArray[np.bool_]) -> Floats:
    rows = graph.features[places.ravel()]
    dense = rows.toarray() if sp.issparse(rows) else np.asarray(rows)
    shaped = dense.reshape(*places.shape, graph.feature_count) * present[..., None]
    return shaped.astype(np.float32)


class _Network:
    """The nodes of the ONNX graph, named by what they hold: ``h_1_at_0`` and the like."""

    def __init__(self, onnx: Any, classifier: Classifier) -> None:
        self.onnx, self.helper = onnx, onnx.helper
        self.classifier = classifier
        self.levels = classifier.spec.model.layers
        self.weights: list[Any] = []
        self.nodes: list[Any] = []

    def graph(self) -> Any:
        """The whole computation."""
        for name, array in self.classifier.weights.items():
            if not name.endswith("embedding"):  # z̄ = 0
                self._constant(name, array)
        self._constant("last_axis", np.array([-1], np.int64))
        self._constant("axis_of_neighbours", np.array([-2], np.int64))
        self._constant("one", np.ones(1, np.float32))
        states = [self._input_layer(level) for level in range(self.levels + 1)]
        for layer in range(self.levels):
            states = [
                self._convolution(layer, level, states[level], states[level + 1])
                for level in range(len(states) - 1)
            ]
        self._add("Cast", [states[0]], "scores", to=self.onnx.TensorProto.DOUBLE)
        self._add("Softmax", ["scores"], OUTPUT, axis=-1)
        classes = self.classifier.spec.classes
        output = self._value(OUTPUT, ["nodes", classes], self.onnx.TensorProto.DOUBLE)
        return self.helper.make_graph(
            self.nodes, "feddep", self._inputs(), [output], initializer=self.weights
        )

    def _inputs(self) -> list[Any]:
        kind, columns = self.onnx.TensorProto.FLOAT, self.classifier.spec.features
        found, shape = [], ["nodes"]
        for level in range(self.levels + 1):
            if level:
                shape = [*shape, f"neighbours_{level}"]
                found.append(self._value(present_at(level), shape, kind))
            found.append(self._value(features_at(level), [*shape, columns], kind))
        return found

    def _input_layer(self, level: int) -> str:
        name = f"h_0_at_{level}"
        product = self._add("MatMul", [features_at(level), "features"], f"{name}_product")
        return self._relu(self._add("Add", [product, "bias"], f"{name}_sum"), name)

    def _convolution(self, layer: int, level: int, own: str, beyond: str) -> str:
        name, parts = f"h_{layer + 1}_at_{level}", f"convolutions.{layer}"
        mean = self._mean(name, level, own, beyond)
        found = self._add("MatMul", [mean, f"{parts}.neighbours"], f"{name}_neighbours")
        if not self._closed:
            itself = self._add("MatMul", [own, f"{parts}.own"], f"{name}_own")
            found = self._add("Add", [found, itself], f"{name}_both")
        found = self._add("Add", [found, f"{parts}.bias"], f"{name}_sum")
        return found if layer == self.levels - 1 else self._relu(found, name)

    @property
    def _closed(self) -> bool:
        return self.classifier.spec.model.form == "closed"

    def _mean(self, name: str, level: int, own: str, beyond: str) -> str:
        """Of the neighbours that are there, with the node itself in the closed form; else 0."""
        mask = present_at(level + 1)
        spread = self._add("Unsqueeze", [mask, "last_axis"], f"{name}_mask")
        shown = self._add("Mul", [beyond, spread], f"{name}_shown")
        total = self._add("ReduceSum", [shown, "axis_of_neighbours"], f"{name}_total", keepdims=0)
        count = self._add("ReduceSum", [mask, "last_axis"], f"{name}_count", keepdims=1)
        if self._closed:
            total = self._add("Add", [total, own], f"{name}_closed_total")
            count = self._add("Add", [count, "one"], f"{name}_closed_count")
        else:
            count = self._add("Max", [count, "one"], f"{name}_counted")
        return self._add("Div", [total, count], f"{name}_mean")

    def _relu(self, value: str, name: str) -> str:
        return self._add("Relu", [value], name)

    def _add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(self.helper.make_node(kind, inputs, [output], output, **attributes))
        return output

    def _constant(self, name: str, array: npt.NDArray[Any]) -> None:
        self.weights.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))

    def _value(self, name: str, shape: Sequence[str | int], kind: int) -> Any:
        return self.helper.make_tensor_value_info(name, kind, list(shape))


def _told(classifier: Classifier, about: dict[str, Any]) -> dict[str, str]:
    schema = classifier.schema
    told = {} if schema is None else {"classes": list(schema.classes), "schema": schema.to_plain()}
    return {name: json.dumps(value) for name, value in (told | about).items()}


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise InputError("onnx is not installed; pip install 'feddep[onnx]'") from None
    return onnx
