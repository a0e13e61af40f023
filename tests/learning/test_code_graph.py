"""Nearest codes of other silos, on a line."""

import numpy as np
import pytest

from agreement import assert_agree
from feddep.learning import code_graph
from feddep.learning.code_graph import nearest_elsewhere


def on_a_line(*silos):
    return [np.array(points, np.float32).reshape(-1, 1) for points in silos]


CODES = on_a_line([0, 10], [1, 2, 9], [-1.5, 11.5])


@pytest.mark.parametrize(
    ("silo", "k", "means"),
    [
        (0, 1, [1, 9]),
        (0, 2, [-0.25, 10.25]),  # of 1 and -1.5; of 9 and 11.5
        (0, 3, [0.5, 7.5]),  # and 2; and 2
        (1, 1, [0, 0, 10]),
        (2, 2, [0.5, 9.5]),  # of 0 and 1; of 10 and 9
    ],
)
def test_a_node_is_told_the_mean_of_the_k_nearest_codes_elsewhere(silo, k, means):
    assert_agree(nearest_elsewhere(CODES, silo, k).ravel(), means, terms=k + 1, scale=12)


def test_codes_of_the_own_silo_never_count():
    crowd = on_a_line([0, 0, 0.1, -0.1], [5, 7])
    assert nearest_elsewhere(crowd, 0, 1).ravel().tolist() == [5, 5, 5, 5]


def test_more_neighbours_than_there_are_codes_are_all_of_them():
    for k in (5, 6, 100):
        found = nearest_elsewhere(CODES, 0, k)
        expected = [(1 + 2 + 9 - 1.5 + 11.5) / 5] * 2
        assert_agree(found.ravel(), expected, terms=6, scale=25 / 5)


def test_a_silo_alone_gets_zeros():
    found = nearest_elsewhere(on_a_line([1, 2, 3]), 0, 5)
    assert found.tolist() == [[0], [0], [0]]


def test_distances_are_those_of_all_columns():
    codes = [np.array([[0, 0]], np.float32), np.array([[3, 0], [2, 2.5], [0, -3.1]], np.float32)]
    assert nearest_elsewhere(codes, 0, 1).tolist() == [[3, 0]]  # 9 against 10.25 and 9.61


@pytest.mark.parametrize(
    ("bound", "most"),
    [("_NODES_AT_ONCE", 2), ("_DISTANCES_AT_ONCE", 20), ("_DISTANCES_AT_ONCE", 1)],
)
def test_nodes_are_taken_some_at_a_time(monkeypatch, bound, most):
    rng = np.random.default_rng(0)
    codes = [rng.normal(size=(n, 3)).astype(np.float32) for n in (7, 5, 4)]
    whole = nearest_elsewhere(codes, 0, 3)
    monkeypatch.setattr(code_graph, bound, most)
    pool = np.concatenate(codes[1:])
    mean_of_three = {"terms": 4, "scale": np.abs(pool).max()}
    assert_agree(nearest_elsewhere(codes, 0, 3), whole, **mean_of_three)
    for node, found in zip(codes[0], whole, strict=True):
        nearest = np.argsort(((pool - node) ** 2).sum(axis=1))[:3]
        assert_agree(found, pool[nearest].mean(axis=0), **mean_of_three)
