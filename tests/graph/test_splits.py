"""Splits: worked numbers on small label lists, properties on any, the authors' quotas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddep.errors import InputError
from feddep.graph.graph import Graph, Part
from feddep.graph.splits import SplitSpec, draw
from feddep.seeding import Seeds

KINDS = ("stratified", "random", "quota")

any_labels = st.lists(st.integers(-1, 5), min_size=1, max_size=80).filter(lambda x: max(x) >= 0)
any_seed = st.integers(0, 1000)


def labelled(labels, classes=None, name="graph") -> Graph:
    return Graph.from_edges([], np.ones((len(labels), 1)), labels, classes=classes, name=name)


def split_of(labels, kind="stratified", seed=0, **options) -> np.ndarray:
    return draw(labelled(labels, **options), SplitSpec(kind=kind), Seeds(seed))


def table(labels, split) -> list[list[int]]:
    """For each class its number of training, validation and test nodes."""
    labels = np.asarray(labels)
    parts = (Part.TRAIN, Part.VAL, Part.TEST)
    return [
        [int(((labels == label) & (split == part)).sum()) for part in parts]
        for label in range(labels.max() + 1)
    ]


class TestStratified:
    def test_divides_every_class_60_20_20(self):
        labels = np.repeat([0, 1, 2], [10, 5, 20])
        assert table(labels, split_of(labels)) == [[6, 2, 2], [3, 1, 1], [12, 4, 4]]

    def test_rounds_so_that_the_totals_are_right(self):
        # 9 nodes: round(5.4) = 5 train, round(1.8) = 2 validate, 2 test. A class of 3 has 5/3, so
        # two classes get 2 and one gets 1; then 1 + 1 + 2 nodes are left for 2 to validate.
        labels = np.repeat([0, 1, 2], 3)
        counts = np.array(table(labels, split_of(labels)))
        np.testing.assert_array_equal(counts.sum(axis=0), [5, 2, 2])
        assert sorted(counts[:, 0]) == [1, 2, 2]

    def test_gives_a_class_of_one_node_a_training_node(self):
        # Two nodes, so one trains, by the totals; but either class needs one.
        np.testing.assert_array_equal(split_of([0, 1]), [Part.TRAIN, Part.TRAIN])

    def test_does_not_depend_on_the_order_of_nodes(self):
        labels = np.tile([0, 1], 50)
        split = split_of(labels)
        assert table(labels, split) == [[30, 10, 10], [30, 10, 10]]
        assert not (split[:60] == Part.TRAIN).all()

    @given(any_labels, any_seed)
    def test_keeps_proportions_and_totals(self, labels, seed):
        counts = np.array(table(labels, split_of(labels, seed=seed)))
        sizes = counts.sum(axis=1)
        n = sizes.sum()
        assert (counts[sizes > 0, 0] > 0).all()
        assert (abs(counts - sizes[:, None] * [0.6, 0.2, 0.2]) < 2).all()
        if not (sizes == 1).any():  # such a class may need a training node on top of the total
            assert counts[:, 0].sum() == round(0.6 * n)
            assert counts[:, 1].sum() == round(0.2 * n)


class TestRandom:
    def test_divides_all_nodes_60_20_20(self):
        split = split_of([0] * 11, kind="random")
        np.testing.assert_array_equal(np.bincount(split, minlength=4), [0, 7, 2, 2])

    def test_names_a_class_without_a_training_node(self):
        labels = [0] * 20 + [3]
        failures = 0
        for seed in range(20):
            try:
                split_of(labels, kind="random", seed=seed)
            except InputError as error:
                assert "class 3 of 'graph' without a training node" in str(error)
                assert "use the stratified split" in str(error)
                failures += 1
        assert 0 < failures < 20


class TestQuota:
    @pytest.mark.parametrize(
        ("sizes", "per_class", "val"),
        [
            pytest.param([351, 217, 418, 818, 426, 298, 180], 232, 542, id="cora"),
            pytest.param([264, 590, 668, 701, 596, 508], 332, 665, id="citeseer"),
            pytest.param([4103, 7739, 7875], 3943, 3943, id="pubmed"),
        ],
    )
    def test_equals_the_authors_numbers(self, sizes, per_class, val):
        labels = np.repeat(np.arange(len(sizes)), sizes)
        counts = np.array(table(labels, split_of(labels, kind="quota")))
        np.testing.assert_array_equal(counts[:, 0], np.minimum(sizes, per_class))
        assert counts[:, 1].sum() == val
        np.testing.assert_array_equal(counts.sum(axis=1), sizes)

    def test_is_random_on_msacademic(self):
        labels = np.repeat([0, 1], [90, 10])
        split = split_of(labels, kind="quota", name="msacademic")
        np.testing.assert_array_equal(split, split_of(labels, kind="random"))
        assert table(labels, split_of(labels, kind="quota"))[1] == [10, 0, 0]

    def test_names_a_class_when_the_quota_is_zero(self):
        with pytest.raises(InputError, match=r"class 0 .* use the stratified split"):
            split_of([0, 1], kind="quota", classes=9)


class TestProperties:
    @pytest.mark.parametrize("kind", KINDS)
    def test_nodes_without_a_label_take_no_part(self, kind):
        labels = np.array([-1, 0, 0, -1, 0, 0, 0])
        split = split_of(labels, kind=kind)
        np.testing.assert_array_equal(split == Part.NONE, labels < 0)
        assert table(labels, split) == [[3, 1, 1]]

    @pytest.mark.parametrize("kind", KINDS)
    def test_classes_without_nodes_are_no_error(self, kind):
        split = split_of([1] * 30, kind=kind, classes=4)
        assert split.dtype == np.int8
        assert (split == Part.TRAIN).any()

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_seed_decides(self, kind):
        labels = [0] * 50 + [1] * 50
        np.testing.assert_array_equal(split_of(labels, kind, 1), split_of(labels, kind, 1))
        assert (split_of(labels, kind, 1) != split_of(labels, kind, 2)).any()

    @given(any_labels, st.sampled_from(KINDS), any_seed)
    def test_the_graph_accepts_the_split(self, labels, kind, seed):
        graph = labelled(labels)
        try:
            split = draw(graph, SplitSpec(kind=kind), Seeds(seed))
        except InputError:
            assert kind != "stratified"
        else:
            assert graph.with_split(split).members(Part.TRAIN).size > 0


class TestFewerLabels:
    def fewer(self, labels, share, seed=0, kind="stratified"):
        return draw(labelled(labels), SplitSpec(kind=kind, train=share), Seeds(seed))

    def test_keeps_a_share_of_each_class_and_the_same_validation_and_test_nodes(self):
        labels = np.repeat([0, 1], [100, 20])
        all_of_them, few = split_of(labels), self.fewer(labels, 0.1)
        assert table(labels, few) == [[10, 20, 20], [2, 4, 4]]
        for part in (Part.VAL, Part.TEST):
            np.testing.assert_array_equal(few == part, all_of_them == part)
        assert set(np.flatnonzero(few == Part.TRAIN)) < set(np.flatnonzero(all_of_them == 1))

    def test_every_class_that_trains_keeps_a_node(self):
        labels = np.repeat([0, 1], [100, 3])
        assert table(labels, self.fewer(labels, 0.01))[1][0] == 1

    def test_the_whole_share_is_the_split_as_it_was(self):
        labels = np.repeat([0, 1], [31, 17])
        np.testing.assert_array_equal(self.fewer(labels, 0.6), split_of(labels))

    @given(st.sampled_from(KINDS), st.sampled_from([0.1, 0.2, 0.4]))
    def test_every_kind_of_split_can_have_fewer(self, kind, share):
        labels = [0] * 60 + [1] * 60
        few, whole = self.fewer(labels, share, kind=kind), split_of(labels, kind)
        least = (whole == Part.TRAIN).sum() * share / 0.6
        assert least <= (few == Part.TRAIN).sum() < least + 2  # each class is rounded up


class TestErrors:
    def test_unknown_kind(self):
        with pytest.raises(InputError, match="unknown split 'public'; known: quota, random, strat"):
            split_of([0], kind="public")

    def test_no_labels(self):
        with pytest.raises(InputError, match=r"needs labelled nodes \(got none in 'graph'\)"):
            split_of([-1, -1], classes=2)
