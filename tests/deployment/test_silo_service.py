"""A silo at work: what it answers, refuses, remembers, counts and writes down."""

import json
import os
import sys
from dataclasses import replace

import numpy as np
import pytest
from envelopes import (
    CONSENT,
    SiloWithMemory,
    agree,
    agreement_on,
    changed,
    counts,
    first_classifier,
    lines,
    refused,
    request,
    same,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from feddep.deployment.protocol.agreement import Agreement
from feddep.deployment.protocol.log_lines import spelt
from feddep.deployment.protocol.memory import KEPT_ANSWERS
from feddep.deployment.protocol.request_log import place_of
from feddep.deployment.protocol.silo_service import SiloService
from feddep.federation.client import Client
from feddep.runtime.envelope import Envelope


def test_hello_says_who_and_how_much_but_nothing_of_the_graph(silo, graph):
    said = silo(Envelope({"kind": "hello", "protocol": 1})).header
    assert said.pop("version")
    assert said == {
        "name": "bank-a",
        "client": None,
        "nodes": graph.nodes,
        "features": graph.feature_count,
        "classes": graph.classes,
    }


@pytest.mark.parametrize("kind", [None, "", "train", 3, ["agree"], {"agree": 1}])
def test_an_unknown_kind_is_refused(silo, kind):
    assert "expected an envelope of kind agree, request, close" in refused(
        silo(Envelope({"kind": kind}))
    )


@pytest.mark.parametrize("run", [None, "", "../other", "a/b", "x" * 65, ["run"]])
def test_a_run_without_a_proper_name_is_refused(silo, agreement, run):
    assert "an envelope needs a valid run" in refused(silo(request(agreement, run=run)))
    assert silo.runs == {}


class TestAgreeing:
    def test_the_silo_says_what_it_promises_and_remembers_the_run(self, silo, agreement):
        answer = silo(agree(agreement))
        assert answer.header["sound"] == {"epsilon": None, "delta": 1.0, "verdict": "none"}
        assert answer.header["head"] == spelt(silo.service.disclosures.head())
        known = json.loads(silo.runs["run"]["agreement.json"])
        assert known["client"] == 0
        assert Agreement.from_plain(known) == agreement

    def test_what_goes_beyond_the_consent_is_refused_and_not_remembered(self, silo, graph):
        said = refused(silo(agree(agreement_on(graph, **{"training.rounds": 4}))))
        assert "training takes 4 rounds, allowed: at most 3" in said
        assert silo.runs["run"] == {}

    def test_a_method_is_refused_before_its_module_is_imported(
        self, silo, agreement, tmp_path, monkeypatch
    ):
        (tmp_path / "somebodys_method.py").write_text("raise SystemExit('it was imported')\n")
        monkeypatch.syspath_prepend(tmp_path)
        spec = agreement.spec.to_toml().replace('"fedavg"', '"somebodys_method:METHOD"')
        said = refused(silo(agree(agreement, spec=spec)))
        assert "the method is somebodys_method:METHOD, allowed: fedavg" in said
        assert "somebodys_method" not in sys.modules

    @pytest.mark.parametrize("wrong", [{"features": 1}, {"classes": 1}])
    def test_other_columns_or_too_few_classes_are_refused(self, silo, agreement, wrong):
        assert "bank-a has" in refused(silo(agree(agreement, **wrong)))

    @pytest.mark.parametrize("client", [None, -1, "0", 1.5, True])
    def test_a_number_that_is_none_is_refused(self, silo, agreement, client):
        assert "an envelope needs a client" in refused(silo(agree(agreement, client=client)))

    @pytest.mark.parametrize("features", [None, "x", float("inf"), float("nan"), [1], {}])
    def test_sizes_that_are_none_are_refused(self, silo, agreement, features):
        said = refused(silo(agree(agreement, features=features)))
        assert "expected an agreement" in said

    def test_without_a_secret_of_its_own_the_silo_promises_nothing(self, silo, graph):
        noised = agreement_on(
            graph,
            **{
                "privacy.mechanism": "randomised-response",
                "privacy.epsilon": 2.0,
            },
        )
        promised = silo(agree(noised)).header["sound"]
        assert promised["verdict"] == "holds"
        assert promised["epsilon"] <= 2.0
        without = changed(silo, secret=None, disclosures=None)
        seen_through = without(agree(noised)).header["sound"]
        assert seen_through == {"epsilon": None, "delta": 1.0, "verdict": "none"}

    def test_a_bound_on_epsilon_needs_a_secret(self, silo, graph):
        noised = agreement_on(
            graph, **{"privacy.mechanism": "randomised-response", "privacy.epsilon": 2.0}
        )
        strict = CONSENT.model_copy(update={"highest_epsilon": 3.0})
        assert "sound" in changed(silo, consent=strict)(agree(noised)).header
        seen_through = changed(silo, consent=strict, secret=None)
        assert "highest_epsilon" in refused(seen_through(agree(noised)))

    def test_the_answer_does_not_depend_on_the_edges(self, silo, graph):
        """Else a server could ask for the number of edges by halving."""
        noise = {"mechanism": "dp-sgd", "occurrences": 1, "noise": 60.0}
        plans = [
            {**noise, "delta": 1e-4},
            {**noise, "delta": 1e-5},
            {"mechanism": "one-shot"},
        ]
        other = graph.with_edges([(0, 1)])
        for number, plan in enumerate(plans):
            asked = agreement_on(graph, **{f"privacy.{key}": value for key, value in plan.items()})
            envelope = agree(asked, run=f"run-{number}")
            there = changed(silo, graph=lambda: other, disclosures=None)
            assert silo(envelope).header["sound"] == there(envelope).header["sound"]
        promised = [line["epsilon"] is not None for line in lines(silo, "agreed")]
        assert promised == [False, True, False]

    @pytest.mark.parametrize("forgotten", ["nothing", "memory", "closed"])
    def test_one_name_is_one_run(self, silo, agreement, graph, forgotten):
        silo(agree(agreement))
        silo(request(agreement))
        if forgotten == "memory":
            silo.runs.clear()
        if forgotten == "closed":
            silo(Envelope({"kind": "close", "run": "run"}))
        others = [
            agree(agreement_on(graph, **{"training.rounds": 2})),
            agree(agreement, client=1),
            agree(agreement, nodes=agreement.nodes + 1),
        ]
        for other in others:
            assert "already agreed to a different run named run" in refused(silo(other))
        assert "sound" in silo(agree(agreement)).header, "the same again"
        assert "sound" in silo(agree(agreement, run="other", client=1)).header

    def test_without_a_log_the_memory_knows(self, silo, agreement):
        own = changed(silo, disclosures=None)
        own(agree(agreement))
        assert "a different run" in refused(own(agree(agreement, client=1)))
        assert "sound" in own(agree(agreement)).header

    def test_what_was_refused_does_not_take_the_name(self, silo, agreement, graph):
        refused(silo(agree(agreement_on(graph, **{"training.rounds": 4}))))
        assert "sound" in silo(agree(agreement)).header

    def test_more_generated_rows_than_can_be_sent_are_refused(self, silo, graph):
        open_to_all = changed(silo, consent=None)
        many = agreement_on(graph, "feddep-wo-proto", **{"generator.slots": 12_500})
        assert "generator.slots" in refused(open_to_all(agree(many)))


class TestAnswering:
    def test_without_an_agreement_the_silo_asks_for_one(self, silo, agreement, handled):
        assert silo(request(agreement)).header == {"sync": None}
        assert handled == []

    def test_who_missed_something_says_where_it_is(self, silo, agreement, handled):
        silo(agree(agreement))
        assert silo(request(agreement, 1)).header == {"sync": None}
        silo(request(agreement, 0))
        assert silo(request(agreement, 2)).header == {"sync": place_of(0, 0, 0)}
        assert handled == [0]

    def test_another_client_s_envelope_is_refused(self, silo, agreement):
        silo(agree(agreement))
        said = refused(silo(request(agreement, client=1)))
        assert said == "this silo is client 0 of the run (got 1)"

    def test_the_answer_is_a_reply(self, silo, agreement):
        silo(agree(agreement))
        answer = silo(request(agreement))
        assert answer.header["client"] == 0
        assert answer.header["metrics"]["training_nodes"] > 0
        assert answer.arrays.keys() == first_classifier(agreement).keys()

    def test_the_same_envelope_gets_the_same_answer_without_work(self, silo, agreement, handled):
        silo(agree(agreement))
        first = silo(request(agreement))
        assert same(silo(request(agreement)), first)
        silo(request(agreement, 1))
        assert same(silo(request(agreement)), first), "even from further on"
        assert handled == [0, 1]

    def test_other_words_at_the_same_place_are_one_more_answer(self, silo, agreement, handled):
        silo(agree(agreement))
        first = silo(request(agreement))
        other = request(agreement)
        doubled = {name: 2 * array for name, array in other.arrays.items()}
        answer = silo(replace(other, arrays=doubled))
        assert not same(answer, first)
        assert handled == [0, 0]
        assert counts(silo) == {"classifier": 2, "numbers/averaging": 2}

    def test_only_so_many_answers_are_kept(self, silo, agreement):
        free = changed(silo, consent=None)
        free(agree(agreement))
        for number in range(KEPT_ANSWERS + 1):
            free(request(agreement, number))
        kept = [name for name in free.runs["run"] if name.endswith(".answer")]
        assert len(kept) == KEPT_ANSWERS
        assert free(request(agreement)).header == {"sync": place_of(0, KEPT_ANSWERS, 0)}

    def test_what_does_not_pass_inspection_is_refused_and_changes_nothing(self, silo, agreement):
        silo(agree(agreement))
        before = dict(silo.runs["run"])
        wrong = request(agreement)
        poisoned = {name: np.full_like(array, np.nan) for name, array in wrong.arrays.items()}
        assert "not finite" in refused(silo(replace(wrong, arrays=poisoned)))
        huge = {name: np.full_like(array, 3e38) for name, array in wrong.arrays.items()}
        assert "a weight of size 3e+38 where 1e+06" in refused(silo(replace(wrong, arrays=huge)))
        assert "phase" in refused(silo(request(agreement, phase="peer_search")))
        assert silo.runs["run"] == before

    def test_what_fails_inside_is_refused_by_its_kind_only(self, silo, agreement, monkeypatch):
        def broken(self, request, state):
            raise KeyError("a secret number: 4711")

        silo(agree(agreement))
        monkeypatch.setattr(Client, "handle", broken)
        assert refused(silo(request(agreement))) == "cannot answer: KeyError"

    def test_the_secret_is_the_root_of_all_draws(self, silo, agreement):
        drawn = []
        for secret in (7, 7, 8, None):
            own = changed(silo, secret=secret, disclosures=None)
            own(agree(agreement))
            drawn.append(own(request(agreement)))
        assert same(drawn[0], drawn[1])
        assert not same(drawn[0], drawn[2])
        assert not same(drawn[0], drawn[3])

    def test_killed_between_answer_and_state_it_answers_again(self, silo, agreement):
        silo(agree(agreement))
        silo(request(agreement))
        state = silo.runs["run"]["state.bin"]
        silo(request(agreement, 1))
        after = dict(silo.runs["run"])
        silo.runs["run"]["state.bin"] = state  # the answer was kept, the state after it was not
        silo(request(agreement, 1))
        assert silo.runs["run"] == after
        assert silo(request(agreement, 2)).arrays

    @pytest.mark.parametrize("place", [0, 1])
    def test_killed_while_a_place_is_redone_it_answers_again(self, silo, agreement, place):
        """Asked in other words at the last place, or further back."""
        silo(agree(agreement))
        for number in range(2):
            silo(request(agreement, number))
        before, other = silo.runs["run"]["state.bin"], request(agreement, place, note="other words")
        answer = silo(other)
        after = dict(silo.runs["run"])
        silo.runs["run"]["state.bin"] = before
        assert same(silo(other), answer)
        assert silo.runs["run"].items() <= after.items()
        assert counts(silo)["classifier"] == 3


class TestClosing:
    def test_the_silo_keeps_the_result_and_forgets_the_run(self, silo, agreement, tmp_path):
        silo(agree(agreement))
        silo(request(agreement))
        result = first_classifier(agreement)
        close = Envelope({"kind": "close", "run": "run", "scores": {"test": 0.5}}, result)
        assert silo(close).header == {"done": True}
        own = tmp_path / "results" / "run"
        assert own.stat().st_mode & 0o777 == 0o700
        model = load_file(own / "model.safetensors")
        assert all(np.array_equal(result[f"classifier/{name}"], a) for name, a in model.items())
        assert (own / "spec.toml").read_text() == agreement.spec.to_toml()
        kept = json.loads((own / "silo.json").read_text())
        assert kept["pooled"] == {"test": 0.5}
        assert kept["scores"] == {
            part: own["accuracy"] for part, own in kept["measures"]["pooled"].items()
        }
        assert kept["privacy"]["sound"]["verdict"] == "none"
        assert silo.runs["run"] == {}
        assert silo(close).header == {"done": True}, "again"

    def test_its_owner_reads_what_the_promise_means(self, silo, graph, tmp_path):
        noised = agreement_on(
            graph, **{"privacy.mechanism": "randomised-response", "privacy.epsilon": 2.0}
        )
        answers = [silo(agree(noised)), silo(Envelope({"kind": "close", "run": "run"}))]
        kept = json.loads((tmp_path / "results" / "run" / "silo.json").read_text())
        said = f"In a silo of {graph.nodes} nodes and {graph.edges} edges that means: of 100 links"
        assert kept["privacy"]["means"].startswith(said)
        assert not any("means" in json.dumps(answer.header) for answer in answers), "nobody else"

    def test_a_result_that_is_none_is_refused(self, silo, agreement, tmp_path):
        silo(agree(agreement))
        poisoned = {n: np.full_like(a, np.inf) for n, a in first_classifier(agreement).items()}
        assert "not finite" in refused(silo(Envelope({"kind": "close", "run": "run"}, poisoned)))
        other = {"classifier/bias": np.zeros(99, np.float32)}
        assert "shape" in refused(silo(Envelope({"kind": "close", "run": "run"}, other)))
        assert not (tmp_path / "results").exists()

    def test_a_run_that_nobody_knows_leaves_nothing(self, silo, tmp_path):
        assert silo(Envelope({"kind": "close", "run": "another"})).header == {"done": True}
        assert not (tmp_path / "results").exists()

    def test_a_simulated_silo_keeps_no_result(self, silo, agreement):
        own = changed(silo, results=None)
        own(agree(agreement))
        assert own(Envelope({"kind": "close", "run": "run"})).header == {"done": True}
        assert own.runs["run"] == {}


def test_a_full_disk_is_no_reason_to_die(silo, agreement):
    class Full(dict):
        def __setitem__(self, name, data):
            raise OSError(28, os.strerror(28))

    silo.runs["run"] = Full()
    assert refused(silo(agree(agreement))) == "cannot answer: OSError"


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 99) | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=9), inner, max_size=2)
    ),
    max_leaves=4,
)
KEYS = [
    *("client", "place", "previous", "phase", "step", "round", "silent"),
    *("spec", "features", "classes", "nodes", "scores"),
]


def test_no_header_ends_the_silo(graph, agreement):
    """Some of an honest envelope's words are replaced by anything."""
    service = SiloService("bank-a", lambda: graph, consent=CONSENT)
    silo = SiloWithMemory(service)
    silo(agree(agreement))
    honest = {**agree(agreement).header, **request(agreement).header}

    @settings(max_examples=100)
    @given(
        st.sampled_from(["agree", "request", "close", "hello"]) | plain,
        st.dictionaries(st.sampled_from([*KEYS, "run"]), plain, max_size=3),
    )
    def check(kind, changes):
        own = SiloWithMemory(service, {"run": dict(silo.runs["run"])})
        answer = own(Envelope({**honest, "kind": kind, **changes}))
        json.dumps(answer.header)
        assert not answer.arrays, "without arrays nobody can ask for any"

    check()


def test_nor_does_one_without_any_sense(graph):
    silo = SiloWithMemory(SiloService("bank-a", lambda: graph, consent=CONSENT))

    @settings(max_examples=100)
    @given(st.dictionaries(st.sampled_from(["kind", "run", *KEYS]) | st.text(), plain, max_size=5))
    def check(header):
        assert not silo(Envelope(header)).arrays

    check()
