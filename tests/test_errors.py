"""A message is one line that can be printed, whoever wrote what it quotes."""

import pytest

from feddep.errors import ConsentError, DataError, InputError


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("é ≥ 1, got 'x'", "é ≥ 1, got 'x'"),
        ("column a\nb", "column a\\nb"),
        ("\x1b[2J and \x9b", "\\x1b[2J and \\x9b"),
        ("turned \u202e round, \ud800 alone", "turned \\u202e round, \\ud800 alone"),
    ],
)
def test_what_a_file_or_a_peer_wrote_breaks_no_line_and_steers_no_terminal(text, told):
    assert str(DataError(text)) == told


def test_a_list_of_reasons_has_lines_and_nothing_else():
    assert str(ConsentError("refused:\n- a\x1b[2J\n- b")) == "refused:\n- a\\x1b[2J\n- b"


def test_it_ends():
    assert len(str(InputError("9" * 10**6))) < 5000
