"""Whatever a peer sends, it passes or is refused: nothing else can happen to whoever looks."""

from dataclasses import replace

import numpy as np
from declared import ASKED, EXPECTED, HONEST, SHARED, SPARSE, TRAINED, WEIGHTS
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from feddep.federation.inspection import InspectionError, inspect_reply, inspect_request
from feddep.federation.messages import Reply, Request

# Anything at all, in every place where a peer could put it.
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
dtypes = st.sampled_from(
    [
        np.float32,
        np.float64,
        np.float16,
        np.int8,
        np.int64,
        np.uint64,
        bool,
        object,
        "S2",
        ">f4",
        "M8[s]",
    ]
)
arrays = st.one_of(
    hnp.arrays(dtypes.filter(lambda dtype: dtype is not object), shapes),
    shapes.map(lambda shape: np.full(shape, None)),
)
plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.just(5000).map(lambda digits: 10**digits),
)
names = st.one_of(
    st.sampled_from(
        [
            *WEIGHTS, *SPARSE, *SHARED, *TRAINED, "prototypes", "features/rows", "gradients/1",
            "gradients/1/hidden", "nodes", "neighbours", "added/links", "embeddings", "foreign/0",
        ]
    ),
    st.text(alphabet="ab/1", max_size=4),
    st.integers(0, 3),
)  # fmt: skip


@st.composite
def corrupted(draw, honest, value):
    """A mapping with some entries dropped, exchanged or added, or something else in its place."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.one_of(plain, st.lists(plain, max_size=2)))
    kept = {name: v for name, v in honest.items() if draw(st.integers(0, 4))}
    return kept | draw(st.dictionaries(names, st.one_of(value, plain), max_size=3))


@given(st.sampled_from(HONEST), st.data())
def test_whatever_a_client_sends_it_passes_or_is_refused(pair, data):
    honest, request = pair
    reply = Reply(
        data.draw(st.one_of(st.just(2), plain)),
        data.draw(corrupted(honest.arrays, arrays)),
        data.draw(corrupted(honest.metrics, plain)),
    )
    try:
        inspect_reply(reply, request, EXPECTED)
    except InspectionError:
        return
    assert reply.client == 2
    assert all(np.isfinite(array).all() for array in reply.arrays.values())


@given(st.sampled_from(ASKED), st.data())
def test_whatever_a_server_asks_it_passes_or_is_refused(honest, data):
    def sometimes(value):
        return data.draw(st.one_of(st.just(value), st.just(value), plain))

    request = Request(
        sometimes(honest.client),
        sometimes(honest.phase),
        sometimes(honest.step),
        sometimes(honest.round),
        data.draw(corrupted(honest.arrays, arrays)),
    )
    try:
        inspect_request(request, EXPECTED)
    except InspectionError:
        return
    assert all(np.isfinite(array).all() for array in request.arrays.values())


@given(st.sampled_from(HONEST), st.data())
def test_a_single_changed_array_passes_only_in_a_form_that_is_expected(pair, data):
    """The likeliest lie: all is right but one array."""
    honest, request = pair
    if not honest.arrays:
        return
    name = data.draw(st.sampled_from(sorted(honest.arrays)))
    reply = replace(honest, arrays={**honest.arrays, name: data.draw(arrays)})
    try:
        inspect_reply(reply, request, EXPECTED)
    except InspectionError:
        return
    found, right = reply.arrays[name], honest.arrays[name]
    assert found.ndim == right.ndim
    assert found.dtype.kind == right.dtype.kind or found.dtype.kind in "iu"
