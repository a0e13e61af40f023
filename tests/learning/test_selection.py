"""By what a round is chosen: settled by what silos say, and compared with what was before."""

import pytest

from feddep.errors import InputError
from feddep.learning.selection import Selection, SelectionSpec


def selection(metric="accuracy", ties="loss", **said):
    found = Selection(SelectionSpec(metric=metric, ties=ties))
    found.settle(said)
    return found


def chosen(rounds, metric="accuracy", ties="loss"):
    """The number of the round that is returned."""
    by, best = selection(metric, ties), 0
    for number in range(1, len(rounds)):
        if by.is_better(rounds[number], rounds[best]):
            best = number
    return best + 1


def test_ties_go_to_the_lower_loss_and_then_to_the_later_round():
    rounds = [{"val": 0.98, "val_loss": loss} for loss in (0.4, 0.2, 0.3, 0.2, 0.3)]
    assert chosen(rounds) == 4
    assert chosen(rounds, ties="first") == 1


def test_a_round_whose_loss_nobody_knows_loses_a_tie_against_one_that_has_it():
    assert chosen([{"val": 0.9, "val_loss": 0.4}, {"val": 0.9}]) == 1
    assert chosen([{"val": 0.9}, {"val": 0.9, "val_loss": 9.0}]) == 2
    assert chosen([{"val": 0.9}, {"val": 0.9}]) == 2


@pytest.mark.parametrize(
    ("metric", "best"), [("accuracy", 1), ("macro_f1", 2), ("average_precision", 3), ("loss", 4)]
)
def test_the_metric_decides_and_the_lowest_loss_wins(metric, best):
    names = ("val", "val_macro_f1", "val_average_precision", "val_loss")
    values = [(0.9, 0.1, 0.1, 3.0), (0.8, 0.9, 0.2, 2.0), (0.7, 0.5, 0.9, 1.0), (0.1, 0.1, 0.1, 0)]
    assert chosen([dict(zip(names, row, strict=True)) for row in values], metric) == best


def test_a_round_that_the_metric_says_nothing_about_stands_below_all_others():
    unknown, known = {"val": 0.99}, {"val": 0.5, "val_average_precision": 0.01}
    assert chosen([unknown, known, unknown], "average_precision") == 2
    assert chosen([{"val": 0.5}, {"val": 0.7}, {"val": 0.6}], "average_precision") == 2


@pytest.mark.parametrize("ties", ["loss", "first"])
def test_as_long_as_nobody_can_validate_the_last_round_counts(ties):
    assert chosen([{}, {"val": None}, {}], ties=ties) == 3
    assert chosen([{"val": 0.1}, {"val": None}], ties=ties) == 1


@pytest.mark.parametrize(
    ("share", "metric", "positive"),
    [
        (0.02, "average_precision", 1),
        (0.98, "average_precision", 0),
        (0.2, "accuracy", 1),
        (0.5, "accuracy", 1),
        (0.79, "accuracy", 0),
    ],
)
def test_auto_looks_at_the_share_of_the_rarer_of_two_classes(share, metric, positive):
    found = selection("auto", positive_share=share)
    assert (found.metric, found.positive) == (metric, positive)


def test_auto_is_accuracy_where_there_are_more_classes():
    assert selection("auto").metric == "accuracy"


def test_what_is_settled_stays_whoever_is_away_later():
    found = selection("auto", positive_share=0.02)
    found.settle({"positive_share": 0.9})
    assert (found.metric, found.positive) == ("average_precision", 1)


def test_a_round_s_average_precision_is_that_of_the_rarer_class():
    said = {"val_average_precision_0": 0.3, "val_average_precision_1": 0.9, "val_loss": 1.0}
    found = selection("auto", positive_share=0.9).of_round(said)
    assert found == {"val_loss": 1.0, "val_average_precision": 0.3}


@pytest.mark.parametrize("metric", ["average_precision", "roc_auc"])
@pytest.mark.parametrize("classes", [1, 3])
def test_a_measure_of_two_classes_is_refused_for_others(metric, classes):
    with pytest.raises(InputError, match=rf"selection.metric: {metric} is for two classes"):
        SelectionSpec(metric=metric).check(classes)


def test_nothing_more_is_said_where_the_paper_s_choice_is_made():
    assert SelectionSpec(metric="accuracy", ties="first").said(2) == {}
    assert SelectionSpec(metric="auto", ties="first").said(7) == {}
    assert set(SelectionSpec().said(7)) == {"val_loss"}
