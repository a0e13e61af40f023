"""Two computations agree whatever the order they add in, and disagree if one is wrong."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agreement import absolute, agreeing, assert_agree, assert_weights_agree, forward_terms
from feddep.graph.graph import Graph
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, ModelSpec, initialise
from feddep.seeding import Seeds

CPU = torch.device("cpu")


def one_by_one(terms, dtype):
    total = dtype(0)
    for term in terms:
        total += term
    return total


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(st.integers(0, 10**6), st.integers(1, 300))
def test_sums_in_any_order_agree(dtype, seed, count):
    terms = np.random.default_rng(seed).normal(size=count).astype(dtype)
    scale = np.abs(terms).sum()
    expected = terms.sum()
    for order in (terms, terms[::-1], np.sort(terms)):
        assert_agree(one_by_one(order, dtype), expected, terms=count, scale=scale)


def test_terms_that_cancel_agree_in_units_of_the_terms_and_not_of_the_result():
    terms = np.array([1e4, 0.1, -1e4], np.float32)
    forth, back = one_by_one(terms, np.float32), one_by_one(terms[[0, 2, 1]], np.float32)
    assert not agreeing(forth, back, terms=3)
    assert_agree(forth, back, terms=3, scale=np.abs(terms).sum())


def test_a_term_that_is_missing_or_counted_twice_is_noticed():
    terms = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    scale = np.abs(terms).sum()
    for wrong in (terms[1:], np.append(terms, terms[0])):
        with pytest.raises(AssertionError, match="1 of 1 differ by more than rounding"):
            assert_agree(wrong.sum(), terms.sum(), terms=1000, scale=scale)


@pytest.mark.parametrize("actual", [[1.0, np.nan], [1.0, np.inf], [1.0, 2.1]])
def test_the_message_names_the_worst(actual):
    with pytest.raises(AssertionError, match=r"weights: 1 of 2 .* at \(1,\)"):
        assert_agree(actual, [1.0, 2.0], terms=1, name="weights")


@pytest.mark.parametrize("expected", [[1.0], [[1.0, 1.0]], [1.0, 1.0, 1.0]])
def test_other_shapes_do_not_agree(expected):
    with pytest.raises(AssertionError):
        assert_agree([1.0, 1.0], expected, terms=1)


def test_without_a_scale_zero_is_zero():
    assert agreeing([0.0, 1e-300], 0, terms=100).tolist() == [True, False]


def test_the_coarser_of_two_types_counts_unless_it_is_said():
    near = 1 + 4 * float(np.finfo(np.float32).eps)
    assert agreeing(np.float32(near), 1.0, terms=4)
    assert not agreeing(near, 1.0, terms=4)
    assert agreeing(near, 1.0, terms=4, precision=np.float32)


def test_weights_have_the_scale_of_the_largest():
    expected = {"large": np.full(3, 8, np.float32), "small": np.zeros(2, np.float32)}
    unit = 8 * np.finfo(np.float32).eps
    within, beyond = (expected | {"small": np.full(2, n * unit, np.float32)} for n in (3, 5))
    assert_weights_agree(within, expected, terms=4)
    with pytest.raises(AssertionError, match="small"):
        assert_weights_agree(beyond, expected, terms=4)
    with pytest.raises(AssertionError):
        assert_weights_agree({"large": expected["large"]}, expected, terms=4)


def test_a_single_weight_of_the_wrong_sign_is_noticed():
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(
        rng.integers(0, 30, (80, 2)), rng.random((30, 40), np.float32), rng.integers(0, 3, 30)
    )
    model = FusedSage(ModelSpec(hidden=16), 40, 3)
    initialise(model, Seeds(0))
    table = FeatureTable(graph.features, CPU)
    scores, scale = (each.score_all(table, graph) for each in (model, absolute(model)))
    assert (scale >= scores.abs()).all()
    with torch.no_grad():
        model.features[0, 0] *= -1
    wrong = model.score_all(table, graph)
    terms = forward_terms(model, int(graph.degrees.max()))
    assert not agreeing(wrong, scores, terms=terms, scale=scale).all()
