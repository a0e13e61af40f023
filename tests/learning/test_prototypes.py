import numpy as np
import pytest

from agreement import assert_agree
from feddep.errors import DisclosureError
from feddep.learning.prototypes import (
    EmbeddingSpec,
    Prototypes,
    find_prototypes,
    merge_small,
    released,
)


def test_prototypes_are_the_means_of_their_clusters():
    rng = np.random.default_rng(0)
    centres = np.array([[5, 0], [0, 5], [-5, 0]], np.float32)
    points = np.repeat(centres, 20, axis=0) + rng.normal(0, 0.1, (60, 2)).astype(np.float32)
    found = find_prototypes(points, EmbeddingSpec(clusters=3), seed=1)
    assert len(found.centres) == 3
    for number, centre in enumerate(found.centres):
        inside = points[found.cluster == number]
        scale = np.abs(inside).mean(axis=0)
        assert_agree(centre, inside.mean(axis=0), terms=len(inside) + 1, scale=scale)


def test_a_small_cluster_is_merged_into_the_nearest():
    points = np.array([[0.0], [0.2], [1.0], [9.0], [9.2]], np.float32)
    found = merge_small(points, np.array([0, 0, 1, 2, 2]), smallest=2)
    assert found.cluster.tolist() == [0, 0, 0, 1, 1]
    assert_agree(found.centres, [[0.4], [9.1]], terms=5)  # of up to three, each rounded


def test_fewer_nodes_than_the_smallest_cluster_give_one_prototype():
    points = np.array([[1.0], [3.0]], np.float32)
    found = find_prototypes(points, EmbeddingSpec(clusters=5, smallest=5), seed=0)
    assert found.centres.tolist() == [[2.0]]


@pytest.mark.parametrize("clusters", [1, 4, 15])
def test_no_released_cluster_is_smaller_than_allowed(clusters):
    points = np.random.default_rng(3).normal(size=(47, 6)).astype(np.float32)
    found = find_prototypes(points, EmbeddingSpec(clusters=clusters, smallest=6), seed=0)
    assert len(found.centres) <= clusters
    assert np.bincount(found.cluster).min() >= 6


def test_the_same_seed_gives_the_same_prototypes():
    points = np.random.default_rng(3).normal(size=(80, 6)).astype(np.float32)
    one, two = (find_prototypes(points, EmbeddingSpec(), seed=2**127 + 5) for _ in range(2))
    np.testing.assert_array_equal(one.centres, two.centres)


def test_a_small_cluster_is_refused_at_the_point_of_release():
    found = Prototypes(np.zeros((2, 3), np.float32), np.array([0, 0, 0, 1]))
    with pytest.raises(DisclosureError, match="a prototype of 1 nodes"):
        released(found, EmbeddingSpec(smallest=2, width=3))
    alone = Prototypes(np.zeros((1, 3), np.float32), np.array([0]))
    assert released(alone, EmbeddingSpec(smallest=5, width=3)).shape == (1, 3)


@pytest.mark.parametrize(("bound", "expected"), [(0.5, [0.3, 0.4]), (5.0, [3.0, 4.0])])
def test_a_long_prototype_is_shortened_to_the_norm_bound(bound, expected):
    found = Prototypes(np.array([[3.0, 4.0]], np.float32), np.zeros(9, int))
    shown = released(found, EmbeddingSpec(norm_bound=bound, width=2))
    assert_agree(shown[0], expected, terms=6)  # a norm, a quotient, a product


def test_prototypes_of_features_have_no_bound_of_their_own():
    found = Prototypes(np.array([[30.0, 40.0]], np.float32), np.zeros(9, int))
    assert released(found, EmbeddingSpec(depth=0, width=2)).tolist() == [[30.0, 40.0]]
