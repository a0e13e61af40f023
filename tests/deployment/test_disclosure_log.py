"""The disclosure log: durable, in one piece, and counted."""

import hashlib
import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from feddep.deployment.protocol import disclosure_log as module
from feddep.deployment.protocol.disclosure_log import (
    GENESIS,
    DisclosureLog,
    Verified,
    agreements,
    counted,
    sent,
    verify,
)
from feddep.deployment.protocol.log_lines import canonical, entry_hash
from feddep.errors import DataError, RuntimeFailureError
from feddep.federation.messages import Reply

REPLY = Reply(
    1,
    {
        "classifier/weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "classifier/bias": np.zeros(2),
    },
    {"loss": 0.5, "training_nodes": 12},
)


def note(path: Path, reply: Reply = REPLY, **changed: object):
    fields = {"run": "run", "phase": "averaging", "step": "train", "round": 0, "epsilon": None}
    DisclosureLog(path).append(**(fields | changed), reply=reply)
    return DisclosureLog(path).head()


def lines_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "disclosures.jsonl"


class TestLines:
    def test_a_line_says_all_about_a_payload(self, path):
        note(path, run="a1", round=3, epsilon=2.0)
        (line,) = lines_of(path)
        weight = REPLY.arrays["classifier/weight"]
        assert line.pop("time").endswith("+00:00")
        digest = line.pop("hash")
        assert line["names"].pop("classifier/bias")["shape"] == [2]
        assert line == {
            "number": 1,
            "run": "a1",
            "phase": "averaging",
            "step": "train",
            "round": 3,
            "names": {
                "classifier/weight": {
                    "shape": [2, 3],
                    "dtype": "<f4",
                    "bytes": 24,
                    "sha256": hashlib.sha256(weight.tobytes()).hexdigest(),
                }
            },
            "numbers": {"loss": 0.5, "training_nodes": 12.0},
            "bytes": 40,
            "epsilon": 2.0,
            "previous": "0" * 64,
        }
        assert len(digest) == 64

    def test_the_hash_is_that_of_the_canonical_json_of_the_rest(self, path):
        note(path)
        (line,) = lines_of(path)
        digest = line.pop("hash")
        text = json.dumps(line, sort_keys=True, separators=(",", ":"))
        assert digest == hashlib.sha256(text.encode()).hexdigest()

    def test_each_line_holds_the_hash_of_the_one_before(self, path):
        for _ in range(3):
            note(path)
        one, two, three = lines_of(path)
        assert (two["previous"], three["previous"]) == (one["hash"], two["hash"])
        assert [one["number"], two["number"], three["number"]] == [1, 2, 3]

    @pytest.mark.parametrize("epsilon", [None, float("inf"), float("nan")])
    def test_a_budget_without_bound_is_null(self, path, epsilon):
        note(path, epsilon=epsilon)
        assert lines_of(path)[0]["epsilon"] is None

    def test_numbers_that_json_does_not_know(self, path):
        note(path, Reply(0, {}, {"loss": float("nan"), "other": np.float32("-inf")}))
        assert lines_of(path)[0]["numbers"] == {"loss": "nan", "other": "-inf"}
        verify(path)

    def test_the_hash_is_that_of_the_numbers_in_order_however_they_lie_in_memory(self, path):
        array = np.arange(6.0).reshape(2, 3)
        note(path, Reply(0, {"a": array}))
        note(path, Reply(0, {"a": np.asfortranarray(array)}))
        one, two = lines_of(path)
        assert one["names"] == two["names"]

    def test_arrays_without_extent(self, path):
        note(path, Reply(0, {"scalar": np.array(3.0), "empty": np.zeros((0, 4))}))
        note(path, Reply(0))
        assert verify(path) == Verified(2, 1, 8)

    def test_a_line_stays_one_line(self, path):
        note(path, run="a\nb\u2028\ud800c", phase="d\re")
        assert path.read_bytes().count(b"\n") == 1
        assert sent(path, "a\nb\u2028\ud800c") == {"classifier": 1, "numbers/d\re": 1}

    def test_what_could_not_be_verified_is_not_written(self, path):
        with pytest.raises(DataError, match="unparsable"):
            note(path, run=3)
        assert path.read_bytes() == b""

    def test_numbers_of_other_libraries_are_numbers(self, path):
        note(path, round=np.int64(3), epsilon=np.float32(0.5))
        assert (lines_of(path)[0]["round"], lines_of(path)[0]["epsilon"]) == (3, 0.5)


class TestFile:
    def test_it_is_its_owners_only(self, path):
        before = os.umask(0)
        try:
            note(path)
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_a_file_that_others_could_read_is_closed_to_them(self, path):
        path.touch(mode=0o644)
        note(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_the_line_is_on_the_disk_before_the_call_returns(self, path, monkeypatch):
        seen = []
        monkeypatch.setattr(os, "fsync", lambda _: seen.append(path.read_bytes()))
        note(path)
        assert seen[-1] == path.read_bytes() != b""

    def test_a_disk_that_fails_is_said(self, path, monkeypatch):
        def fails(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", fails)
        with pytest.raises(RuntimeFailureError, match="No space left on device; nothing may leave"):
            note(path)

    def test_a_folder_that_is_not_there_is_said(self, path):
        with pytest.raises(RuntimeFailureError, match="cannot write the disclosure log"):
            note(path / "deeper")

    def test_threads_do_not_interleave(self, path):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda i: note(path, round=i), range(24)))
        assert verify(path).lines == 24

    def test_processes_do_not_interleave(self, path):
        program = (
            "import sys, pathlib, numpy\n"
            "from feddep.deployment.protocol.disclosure_log import DisclosureLog\n"
            "from feddep.federation.messages import Reply\n"
            "for i in range(20):\n"
            "    DisclosureLog(pathlib.Path(sys.argv[1])).append(run=sys.argv[2], phase='p',\n"
            "        step='s', round=i, reply=Reply(0, {'a': numpy.ones(9)}), epsilon=None)\n"
        )
        command = [sys.executable, "-c", program, str(path)]
        started = [subprocess.Popen([*command, name]) for name in ("one", "two")]
        assert [process.wait(60) for process in started] == [0, 0]
        assert verify(path) == Verified(40, 2, 40 * 72)


class TestTorn:
    @pytest.mark.parametrize("share", [0.01, 0.5, 0.99, 1.0])
    def test_a_torn_line_is_put_aside_and_the_chain_says_so(self, path, share):
        note(path)
        whole = path.read_bytes()
        note(path, round=1)
        line = path.read_bytes()[len(whole) : -1]
        torn = line[: max(1, int(share * len(line)))]
        path.write_bytes(whole + torn)
        with pytest.raises(DataError, match="line 2 is unparsable: it is incomplete"):
            verify(path)

        assert note(path, round=2)[0] == 3
        assert verify(path).lines == 3
        recovered = lines_of(path)[1]
        assert recovered["kind"] == "recovered"
        assert recovered["torn"] == {
            "file": "disclosures.jsonl.torn",
            "bytes": len(torn),
            "sha256": hashlib.sha256(torn).hexdigest(),
        }
        aside = path.with_name("disclosures.jsonl.torn")
        assert aside.read_bytes() == torn + b"\n"
        assert stat.S_IMODE(aside.stat().st_mode) == 0o600

    def test_the_first_line_may_be_torn(self, path):
        path.write_bytes(b'{"bytes"')
        note(path)
        assert [line.get("kind") for line in lines_of(path)] == ["recovered", None]
        assert verify(path) == Verified(2, 1, 40)

    def test_a_torn_line_longer_than_the_one_that_takes_its_place(self, path):
        note(path)
        whole = path.read_bytes()
        path.write_bytes(whole + b"x" * 5000)
        note(path)
        assert verify(path).lines == 3

    def test_it_may_happen_again(self, path):
        for rest in (b"one", b"two"):
            note(path)
            with path.open("ab") as file:
                file.write(rest)
        note(path)
        assert path.with_name("disclosures.jsonl.torn").read_bytes() == b"one\ntwo\n"
        assert verify(path).lines == 5

    @pytest.mark.parametrize("crash_at", range(1, 5))
    def test_a_crash_while_recovering_loses_nothing(self, path, monkeypatch, crash_at):
        note(path)
        with path.open("ab") as file:
            file.write(b"t" * 2000)
        calls = []

        def crashes(file):
            calls.append(file)
            file.flush()
            if len(calls) == crash_at:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(module, "_to_disk", crashes)
            with pytest.raises(KeyboardInterrupt):
                note(path)
        note(path)
        verify(path)
        assert "recovered" in [line.get("kind") for line in lines_of(path)]
        assert b"t" * 2000 in path.with_name("disclosures.jsonl.torn").read_bytes()

    def test_a_broken_last_line_that_is_not_torn_stops_everything(self, path):
        note(path)
        path.write_bytes(path.read_bytes().replace(b'"round":0', b'"round":1'))
        before = path.read_bytes()
        with pytest.raises(DataError, match=r"disclosures.jsonl: line 1 has a wrong hash"):
            note(path)
        with pytest.raises(DataError, match="line 1 has a wrong hash"):
            DisclosureLog(path).head()
        assert path.read_bytes() == before


class TestHead:
    def test_of_an_empty_log(self, path):
        assert DisclosureLog(path).head() == GENESIS
        path.touch()
        assert DisclosureLog(path).head() == GENESIS
        assert verify(path, GENESIS) == Verified(0, 0, 0)

    def test_it_is_the_last_line(self, path):
        note(path)
        note(path)
        assert DisclosureLog(path).head() == (2, lines_of(path)[1]["hash"])

    def test_an_older_head_stays_in_the_chain(self, path):
        heads = [note(path) for _ in range(3)]
        for head in heads:
            assert verify(path, head).lines == 3

    def test_a_torn_line_is_no_head(self, path):
        head = note(path)
        with path.open("ab") as file:
            file.write(b"torn")
        assert DisclosureLog(path).head() == head

    def test_a_rewritten_log_does_not_hold_it(self, path):
        head = note(path)
        path.unlink()
        note(path, round=1)
        with pytest.raises(DataError, match=r"line 1 has the hash .* the log was rewritten"):
            verify(path, head)

    def test_no_log_is_no_verified_log(self, path):
        with pytest.raises(DataError, match="cannot read the disclosure log"):
            verify(path)


class TestSent:
    def test_groups_are_counted_by_run(self, path):
        note(path, round=0)
        note(path, round=1)
        note(path, Reply(1, {"prototypes": np.ones(3)}), phase="prototype_exchange")
        note(path, run="other")
        assert sent(path, "run") == {"classifier": 2, "numbers/averaging": 2, "prototypes": 1}
        assert sent(path, "other") == {"classifier": 1, "numbers/averaging": 1}
        assert sent(path, "third") == {}

    def test_without_a_file_nothing_was_sent(self, path):
        assert sent(path, "run") == {}

    def test_the_same_payload_again_counts_again(self, path):
        note(path)
        note(path)
        assert sent(path, "run") == {"classifier": 2, "numbers/averaging": 2}

    def test_a_torn_line_was_not_sent_and_recoveries_are_not_payloads(self, path):
        note(path)
        with path.open("ab") as file:
            file.write(b"torn")
        assert sent(path, "run")["classifier"] == 1
        note(path, round=1)
        assert sent(path, "run")["classifier"] == 2

    def test_a_broken_chain_is_not_counted(self, path):
        note(path)
        note(path)
        path.write_bytes(path.read_bytes().replace(b'"run":"run"', b'"run":"ran"', 1))
        with pytest.raises(DataError, match="line 1"):
            sent(path, "run")

    def test_what_a_payload_counts_as(self):
        assert counted("p", ["a/x", "a/y", "b"], []) == {"a", "b"}
        assert counted("p", [], ["loss", "count"]) == {"numbers/p"}


class TestAgreements:
    def test_they_have_lines_without_payload(self, path):
        DisclosureLog(path).agree(run="run", agreement="abc", epsilon=2.0)
        DisclosureLog(path).refuse(run="other", reason="no " * 1000)
        note(path)
        yes, no, _ = lines_of(path)
        assert (yes["kind"], yes["run"], yes["agreement"], yes["epsilon"]) == (
            "agreed",
            "run",
            "abc",
            2.0,
        )
        assert (no["kind"], no["run"], len(no["reason"])) == ("refused", "other", 500)
        assert verify(path) == Verified(3, 1, 40)
        assert sent(path, "run") == {"classifier": 1, "numbers/averaging": 1}

    def test_a_run_s_own_are_found(self, path):
        assert agreements(path, "run") == set()
        for run, digest, graph in (
            ("run", "abc", "g"),
            ("run", "abc", "g"),
            ("other", "def", None),
        ):
            DisclosureLog(path).agree(run=run, agreement=digest, epsilon=None, graph=graph)
        DisclosureLog(path).refuse(run="third", reason="no")
        found = [agreements(path, run) for run in ("run", "other", "third")]
        assert found == [{("abc", "g")}, {("def", None)}, set()]

    def test_a_line_of_an_earlier_version_names_no_graph(self, path):
        fields = {"number": 1, "time": "2026-11-18T00:00:00+00:00", "kind": "agreed", "run": "run"}
        fields |= {"agreement": "abc", "epsilon": 1.0, "previous": "0" * 64}
        path.write_bytes(canonical({**fields, "hash": entry_hash(fields)}) + b"\n")
        assert agreements(path, "run") == {("abc", None)}
        assert verify(path).lines == 1

    def test_in_a_broken_chain_they_are_not_looked_for(self, path):
        for digest in ("abc", "def"):
            DisclosureLog(path).agree(run="run", agreement=digest, epsilon=None)
        path.write_bytes(path.read_bytes().replace(b'"abc"', b'"def"'))
        with pytest.raises(DataError, match="line 1"):
            agreements(path, "run")
