"""What a silo's owner allows over all runs together, besides ε."""

import time
from dataclasses import replace

import numpy as np
import pytest
from envelopes import CONSENT, agree, agreement_on, changed, lines, refused, request

from feddep.deployment.protocol import standing
from feddep.deployment.protocol.consent import Consent
from feddep.deployment.protocol.disclosure_log import DisclosureLog
from feddep.deployment.protocol.log_lines import parsed
from feddep.deployment.protocol.standing import Standing
from feddep.errors import ConsentError, DataError
from feddep.federation.content import Count, Rows, Table
from feddep.federation.messages import Reply, Request
from feddep.runtime.envelope import Envelope


def consent_with(**more) -> Consent:
    return Consent.model_validate({**CONSENT.model_dump(exclude_unset=True), **more})


def consenting(silo, **more):
    return changed(silo, consent=consent_with(**more))


def of(graph, run: str):
    return replace(agreement_on(graph), run=run)


class TestRuns:
    def test_a_run_more_than_allowed_is_refused(self, silo, graph):
        own = consenting(silo, all_runs=2)
        assert "sound" in own(agree(of(graph, "one"))).header
        own(request(of(graph, "one")))
        assert "sound" in own(agree(of(graph, "two"))).header
        said = refused(own(agree(of(graph, "three"))))
        assert "all_runs: the silo has agreed to 2 other runs, allowed: at most 2 in all" in said

    def test_a_run_that_goes_on_is_no_further_one(self, silo, graph):
        own = consenting(silo, all_runs=1)
        for _ in range(3):
            assert "sound" in own(agree(of(graph, "one"))).header

    def test_one_that_came_to_nothing_does_not_count(self, silo, graph):
        own = consenting(silo, all_runs=1)
        own(agree(of(graph, "one")))
        own(Envelope({"kind": "close", "run": "one", "best": None}))
        assert "sound" in own(agree(of(graph, "two"))).header


def test_releases_are_counted_over_runs(silo, graph):
    own = consenting(silo, all_releases=2)
    for run in ("one", "two"):
        own(agree(of(graph, run)))
        assert own(request(of(graph, run))).arrays
    own(agree(of(graph, "three")))
    said = refused(own(request(of(graph, "three"))))
    assert "all_releases: classifier has left 2 times in all runs" in said
    assert len(lines(own)) == 2


class TestSeconds:
    def test_work_is_counted_over_runs_and_restarts(self, silo, graph, monkeypatch):
        own = consenting(silo, all_seconds=1000.0)
        own(agree(of(graph, "one")))
        own(request(of(graph, "one")))
        counts = Standing(own.service.consent, own.service.disclosures)
        spent = counts.seconds
        assert 0 < spent < 100
        memory, own = own.runs, consenting(own, all_seconds=spent)
        own.runs = memory
        said = refused(own(request(of(graph, "one"), 1)))
        assert f"all_seconds: the silo has worked for {spent:.0f} s" in said

    def test_work_that_comes_to_nothing_counts_too(self, tmp_path):
        consent = Consent.model_validate(
            {**CONSENT.model_dump(exclude_unset=True), "all_seconds": 0.01}
        )
        counts = Standing(consent, DisclosureLog(tmp_path / "log"))
        with pytest.raises(RuntimeError), counts.clocked():
            time.sleep(0.02)
            raise RuntimeError
        with pytest.raises(ConsentError), counts.clocked():
            pass

    def test_a_count_that_makes_no_sense_is_not_taken_for_none(self, tmp_path):
        (tmp_path / "seconds.json").write_text("many")
        with pytest.raises(DataError, match="expected a number of seconds"):
            Standing(CONSENT, DisclosureLog(tmp_path / "log")).seconds  # noqa: B018


class TestShare:
    """Rows of three of ten nodes may leave."""

    @pytest.fixture
    def counts(self, tmp_path) -> Standing:
        consent = Consent.model_validate(
            {**CONSENT.model_dump(exclude_unset=True), "share_of_nodes": 0.3}
        )
        return Standing(consent, DisclosureLog(tmp_path / "log"))

    @pytest.fixture
    def ten(self, small_graph):
        return small_graph.subgraph(np.arange(10))

    def shows(self, counts, graph, nodes, group="features", content=None):
        request = Request(0, "expansion", "show", 0, {"nodes": np.array(nodes)})
        reply = Reply(0, {f"{group}/rows": np.zeros((len(nodes), 5), np.float32)})
        counts.check(request, reply, {group: content or Table(Count.ASKED, 5)}, graph)

    def test_nodes_are_counted_once_however_often_they_are_shown(self, counts, ten):
        for _ in range(5):
            self.shows(counts, ten, [1, 2, 3])

    def test_further_nodes_are_refused_in_whatever_portions(self, counts, ten):
        self.shows(counts, ten, [1])
        self.shows(counts, ten, [2, 3])
        with pytest.raises(ConsentError, match="share_of_nodes: features of 4 of 10 nodes"):
            self.shows(counts, ten, [7])
        self.shows(counts, ten, [3])

    def test_each_group_is_counted_for_itself(self, counts, ten):
        self.shows(counts, ten, [1, 2, 3])
        self.shows(counts, ten, [4, 5, 6], "hidden", Rows(Count.ASKED, (5,)))
        with pytest.raises(ConsentError, match="hidden of 4 of 10"):
            self.shows(counts, ten, [7], "hidden", Rows(Count.ASKED, (5,)))

    def test_rows_of_all_nodes_are_all_of_them(self, counts, ten):
        with pytest.raises(ConsentError, match="embeddings of 10 of 10 nodes"):
            self.shows(counts, ten, [1], "embeddings", Rows(Count.NODES, (5,)))

    def test_means_over_nodes_are_about_no_single_one(self, counts, ten):
        self.shows(counts, ten, [1] * 5, "prototypes", Rows(Count.NODES, (5,), means_of=5))
        self.shows(counts, ten, [1] * 5, "prototypes", Rows(7, (5,)))


class TestRepeats:
    """What a server could make the silo write without end."""

    def test_an_answer_is_given_again_but_not_for_ever(self, silo, graph, monkeypatch):
        monkeypatch.setattr(standing, "_MOST_REPEATS", 3)
        silo(agree(of(graph, "one")))
        for _ in range(3):
            assert silo(request(of(graph, "one"))).arrays
        said = refused(silo(request(of(graph, "one"))))
        assert said.startswith("cannot answer: this was answered 3 times")
        assert len(lines(silo)) == 3
        assert silo(request(of(graph, "one"), 1)).arrays, "the run goes on"

    def test_refusals_take_no_end_of_lines(self, silo, graph, monkeypatch):
        monkeypatch.setattr(standing, "_MOST_REFUSALS", 3)
        forbidden = [replace(agreement_on(graph, "fedgsl"), run=f"r{n}") for n in range(5)]
        for asked in forbidden:
            assert "methods" in refused(silo(agree(asked)))
        assert len(lines(silo, "refused")) == 3


def test_a_long_log_is_checked_once(silo, graph, monkeypatch):
    """Replays made a log grow until an agreement took minutes."""
    silo(agree(of(graph, "one")))
    silo(request(of(graph, "one")))
    disclosures = silo.service.disclosures
    before = len(disclosures.lines())
    parsed.cache_clear()
    assert len(disclosures.lines()) == before
    assert parsed.cache_info().misses == 0, "nothing is parsed again"
    disclosures.refuse(run="x", reason="y")
    assert len(disclosures.lines()) == before + 1
    assert parsed.cache_info().misses <= 3


def test_what_was_changed_after_it_was_checked_is_found(silo, graph):
    silo(agree(of(graph, "one")))
    disclosures = silo.service.disclosures
    disclosures.lines()
    text = disclosures.path.read_text()
    disclosures.path.write_text(text.replace('"run":"one"', '"run":"two"'))
    with pytest.raises(DataError, match="wrong hash"):
        disclosures.lines()
    disclosures.path.write_text(text)
    assert disclosures.lines()
