"""A silo's memory: whole or not at all, its owner's alone, no longer than needed."""

import os
import stat
from dataclasses import replace

import numpy as np
import pytest

from feddep.deployment.protocol.memory import KEPT_ANSWERS, Answer, Carried, Files, RunMemory
from feddep.errors import DataError
from feddep.federation.messages import Reply

STATE = {"classifier/bias": np.arange(3.0), "seen": np.array([True])}


@pytest.fixture(params=["files", "carried"])
def pieces(request, tmp_path):
    return Files(tmp_path / "runs" / "run") if request.param == "files" else Carried({})


def answer(place: str, asked: str = "what") -> Answer:
    reply = Reply(2, {"classifier/bias": np.ones(2)}, {"loss": 0.5})
    return Answer(place, asked, reply, {"classifier/bias": np.zeros(2)})


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestPieces:
    def test_what_is_saved_is_loaded(self, pieces):
        pieces.save("b", b"one")
        pieces.save("a", b"")
        pieces.save("b", b"other")
        assert pieces.load("b") == b"other"
        assert pieces.load("a") == b""
        assert pieces.names() == ["a", "b"]

    def test_what_was_never_saved_is_not_there(self, pieces):
        assert pieces.load("a") is None
        assert pieces.names() == []
        pieces.remove("a")

    def test_what_is_removed_is_gone(self, pieces):
        pieces.save("a", b"one")
        pieces.remove("a")
        assert pieces.load("a") is None
        assert pieces.names() == []


class TestFiles:
    def test_nobody_else_can_read_them(self, tmp_path):
        before = os.umask(0)
        try:
            Files(tmp_path / "run").save("a", b"secret")
        finally:
            os.umask(before)
        assert mode(tmp_path / "run") == 0o700
        assert mode(tmp_path / "run" / "a") == 0o600

    def test_a_file_that_others_could_read_is_theirs_no_longer(self, tmp_path):
        (tmp_path / "a").write_bytes(b"old")
        (tmp_path / "a").chmod(0o644)
        Files(tmp_path).save("a", b"new")
        assert mode(tmp_path / "a") == 0o600

    def test_a_draft_is_no_piece(self, tmp_path):
        files = Files(tmp_path)
        (tmp_path / ".a.4711").write_bytes(b"half of")
        assert files.names() == []
        assert files.load("a") is None

    def test_killed_while_writing_the_old_piece_is_still_there(self, tmp_path, monkeypatch):
        files = Files(tmp_path)
        files.save("a", b"old")

        def killed(descriptor):
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fsync", killed)
        with pytest.raises(KeyboardInterrupt):
            files.save("a", b"new")
        assert files.load("a") == b"old"
        assert files.names() == ["a"]


class TestRunMemory:
    def test_at_first_there_is_nothing(self, pieces):
        memory = RunMemory(pieces)
        assert memory.agreement is None
        assert memory.recall() == (None, {}, {})
        assert memory.answer_at("00-000000-00") is None

    def test_what_had_left_before_the_memory_was_lost_is_part_of_the_agreement(self, pieces):
        RunMemory(pieces).agree({"run": "a", "sent": {"classifier": 3}})
        memory = RunMemory(pieces)
        assert memory.agreement == {"run": "a", "sent": {"classifier": 3}}
        assert memory.recall() == (None, {}, {"classifier": 3})

    def test_it_goes_on_from_the_last_answer(self, pieces):
        memory = RunMemory(pieces)
        memory.agree({"sent": {"classifier": 3}})
        memory.move_on(answer("00-000000-00"), STATE, {"classifier": 4})
        place, state, sent = RunMemory(pieces).recall()
        assert (place, sent) == ("00-000000-00", {"classifier": 4})
        assert state.keys() == STATE.keys()
        assert all(np.array_equal(state[name], STATE[name]) for name in STATE)

    def test_an_answer_is_kept_with_how_to_take_it_back(self, pieces):
        RunMemory(pieces).move_on(answer("p"), STATE, {})
        found = RunMemory(pieces).answer_at("p")
        assert (found.place, found.asked, found.reply.client) == ("p", "what", 2)
        assert found.reply.metrics == {"loss": 0.5}
        assert np.array_equal(found.reply.arrays["classifier/bias"], np.ones(2))
        assert np.array_equal(found.before["classifier/bias"], np.zeros(2))

    @pytest.mark.parametrize("redone", ["0", "1", "2"])
    def test_an_answer_counts_only_with_the_state_after_it(self, pieces, redone):
        memory = RunMemory(pieces)
        memory.move_on(answer("0"), STATE, {})
        memory.move_on(answer("1"), STATE, {})
        state = pieces.load("state.bin")
        memory.move_on(answer(redone, "other words"), {}, {})
        pieces.save("state.bin", state)  # killed between the two
        found = memory.answer_at(redone)
        if redone == "2":
            assert found is None
        else:
            assert found.asked == ""
            assert np.array_equal(found.before["classifier/bias"], np.zeros(2))

    def test_so_many_answers_are_kept(self, pieces):
        memory = RunMemory(pieces)
        for number in range(KEPT_ANSWERS + 3):
            memory.move_on(answer(f"{number:02}"), STATE, {})
        kept = [n for n in range(KEPT_ANSWERS + 3) if memory.answer_at(f"{n:02}") is not None]
        assert kept == list(range(3, KEPT_ANSWERS + 3))

    def test_going_back_takes_back_what_came_after(self, pieces):
        memory = RunMemory(pieces)
        for number in range(3):
            memory.move_on(answer(f"{number}"), STATE, {})
        memory.move_on(answer("1", "other words"), {}, {})
        assert memory.recall()[0] == "1"
        assert memory.answer_at("0").asked == "what"
        assert memory.answer_at("1").asked == "other words"
        assert memory.answer_at("2") is None

    def test_the_newest_answer_is_kept_however_far_back_it_is(self, pieces):
        memory = RunMemory(pieces)
        for number in range(1, KEPT_ANSWERS + 1):
            memory.move_on(answer(f"{number}"), STATE, {})
        memory.move_on(answer("0"), STATE, {})
        assert memory.answer_at("0") is not None
        assert pieces.names() == ["0.answer", "state.bin"]

    def test_what_version_0_1_remembered_has_the_names_of_today(self, pieces):
        memory, missing = RunMemory(pieces), np.ones((3, 2))
        earlier = replace(answer("1"), before={"mended": 2 * missing})
        memory.move_on(earlier, {"mended": missing, "cluster": np.arange(3)}, {})
        _, state, _ = memory.recall()
        assert state.keys() == {"missing_embeddings", "cluster"}
        assert np.array_equal(state["missing_embeddings"], missing)
        before = memory.answer_at("1").before
        assert np.array_equal(before["missing_embeddings"], 2 * missing)

    def test_after_the_run_nothing_is_left(self, pieces):
        memory = RunMemory(pieces)
        memory.agree({})
        memory.move_on(answer("0"), STATE, {})
        memory.forget()
        assert pieces.names() == []
        assert memory.agreement is None

    def test_a_damaged_piece_is_no_memory(self, pieces):
        pieces.save("state.bin", b"x" * 20)
        with pytest.raises(DataError):
            RunMemory(pieces).recall()
