"""The two products against numpy, against their torch versions, and as linear maps."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from agreement import assert_agree
from feddep.graph.sampling import Block
from feddep.models import kernels
from feddep.models.kernels import (
    FeatureTable,
    mean_of_neighbours,
    portable_mean_of_neighbours,
    sparse_rows_product,
)

CPU = torch.device("cpu")

# Four nodes, three words; node 2 has none.
WORDS = np.array([[1, 0, 2], [0, 3, 0], [0, 0, 0], [1, 1, 1]], np.float32)
WEIGHT = np.array([[1, 10], [2, 20], [3, 30]], np.float32)

# Three targets of five sources: 0 hears 1 and 4, 1 hears nobody, 2 hears 3 twice and itself.
BLOCK = Block(np.array([0, 2, 2, 5]), np.array([1, 4, 3, 3, 2], np.int32), 3)
ROWS = np.array([[1, 2], [3, 4], [5, 6], [7, 8], [9, 12]], np.float32)


def table(features=WORDS, *, sparse=True):
    return FeatureTable(sp.csr_array(features) if sparse else features, CPU)


def tensor(array, **options):
    return torch.tensor(array, dtype=torch.float32, **options)


def random_block(rng, targets=20, sources=35, most=6):
    counts = rng.integers(0, most, targets)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return Block(indptr, rng.integers(0, sources, indptr[-1]).astype(np.int32), targets)


def gradient_of(function, x, upstream):
    x = tensor(x, requires_grad=True)
    function(x).backward(tensor(upstream))
    return x.grad.numpy()


class TestFeatureTable:
    @pytest.mark.parametrize("sparse", [True, False])
    def test_product_of_some_rows(self, sparse):
        product = table(sparse=sparse).times(np.array([3, 2, 0, 3]), tensor(WEIGHT))
        assert product.tolist() == [[6, 60], [0, 0], [7, 70], [6, 60]]

    @pytest.mark.parametrize("sparse", [True, False])
    def test_gradient_gathers_from_every_row_that_was_asked_for(self, sparse):
        nodes = np.array([3, 2, 0, 3])
        upstream = [[1, 0], [5, 5], [0, 1], [1, 2]]
        gradient = gradient_of(lambda w: table(sparse=sparse).times(nodes, w), WEIGHT, upstream)
        assert gradient.tolist() == (WORDS[nodes].T @ np.array(upstream)).tolist()

    @pytest.mark.parametrize("sparse", [True, False])
    def test_product_of_no_rows_is_empty(self, sparse):
        product = table(sparse=sparse).times(np.empty(0, np.int64), tensor(WEIGHT))
        assert product.shape == (0, 2)

    def test_an_expanded_gradient_is_understood(self):
        # sum() hands back one number with stride zero.
        weight = tensor(WEIGHT, requires_grad=True)
        table().times(np.array([0, 1]), weight).sum().backward()
        assert weight.grad.tolist() == [[1, 1], [3, 3], [2, 2]]

    def test_a_transposed_weight_is_understood(self):
        stored = tensor(WEIGHT.T.copy())
        product = table().times(np.array([0]), stored.T)
        assert product.tolist() == [[7, 70]]

    def test_sparse_features_are_used_where_they_lie(self):
        features = sp.csr_array(WORDS)
        found = FeatureTable(features, CPU)
        features.data[0] = 100
        assert found.times(np.array([0]), tensor(WEIGHT)).tolist() == [[106, 1060]]

    def test_the_portable_version_gives_the_same_numbers_and_gradients(self):
        rng = np.random.default_rng(0)
        features = sp.random_array((40, 30), density=0.2, rng=rng, dtype=np.float32).tocsr()
        nodes = rng.integers(0, 40, 50)
        weight = rng.standard_normal((30, 7)).astype(np.float32)
        upstream = rng.standard_normal((50, 7))
        moved = [torch.tensor(a.astype(np.int64)) for a in (features.indptr, features.indices)]

        def fast(w):
            return FeatureTable(features, CPU).times(nodes, w)

        def portable(w):
            return sparse_rows_product(
                *moved, torch.tensor(features.data), torch.from_numpy(nodes), w
            )

        # A row has at most 30 words, and at most 50 rows have a word.
        product = {"terms": 30, "scale": abs(features[nodes]) @ abs(weight)}
        assert_agree(fast(tensor(weight)), portable(tensor(weight)), **product)
        assert_agree(fast(tensor(weight)), features[nodes] @ weight, **product)
        ours, theirs = (gradient_of(f, weight, upstream) for f in (fast, portable))
        assert_agree(ours, theirs, terms=50, scale=abs(features[nodes]).T @ abs(upstream))


class TestMeanOfNeighbours:
    @pytest.mark.parametrize("mean", [mean_of_neighbours, portable_mean_of_neighbours])
    def test_open_neighbourhood(self, mean):
        found = mean(tensor(ROWS), BLOCK, closed=False)
        assert_agree(found, [[6, 8], [0, 0], [19 / 3, 22 / 3]], terms=4)

    @pytest.mark.parametrize("mean", [mean_of_neighbours, portable_mean_of_neighbours])
    def test_closed_neighbourhood_counts_the_node_itself(self, mean):
        found = mean(tensor(ROWS), BLOCK, closed=True)
        assert_agree(found, [[13 / 3, 6], [3, 4], [6, 7]], terms=4)

    @pytest.mark.parametrize("mean", [mean_of_neighbours, portable_mean_of_neighbours])
    @pytest.mark.parametrize(
        ("closed", "expected"),
        [
            # Client 0 gives 6 to be shared by two, node 2 gives 12 to be shared by three.
            (False, [0, 3, 4, 8, 3]),
            # Now by three and by four, and node 1 keeps its 100.
            (True, [2, 102, 6, 6, 2]),
        ],
    )
    def test_gradient_is_shared_out_among_the_sources(self, mean, closed, expected):
        found = gradient_of(
            lambda x: mean(x, BLOCK, closed=closed), ROWS[:, :1], [[6], [100], [12]]
        )
        assert_agree(found.ravel(), expected, terms=4)

    @pytest.mark.parametrize("closed", [False, True])
    def test_the_portable_version_gives_the_same_numbers_and_gradients(self, closed):
        rng = np.random.default_rng(1)
        block = random_block(rng)
        x, upstream = rng.standard_normal((35, 9)), rng.standard_normal((20, 9))

        def fast(rows):
            return mean_of_neighbours(rows, block, closed=closed)

        def portable(rows):
            return portable_mean_of_neighbours(rows, block, closed=closed)

        # Lists have at most five nodes; a node may be in each of twenty, twice and more.
        assert_agree(fast(tensor(x)), portable(tensor(x)), terms=7, scale=fast(tensor(abs(x))))
        ours, theirs = (gradient_of(f, x, upstream) for f in (fast, portable))
        assert_agree(ours, theirs, terms=40, scale=gradient_of(fast, x, abs(upstream)))

    def test_rows_that_are_not_contiguous_are_understood(self):
        rows = tensor(ROWS.T.copy()).T
        assert torch.equal(mean_of_neighbours(rows, BLOCK), mean_of_neighbours(tensor(ROWS), BLOCK))


@given(st.integers(0, 10**6), st.booleans())
def test_gradients_agree_with_finite_differences(seed, closed):
    """A linear map's difference quotient is its derivative for any step, so a step of 1 is fine."""
    rng = np.random.default_rng(seed)
    block = random_block(rng, targets=4, sources=6, most=4)
    nodes = rng.integers(0, len(WORDS), 5)
    cases = [
        (lambda x: mean_of_neighbours(x, block, closed=closed), (6, 2), (4, 2)),
        (lambda w: table().times(nodes, w), (3, 2), (5, 2)),
    ]
    for function, shape, out in cases:
        x, step = rng.standard_normal((2, *shape)).astype(np.float32)
        upstream = rng.standard_normal(out).astype(np.float32)
        quotient = ((function(tensor(x + step)) - function(tensor(x))).numpy() * upstream).sum()
        reached = function(tensor(abs(x) + abs(step))).numpy()
        assert_agree(
            (gradient_of(function, x, upstream) * step).sum(),
            quotient,
            terms=40,  # at most 6 on the way, 12 entries of a gradient, and a difference
            scale=2 * (reached * abs(upstream)).sum(),
        )


@given(st.integers(0, 10**6))
def test_column_by_column_gives_the_same_bits_as_row_by_row(seed):
    rng = np.random.default_rng(seed)
    words = sp.random_array((9, 30), density=0.3, rng=rng, dtype=np.float32)
    nodes = rng.permutation(9)[:6]
    start = rng.standard_normal((30, 5)).astype(np.float32)
    upstream = tensor(rng.standard_normal((6, 5)))
    found = []
    for cache in (0, 1 << 20):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "_CACHE", cache)
            weight = torch.tensor(start, requires_grad=True)
            product = FeatureTable(sp.csr_array(words), CPU).times(nodes, weight)
            (gradient,) = torch.autograd.grad(product, weight, upstream)
            found.append((product.detach().numpy(), gradient.numpy()))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
