"""Paired differences, with numbers that can be worked out by hand.

The 97.5% quantiles of Student's t: 12.706 for 1 degree of freedom, 4.303 for 2, 2.776 for 4.
"""

import pytest

from feddep_study.statistics.paired import Difference, pairs

RULE = "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
HEAD = (
    "| method | fedavg, global test | difference in points |  "
    "| fedavg, silo test | difference in points |  | pairs |"
)


def run(method, seed, test, silo=0.5, **settings):
    record = {
        "method": method,
        "seed": seed,
        "scores": {"global": {"test": test}, "silo": {"test": silo}},
    }
    return {"method": method, "seed": seed} | settings, record


def lines(rows):
    return pairs(rows).markdown().splitlines()[2:]


# One mean of differences


@pytest.mark.parametrize(
    ("values", "text", "word"),
    [
        # mean 2, s = 1, 4.303 / √3 = 2.484
        ([0.01, 0.02, 0.03], "+2.00 [−0.48, +4.48]", "open"),
        ([0.04, 0.05, 0.06], "+5.00 [+2.52, +7.48]", "above"),
        ([-0.04, -0.05, -0.06], "−5.00 [−7.48, −2.52]", "below"),
        # mean 2, s = √2, 12.706 · √2 / √2
        ([0.01, 0.03], "+2.00 [−10.71, +14.71]", "open"),
        # mean 0, s = √2.5, 2.776 · √2.5 / √5 = 1.963
        ([-0.02, -0.01, 0.0, 0.01, 0.02], "+0.00 [−1.96, +1.96]", "open"),
    ],
)
def test_the_interval_is_student_s(values, text, word):
    found = Difference.of(values)
    assert (str(found), found.word) == (text, word)


def test_one_pair_has_no_interval_and_stays_open():
    found = Difference.of([0.1])
    assert (str(found), found.word) == ("+10.00", "open")


@pytest.mark.parametrize("values", [[0.0018, 0.0018], [0.82 - 0.80, 0.87 - 0.85, 0.02]])
def test_equal_differences_have_no_interval_and_stay_open(values):
    found = Difference.of(values)  # the second are equal but for rounding
    assert (found.ends, found.word) == (None, "open")


@pytest.mark.parametrize(("value", "word"), [(0.0, "open"), (0.25, "above"), (-0.25, "below")])
def test_equal_differences_of_an_exact_measure_have_an_interval_of_one_point(value, word):
    found = Difference.of([value, value], exact=True)
    assert (found.ends, found.word) == ((value, value), word)
    assert Difference.of([value], exact=True).ends == (value, value)
    assert Difference.of([value]).ends is None


# The table


def test_both_metrics_are_compared_over_the_pairs():
    rows = [
        *(run("fedavg", seed, score, 0.6) for seed, score in enumerate([0.80, 0.82, 0.84])),
        *(run("feddep", seed, score, 0.6) for seed, score in enumerate([0.84, 0.87, 0.90])),
    ]
    assert pairs(rows).markdown().splitlines() == [
        HEAD,
        RULE,
        "| feddep | 0.8200 | +5.00 [+2.52, +7.48] | above | 0.6000 | +0.00 | open | 3 |",
    ]


def test_only_seeds_that_both_have_count_also_for_the_reference_s_mean():
    rows = [
        *(run("fedavg", seed, score) for seed, score in {0: 0.1, 1: 0.5, 2: 0.7}.items()),
        *(run("feddep", seed, score) for seed, score in {1: 0.51, 2: 0.73, 3: 0.9}.items()),
    ]
    assert lines(rows) == [
        "| feddep | 0.6000 | +2.00 [−10.71, +14.71] | open | 0.5000 | +0.00 | open | 2 |"
    ]


def test_one_shared_seed_shows_the_difference_alone():
    rows = [run("fedavg", 0, 0.5), run("feddep", 0, 0.6, 0.4), run("feddep", 1, 0.9)]
    assert lines(rows) == ["| feddep | 0.5000 | +10.00 | open | 0.5000 | −10.00 | open | 1 |"]


def test_a_method_without_a_shared_seed_has_no_line():
    assert lines([run("fedavg", 0, 0.5), run("feddep", 1, 0.6)]) == []
    assert lines([run("feddep", 0, 0.6), run("local", 0, 0.6)]) == []
    assert lines([]) == []


def test_settings_are_compared_apart_and_the_seed_s_order_does_not_matter():
    few, many = {"training.rounds": 50}, {"training.rounds": 200}
    rows = [
        run("feddep", 0, 0.6, **few),
        run("fedavg", 0, 0.5, **few),
        run("fedavg", 0, 0.7, **many),
        run("feddep", 0, 0.6, **many),
    ]
    assert pairs(rows).markdown().startswith("| rounds | method |")
    assert [line.split(" | ")[:4] for line in lines(rows)] == [
        ["| 50", "feddep", "0.5000", "+10.00"],
        ["| 200", "feddep", "0.7000", "−10.00"],
    ]


def test_every_other_method_has_a_line_and_its_marks_are_explained():
    rows = [run(method, 0, 0.5) for method in ("fedavg", "feddep", "oracle")]
    found = lines(rows)
    assert [line.split(" | ")[0] for line in found[:2]] == ["| feddep", "| oracle†"]
    assert found[-1].startswith("† sees cross-client edges")
