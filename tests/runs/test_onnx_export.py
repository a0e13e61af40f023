"""A classifier as an ONNX file says what the classifier says, in another program."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from feddep.errors import InputError
from feddep.graph.graph import Graph
from feddep.graph.schema import Schema
from feddep.learning.classifier import Classifier
from feddep.models.sage import ModelSpec
from feddep.models.weights import to_arrays
from feddep.privacy.spec import PrivacySpec
from feddep.runs.onnx_export import export_onnx, neighbourhoods
from missing import ONNX

CLOSE = 1e-5  # of a probability: sums in single precision, in another order


def opened(file):
    onnxruntime = pytest.importorskip("onnxruntime", reason=ONNX)
    pytest.importorskip("onnx", reason=ONNX)
    return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])


def classifier_of(spec, **model):
    changed = replace(spec, model=ModelSpec(hidden=8, **model), fusion="all")
    rng = np.random.default_rng(0)
    weights = {
        name: (rng.normal(size=array.shape) / array.shape[0] ** 0.5).astype(np.float32)
        for name, array in to_arrays(changed.classifier()).items()
    }
    return Classifier(changed, weights)


@pytest.mark.parametrize("form", ["separate", "closed"])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_onnxruntime_finds_the_same_probabilities(small_graph, small_spec, tmp_path, form, layers):
    pytest.importorskip("onnx", reason=ONNX)
    classifier = classifier_of(small_spec, form=form, layers=layers)
    export_onnx(classifier, tmp_path / "model.onnx")
    session = opened(tmp_path / "model.onnx")
    nodes = [5, 0, 17, *range(20, 30)]
    (found,) = session.run(None, neighbourhoods(small_graph, nodes, layers))
    expected = classifier.probabilities(small_graph)[nodes]
    assert np.abs(found - expected).max() < CLOSE
    assert np.ptp(expected, axis=0).max() > 0.01


@pytest.mark.parametrize("form", ["separate", "closed"])
def test_a_node_without_neighbours_and_longer_padding_change_nothing(small_spec, tmp_path, form):
    pytest.importorskip("onnx", reason=ONNX)
    features = np.random.default_rng(1).normal(size=(4, 60)).astype(np.float32)
    graph = Graph.from_edges([(0, 1), (1, 2)], features, [0, 1, 2, 0])
    classifier = classifier_of(small_spec, form=form)
    export_onnx(classifier, tmp_path / "model.onnx")
    session = opened(tmp_path / "model.onnx")
    expected = classifier.probabilities(graph)
    for nodes in ([3], [0, 1, 2, 3]):
        (found,) = session.run(None, neighbourhoods(graph, nodes, 2))
        assert np.abs(found - expected[nodes]).max() < CLOSE
    padded = neighbourhoods(graph, [0], 2)
    for name, array in padded.items():
        if name.endswith("2"):  # something else where there is no node
            width = [(0, 0), (0, 0), (0, 3)] + [(0, 0)] * (array.ndim - 3)
            padded[name] = np.pad(array, width, constant_values=7 * ("features" in name))
    (found,) = session.run(None, padded)
    assert np.abs(found - expected[[0]]).max() < CLOSE


def test_names_travel_with_the_weights(small_spec, tmp_path):
    onnx = pytest.importorskip("onnx", reason=ONNX)
    schema = Schema.of_numbers([f"c{i}" for i in range(60)], ["a", "b", "c"])
    classifier = replace(classifier_of(small_spec), schema=schema)
    export_onnx(classifier, tmp_path / "m.onnx", {"threshold": 0.25})
    props = {p.key: json.loads(p.value) for p in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert props["classes"] == ["a", "b", "c"]
    assert props["threshold"] == 0.25
    assert Schema.from_plain(props["schema"]) == schema


def test_what_needs_more_than_features_is_refused(small_spec, tmp_path):
    summed = PrivacySpec(mechanism="aggregation-perturbation", epsilon=2.0)
    classifier = Classifier(replace(small_spec, privacy=summed), {})
    with pytest.raises(InputError, match="an encoder of its own"):
        export_onnx(classifier, tmp_path / "m.onnx")


def test_without_onnx_it_is_said_how_to_get_it(small_spec, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"pip install 'feddep\[onnx\]'"):
        export_onnx(classifier_of(small_spec), tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []
