"""A trained classifier in a user's hands."""

import numpy as np
import pytest
import torch

from agreement import assert_agree
from feddep.errors import InputError
from feddep.graph.graph import Graph
from feddep.learning.classifier import Classifier
from feddep.learning.evaluation import predict
from feddep.models.kernels import FeatureTable
from feddep.models.weights import to_arrays


@pytest.fixture(scope="module")
def classifier(small_spec):
    return Classifier(small_spec, to_arrays(small_spec.classifier()))


def test_probabilities_are_the_softmax_of_the_scores(classifier, small_graph):
    table = FeatureTable(small_graph.features, torch.device("cpu"))
    scores = predict(classifier.spec.classifier(), small_graph, table).double().numpy()
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    found = classifier.probabilities(small_graph)
    assert found.shape == (small_graph.nodes, small_graph.classes)
    # A score's rounding is relative in its exponential, and all classes are added up.
    terms = 2 * np.abs(scores).max() + small_graph.classes + 2
    assert_agree(found, expected, terms=terms)


def test_the_prediction_is_the_most_probable_class(classifier, small_graph):
    found = classifier.predict(small_graph)
    assert np.array_equal(found, classifier.probabilities(small_graph).argmax(axis=1))
    assert len(np.unique(found)) > 1


def test_it_uses_its_own_weights_and_not_the_initial_ones(classifier, small_graph):
    flat = {name: np.zeros_like(array) for name, array in classifier.weights.items()}
    found = Classifier(classifier.spec, flat).probabilities(small_graph)
    assert_agree(found, 1 / small_graph.classes, terms=small_graph.classes + 1)


def test_it_can_be_used_on_a_graph_that_it_never_saw(classifier, small_graph):
    part = small_graph.subgraph([5, 3, 8])
    assert classifier.predict(part).shape == (3,)


def test_a_graph_with_other_features_is_refused(classifier):
    graph = Graph.from_edges([], np.ones((2, 4)), [0, 1])
    with pytest.raises(InputError, match=r"trained on 60 features \(got a graph with 4\)"):
        classifier.predict(graph)


@pytest.mark.parametrize("given", [None, "cora", np.ones((2, 60))], ids=["none", "name", "array"])
def test_what_is_no_graph_is_refused(classifier, given):
    for use in (classifier.predict, classifier.probabilities):
        with pytest.raises(InputError, match=rf"a Graph .*\(got {type(given).__name__}\)"):
            use(given)


def test_it_is_shown_in_one_line_without_its_weights(classifier):
    count = sum(array.size for array in classifier.weights.values())
    assert repr(classifier) == f"Classifier(classes=3, features=60, weights={count})"
