"""A budget for all runs together, which the silo counts from its own log."""

import json
import math
import os
import threading
from dataclasses import replace

import numpy as np
import pytest
from envelopes import (
    CONSENT,
    SiloWithMemory,
    agree,
    agreement_on,
    changed,
    lines,
    refused,
    request,
)

from feddep.deployment.protocol.consent import Consent
from feddep.deployment.protocol.log_lines import canonical, entry_hash, spelt
from feddep.errors import InputError
from feddep.learning.silo import Secret, open_silo
from feddep.runtime.envelope import Envelope

RESPONSE = {"privacy.mechanism": "randomised-response"}
NOISED = {"privacy.mechanism": "dp-sgd", "privacy.occurrences": 1, "privacy.delta": 1e-6}


def budget(epsilon=2.0, **keys) -> Consent:
    return CONSENT.model_copy(update={"budget_epsilon": epsilon, **keys})


@pytest.fixture
def thrifty(silo) -> SiloWithMemory:
    """A silo whose owner consents to ε = 1 in a run and to ε = 2 in all."""
    return changed(silo, consent=budget(2.0, highest_epsilon=1.0, budget_delta=1e-6))


def asked(graph, run, epsilon=1.0, **settings) -> Envelope:
    spec = agreement_on(graph, **{**RESPONSE, "privacy.epsilon": epsilon, **settings})
    return agree(spec, run=run)


def noised(graph, run, noise=150.0, **header) -> Envelope:
    return agree(agreement_on(graph, **{**NOISED, "privacy.noise": noise}), run=run, **header)


def answered(graph, silo, envelope) -> Envelope:
    """What the silo sends in the first round of a run that it agreed to."""
    own = agreement_on(graph).learning.classifier_shapes
    arrays = {f"classifier/{name}": np.zeros(shape, np.float32) for name, shape in own.items()}
    run = envelope.header["run"]
    header = request(agreement_on(graph)).header
    return silo(Envelope({**header, "run": run}, arrays))


def pairs(graph):
    found = np.zeros((graph.nodes, graph.nodes), bool)
    found[tuple(graph.edge_list().T)] = True
    return found[np.triu_indices(graph.nodes, 1)]


def one_more(graph, number=0):
    """The graph with one more edge, another one for each number."""
    linked = set(map(tuple, graph.edge_list().tolist()))
    free = [(u, v) for u in range(graph.nodes) for v in range(u) if (v, u) not in linked]
    return graph.with_edges([*graph.edge_list().tolist(), free[number]])


def test_many_runs_at_slightly_different_epsilon_do_not_show_the_graph(thrifty, graph):
    """Sixty answers whose majority would be the true graph, each within the consent."""
    votes, agreed = np.zeros(graph.nodes * (graph.nodes - 1) // 2), 0
    for number, epsilon in enumerate(np.linspace(0.941, 1.0, 60)):
        envelope = asked(graph, f"run-{number}", float(epsilon))
        if "refused" in thrifty(envelope).header:
            continue
        agreed += 1
        spec = agreement_on(graph, **{**RESPONSE, "privacy.epsilon": float(epsilon)}).learning
        shown = open_silo(0, graph, spec, "cpu", Secret(thrifty.service.secret, "any")).graph
        votes += pairs(shown)
    true = pairs(graph)
    named = votes > agreed / 2
    assert agreed == 2
    assert named[true].mean() < 0.9, "all of them would show every edge"


class TestWhatARunCosts:
    def test_the_refusal_quotes_the_line(self, silo, graph, tmp_path):
        text = (
            'methods = ["fedavg"]\nmessages = ["classifier"]\nrounds = 3\nsmallest_cluster = 5\n'
            "highest_epsilon = 1.0\nbudget_epsilon = 1.5\n"
        )
        (tmp_path / "consent.toml").write_text(text)
        own = changed(silo, consent=Consent.read(tmp_path / "consent.toml"))
        assert own(asked(graph, "a")).header["sound"]["epsilon"] == 1.0
        said = refused(own(asked(graph, "b", 0.75)))
        assert "budget_epsilon: one edge would have cost an ε of 1.75 in all runs together" in said
        assert "1 is spent by 1 earlier ones" in said
        assert "allowed: at most 1.5 (line 6 of consent.toml)" in said
        assert [line["run"] for line in lines(own, "agreed")] == ["a"]
        assert [line["run"] for line in lines(own, "refused")] == ["b"]
        assert "sound" in own(asked(graph, "c", 0.5)).header, "what is left can be spent"

    def test_the_same_release_costs_nothing_more(self, thrifty, graph):
        for number in range(5):
            envelope = asked(
                graph, f"run-{number}", **{"seed": number, "training.fanout": 1 + number}
            )
            assert "sound" in thrifty(envelope).header
            assert answered(graph, thrifty, envelope).arrays
        assert "sound" in thrifty(asked(graph, "other", 0.9)).header
        assert "budget_epsilon" in refused(thrifty(asked(graph, "third", 0.8)))
        assert "sound" in thrifty(asked(graph, "again")).header

    def test_rates_written_in_two_ways_are_one_release(self, silo, graph):
        own = changed(silo, consent=budget(1.0))
        symmetric = 1 - 1 / (1 + math.e)
        assert "sound" in own(asked(graph, "a")).header
        assert "sound" in own(asked(graph, "b", **{"privacy.keep_edge": symmetric})).header
        assert "budget" in refused(own(asked(graph, "c", **{"privacy.keep_edge": 0.4})))

    def test_the_same_rates_drawn_in_another_way_are_another_release(
        self, silo, graph, monkeypatch
    ):
        """As after an update that draws noise from another generator."""
        own = changed(silo, consent=budget(1.0))
        assert "sound" in own(asked(graph, "a")).header
        real = Secret.for_graph
        monkeypatch.setattr(Secret, "for_graph", lambda own, *a: real(replace(own, root=99), *a))
        assert "budget" in refused(own(asked(graph, "b")))

    def test_decimal_fractions_fill_a_budget(self, silo, graph):
        own = changed(silo, consent=budget(0.3))
        for epsilon in (0.1, 0.2):
            assert "sound" in own(asked(graph, f"run-{int(10 * epsilon)}", epsilon)).header
        assert "budget" in refused(own(asked(graph, "more", 0.001)))

    def test_a_run_without_a_bound_is_beyond_any_budget(self, silo, graph):
        own = changed(silo, consent=budget(1000.0))
        assert "any size (something has no bound)" in refused(own(agree(agreement_on(graph))))
        assert "sound" in own(asked(graph, "bounded")).header, "it was refused, and cost nothing"

    def test_without_a_budget_it_is_logged_and_counts_later(self, silo, graph):
        assert "sound" in silo(agree(agreement_on(graph), run="open")).header
        own = changed(silo, consent=budget(1000.0))
        assert "any size" in refused(own(asked(graph, "bounded")))
        later = changed(silo, consent=budget(1000.0, budget_since=1))
        assert "sound" in later(asked(graph, "bounded")).header

    def test_lines_to_come_are_counted(self, silo, graph):
        own = changed(silo, consent=budget(0.5, budget_since=1))
        assert "budget_since: the log has 0 lines so far" in refused(own(asked(graph, "a")))

    def test_a_silo_without_a_secret_has_nothing_to_spend(self, silo, graph):
        own = changed(silo, consent=budget(1000.0), secret=None)
        assert "any size" in refused(own(asked(graph, "a")))

    def test_a_silo_without_a_log_cannot_count(self, silo, graph):
        own = changed(silo, consent=budget(), disclosures=None)
        assert "counted from the disclosure log" in refused(own(asked(graph, "a")))

    def test_noise_is_drawn_anew_in_each_run_of_dp_sgd(self, silo, graph):
        own = changed(silo, consent=budget(1.0, budget_delta=1e-6))
        alone = own(noised(graph, "run-0")).header["sound"]["epsilon"]
        assert 0.2 < alone < 1, "so that a few fit"
        agreed = 1
        while "sound" in own(noised(graph, f"run-{agreed}")).header:
            agreed += 1
        assert 1 / alone < agreed < (1 / alone) ** 2 + 2, "together they cost less than their sum"

    def test_a_resumed_run_is_the_same_run(self, silo, graph):
        own = changed(silo, consent=budget(1.0, budget_delta=1e-6))
        alone = own(noised(graph, "run")).header["sound"]["epsilon"]
        own = changed(silo, consent=budget(alone * 1.01, budget_delta=1e-6))
        for _ in range(3):
            assert "sound" in own(noised(graph, "run")).header

    def test_both_kinds_add_up(self, silo, graph):
        own = changed(silo, consent=budget(2.0, budget_delta=1e-6))
        alone = own(noised(graph, "a")).header["sound"]["epsilon"]
        assert "budget" in refused(own(asked(graph, "b", 2.01 - alone)))
        assert "sound" in own(asked(graph, "c", 1.99 - alone)).header

    def test_without_a_delta_there_is_nothing_for_dp_sgd(self, silo, graph):
        own = changed(silo, consent=budget(1000.0))
        assert "budget_delta: the noise of this run has a price only with a δ" in refused(
            own(noised(graph, "a"))
        )

    def test_a_delta_that_promises_nothing_does_not_make_it_cheaper(self, silo, graph):
        alone = silo(noised(graph, "a")).header["sound"]["epsilon"]
        for delta in (1e-5, 0.5):
            own = changed(silo, consent=budget(alone / 2, budget_delta=delta, budget_since=1))
            assert "budget" in refused(own(noised(graph, "b")))


class TestOtherData:
    def test_a_changed_graph_goes_on_spending(self, silo, graph):
        """Nearly all links are in both, and both releases are about them."""
        own = changed(silo, consent=budget(1.5))
        assert "sound" in own(asked(graph, "a")).header
        after = changed(own, graph=lambda: one_more(graph))
        assert "1.75" in refused(after(asked(graph, "b", 0.75)))

    def test_another_secret_does_too(self, silo, graph):
        own = changed(silo, consent=budget(1.5))
        assert "sound" in own(asked(graph, "a")).header
        assert "budget" in refused(changed(own, secret=8)(asked(graph, "b")))

    def test_the_owner_names_other_data(self, silo, graph):
        own = changed(silo, consent=budget(1.5))
        assert "sound" in own(asked(graph, "a")).header
        other = graph.with_edges([(0, 1), (2, 3)])
        after = changed(own, graph=lambda: other, consent=budget(1.5, budget_graph="2027"))
        assert "sound" in after(asked(graph, "b")).header
        assert "1.75" in refused(after(asked(graph, "c", 0.75)))

    def test_the_same_graph_does_not_become_another_by_its_name(self, silo, graph):
        own = changed(silo, consent=budget(1.5))
        assert "sound" in own(asked(graph, "a")).header
        after = changed(own, consent=budget(1.5, budget_graph="2027"))
        assert "1.75" in refused(after(asked(graph, "b", 0.75)))

    def test_lines_that_do_not_say_what_was_done_have_no_bound(self, silo, graph):
        own = changed(silo, consent=budget(1000.0))
        own(asked(graph, "a"))
        path = own.service.disclosures.path
        fields = json.loads(path.read_text())
        for key in ("priced", "delta", "hash"):  # as an earlier version wrote it
            del fields[key]
        path.write_bytes(canonical({**fields, "hash": entry_hash(fields)}) + b"\n")
        (path.parent / "disclosures.jsonl.head").unlink()
        assert "any size" in refused(own(asked(graph, "b")))
        later = changed(own, consent=budget(1000.0, budget_since=1))
        assert "sound" in later(asked(graph, "b")).header

    def test_nor_does_a_run_that_nobody_agreed_to(self, silo, graph):
        own = changed(silo, consent=budget(1000.0))
        known = agreement_on(graph, **{**RESPONSE, "privacy.epsilon": 1.0})
        silo(agree(known))
        silo(request(known))
        path = own.service.disclosures.path
        (path.parent / "disclosures.jsonl.head").unlink()
        fields = json.loads(path.read_text().splitlines()[2])
        fields |= {"number": 1, "previous": "0" * 64}
        del fields["hash"]
        path.write_bytes(canonical({**fields, "hash": entry_hash(fields)}) + b"\n")
        assert "any size" in refused(own(asked(graph, "b")))


class TestRunsThatStop:
    def test_what_was_agreed_to_is_spent(self, thrifty, graph):
        for number, epsilon in enumerate((1.0, 0.99)):
            thrifty(asked(graph, f"run-{number}", epsilon))
        thrifty.runs.clear()  # nothing ever left, and the silo forgot the runs
        assert "budget_epsilon" in refused(thrifty(asked(graph, "more", 0.5)))

    def test_unless_the_server_closes_the_run_before_anything_left(self, silo, graph):
        own = changed(silo, consent=budget(1.5))
        own(asked(graph, "a"))
        assert own(Envelope({"kind": "close", "run": "a"})).header == {"done": True}
        assert [line["run"] for line in lines(own, "withdrawn")] == ["a"]
        envelope = asked(graph, "b", 0.9)
        assert "sound" in own(envelope).header
        assert "budget" in refused(own(asked(graph, "a"))), "it has to be agreed to again"
        assert answered(graph, own, asked(graph, "a")).header == {"sync": None}
        answered(graph, own, envelope)
        own(Envelope({"kind": "close", "run": "b"}))
        assert "budget" in refused(own(asked(graph, "c"))), "of b something had left"

    def test_nothing_leaves_a_run_that_another_process_withdrew(self, silo, graph):
        own = changed(silo, consent=budget(1.5))
        envelope = asked(graph, "a")
        own(envelope)
        own.service.disclosures.withdraw(run="a")
        assert "the run a was withdrawn in line 2" in refused(answered(graph, own, envelope))
        assert not lines(own)

    def test_a_lower_budget_ends_the_silo_s_part(self, silo, graph):
        own = changed(silo, consent=budget(1.5))
        envelope = asked(graph, "a")
        own(envelope)
        assert answered(graph, own, envelope).arrays
        after = SiloWithMemory(replace(own.service, consent=budget(0.5)), own.runs)
        assert "allowed: at most 0.5" in refused(answered(graph, after, envelope))

    def test_a_crash_before_the_line_is_on_the_disk_agrees_to_nothing(
        self, thrifty, graph, monkeypatch
    ):
        def fails(_):
            raise OSError(5, "the disk is gone")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fails)
            assert "cannot write the disclosure log" in refused(thrifty(asked(graph, "a")))
        assert thrifty.runs["a"] == {}
        assert answered(graph, thrifty, asked(graph, "a")).header == {"sync": None}


def test_two_runs_at_once_do_not_both_spend_the_last(silo, graph):
    """Each has a service of its own, as in two processes; the file's lock decides."""
    for attempt in range(5):
        own = changed(silo, consent=budget(1.0))
        silos = [SiloWithMemory(replace(own.service)) for _ in range(4)]
        start, said = threading.Barrier(len(silos)), {}

        def ask(number, start=start, said=said, silos=silos, attempt=attempt):
            start.wait()
            envelope = asked(graph, f"run-{attempt}-{number}", 0.6 + number / 10)
            said[number] = "sound" in silos[number](envelope).header

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(silos))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(said.values()) == 1
        own.service.disclosures.path.unlink()
        own.service.disclosures.path.with_name("disclosures.jsonl.head").unlink()


class TestALogThatIsNotWhatItWas:
    @pytest.fixture
    def spent(self, thrifty, graph):
        """A silo with two agreements, and the head that the server was given."""
        thrifty(asked(graph, "a"))
        head = thrifty(asked(graph, "b", 0.9)).header["head"]
        return thrifty, head

    @staticmethod
    def cut(silo, note=True):
        """Removes the last line, and the note beside the log."""
        path = silo.service.disclosures.path
        rows = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(rows[:-1]))
        if note:
            path.with_name("disclosures.jsonl.head").unlink()

    def test_the_server_s_note_tells(self, spent, graph):
        silo, head = spent
        self.cut(silo)
        said = refused(silo(Envelope({**asked(graph, "c", 0.5).header, "head": head})))
        assert "the disclosure log ends at line 1, but line 2 was noted as its head" in said
        assert "(noted by the server)" in said
        assert f'lost_heads = ["{head}"] in the consent file' in said

    def test_so_does_the_note_beside_the_log(self, spent, graph):
        silo, _ = spent
        self.cut(silo, note=False)
        assert "noted in disclosures.jsonl.head" in refused(silo(asked(graph, "c", 0.5)))
        silo.service.disclosures.path.unlink()
        assert "noted in disclosures.jsonl.head" in refused(silo(asked(graph, "c", 0.5)))

    def test_so_does_the_owner_s(self, spent, graph):
        silo, head = spent
        self.cut(silo)
        noted = changed(silo, consent=budget(9.0, noted_head=head))
        assert "(noted_head of the consent file)" in refused(noted(asked(graph, "c", 0.5)))
        alone = changed(silo, consent=CONSENT.model_copy(update={"noted_head": head}))
        assert "(noted_head of the consent file)" in refused(alone(asked(graph, "c", 0.5)))

    def test_another_log_in_its_place_is_noticed_too(self, spent, graph):
        silo, head = spent
        silo.service.disclosures.path.unlink()
        silo.service.disclosures.path.with_name("disclosures.jsonl.head").unlink()
        for number in range(3):
            silo(asked(graph, f"new-{number}", 0.5))
        asking = asked(graph, "c", 0.5)
        said = refused(silo(Envelope({**asking.header, "head": head})))
        assert "the log was rewritten (noted by the server)" in said

    def test_the_owner_may_say_that_it_is_lost(self, spent, graph):
        silo, head = spent
        self.cut(silo)
        known = changed(silo, consent=budget(2.0, lost_heads=frozenset({head})))
        asking = asked(graph, "c", 0.5)
        assert "sound" in known(Envelope({**asking.header, "head": head})).header
        other = f"7:{'0' * 64}"
        assert "line 7" in refused(known(Envelope({**asking.header, "run": "d", "head": other})))

    def test_in_a_run_under_way_it_ends_the_silo_s_part(self, spent, graph):
        silo, _ = spent
        self.cut(silo, note=False)
        after = SiloWithMemory(replace(silo.service), silo.runs)
        said = refused(answered(graph, after, asked(graph, "b")))
        assert "no line about the run b" in said

    def test_without_a_budget_a_silo_that_lost_its_disk_takes_part(self, silo, graph):
        head = silo(agree(agreement_on(graph), run="a")).header["head"]
        silo.service.disclosures.path.unlink()
        assert "sound" in silo(agree(agreement_on(graph), run="b", head=head)).header

    @pytest.mark.parametrize("head", ["", 3, "x", "1:abc", f"-1:{'0' * 64}", ["a"]])
    def test_what_is_no_head_is_refused(self, thrifty, graph, head):
        asking = asked(graph, "a")
        assert "NUMBER:HASH" in refused(thrifty(Envelope({**asking.header, "head": head})))

    def test_the_head_is_that_of_the_agreement(self, thrifty, graph):
        head = thrifty(asked(graph, "a")).header["head"]
        assert head == spelt(thrifty.service.disclosures.head())


class TestTheConsent:
    BASE = (
        'methods = ["fedavg"]\nmessages = ["classifier"]\nrounds = 3\nsmallest_cluster = 5\n'
        "highest_epsilon = 1.0\n"
    )

    @pytest.mark.parametrize(
        ("line", "wrong"),
        [
            ("budget_epsilon = -1", "line 6: budget_epsilon: expected a number from 0"),
            ("budget_epsilon = nan", "budget_epsilon: expected a number from 0"),
            ("budget_delta = 1e-7", "budget_delta without budget_epsilon"),
            ('budget_graph = "a"', "budget_graph without budget_epsilon"),
            ("budget_since = 3", "budget_since without budget_epsilon"),
            ("budget_epsilon = 1\nbudget_since = -3", "line 7: budget_since: expected a line"),
            ('budget_epsilon = 1\nbudget_graph = ""', "line 7: budget_graph: expected a name"),
            ('noted_head = "3"', "line 6: noted_head: expected a head of the log, NUMBER:HASH"),
            ('lost_heads = ["3"]', "line 6: lost_heads: expected a list of heads"),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path, line, wrong):
        (tmp_path / "consent.toml").write_text(f"{self.BASE}{line}\n")
        with pytest.raises(InputError) as raised:
            Consent.read(tmp_path / "consent.toml")
        assert wrong in str(raised.value)

    def test_what_is_right_is_read(self, tmp_path):
        text = (
            f'{self.BASE}budget_epsilon = 4\nbudget_delta = 1e-7\nbudget_graph = "May 2027"\n'
            f'budget_since = 3\nnoted_head = "3:{"a" * 64}"\nlost_heads = ["9:{"b" * 64}"]\n'
        )
        (tmp_path / "consent.toml").write_text(text)
        found = Consent.read(tmp_path / "consent.toml")
        assert (found.budget_epsilon, found.budget_delta, found.budget_since) == (4.0, 1e-7, 3)
