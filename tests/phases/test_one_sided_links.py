"""Links that only one silo has in its tables: who is answered, and who limits it."""

import logging
from functools import partial

import numpy as np
import pytest

from feddep.learning.link_exchange import Place, opened_from
from linked_silos import PHASE, linked, links_of, match, pairs, three_banks

one_sided = partial(linked, one_sided=True)


def test_a_silo_is_answered_for_links_that_only_it_has():
    silos = three_banks(one_sided=True)
    carrier = match(silos)
    asked = {("ann", 10), ("ann", 20), ("amy", 20), ("abe", 30)}
    assert pairs(silos, carrier, 0, 1) == asked
    assert pairs(silos, carrier, 1, 0) == {(20, "amy"), (20, "ann"), (10, "ann"), (30, "amy")}
    assert pairs(silos, carrier, 2, 1) == {(5, 10)}
    assert links_of(carrier.states[1], 2) == {"own": [], "shown": [2], "place": []}


def test_ids_that_the_other_silo_does_not_have_are_not_answered():
    silos = [one_sided(0, [1], [(0, "bank-b", 5), (0, "bank-b", 6)]), one_sided(1, [6, 7])]
    carrier = match(silos)
    assert pairs(silos, carrier, 0, 1) == {(1, 6)}


@pytest.mark.parametrize("allowed, answered", [(3, 4), (2, 1), (0, 1)])
def test_an_owner_limits_for_how_many_nodes_without_a_link_others_are_answered(
    allowed, answered, caplog
):
    """One of the four nodes has a link itself; for the others all or nothing."""
    asks = one_sided(0, [1], [(0, "bank-b", n) for n in range(4)])
    owner = one_sided(1, range(10), [(3, "bank-a", 1)], answers=allowed)
    with caplog.at_level(logging.WARNING, logger="feddep"):
        carrier = match([asks, owner])
    assert len(links_of(carrier.states[0], 1)["own"]) == answered
    assert ("asks bank-b about 3 nodes" in caplog.text) is (answered == 1)


def test_asking_about_every_id_tells_no_more_than_the_limit():
    asks = one_sided(0, [1], [(0, "bank-b", n) for n in range(1000)])
    carrier = match([asks, one_sided(1, range(0, 1000, 10), answers=20)])
    assert links_of(carrier.states[0], 1) == {"own": [], "shown": [], "place": []}


def test_repeating_questions_names_nothing():
    """Names are other tags than questions, so an echo is no answer."""
    silos = [one_sided(0, [1], [(0, "bank-b", 2)]), one_sided(1, [3])]
    carrier = match(silos)
    heard = [request.arrays for request, _ in carrier.said if request.step == "match"][1]
    asked = opened_from(silos[1], 0, heard["tags/0"], Place(PHASE.name, "claim"), np.uint64)
    _, reply = [pair for pair in carrier.said if pair[0].step == "match"][1]
    named = opened_from(silos[0], 1, reply.arrays["names/0"], Place(PHASE.name, "match"), np.uint64)
    assert not set(asked.tolist()) & set(named.tolist())  # not even what fills them up


def test_who_is_away_in_between_is_linked_with_nobody():
    silos = three_banks(one_sided=True)
    carrier = match(silos, away={"match": {1}})
    assert "own" not in links_of(carrier.states[0], 1)
    assert pairs(silos, carrier, 0, 2) == {("abe", 7)}
    carrier = match(silos, away={"settle": {1}})
    assert "own" not in links_of(carrier.states[1], 0)
    assert len(pairs(silos, carrier, 0, 2)) == 1
