"""k-ary response: what each value becomes, the same every time, and independent otherwise."""

import numpy as np
import pytest
from scipy import stats

from feddep.privacy.permanent_response import (
    keep_probability,
    permanent_response,
    response_matrix,
)

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
IDS = np.array([f"acct-{number:05d}" for number in range(20_000)])


def answers(value, *, ids=IDS, values=3, epsilon=1.0, key=KEY):
    codes = np.full(len(ids), value)
    return permanent_response(codes, ids, values, epsilon, key)


@pytest.mark.parametrize("values", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_each_value_becomes_every_other_as_often_as_the_matrix_says(values, epsilon):
    matrix = response_matrix(epsilon, values)
    assert matrix.sum(axis=1) == pytest.approx(1)
    assert matrix.max() / matrix.min() == pytest.approx(np.exp(epsilon))
    for value in (0, values - 1):
        found = answers(value, values=values, epsilon=epsilon)
        counts = np.bincount(found, minlength=values)
        assert stats.chisquare(counts, len(IDS) * matrix[value]).pvalue > 1e-4


def test_the_same_question_has_the_same_answer_whatever_else_is_asked():
    alone = np.concatenate([answers(1, ids=IDS[[place]]) for place in range(50)])
    assert np.array_equal(alone, answers(1)[:50])
    with_longer = np.append(IDS[:50], "an id that takes many more blocks than all the others")
    assert np.array_equal(alone, answers(1, ids=with_longer)[:50])
    assert np.array_equal(alone, answers(1, ids=IDS[:50][::-1])[::-1])


def test_answers_to_different_questions_are_independent():
    """Of two values, keys or ids: otherwise two answers together would tell more than their ε."""
    base = answers(0)
    keep = keep_probability(1.0, 3)
    flips = base == 0
    others = {
        "another value": answers(1) == 1,
        "another key": answers(0, key=OTHER) == 0,
        "a key that differs in its second half": answers(0, key=KEY[:16] + OTHER[16:]) == 0,
        "the next id": np.roll(flips, 1),
    }
    for name, other in others.items():
        both = np.mean(flips & other)
        assert both == pytest.approx(keep**2, abs=4 * keep / np.sqrt(len(IDS))), name


def test_ids_that_are_numbers_are_their_text():
    numbers = np.arange(100)
    assert np.array_equal(
        answers(2, ids=numbers), answers(2, ids=np.array([str(n) for n in numbers]))
    )


def test_a_code_of_one_value_and_no_node_at_all_need_no_noise():
    assert np.array_equal(answers(0, values=1), np.zeros(len(IDS)))
    assert len(answers(0, ids=IDS[:0])) == 0
    assert np.array_equal(response_matrix(None, 3), np.eye(3))
