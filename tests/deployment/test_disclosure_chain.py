"""The disclosure log's hash chain: no change to it goes unseen."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from feddep.deployment.protocol.disclosure_log import GENESIS, DisclosureLog, Verified, verify
from feddep.deployment.protocol.log_lines import canonical, entry_hash
from feddep.errors import DataError
from feddep.federation.messages import Reply

LINES = 6
some_line = st.integers(0, LINES - 1)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    """A place to write to, and the lines of a sound log."""
    path = tmp_path_factory.mktemp("chain") / "disclosures.jsonl"
    for i in range(LINES):
        reply = Reply(0, {"classifier/bias": np.zeros(5)}, {"loss": 0.5})
        fields = {"phase": "averaging", "step": "train", "round": i, "epsilon": float(i)}
        DisclosureLog(path).append(run=f"run-{i % 2}", reply=reply, **fields)
    return path.with_name("changed.jsonl"), path.read_bytes().splitlines(keepends=True)


def head_of(lines: list[bytes]) -> tuple[int, str]:
    return len(lines), json.loads(lines[-1])["hash"]


def broken_at(path: Path, lines: list[bytes], head=None) -> str:
    path.write_bytes(b"".join(lines))
    with pytest.raises(DataError) as caught:
        verify(path, head)
    return str(caught.value)


def forged(line: bytes, **changed: object) -> bytes:
    """A changed line with a hash that fits."""
    fields = json.loads(line) | changed
    fields["hash"] = entry_hash(fields)
    return canonical(fields) + b"\n"


def test_the_log_itself_is_sound(chain):
    path, lines = chain
    path.write_bytes(b"".join(lines))
    assert verify(path, head_of(lines)) == Verified(LINES, 2, LINES * 40)


@given(some_line, st.floats(0, 1, exclude_max=True), st.integers(0, 255))
@example(0, 0.0, ord(" "))
@example(2, 0.5, ord("\n"))
def test_any_byte(chain, number, place, byte):
    path, lines = chain
    line = bytearray(lines[number])
    position = int(place * len(line))
    assume(line[position] != byte)
    line[position] = byte
    assert "line" in broken_at(path, [*lines[:number], bytes(line), *lines[number + 1 :]])


@given(some_line, st.integers(0, 30), st.binary(min_size=1, max_size=3))
def test_bytes_put_in(chain, number, place, more):
    path, lines = chain
    line = lines[number][:place] + more + lines[number][place:]
    assert "line" in broken_at(path, [*lines[:number], line, *lines[number + 1 :]])


@given(some_line)
def test_the_same_content_in_other_words(chain, number):
    path, lines = chain
    line = json.dumps(json.loads(lines[number])).encode() + b"\n"
    found = broken_at(path, [*lines[:number], line, *lines[number + 1 :]])
    assert f"line {number + 1} is unparsable" in found


@given(st.integers(0, LINES - 2))
def test_a_removed_line(chain, number):
    path, lines = chain
    found = broken_at(path, lines[:number] + lines[number + 1 :])
    assert f"line {number + 1} has the wrong number ({number + 2})" in found


@given(st.integers(0, LINES - 1))
def test_lines_cut_off_at_the_end_are_found_by_the_head(chain, number):
    path, lines = chain
    path.write_bytes(b"".join(lines[:number]))
    assert verify(path).lines == number
    found = broken_at(path, lines[:number], head_of(lines))
    assert f"ends at line {number}, but line {LINES} was noted" in found


@given(some_line, some_line)
def test_swapped_lines(chain, one, other):
    assume(one != other)
    path, lines = chain
    changed = list(lines)
    changed[one], changed[other] = lines[other], lines[one]
    assert f"line {min(one, other) + 1} has the wrong number" in broken_at(path, changed)


@given(st.integers(0, LINES), some_line)
def test_an_inserted_line(chain, place, copied):
    path, lines = chain
    found = broken_at(path, [*lines[:place], lines[copied], *lines[place:]])
    # A line put in behind itself is the first of two; what follows is wrong.
    assert "has the wrong number" in found


@given(st.integers(0, LINES - 2), st.integers(0, 10**6))
def test_a_forged_line_breaks_the_next(chain, number, size):
    path, lines = chain
    assume(size != 40)
    line = forged(lines[number], bytes=size)
    found = broken_at(path, [*lines[:number], line, *lines[number + 1 :]])
    assert f"line {number + 2} breaks the chain" in found


def test_a_forged_last_line_is_found_by_the_head(chain):
    path, lines = chain
    changed = [*lines[:-1], forged(lines[-1], bytes=0)]
    assert "was noted: the log was rewritten" in broken_at(path, changed, head_of(lines))


@given(st.integers(0, LINES))
def test_a_forged_line_between_two(chain, place):
    path, lines = chain
    previous = json.loads(lines[place - 1])["hash"] if place else GENESIS[1]
    line = forged(lines[0], number=place + 1, previous=previous, run="nobody")
    changed = [*lines[:place], line, *lines[place:]]
    if place < LINES:
        assert f"line {place + 2} has the wrong number" in broken_at(path, changed)
    else:  # at the end anybody may go on, as the silo does; what was noted is still there
        path.write_bytes(b"".join(changed))
        assert verify(path, head_of(lines)).lines == LINES + 1


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"[]\n",
        b"3\n",
        b"NaN\n",
        b"\xff\n",
        b"{}\n",
        b"[" * 100_000 + b"\n",
        b"9" * 5000 + b"\n",
        forged(b'{"number":1,"previous":"' + b"0" * 64 + b'"}'),
    ],
    ids=["empty", "list", "number", "nan", "no-text", "no-keys", "deep", "long", "few-keys"],
)
def test_what_is_no_line_is_named(chain, line):
    path, lines = chain
    assert "line 1 " in broken_at(path, [line, *lines])
    assert f"line {LINES + 1} " in broken_at(path, [*lines, line])
