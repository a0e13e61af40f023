import numpy as np
import pytest

from feddep.learning.prototypes import EmbeddingSpec, find_prototypes, merge_small


def test_prototypes_are_the_means_of_their_clusters():
    rng = np.random.default_rng(0)
    centres = np.array([[5, 0], [0, 5], [-5, 0]], np.float32)
    points = np.repeat(centres, 20, axis=0) + rng.normal(0, 0.1, (60, 2)).astype(np.float32)
    found = find_prototypes(points, EmbeddingSpec(clusters=3), seed=1)
    assert len(found.centres) == 3
    for number, centre in enumerate(found.centres):
        np.testing.assert_allclose(points[found.cluster == number].mean(axis=0), centre, atol=1e-6)


def test_a_small_cluster_is_merged_into_the_nearest():
    points = np.array([[0.0], [0.2], [1.0], [9.0], [9.2]], np.float32)
    found = merge_small(points, np.array([0, 0, 1, 2, 2]), smallest=2)
    assert found.cluster.tolist() == [0, 0, 0, 1, 1]
    np.testing.assert_allclose(found.centres, [[0.4], [9.1]], rtol=1e-6)


def test_fewer_nodes_than_the_smallest_cluster_give_one_prototype():
    points = np.array([[1.0], [3.0]], np.float32)
    found = find_prototypes(points, EmbeddingSpec(clusters=5, smallest=5), seed=0)
    np.testing.assert_allclose(found.centres, [[2.0]])


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
