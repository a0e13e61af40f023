"""The price of what is told over links, and what a statement says of it."""

import math

from feddep.privacy.accountant import NOTHING, Prices, price
from feddep.privacy.events import LinkAnswers, MatchedLinks, Message, from_plain, to_plain
from feddep.privacy.links import link_epsilon
from feddep.privacy.meaning import GraphSize
from feddep.privacy.statement import statement

CODES = LinkAnswers("codes", "codes", epsilon=4.0, of="labels")


def test_answers_of_a_run_add_up():
    assert link_epsilon([]) == 0
    assert (
        link_epsilon(
            [MatchedLinks(), CODES, LinkAnswers("more", "scores", epsilon=0.5, of="scores")]
        )
        == 4.5
    )
    assert link_epsilon([CODES, LinkAnswers("bare", "features")]) == math.inf


def test_events_of_links_can_be_stored():
    events = [MatchedLinks(one_sided=True), CODES, LinkAnswers("bare", "features")]
    assert from_plain(to_plain(events)) == events


def test_they_bound_nothing_for_edges_inside_a_silo():
    found = price([MatchedLinks(), CODES, Message("codes", "codes", 1, 8)], 100)
    assert found.sound == NOTHING


def test_a_statement_says_who_knows_of_links_and_what_is_told():
    prices = Prices(NOTHING, NOTHING, NOTHING)
    said = [MatchedLinks(one_sided=True), CODES]
    told = statement("none", prices, [said, said], [GraphSize(9, 9)] * 2)
    assert told.count("known to these two silos alone") == 1
    assert "only the other one has" in told
    assert "Linked silos are told codes, with noise of ε = 4 for each node" in told
