"""Federated averaging: both halves against loops written out by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agreement import assert_agree
from feddep.federation.messages import Request, group, grouped
from feddep.federation.phase import Ask
from feddep.federation.run_phases import Progress, run_phases
from feddep.graph.graph import Part
from feddep.learning.evaluation import SCORE_NAMES, pooled, said
from feddep.learning.silo import Silo
from feddep.learning.trainer import train
from feddep.models.weights import to_arrays
from feddep.phases.averaging import Averaging

PHASE = Averaging()
CPU = torch.device("cpu")


class Direct:
    """Clients that answer in this process; keeps what was said."""

    def __init__(self, silos):
        self.silos, self.said = silos, []

    def exchange(self, requests):
        replies = []
        for request in requests:
            before = {"memory": np.ones(1)}
            reply, after = PHASE.answer(request, before, self.silos[request.client])
            assert after is before
            self.said.append((request, reply))
            replies.append(reply)
        return replies


@pytest.fixture(scope="module")
def silos(small_shards, small_spec):
    """Three clients: one with many training nodes, one with eight, one with none."""
    graphs = list(small_shards)
    few, none = (g.split.copy() for g in graphs[1:])
    few[graphs[1].members(Part.TRAIN)[8:]] = Part.NONE
    none[graphs[2].members(Part.TRAIN)] = Part.NONE
    graphs[1:] = graphs[1].with_split(few), graphs[2].with_split(none)
    return [Silo(i, graph, small_spec, CPU) for i, graph in enumerate(graphs)]


def counts(silos):
    return [len(silo.graph.members(Part.TRAIN)) for silo in silos]


def all_rounds(silos):
    """The reports of a whole run, and the messages."""
    reports, clients = [], Direct(silos)
    run_phases(
        (PHASE,),
        silos[0].spec,
        len(silos),
        clients,
        Progress(),
        lambda phase, report, progress: reports.append(report),
    )
    return reports, clients.said


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


def test_a_run_is_the_loop_of_mcmahan_et_al(silos):
    reports, _ = all_rounds(silos)
    spec = silos[0].spec
    assert len(reports) == spec.training.rounds + 1
    weights = to_arrays(spec.classifier())
    loss = None
    for r, report in enumerate(reports):
        assert report.round == r
        assert same(report.classifier, weights)
        assert report.metrics.get("loss") == pytest.approx(loss)
        trained, losses = [], []
        for silo in silos:
            model = silo.classifier(weights)
            losses.append(train(model, silo, silo.seeds.child("averaging", r)))
            trained.append(to_arrays(model))
        nodes = counts(silos)
        loss = np.average(losses, weights=nodes)
        for name in weights:
            total = sum(n * w[name].astype(float) for n, w in zip(nodes, trained, strict=True))
            weights[name] = (total / sum(nodes)).astype(np.float32)


def test_scores_are_those_of_the_classifier_that_was_sent(silos):
    _, heard = all_rounds(silos)
    for request, reply in heard:
        silo = silos[request.client]
        model = silo.classifier(group(request.arrays, "classifier"))
        expected = said(model, silo.graph, silo.table, silo.spec)
        assert {name: reply.metrics[name] for name in expected} == expected


def test_reports_pool_the_silo_scores(silos):
    reports, heard = all_rounds(silos)
    first = pooled(reply.metrics for _, reply in heard[:3])
    assert reports[0].metrics == {
        name: first[name] for name in ("silo_val", "silo_test", "val_loss")
    }


def test_all_clients_get_the_same_weights(silos):
    _, heard = all_rounds(silos)
    for r in range(4):
        sent = [request.arrays for request, _ in heard if request.round == r]
        assert len(sent) == 3
        assert same(sent[0], sent[1])
        assert same(sent[0], sent[2])


def test_the_last_round_scores_and_sends_no_weights_up(silos):
    _, heard = all_rounds(silos)
    steps = [(request.step, bool(reply.arrays)) for request, reply in heard]
    assert steps == [("train", True)] * 9 + [("score", False)] * 3


def test_a_client_without_training_nodes_takes_part_with_weight_zero(silos):
    assert counts(silos)[2] == 0
    _, heard = all_rounds(silos)
    request, reply = heard[2]
    assert request.client == 2
    assert same(reply.arrays, request.arrays)
    assert reply.metrics["training_nodes"] == 0
    assert reply.metrics["val_total"] > 0


def test_only_declared_numbers_leave_a_client(silos):
    _, heard = all_rounds(silos)
    for _, reply in heard:
        assert set(reply.metrics) <= SCORE_NAMES | {"loss", "training_nodes", "val_loss"}
        assert all(isinstance(value, int | float) for value in reply.metrics.values())


def test_what_earlier_phases_left_in_the_state_is_kept(silos):
    ask = Ask(3, "averaging", 0, Direct(silos).exchange)
    state, _ = PHASE.serve(silos[0].spec, ask, {"prototypes": np.ones(3)})
    assert state["prototypes"].tolist() == [1, 1, 1]
    assert group(state, "classifier")


def test_every_round_draws_anew(silos):
    arrays = grouped("classifier", to_arrays(silos[0].spec.classifier()))
    replies = [
        PHASE.answer(Request(0, "averaging", "train", r, arrays), {}, silos[0])[0].arrays
        for r in (0, 0, 1)
    ]
    assert same(replies[0], replies[1])
    assert not same(replies[0], replies[2])


def trained(silo, round=0, **settings):
    """The weights sent, those that come back, and those that training really gave."""
    spec = replace(silo.spec, training=replace(silo.spec.training, **settings))
    silo = replace(silo, spec=spec)
    before = to_arrays(spec.classifier())
    request = Request(silo.client, "averaging", "train", round, grouped("classifier", before))
    reply, _ = PHASE.answer(request, {}, silo)
    model = silo.classifier(before)
    train(model, silo, silo.seeds.child("averaging", round))
    return before, group(reply.arrays, "classifier"), to_arrays(model)


def change(before, after):
    return np.concatenate([(after[name] - before[name]).ravel() for name in before])


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_without_a_clip_norm_weights_are_sent_as_they_are(silos, noise):
    _, sent, after = trained(silos[0], update_clip=0.0, update_noise=noise)
    assert same(sent, after)


def test_a_clipped_update_points_the_same_way_and_has_the_norm(silos):
    before, sent, after = trained(silos[0], update_clip=0.01)
    whole, clipped = change(before, after), change(before, sent)
    assert np.linalg.norm(whole) > 0.01
    # A change is the difference of weights of up to 1, two of them on either side.
    expected = whole * 0.01 / np.linalg.norm(whole)
    assert_agree(clipped, expected, terms=4, scale=1)
    assert_agree(np.linalg.norm(clipped), 0.01, terms=4, scale=len(clipped) ** 0.5)


def test_noise_on_updates_is_drawn_anew_by_every_client_in_every_round(silos):
    draws = []
    for silo, r in [(silos[0], 0), (silos[0], 1), (silos[1], 0)]:
        before, quiet, _ = trained(silo, r, update_clip=0.01)
        _, noisy, _ = trained(silo, r, update_clip=0.01, update_noise=2.0)
        draws.append(change(quiet, noisy))
        assert draws[-1].std() == pytest.approx(0.02, rel=0.1)
        assert before.keys() == noisy.keys()
    assert np.abs(np.corrcoef(draws) - np.eye(3)).max() < 0.2


def test_clients_draw_independently_of_each_other(silos):
    # The same data under another client's number.
    twin = replace(silos[0], client=1)
    arrays = grouped("classifier", to_arrays(silos[0].spec.classifier()))
    request = Request(0, "averaging", "train", 0, arrays)
    one, other = (PHASE.answer(request, {}, silo)[0].arrays for silo in (silos[0], twin))
    assert not same(one, other)
