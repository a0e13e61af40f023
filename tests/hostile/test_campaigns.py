"""A share of every campaign, the same in every run; `make test-hostile` has all of them."""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from hostile import inputs, kills
from hostile.record import Record
from hostile.table import DOCUMENT, written


@pytest.mark.parametrize("name", inputs.SUBJECTS)
def test_what_others_wrote_is_refused_in_a_line_or_harmless(name: str):
    subject, failing, first = inputs.SUBJECTS[name], {}, 0
    while first < subject.share:
        found, wrong, first = inputs.tried(name, subject.address, first, subject.share)
        failing |= wrong
        assert sum(found.values()) > 0
    assert failing == {}, f"again with: python -m hostile inputs {name} SEED"


def test_the_whole_campaign_is_a_million_inputs():
    assert sum(subject.cases for subject in inputs.SUBJECTS.values()) >= 1_000_000


@pytest.mark.slow
def test_a_run_that_is_killed_ends_as_the_undisturbed_one(tmp_path: Path):
    run = kills.Run("feddep", tmp_path)
    ended = [run.killed(seed) for seed in range(3)]
    assert [how for how, _ in ended] == [kills.SAME] * 3
    assert sum(times for _, times in ended) >= 3


def test_the_document_says_what_was_tried_and_no_more():
    text = DOCUMENT.read_text()
    assert written(text, Record()) == text, "make campaign-record"


# Whatever goes wrong is noticed. Seed 3 of each is the one that does.


def third(deed) -> inputs.Case:
    calls = iter(range(10**6))

    def case(draws: random.Random) -> str:
        if next(calls) == 3:
            deed()
        return "taken"

    return case


def crashing(folder: Path) -> inputs.Case:
    return third(lambda: os.kill(os.getpid(), signal.SIGSEGV))


def raising(folder: Path) -> inputs.Case:
    return third(lambda: {}["no such key"])


def greedy(folder: Path) -> inputs.Case:
    return third(lambda: bytearray(600 << 20))


def endless(folder: Path) -> inputs.Case:
    def loop() -> None:
        until = time.process_time() + 3 * inputs.MOST_SECONDS
        while time.process_time() < until:
            pass

    return third(loop)


def test_a_crash_a_raw_error_and_too_much_memory_are_noticed_by_seed():
    for deed, told in (("crashing", "SIGSEGV"), ("raising", "KeyError"), ("greedy", "MiB")):
        found, failing, last = inputs.tried("x", f"hostile.test_campaigns:{deed}", 0, 6)
        assert list(failing) == [3]
        assert told in failing[3]
        assert found["taken"] == last - 1


def test_a_case_that_never_ends_is_noticed(monkeypatch):
    monkeypatch.setenv("FEDDEP_HOSTILE_SECONDS", "1")
    _, failing, last = inputs.tried("x", "hostile.test_campaigns:endless", 0, 6)
    assert list(failing) == [3]
    assert "took more than" in failing[3]
    assert last == 4


def test_a_campaign_goes_on_where_it_was_and_tries_again_what_failed(tmp_path: Path, capsys):
    record = Record(tmp_path / "record.json")
    inputs.campaign("x", record, 2, "hostile.test_campaigns:raising")
    assert record.tally("inputs", "x").found == {"taken": 2}
    inputs.campaign("x", record, 9, "hostile.test_campaigns:raising")
    own = record.tally("inputs", "x")
    assert (own.tried, own.found, list(own.failing)) == (9, {"taken": 8}, ["5"])
    inputs.campaign("x", record, 9, "hostile.test_campaigns:raising")
    own = record.tally("inputs", "x")
    assert (own.tried, own.found, own.failing, own.mended) == (9, {"taken": 9}, {}, 1)
