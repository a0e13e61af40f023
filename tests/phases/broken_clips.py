"""Clips as they were before a server broke them, to show that the attacks find what is there.

Both are written out in numbers that come out the same on every processor: sums are rounded once
(``math.fsum``), or taken in a fixed order.
"""

import math

import numpy as np


def multiplying(examples, products, sparse, clip):
    """Scales what overflows by C/∞: 0 · ∞ is no number, and everybody sees that."""
    for own, norm in _examples(examples, products, sparse, _norm):
        with np.errstate(all="ignore"):
            share = np.float32(min(1.0, clip / norm) if norm == norm else math.nan)
            _add(products, own, share)


def from_products_of_rows(examples, products, sparse, clip):
    """Measures ‖Aᵀ G‖² as ⟨AAᵀ, GGᵀ⟩ in single precision; below 0 it counts as 0."""
    for own, norm in _examples(examples, products, sparse, _norm_of_grams):
        _add(products, own, np.float32(clip / norm if norm > clip else 1.0))


def _examples(examples, products, sparse, measure):
    assert not len(sparse.total), "features are dense here"
    for example in range(examples):
        parts = []
        for product in products:
            rows = product.order[product.starts[example] : product.starts[example + 1]]
            parts.append((product.inputs[rows], product.slopes[rows]))
        with np.errstate(all="ignore"):
            own = [inputs.T @ slopes for inputs, slopes in parts]
            yield own, measure(parts, own)


def _add(products, own, share):
    for product, gradient in zip(products, own, strict=True):
        product.total[...] += share * gradient


def _norm(parts, own):
    return math.sqrt(sum(float((gradient.astype(np.float64) ** 2).sum()) for gradient in own))


def _norm_of_grams(parts, own):
    square = sum(_product_of_grams(inputs, slopes) for inputs, slopes in parts)
    return math.sqrt(max(0.0, float(square)))


def _product_of_grams(inputs, slopes):
    terms = (_gram(inputs) * _gram(slopes)).ravel()
    return np.add.accumulate(terms, dtype=np.float32)[-1] if len(terms) else np.float32(0)


def _gram(rows):
    wide = rows.astype(np.float64)  # a product of two single-precision numbers is exact in it
    found = [[math.fsum(one * other) for other in wide] for one in wide]
    return np.array(found, np.float32).reshape(len(rows), len(rows))
