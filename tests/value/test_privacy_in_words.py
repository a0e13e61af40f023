"""What a way of learning promises, in the few words that a table has room for."""

import pytest

from feddep.value.ways import in_words

NONE = {"sound": {"epsilon": None, "verdict": "none"}}
HOLDS = {"sound": {"epsilon": 2.0, "verdict": "holds"}}
TOO_LARGE = {"sound": {"epsilon": 30.0, "verdict": "none"}}
LINKS = {"links": {"epsilon": 4.0}}


@pytest.mark.parametrize(
    ("privacy", "says"),
    [
        (NONE, "no bound on what a link may reveal"),
        (HOLDS, "ε = 2 for one link"),
        (TOO_LARGE, "ε = 30 for one link, too large to promise anything"),
        (NONE | LINKS, "no bound on what a link may reveal; ε = 4 for what is told of one node"),
        (HOLDS | {"links": {"epsilon": None}}, "ε = 2 for one link"),
    ],
)
def test_links_and_what_linked_silos_are_told(privacy, says):
    assert in_words(privacy) == says
