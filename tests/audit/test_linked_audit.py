"""An audit of what linked silos tell each other: it refutes no claim that holds, and has teeth."""

from dataclasses import replace

import numpy as np
import pytest

from feddep.audit.audit import audit
from feddep.audit.findings import sentences
from feddep.audit.linked import ANSWERS, SEALED, draw_secrets, with_classes
from feddep.audit.trial import Plan
from feddep.errors import InputError
from feddep.graph.graph import Part
from feddep.learning import link_mending, link_rows
from feddep.scenario.build import resolve
from feddep.scenario.spec import RunSpec

CLASSES = Plan(secrets="classes", share=0.2)
SMALL = {
    "method": "feddep-linked",
    "partition.links": "known",
    "synthetic.nodes": 600,
    "training.rounds": 2,
    "model.hidden": 4,
    "links.epsilon": 1.0,
}


def spec_of(**changes):
    given = SMALL | {key.replace("__", "."): value for key, value in changes.items()}
    return resolve(RunSpec().with_settings(given), given)


@pytest.fixture
def shards(small_shards):
    return small_shards.with_known_links()


class TestSecrets:
    def test_they_are_training_nodes_that_other_silos_link_to(self, shards):
        found = draw_secrets(shards, None, np.random.default_rng(0))
        assert len(np.unique(found.everywhere)) == len(found.node) > 10
        for client, node, everywhere in zip(
            found.client, found.node, found.everywhere, strict=True
        ):
            graph = shards[client]
            assert graph.split[node] == Part.TRAIN
            assert node in graph.outside.nodes
            assert graph.node_ids[node] == shards.graph.node_ids[everywhere]

    def test_a_coin_chooses_between_the_true_class_and_another(self, shards):
        found = draw_secrets(shards, 12, np.random.default_rng(0))
        heads = np.arange(12) % 2 == 0
        planted = with_classes(shards, found, heads).graph.labels
        true = shards.graph.labels
        assert np.array_equal(np.flatnonzero(planted != true), np.sort(found.everywhere[heads]))
        assert planted.max() < shards.graph.classes

    def test_without_links_there_are_none(self, shards):
        lonely = replace(shards, graph=shards.graph.with_edges([]))
        with pytest.raises(InputError, match="link to another silo"):
            draw_secrets(lonely, None, np.random.default_rng(0))


def test_the_claim_of_k_ary_response_holds_and_the_attack_reaches_it():
    found = audit(spec_of(), CLASSES, runs=3)
    assert found["claim"] == {"epsilon": 1.0, "delta": 0.0, "verdict": "holds"}
    assert all(outcome["p_claim"] > 0.001 for outcome in found["attacks"].values())
    asked = found["attacks"][ANSWERS]
    assert asked["bound"] > 0.3
    assert asked["right"] / asked["guesses"] == pytest.approx(1 / (1 + np.exp(-1)), abs=0.1)
    assert "A silo that asks proves that ε is at least" in " ".join(sentences(found))


def test_answers_without_noise_tell_everything_to_a_silo_and_nothing_to_the_server():
    found = audit(spec_of(links__noise="none"), CLASSES)
    assert found["claim"]["verdict"] == "none"
    asked, server = (found["attacks"][name] for name in (ANSWERS, SEALED))
    assert asked["right"] == asked["guesses"] > 20
    assert asked["bound"] > 2
    assert server["auc"] == pytest.approx(0.5, abs=0.15)
    assert "Nothing is claimed about nodes" in " ".join(sentences(found))


def test_a_response_that_keeps_more_than_it_says_is_refuted(monkeypatch):
    true = link_mending.permanent_response
    monkeypatch.setattr(
        link_mending,
        "permanent_response",
        lambda codes, ids, values, epsilon, key: true(codes, ids, values, 4 * epsilon, key),
    )
    found = audit(spec_of(), CLASSES, runs=2)
    assert found["attacks"][ANSWERS]["p_claim"] < 0.001


def test_a_server_reads_what_is_not_sealed(monkeypatch):
    def unsealed(silo, peer, payload, place):
        content = np.ascontiguousarray(payload).tobytes()
        whole = len(content).to_bytes(8, "little") + content
        return np.frombuffer(whole.ljust(1024, b"\0"), np.uint8)

    monkeypatch.setattr(link_rows, "sealed_for", unsealed)
    server = audit(spec_of(links__noise="none"), CLASSES)["attacks"].get(SEALED)
    assert server["right"] == server["guesses"]


@pytest.mark.parametrize(
    ("spec", "plan", "says"),
    [
        ({"method": "fedavg"}, {}, "feddep-linked with links.code=labels"),
        ({"links__code": "scores"}, {}, "links.code=labels"),
        ({"partition__links": "lost"}, {}, "--links known"),
        ({}, {"secrets": "nodes"}, "classes, edges"),
        ({}, {"leak": True}, "about edges"),
    ],
)
def test_what_cannot_be_audited_is_refused(spec, plan, says):
    with pytest.raises(InputError, match=says):
        audit(spec_of(**spec), Plan(**{"secrets": "classes", **plan}))
