"""Class weights and the focal loss: worked numbers, and the gradient against torch's."""

import numpy as np
import pytest
import torch

from agreement import assert_agree
from feddep.models.class_loss import ClassLoss, class_loss, weighted_loss
from feddep.models.sgd_layers import cross_entropy


def drawn(rows: int = 50, classes: int = 3):
    rng = np.random.default_rng(0)
    scores = (3 * rng.standard_normal((rows, classes))).astype(np.float32)
    return scores, rng.integers(0, classes, rows)


@pytest.mark.parametrize("focal", [0.0, 0.5, 1.0, 2.0])
def test_the_gradient_is_torch_s(focal):
    scores, labels = drawn()
    loss = ClassLoss(np.array([0.5, 1, 4], np.float32), focal)
    table = torch.from_numpy(scores).double().requires_grad_()
    expected = loss.of(table, torch.from_numpy(labels))
    expected.backward()
    found, gradient = weighted_loss(scores, labels, loss.weights, loss.focal)
    assert_agree(found, expected.item(), terms=400, precision=np.float32)
    assert_agree(gradient, table.grad.numpy(), terms=40, scale=4 / 50, precision=np.float32)


def test_with_equal_weights_and_no_focus_it_is_the_cross_entropy():
    scores, labels = drawn()
    plain, slope = cross_entropy(scores, labels)
    found, gradient = weighted_loss(scores, labels, np.ones(3, np.float32), 0.0)
    assert_agree(found, plain, terms=50, precision=np.float32)
    assert_agree(gradient, slope, terms=8, scale=1 / 50, precision=np.float32)


def test_a_worked_number():
    scores = np.zeros((1, 2), np.float32)  # p = 1/2
    found, gradient = weighted_loss(scores, np.array([1]), np.array([1, 3], np.float32), 2.0)
    assert found == pytest.approx(3 * 0.25 * np.log(2))
    # 3 · (1/4 + 2 · 1/2 · 1/2 · log 2) · (1/2, −1/2)
    assert gradient[0] == pytest.approx(np.array([0.5, -0.5]) * 3 * (0.25 + 0.5 * np.log(2)))


def test_a_node_that_is_surely_right_counts_nothing_and_is_no_error():
    scores = np.array([[0, 200]], np.float32)
    found, gradient = weighted_loss(scores, np.array([1]), np.ones(2, np.float32), 0.5)
    assert (found, gradient.tolist()) == (0.0, [[0.0, 0.0]])


class TestWeights:
    def test_balanced_ones_give_every_class_the_same_and_a_node_1_in_the_mean(self):
        labels = np.array([0] * 6 + [2] * 2)
        weights = class_loss("balanced", 0.0, labels, 3).weights
        assert weights.tolist() == [pytest.approx(8 / 12), 1.0, 2.0]  # nobody is of class 1
        assert weights[labels].mean() == pytest.approx(1)

    def test_without_either_there_is_nothing_to_weigh(self):
        assert class_loss("none", 0.0, np.array([0, 1]), 2) is None

    def test_a_silo_without_training_nodes(self):
        assert class_loss("balanced", 2.0, np.zeros(0, np.int64), 2).weights.tolist() == [1, 1]
