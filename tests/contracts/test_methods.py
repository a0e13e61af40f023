"""What every method must keep to, whatever its phases are."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import small_runs
from feddep.algorithms import METHODS, find_method
from feddep.errors import InputError, InterruptedRunError
from feddep.federation.messages import group, group_of
from feddep.graph.graph import Part
from feddep.learning.expansion import features_from
from feddep.runs import pipeline
from feddep.runs.folder import RunFolder
from feddep.runs.records import without_times
from feddep.scenario.build import client_graphs, learning_spec_for

ROUNDS = {"training.rounds": 3}
spec_of = partial(small_runs.spec_of, **ROUNDS)


@pytest.fixture(scope="module", params=METHODS)
def method(request):
    return find_method(request.param)


def test_a_borrowed_preset_is_that_of_a_method_with_one_of_its_own(method):
    if method.preset_of is not None:
        assert find_method(method.preset_of).preset_of is None


def run(method, shards, *, workers=1, seed=0, **options):
    spec = spec_of(method, shards, seed=seed)
    return pipeline.run(spec, shards, workers=workers, device="cpu", **options)


@pytest.fixture(scope="module")
def result(method, small_shards):
    """The run that all others are compared with."""
    return run(method, small_shards)


def timeless(history):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in history]


def assert_same(one, other):
    """History, record and weights agree to the last bit; times may differ."""
    assert timeless(one.history) == timeless(other.history)
    assert without_times(one.record) == without_times(other.record)
    assert same_weights(one, other)


def same_weights(one, other):
    return len(one.models) == len(other.models) and all(
        a.weights.keys() == b.weights.keys()
        and all(np.array_equal(a.weights[name], b.weights[name]) for name in a.weights)
        for a, b in zip(one.models, other.models, strict=True)
    )


def assert_finite(result):
    for model in result.models:
        for name, array in model.weights.items():
            assert np.isfinite(array).all(), name
    for row in result.history:
        for scores in (row["silo"], row["global"]):
            assert all(0 <= scores[part] <= 1 for part in ("val", "test"))
        assert np.isfinite(row["loss"])


def test_an_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=f"'fedmagic'; known: {', '.join(sorted(METHODS))}"):
        find_method("fedmagic")


class TestDeclaration:
    def test_it_is_listed_under_its_own_name(self, method):
        assert METHODS[method.name] is method

    def test_its_phases_have_names_of_their_own(self, method):
        # A client finds the phase of a request, and the meter its bytes, by name.
        names = [phase.name for phase in method.phases]
        assert len(set(names)) == len(names)


class TestResult:
    def test_the_same_seed_gives_the_same_result(self, method, result, small_shards):
        assert_same(result, run(method, small_shards))

    def test_another_seed_gives_another_result(self, method, result, small_shards):
        assert not same_weights(result, run(method, small_shards, seed=1))

    def test_two_workers_give_the_same_result(self, method, result, small_shards, thread_workers):
        assert_same(result, run(method, small_shards, workers=2))

    def test_there_is_a_line_of_history_for_every_round(self, result):
        assert [row["round"] for row in result.history] == [1, 2, 3]

    def test_all_weights_and_scores_are_finite(self, result):
        assert_finite(result)

    def test_every_model_can_predict(self, result, small_graph):
        for model in result.models:
            found = model.predict(small_graph)
            assert found.shape == (small_graph.nodes,)
            assert set(found) <= set(range(small_graph.classes))


class TestOddClients:
    def test_they_take_part_and_do_no_harm(self, method, odd_shards):
        shapes = [(g.nodes, g.edges, len(g.members(Part.TRAIN))) for g in odd_shards]
        assert shapes[1][2] == 0
        assert shapes[2] == (1, 0, 1)
        assert_finite(run(method, odd_shards))


class TestStopping:
    def test_stopped_after_every_round_and_resumed_it_gives_the_same_result(
        self, method, result, small_shards, tmp_path, thread_workers
    ):
        """Going on with another number of workers each time."""
        spec = spec_of(method, small_shards)
        rounds = sum(
            phase.rounds(learning_spec_for(spec, small_shards.graph, method))
            for phase in method.phases
        )
        stopped = partial(run, method, small_shards, stop_requested=lambda: True)
        for attempt in range(rounds):
            with (
                pytest.raises(InterruptedRunError),
                RunFolder.claim(tmp_path / "run", spec, resume=attempt > 0) as folder,
            ):
                stopped(workers=1 + attempt % 2, folder=folder)
        with RunFolder.claim(tmp_path / "run", spec, resume=True) as folder:
            assert_same(result, run(method, small_shards, folder=folder))


@pytest.fixture(scope="module")
def messages(method, small_shards):
    """Every request of a run with its reply."""
    pool = small_runs.pool_of(method, small_shards, **ROUNDS)
    return small_runs.messages_of(pool, small_shards)


class TestTraffic:
    def test_every_phase_is_listed_also_if_it_sends_nothing(self, method, result):
        assert list(result.traffic["phases"]) == [phase.name for phase in method.phases]

    def test_bytes_are_those_of_the_arrays_that_were_sent(self, method, result, messages):
        for phase in method.phases:
            said = [(q, a) for q, a in messages if q.phase == phase.name]
            counts = result.traffic["phases"][phase.name]
            down = sum(array.nbytes for q, _ in said for array in q.arrays.values())
            up = sum(array.nbytes for _, a in said for array in a.arrays.values())
            assert counts == {"up_bytes": up, "down_bytes": down}
        for way in ("up_bytes", "down_bytes"):
            assert result.traffic[way] == sum(p[way] for p in result.traffic["phases"].values())


def raw_data(graph) -> Iterator[tuple[str, np.ndarray]]:
    """What a client holds and must keep, in every form in which it is stored."""
    features = graph.features
    if sp.issparse(features):
        yield "feature columns", features.indices
        yield "feature lists", features.indptr
        features = features.toarray()
    yield "features", features
    yield "training features", features[graph.members(Part.TRAIN)]
    yield "labels", graph.labels
    yield "training labels", graph.labels[graph.members(Part.TRAIN)]
    yield "edges", graph.edge_list()
    yield "neighbour lists", graph.indices
    yield "degrees", graph.degrees
    yield "node ids", graph.node_ids
    yield "split", graph.split


def readable(arrays, columns) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a message, and what sparse ones hold together."""
    yield from arrays.items()
    for name in [name for name in arrays if name.rpartition("/")[2] == "indptr"]:
        above = name.rpartition("/")[0]
        yield above, features_from(group(arrays, above), columns).toarray()


def leak(array, graph):
    """What of a client's raw data an array gives away, if anything.

    Either all of it, in any order, shape or type of number; or a single row of features or edges.
    """
    sent = np.sort(array, axis=None)
    for name, raw in raw_data(graph):
        if raw.size == sent.size and np.array_equal(sent, np.sort(raw, axis=None)):
            return name
        if raw.ndim == array.ndim == 2 and raw.shape[1] == array.shape[1]:
            rows = {row.tobytes() for row in raw.astype(np.float64) if row.any()}
            if any(row.tobytes() in rows for row in array.astype(np.float64)):
                return f"a row of {name}"
    return None


class TestDisclosure:
    def test_the_server_asks_and_every_client_answers(self, messages):
        assert messages
        assert all(request.client == reply.client for request, reply in messages)

    def test_numbers_in_replies_are_plain_and_finite(self, messages):
        for _, reply in messages:
            for name, value in reply.metrics.items():
                assert type(value) in (int, float), name
                assert np.isfinite(value), name

    def test_everything_declared_is_really_sent(self, method, messages):
        sent = {group_of(name) for _, reply in messages for name in reply.arrays}
        assert sent == method.discloses

    def test_no_array_is_a_client_s_raw_data(self, method, messages, small_shards):
        # But for features, where a method says that it discloses just these.
        graphs = list(client_graphs(small_shards, method))
        leaks = {
            (group_of(name), leak(array, graphs[reply.client]))
            for _, reply in messages
            for name, array in readable(reply.arrays, small_shards.graph.feature_count)
        }
        told = {what for name, what in leaks if name != "features"}
        assert told <= {None}
        raw = {what for name, what in leaks if name == "features"}
        assert raw <= {None, "a row of features"}
        assert ("features" in method.discloses) == ("a row of features" in raw)


class TestTheLeakDetector:
    """It would notice."""

    @pytest.mark.parametrize("name", ["features", "labels", "edges", "degrees"])
    def test_raw_data_in_any_order_and_type(self, small_shards, name):
        raw = dict(raw_data(small_shards[1]))[name]
        disguised = raw.ravel()[::-1].astype(np.float32).reshape(-1, 1)
        assert leak(disguised, small_shards[1]) == name

    def test_a_sparse_row(self, small_shards):
        rows = small_shards[1].features[[4]]
        message = {f"secret/{part}": getattr(rows, part) for part in ("indptr", "indices", "data")}
        found = {name: leak(a, small_shards[1]) for name, a in readable(message, rows.shape[1])}
        assert found["secret"] == "a row of features"

    @pytest.mark.parametrize("name", ["features", "edges"])
    def test_a_single_row(self, small_shards, name):
        raw = dict(raw_data(small_shards[1]))[name]
        hidden = np.random.default_rng(0).standard_normal((5, raw.shape[1]))
        assert leak(hidden, small_shards[1]) is None
        hidden[3] = raw[0]
        assert leak(hidden, small_shards[1]) == f"a row of {name}"
