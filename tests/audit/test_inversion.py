"""How near a prototype comes to a node."""

import numpy as np
import pytest
import torch

from agreement import assert_agree
from feddep.audit.inversion import Inversion, invert, nearness, summary
from feddep.audit.trial import Plan, run_trial
from feddep.learning.local_gnn import local_embeddings
from feddep.learning.prototypes import find_prototypes
from feddep.learning.silo import Silo
from feddep.scenario.build import resolve
from feddep.scenario.spec import RunSpec


def test_a_node_in_the_clear_is_at_distance_zero():
    embeddings = np.array([[0.0, 0], [4, 0], [0, 3]])  # distances 4, 3, 5
    prototypes = np.array([[4.0, 0], [2, 0]])
    assert nearness(prototypes, embeddings) == pytest.approx([0, 0.5])


def test_alike_or_lonely_nodes_do_not_divide_by_zero():
    assert nearness(np.ones((1, 2)), np.ones((3, 2))).tolist() == [0]
    assert nearness(np.ones((1, 2)), np.ones((1, 2))).tolist() == [0]


def test_embeddings_are_the_ones_behind_the_prototypes(small_shards, small_spec):
    silo = Silo(0, small_shards[0], small_spec, torch.device("cpu"))
    embeddings, _ = local_embeddings(silo)
    released = find_prototypes(embeddings, small_spec.embedding, 0)
    found = invert(released.centres, released.cluster, silo)
    assert found.sizes.sum() == silo.graph.nodes
    assert found.sizes.min() >= small_spec.embedding.smallest
    for number, ratio in enumerate(found.ratios):
        inside = embeddings[released.cluster == number]
        scale = np.abs(inside).mean(axis=0)
        assert_agree(
            released.centres[number], inside.mean(axis=0), terms=len(inside) + 1, scale=scale
        )
        assert ratio > 0


def test_the_summary_names_the_closest_prototype():
    found = [
        Inversion(np.array([0.5, 0.2]), np.array([5, 9])),
        Inversion(np.array([0.4]), np.array([4])),
    ]
    assert summary(found) == {
        "released": 3,
        "smallest_ratio": 0.2,
        "size_of_closest": 9,
        "median_ratio": 0.4,
        "smallest_cluster": 4,
        "median_cluster": 5.0,
    }
    assert summary([]) is None


def test_a_trial_of_feddep_checks_every_client_s_prototypes():
    given = {
        "synthetic.nodes": 150,
        "partition.clients": 3,
        "training.rounds": 1,
        "model.hidden": 8,
        "embedding.width": 6,
        "embedding.epochs": 2,
        "generator.epochs": 1,
    }
    spec = resolve(RunSpec().with_settings(given), given)
    trial = run_trial(spec, Plan(canaries=20))
    assert len(trial.inversions) == 3
    assert sum(one.sizes.sum() for one in trial.inversions) == 150
    assert trial.scores.keys() == {
        *("loss", "updates", "lists", "similarity", "influence", "means")
    }
