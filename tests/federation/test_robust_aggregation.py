"""Median, trimmed mean and clipping: worked numbers, and what a minority can do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddep.errors import InputError
from feddep.federation.aggregation import AggregationSpec, aggregate, clipped, weighted_mean
from feddep.scenario.presets import may_set
from feddep.scenario.spec import RunSpec, spec_keys

MEDIAN = AggregationSpec(rule="median")


def trimmed(trim):
    return AggregationSpec(rule="trimmed-mean", trim=trim)


def arrays(*rows, dtype=np.float32):
    return [{"w": np.array(row, dtype)} for row in rows]


class TestMean:
    def test_by_default_it_is_the_weighted_mean_to_the_last_bit(self):
        rng = np.random.default_rng(0)
        clients = [{"w": rng.normal(size=100).astype(np.float32)} for _ in range(5)]
        weights = [26, 8, 0, 13, 1]
        found = aggregate(clients, weights, AggregationSpec(), sent=clients[0])
        assert found["w"].tobytes() == weighted_mean(clients, weights)["w"].tobytes()


class TestMedian:
    def test_worked_numbers(self):
        found = aggregate(arrays([1, 9], [2, 5], [1000, -7]), [1, 1, 1], MEDIAN)
        assert found["w"].tolist() == [2, 5]
        assert found["w"].dtype == np.float32

    def test_of_an_even_number_it_is_the_middle_of_the_two_in_the_middle(self):
        found = aggregate(arrays([1], [2], [4], [1000]), [1] * 4, MEDIAN)
        assert found["w"].tolist() == [3]

    def test_claimed_weights_do_not_count(self):
        found = aggregate(arrays([1], [2], [1000]), [1, 1, 10**9], MEDIAN)
        assert found["w"].tolist() == [2]

    def test_but_clients_without_training_nodes_are_not_counted(self):
        found = aggregate(arrays([1000], [1], [2], [3], [1000]), [0, 5, 1, 1, 0], MEDIAN)
        assert found["w"].tolist() == [2]


class TestTrimmedMean:
    def test_worked_numbers(self):
        # Of ten clients one is cut off at each end; the mean of 2 … 9 is 5.5.
        rows = [[n, -n] for n in (1000, 2, 3, 4, 5, 6, 7, 8, 9, -1000)]
        found = aggregate(arrays(*rows), range(1, 11), trimmed(0.1))
        assert found["w"].tolist() == [5.5, -5.5]

    def test_a_share_is_rounded_up_so_that_few_clients_are_protected_too(self):
        found = aggregate(arrays([1], [2], [6], [1000]), [1] * 4, trimmed(0.1))
        assert found["w"].tolist() == [4]

    def test_somebody_is_always_left(self):
        assert aggregate(arrays([7]), [1], trimmed(0.49))["w"].tolist() == [7]
        assert aggregate(arrays([7], [9]), [1, 1], trimmed(0.49))["w"].tolist() == [8]

    def test_a_share_of_zero_is_the_mean_of_all_with_equal_weights(self):
        assert aggregate(arrays([1], [2], [6]), [5, 1, 1], trimmed(0.0))["w"].tolist() == [3]

    def test_a_share_that_a_float_misses_by_a_hair_is_not_rounded_up(self):
        # 0.07 · 100 is 7.000000000000001 in floating point.
        values = np.arange(100.0) ** 2
        found = aggregate(arrays(*values[:, None], dtype=float), [1] * 100, trimmed(0.07))
        assert found["w"][0] == pytest.approx(values[7:-7].mean())


@pytest.mark.parametrize("spec", [MEDIAN, trimmed(0.2)], ids=lambda spec: spec.rule)
class TestEveryRule:
    def test_nobody_to_count_is_refused(self, spec):
        with pytest.raises(InputError, match="no client has a training node"):
            aggregate(arrays([1], [2]), [0, 0], spec)

    def test_other_shapes_are_refused(self, spec):
        with pytest.raises(InputError, match=r"w is \(1, 2\), expected \(2,\)"):
            aggregate([{"w": np.ones(2)}, {"w": np.ones((1, 2))}], [1, 1], spec)

    def test_what_all_agree_on_stays_as_it_is(self, spec):
        weights = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
        found = aggregate([{"w": weights}] * 5, [3, 1, 4, 1, 5], spec)
        assert np.array_equal(found["w"], weights)

    def test_what_came_in_is_not_changed(self, spec):
        clients = arrays([3.0], [1.0], [2.0])
        aggregate(clients, [1, 1, 1], spec)
        assert [client["w"].tolist() for client in clients] == [[3], [1], [2]]


numbers = st.floats(-1e6, 1e6, width=32)
anything = st.floats(allow_nan=False, allow_infinity=False, width=32)


@st.composite
def federations(draw, share):
    """Honest clients and liars, whose number is at most a share of all, in any order."""
    count = draw(st.integers(1, 9))
    bad = draw(st.integers(0, share(count)))
    rows = [draw(st.lists(numbers, min_size=2, max_size=2)) for _ in range(count - bad)]
    lies = [draw(st.lists(anything, min_size=2, max_size=2)) for _ in range(bad)]
    order = draw(st.permutations(range(count)))
    return rows, arrays(*[(rows + lies)[place] for place in order])


def assert_within(honest, found):
    honest = np.array(honest, np.float32)
    assert (honest.min(axis=0) <= found["w"]).all()
    assert (found["w"] <= honest.max(axis=0)).all()


@given(federations(lambda count: (count - 1) // 2), st.integers(1, 1000))
def test_fewer_than_half_cannot_move_the_median_out_of_the_honest_range(federation, weight):
    honest, clients = federation
    assert_within(honest, aggregate(clients, [weight] * len(clients), MEDIAN))


@given(st.data(), st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.45]))
def test_a_trimmed_share_cannot_move_the_trimmed_mean_out_of_the_honest_range(data, trim):
    honest, clients = data.draw(federations(lambda count: int(trim * count)))
    assert_within(honest, aggregate(clients, [1] * len(clients), trimmed(trim)))


SENT = {"a": np.array([1.0, 1.0], np.float32), "b": np.array([[0.0]], np.float32)}
FAR = {"a": np.array([1.0, 4.0], np.float32), "b": np.array([[4.0]], np.float32)}


class TestClipping:
    def test_worked_numbers(self):
        # The change (0, 3, 4) has norm 5; at 2.5 half of it is left.
        found = clipped(SENT, FAR, 2.5)
        assert found["a"].tolist() == [1, 2.5]
        assert found["b"].tolist() == [[2]]
        assert found["a"].dtype == np.float32

    @pytest.mark.parametrize("clip", [5.0, 6.0])
    def test_a_shorter_change_stays_as_it_is(self, clip):
        assert clipped(SENT, FAR, clip) is FAR

    def test_only_those_who_go_too_far_are_held_back(self):
        near = {"a": np.array([1.0, 2.0], np.float32), "b": np.array([[1.0]], np.float32)}
        spec = AggregationSpec(clip=2.5)
        found = aggregate([FAR, near], [1, 1], spec, sent=SENT)
        assert found["a"].tolist() == [1, 2.25]
        assert found["b"].tolist() == [[1.5]]

    def test_it_goes_together_with_the_other_rules(self):
        spec = AggregationSpec(rule="median", clip=2.5)
        found = aggregate([FAR], [1], spec, sent=SENT)
        assert found["a"].tolist() == [1, 2.5]

    def test_where_nothing_was_sent_nothing_can_be_clipped(self):
        found = aggregate([FAR], [1], AggregationSpec(clip=2.5))
        assert found["a"].tolist() == [1, 4]

    @pytest.mark.parametrize("value", [np.nan, np.inf, 1e308])
    def test_a_change_without_a_norm_is_none(self, value):
        wild = {name: np.full(array.shape, value) for name, array in SENT.items()}
        found = clipped(SENT, wild, 1.0)
        assert all(np.array_equal(found[name], SENT[name]) for name in SENT)

    def test_other_shapes_than_were_sent_are_refused(self):
        with pytest.raises(InputError, match=r"b is absent, expected \(1, 1\)"):
            clipped(SENT, {"a": np.ones(2)}, 1.0)


class TestSettings:
    @pytest.mark.parametrize("rule", ["mean", "median", "trimmed-mean"])
    def test_the_rule_can_be_set_from_text(self, rule):
        spec = RunSpec().with_settings({"aggregation.rule": rule, "aggregation.trim": "0.2"})
        assert spec.aggregation == AggregationSpec(rule=rule, trim=0.2)
        assert RunSpec.from_toml(spec.to_toml()) == spec

    @pytest.mark.parametrize(
        ("key", "value"),
        [("rule", "mode"), ("trim", "0.5"), ("trim", "-0.1"), ("clip", "-1"), ("clip", "nan")],
    )
    def test_other_values_are_refused_by_name(self, key, value):
        with pytest.raises(InputError, match=f"aggregation.{key}: expected"):
            RunSpec().with_settings({f"aggregation.{key}": value})

    def test_a_preset_cannot_hold_it(self):
        keys = [key for key in spec_keys() if key.startswith("aggregation.")]
        assert keys == ["aggregation.rule", "aggregation.trim", "aggregation.clip"]
        assert not any(map(may_set, keys))
