"""Attackers who know the flipped graph, ask for predictions, or make up the weights they send."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import small_runs
from feddep.algorithms import find_method
from feddep.audit.attacks import ATTACKS
from feddep.audit.crafted import CRAFTS, CraftingServer, craft_named
from feddep.audit.flipped import FlippedAttack
from feddep.audit.gradients import GradientsAttack
from feddep.audit.knowledge import Knowledge, Served
from feddep.audit.pairs import draw_canaries, with_edges
from feddep.audit.planted import LISTS, with_leaks
from feddep.audit.rows import MeansAttack, RowsAttack
from feddep.audit.served import InfluenceAttack, SimilarityAttack
from feddep.audit.transcript import Recorder
from feddep.errors import InputError
from feddep.federation.messages import group
from feddep.learning import silo as silos
from feddep.seeding import Seeds

RESPONSE = {"privacy.mechanism": "randomised-response", "privacy.epsilon": 2.0}
NOISED = {
    "privacy.mechanism": "dp-sgd",
    "privacy.occurrences": 1,
    "model.layers": 1,
    "training.batch_size": 1000,
}


@pytest.fixture
def canaries(small_shards):
    return draw_canaries(list(small_shards), 40, np.random.default_rng(0))


@pytest.fixture
def included():
    return np.random.default_rng(1).random(40) < 0.5


def known_of(name, shards, canaries, included, *, leaks=(), craft=None, **settings):
    """What an attacker knows of a run with these canaries planted."""
    planted = with_edges(shards, canaries.where(included))
    method = with_leaks(find_method(name), leaks)
    pool = small_runs.pool_of(method, planted, **settings)
    recorder = Recorder(SimpleNamespace(exchange=pool.handle))
    server = recorder if craft is None else CraftingServer(recorder, craft, Seeds(5))
    small_runs.carry_out(pool, planted, server)
    return Knowledge(recorder, list(shards), pool.spec)


def beyond_the_flips(known, canaries):
    scores = FlippedAttack().scores(known, canaries)
    return scores - np.round(scores)


def test_the_messages_add_nothing_to_the_flipped_graph(small_shards, canaries, included):
    known = known_of("fedavg", small_shards, canaries, included, leaks=[LISTS], **RESPONSE)
    assert FlippedAttack().applies(known)
    assert not beyond_the_flips(known, canaries).any()


def test_unless_a_client_trains_on_what_was_not_flipped(
    small_shards, canaries, included, monkeypatch
):
    """The attack has teeth: the control shows flips, and the client trains on its true graph."""
    known = known_of("fedavg", small_shards, canaries, included, leaks=[LISTS], **RESPONSE)
    flips = known.left
    monkeypatch.setattr(silos, "perturbed", lambda graph, *_: graph)
    true = known_of("fedavg", small_shards, canaries, included, leaks=[LISTS], **RESPONSE)
    true.__dict__["left"] = flips
    assert beyond_the_flips(true, canaries).any()


@pytest.mark.parametrize("attack", [SimilarityAttack(), InfluenceAttack()])
def test_predictions_over_true_edges_give_links_away(attack, small_shards, canaries, included):
    known = known_of("fedavg", small_shards, canaries, included, **{"training.rounds": 20})
    assert not attack.applies(known)
    (*_, (request, _)) = known.transcript.messages
    model = known.spec.classifier(group(request.arrays, "classifier"))
    true = with_edges(small_shards, canaries.where(included))
    asked = replace(known, served=[Served(model, graph) for graph in true])
    found = roc_auc_score(included, attack.scores(asked, canaries))
    assert found > (0.95 if isinstance(attack, InfluenceAttack) else 0.55)
    alone = replace(known, served=[Served(model, graph) for graph in small_shards])
    assert not np.ptp(attack.scores(alone, canaries)), "what is known is taken off"


@pytest.mark.parametrize("craft", [None, *CRAFTS])
def test_little_noise_does_not_hide_what_an_edge_adds(small_shards, canaries, included, craft):
    some = {**NOISED, "privacy.noise": 1e-3}
    made = None if craft is None else craft_named(craft)
    known = known_of("fedavg", small_shards, canaries, included, craft=made, **some)
    assert GradientsAttack().applies(known)
    assert not known.trains_on_edges
    scores = GradientsAttack().scores(known, canaries)
    assert np.isfinite(scores).all()
    touched = scores != 0  # the others join nodes that nobody trains on
    if craft == "overflowing":  # what overflows is left out, with the edge and without
        return
    assert touched.sum() > 10
    assert roc_auc_score(included[touched], scores[touched]) > 0.9


def test_much_noise_does(small_shards, canaries, included):
    some = {**NOISED, "privacy.noise": 1e3}
    known = known_of("fedavg", small_shards, canaries, included, craft=CRAFTS["large"], **some)
    scores = GradientsAttack().scores(known, canaries)
    touched = scores != 0
    assert roc_auc_score(included[touched], scores[touched]) < 0.85


@pytest.mark.parametrize(
    ("method", "attack"),
    [("fedgsl", RowsAttack()), ("feddep-wo-proto", RowsAttack()), ("feddep", MeansAttack())],
)
def test_rows_and_means_over_true_edges_give_links_away(
    method, attack, small_shards, canaries, included
):
    some = {"privacy.mechanism": "none", "embedding.code_noise": 0.01}
    if method == "feddep":  # a prototype for each node, nearly
        some |= {"embedding.smallest": 1, "embedding.clusters": 40}
    known = known_of(method, small_shards, canaries, included, **some)
    assert attack.applies(known)
    assert roc_auc_score(included, attack.scores(known, canaries)) > 0.6


def test_methods_that_send_no_rows_leave_these_attacks_alone(small_shards, canaries, included):
    known = known_of("fedavg", small_shards, canaries, included)
    assert not any(ATTACKS[name].applies(known) for name in ("rows", "means", "gradients"))


def test_a_crafting_server_changes_classifiers_and_nothing_else(small_shards, canaries, included):
    plain = known_of("fedavg", small_shards, canaries, included)
    made = known_of("fedavg", small_shards, canaries, included, craft=CRAFTS["large"])
    for (one, _), (other, _) in zip(
        plain.transcript.messages, made.transcript.messages, strict=True
    ):
        assert one.arrays.keys() == other.arrays.keys()
        assert (one.phase, one.step, one.round) == (other.phase, other.step, other.round)
        sizes = [max(np.abs(array).max() for array in m.arrays.values()) for m in (one, other)]
        assert sizes[1] > 10 * sizes[0]


def test_a_craft_that_there_is_not_is_refused():
    with pytest.raises(InputError, match="cancelling, large, overflowing"):
        craft_named("nice")
