"""Differences of several settings together, with numbers that can be worked out by hand.

The 97.5% quantiles of Student's t: 12.706 for 1 degree of freedom, 4.303 for 2, 2.776 for 4.
"""

import math

import pytest

from feddep_study.statistics.paired import Difference
from feddep_study.statistics.pooling import pooled

CORA_3, CORA_10, PUBMED_3 = ("cora", "3"), ("cora", "10"), ("pubmed", "3")


def test_groups_count_alike_whatever_their_size():
    groups = [[0.0, 0.0, 0.0, 0.0], [0.3, 0.3]]
    found = Difference.over(groups, exact=True)
    assert (found.mean, found.margin) == (pytest.approx(0.15), 0.0)
    assert Difference.over(groups).margin is None


def test_equal_groups_have_the_degrees_of_freedom_of_both():
    # e = 1 / 3 in both groups: √(2 / 3) / 2, and 2 + 2 degrees of freedom
    found = Difference.over([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]])
    assert found.mean == pytest.approx(3.0)
    assert found.margin == pytest.approx(2.776 * math.sqrt(2 / 3) / 2, rel=1e-3)


def test_a_group_without_spread_adds_no_freedom():
    # e = 1 / 3 and 0: √(1 / 3) / 2, and 2 degrees of freedom
    found = Difference.over([[1.0, 2.0, 3.0], [5.0, 5.0]])
    assert found.margin == pytest.approx(4.303 * math.sqrt(1 / 3) / 2, rel=1e-3)


def test_one_group_is_an_ordinary_interval():
    assert Difference.over([[0.01, 0.02, 0.03]]) == Difference.of([0.01, 0.02, 0.03])


def test_a_group_of_one_has_no_interval():
    assert Difference.over([[1.0], [1.0, 2.0]]).margin is None
    assert Difference.of([1.0]).ends is None


def test_every_setting_has_its_own_interval():
    found = pooled({CORA_3: {0: 0.01, 1: 0.03}, CORA_10: {0: 0.5}})
    assert str(found.settings[CORA_3]) == "+2.00 [−10.71, +14.71]"
    assert str(found.settings[CORA_10]) == "+50.00"


def test_a_seed_counts_once_in_a_data_set_with_the_mean_of_its_settings():
    found = pooled({CORA_3: {0: 0.0, 1: 0.02}, CORA_10: {0: 0.02, 1: 0.04}})
    assert found.datasets["cora"] == Difference.of([0.01, 0.03])  # two observations, not four
    assert found.overall == found.datasets["cora"]


def test_data_sets_count_alike_whatever_the_number_of_their_settings():
    found = pooled(
        {CORA_3: {0: 0.0, 1: 0.2}, CORA_10: {0: 0.0, 1: 0.2}, PUBMED_3: {0: 0.3, 1: 0.5}}
    )
    assert found.overall.mean == found.mean == pytest.approx(0.25)
    assert (found.used, found.deciding) == ({CORA_3: 2, CORA_10: 2, PUBMED_3: 2}, 3)


@pytest.mark.parametrize("pubmed", [{0: 0.9}, {0: 0.9, 1: 0.9}], ids=["one seed", "equal"])
def test_a_data_set_without_an_interval_is_only_in_the_mean_of_all(pubmed):
    found = pooled({CORA_3: {0: 0.01, 1: 0.03}, PUBMED_3: pubmed})
    assert found.overall == found.datasets["cora"]
    assert found.datasets["pubmed"].mean == 0.9
    assert found.mean == pytest.approx((0.02 + 0.9) / 2)
    assert (found.used, found.deciding) == ({CORA_3: 2, PUBMED_3: 0}, 1)


def test_where_no_data_set_has_an_interval_the_mean_is_over_all_and_nothing_decides():
    found = pooled({CORA_3: {0: 0.01}, PUBMED_3: {0: 0.03}})
    assert (found.overall.mean, found.overall.margin) == (pytest.approx(0.02), None)
    assert (found.used, found.deciding) == ({CORA_3: 1, PUBMED_3: 1}, 0)


def test_only_seeds_count_that_have_all_settings_so_far():
    # Settings differ by 10 points, seeds by 1: seed 2 lacks M = 10 and would stand far off.
    found = pooled({CORA_3: {0: 0.1, 1: 0.11, 2: 0.12}, CORA_10: {0: 0.2, 1: 0.21}})
    assert found.overall.mean == pytest.approx(0.155)
    assert found.overall.margin == pytest.approx(12.706 * 0.005, rel=1e-3)
    assert found.used == {CORA_3: 2, CORA_10: 2}


def test_without_a_seed_that_has_all_settings_their_means_count_alike():
    found = pooled({CORA_3: {0: 0.1, 1: 0.2}, CORA_10: {2: 0.35}})
    assert (found.overall.mean, found.overall.margin) == (pytest.approx(0.25), None)
    assert found.used == {CORA_3: 2, CORA_10: 1}


def test_beside_others_a_data_set_needs_three_seeds():
    two, three = {0: 0.01, 1: 0.03}, {0: 0.2, 1: 0.3, 2: 0.4}
    found = pooled({CORA_3: three, PUBMED_3: two})
    assert found.overall == found.datasets["cora"]
    assert (found.certain, found.deciding) == (["cora"], 1)
    assert found.mean == pytest.approx((0.02 + 0.3) / 2)
    assert pooled({CORA_3: two, PUBMED_3: two}).certain == ["cora", "pubmed"]


def test_an_exact_value_stands_beside_others_that_vary():
    one, two = [2.0], [1.0, 3.0]
    assert Difference.over([one, two]).ends is None
    half = Difference.of(two)
    assert Difference.over([one, two], exact=True) == Difference(2.0, half.margin / 2)


def test_exact_values_need_no_spread():
    found = pooled({CORA_3: {0: -1.0, 1: -1.0}, PUBMED_3: {0: -1.0, 1: -1.0}}, exact=True)
    assert found.overall.ends == (-1.0, -1.0)
    assert found.deciding == 2
