"""DP-SGD with a cap on occurrences: what it reads, what it sends, and noise of its own for each."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agreement import assert_agree
from feddep.errors import InputError
from feddep.federation.messages import Request, group, grouped
from feddep.graph.graph import Part
from feddep.learning.local_gnn import train_local_gnn
from feddep.learning.mending import KnownNeighbours
from feddep.learning.private_training import (
    classifier_gradients,
    embedding_gradients,
    inner_lists,
    train_privately,
)
from feddep.learning.prototypes import EmbeddingSpec
from feddep.learning.silo import Silo
from feddep.learning.spec import TrainingSpec
from feddep.learning.trainer import train
from feddep.models.weights import to_arrays
from feddep.phases.averaging import Averaging
from feddep.privacy.events import CappedGradients, NoisedGradients
from feddep.privacy.spec import PrivacySpec
from feddep.seeding import Seeds

CPU = torch.device("cpu")
CAPPED = PrivacySpec(mechanism="dp-sgd", occurrences=2, noise=1.0)


@pytest.fixture(scope="module")
def silo(small_shards, small_spec):
    spec = replace(small_spec, privacy=CAPPED, embedding=EmbeddingSpec(width=6, epochs=1))
    return Silo(0, small_shards[0], spec, CPU)


def with_privacy(silo, **changes):
    spec = silo.spec
    return replace(silo, spec=replace(spec, privacy=replace(spec.privacy, **changes)))


def trained(silo, start=None, seeds=None):
    model = silo.classifier(start)
    loss = train_privately(model, silo, seeds or Seeds(0))
    return loss, to_arrays(model)


def answered(silo, phase=None, step="train", round=0):
    weights = grouped("classifier", to_arrays(silo.spec.classifier()))
    request = Request(0, "averaging", step, round, weights)
    return (phase or Averaging()).answer(request, {}, silo)[0]


def test_the_lists_are_drawn_once_and_hold_no_node_more_often_than_it_may(silo):
    lists = inner_lists(silo)
    np.testing.assert_array_equal(lists.indices, inner_lists(silo).indices)
    occurs = np.bincount(lists.indices, minlength=silo.graph.nodes)
    np.testing.assert_array_equal(occurs, np.minimum(silo.graph.degrees, 2))
    assert inner_lists(with_privacy(silo, occurrences=0)) is None
    assert inner_lists(with_privacy(silo, mechanism="nfdp")) is None


def test_without_noise_it_is_sgd_on_clipped_gradients_and_learns(silo):
    training = TrainingSpec(rounds=30, batch_size=1000, learning_rate=2.0)
    quiet = with_privacy(silo, noise=0.0, clip=5.0)
    quiet = replace(quiet, spec=replace(quiet.spec, training=training))
    weights, losses = None, []
    for round in range(15):
        loss, weights = trained(quiet, weights, Seeds(round))
        losses.append(loss)
    assert losses[-1] < 0.8 * losses[0]


def test_the_same_question_gets_the_same_noise_and_another_one_other_noise(silo):
    """Noise that two answers share could be taken off."""
    huge = with_privacy(silo, noise=1e4)  # so that the weights are noise, and little else
    start = to_arrays(huge.spec.classifier())
    _, first = trained(huge, start)
    _, again = trained(huge, start)
    other = {name: array + np.float32(1e-3) for name, array in start.items()}
    fewer = replace(huge, graph=huge.graph.with_edges(huge.graph.edge_list()[1:]))
    answers = [
        trained(huge, other)[1],
        trained(fewer, start)[1],
        trained(huge, start, Seeds(0).child(1))[1],
        trained(with_privacy(huge, clip=1.01), start)[1],
    ]
    for name, array in first.items():
        np.testing.assert_array_equal(array, again[name])
        for answer in answers:
            changes = (array - start[name]).ravel(), (answer[name] - start[name]).ravel()
            assert abs(np.corrcoef(*changes)[0, 1]) < 5 / len(changes[0]) ** 0.5


def test_weights_shrink_by_the_penalty_as_they_do_elsewhere(silo):
    still = with_privacy(silo, noise=0.0, clip=1e-30)
    training = replace(still.spec.training, batch_size=1000, weight_decay=0.5, learning_rate=0.1)
    still = replace(still, spec=replace(still.spec, training=training))
    start = to_arrays(still.spec.classifier())
    _, found = trained(still, start)
    for name, array in start.items():
        # The gradient of at most 1e-30 leaves a trace only where a weight is zero.
        assert_agree(found[name], 0.95 * array, terms=3, scale=np.abs(array) + 1e-20, name=name)


def test_scores_and_loss_are_computed_without_edges(silo):
    alone = replace(silo, graph=silo.graph.with_edges([]))
    with_edges, without = answered(silo), answered(alone)
    assert with_edges.metrics == without.metrics
    assert answered(silo, step="score").metrics == answered(alone, step="score").metrics
    weights = group(with_edges.arrays, "classifier"), group(without.arrays, "classifier")
    assert any((weights[0][name] != weights[1][name]).any() for name in weights[0])


def test_a_mender_or_a_trainer_of_one_s_own_is_not_covered(silo):
    def own(model, silo, seeds, missing_embeddings=None):
        return train(model, silo, seeds, missing_embeddings)

    assert Averaging().is_private(silo.spec)
    assert not Averaging(trainer=own).is_private(silo.spec)
    assert not Averaging(mender=KnownNeighbours()).is_private(silo.spec)
    assert not Averaging().is_private(with_privacy(silo, occurrences=0).spec)
    with pytest.raises(InputError, match="does not cover"):
        train_privately(silo.classifier(), silo, Seeds(0), torch.zeros(silo.graph.nodes, 4))


def test_a_silo_without_training_nodes_sends_what_it_got(silo):
    idle = replace(silo, graph=silo.graph.with_split(np.zeros(silo.graph.nodes, np.int8)))
    start = to_arrays(idle.spec.classifier())
    loss, found = trained(idle, start)
    assert loss == 0
    assert all((found[name] == start[name]).all() for name in start)


def test_weights_that_are_no_numbers_are_reported(silo):
    broken = {name: array * np.nan for name, array in to_arrays(silo.spec.classifier()).items()}
    with pytest.raises(InputError, match="diverged at client 0"):
        trained(silo, broken)


def test_events_say_what_is_done(silo):
    spec, graph = silo.spec, silo.graph
    examples = len(graph.members(Part.TRAIN))
    steps = -(-examples // 16)
    found = classifier_gradients(spec, graph)
    assert found == CappedGradients(
        "classifier",
        1.0,
        1.0,
        16 / examples,
        3 * steps,
        phase="averaging",
        occurrences=2,
        touched=min(6, examples),
        delta=1e-5,
        edges=graph.edges,
        trainings=3,
    )
    of_the_gnn = embedding_gradients(spec, graph)
    assert (of_the_gnn.phase, of_the_gnn.trainings) == ("local_gnn", 1)
    assert embedding_gradients(spec, graph, "another").phase == "another"
    plain = embedding_gradients(with_privacy(silo, occurrences=0).spec, graph)
    assert plain == NoisedGradients("embeddings", 1.0, 1.0, 16 / examples, steps)


def test_the_local_gnn_reads_capped_lists_too(silo):
    def weights(**changes):
        return to_arrays(train_local_gnn(with_privacy(silo, **changes)))

    few, many, none = weights(occurrences=1), weights(occurrences=10**6), weights(occurrences=0)
    assert all((many[name] == none[name]).all() for name in none)
    assert any((few[name] != none[name]).any() for name in none)
