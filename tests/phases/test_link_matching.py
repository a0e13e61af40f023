"""Which links two silos both have: who learns what, on the bytes."""

import dataclasses
import logging

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feddep.errors import InputError
from feddep.federation.messages import Request, payload_bytes
from feddep.learning.link_exchange import MOST_CLAIMS, Place, matched, opened_from, sealed_for
from linked_silos import NAMES, PHASE, linked, links_of, match, pairs, three_banks

CLAIM = Place(PHASE.name, "claim")


def claimed(carrier, sender, receiver):
    """The bytes in which a silo sent its tags to another one."""
    return next(
        reply.arrays[f"tags/{receiver}"]
        for request, reply in carrier.said
        if request.step == "claim" and request.client == sender
    )


def receive(silo, messages, state=None):
    request = Request(silo.client, PHASE.name, "match", 0, messages)
    return PHASE.answer(request, state or {}, silo)[1]


class TestWhatIsMatched:
    def test_both_ends_find_the_links_that_both_have_and_no_others(self):
        silos = three_banks()
        carrier = match(silos)
        common = {("ann", 10), ("ann", 20), ("amy", 20)}
        assert pairs(silos, carrier, 0, 1) == common
        assert pairs(silos, carrier, 1, 0) == {(b, a) for a, b in common}
        assert pairs(silos, carrier, 0, 2) == {("abe", 7)}
        assert links_of(carrier.states[2], 1) == {"own": [], "shown": [], "place": []}

    def test_nodes_are_shown_once_in_the_order_of_their_ids(self):
        carrier = match(three_banks())
        assert links_of(carrier.states[0], 1)["shown"] == [2, 0]  # amy, ann
        assert links_of(carrier.states[1], 0)["shown"] == [2, 1]  # 10, 20

    def test_numbers_and_their_decimal_text_are_the_same_ids(self):
        silos = [linked(0, ["1"], [(0, "bank-b", "10")]), linked(1, [10], [(0, "bank-a", "1")])]
        assert pairs(silos, match(silos), 0, 1) == {("1", 10)}

    def test_ids_that_only_look_alike_together_are_different_links(self):
        silos = [
            linked(0, ["1", "12"], [(0, "bank-b", "23")]),
            linked(1, ["3"], [(0, "bank-a", "12")]),
        ]
        assert links_of(match(silos).states[0], 1)["own"] == []

    def test_silos_without_links_take_part(self):
        silos = [linked(client, [1, 2]) for client in range(3)]
        assert links_of(match(silos).states[1], 2) == {"own": [], "shown": [], "place": []}

    def test_a_silo_that_does_not_claim_is_matched_with_nobody(self):
        silos = three_banks()
        carrier = match(silos, away={"claim": {1}})
        assert links_of(carrier.states[0], 1) == {}
        assert links_of(carrier.states[1], 0) == {}
        assert pairs(silos, carrier, 0, 2) == {("abe", 7)}

    @settings(max_examples=40, deadline=None)
    @given(
        st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5))),
        st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5))),
    )
    def test_whatever_the_two_tables_hold_their_intersection_is_found(self, here, there):
        silos = [
            linked(0, range(10, 16), [(a, "bank-b", b + 20) for a, b in here]),
            linked(1, range(20, 26), [(b, "bank-a", a + 10) for a, b in there]),
        ]
        carrier = match(silos)
        common = {(a + 10, b + 20) for a, b in here & there}
        assert pairs(silos, carrier, 0, 1) == common
        assert pairs(silos, carrier, 1, 0) == {(b, a) for a, b in common}


class TestWhatTheServerSees:
    def test_no_id_and_no_tag_stands_in_anything_that_it_carries(self):
        rng = np.random.default_rng(0)
        ids = [f"DE{n:018d}" for n in rng.integers(10**17, size=50)]
        silos = [
            linked(0, ids, [(n, "bank-b", n) for n in range(50)]),
            linked(1, range(50), [(n, "bank-a", ids[n]) for n in range(50)]),
        ]
        carrier = match(silos)
        assert len(links_of(carrier.states[0], 1)["own"]) == 50
        assert not any(one.encode() in carrier.seen for one in ids)
        for sender in (0, 1):
            tags = opened(silos[1 - sender], sender, claimed(carrier, sender, 1 - sender))
            assert not any(tag.tobytes() in carrier.seen for tag in tags)

    def test_no_eight_bytes_come_twice_in_two_runs(self):
        """Neither in what the server sees nor, as tags, in what a peer sees."""
        one, other = (match(three_banks(run=run)) for run in ("one", "other"))
        assert not eights(one.seen) & eights(other.seen)
        opened_tags = [
            set(opened(three_banks(run=run)[1], 0, claimed(carrier, 0, 1)).tolist())
            for run, carrier in (("one", one), ("other", other))
        ]
        assert not opened_tags[0] & opened_tags[1]

    def test_the_same_run_looks_the_same_again(self):
        assert match(three_banks()).seen == match(three_banks()).seen

    def test_sizes_are_the_same_for_any_number_of_links_up_to_127(self):
        sizes = {payload_bytes(reply.arrays) for _, reply in match(three_banks()).said}
        assert sizes == {0, 2 * (1024 + 16)}

    @pytest.mark.parametrize("count", [1001, 5000, 33_333])
    def test_a_link_takes_eight_bytes_and_five_per_cent(self, count):
        links = [(n % 1000, "bank-b", n) for n in range(count)]
        silos = [linked(0, range(1000), links, names=NAMES[:2]), linked(1, [1], names=NAMES[:2])]
        carrier = match(silos)
        assert claimed(carrier, 0, 1).nbytes <= 1.05 * 8 * count


def opened(silo, peer, message):
    return opened_from(silo, peer, message, CLAIM, np.uint64)


def eights(data):
    return {data[start : start + 8] for start in range(0, len(data), 8)} - {bytes(8)}


class TestHostilePeers:
    def test_repeating_what_was_received_claims_nothing(self):
        """A peer, or a server with its help, that sends a silo's own tags back."""
        silos = three_banks()
        carrier = match(silos)
        heard = opened(silos[1], 0, claimed(carrier, 0, 1))
        echo = {"tags/1": sealed_for(silos[1], 0, heard, CLAIM)}
        assert links_of(receive(silos[0], echo), 1) == {"own": [], "shown": [], "place": []}

    def test_claiming_every_pair_of_ids_claims_nothing(self, caplog):
        """Someone who can guess all ids may claim so many links as could be true, not all pairs."""
        victim = linked(0, range(100), [(n, "bank-b", n) for n in range(100)])
        every = [(b, "bank-a", a) for a in range(100) for b in range(100)]
        attacker = linked(1, range(100), every)
        with caplog.at_level(logging.WARNING, logger="feddep"):
            carrier = match([victim, attacker, linked(2, [1])])
        assert links_of(carrier.states[0], 1)["own"] == []
        assert "look like guesses" in caplog.text

    def test_as_many_as_could_be_true_are_accepted(self):
        victim = linked(0, range(10), [(n, "bank-b", n) for n in range(10)])
        more = [(n, "bank-a", 1000 + n) for n in range(127 * MOST_CLAIMS - 10)]
        generous = linked(1, range(2000), [(n, "bank-a", n) for n in range(10)] + more)
        assert len(links_of(match([victim, generous, linked(2, [1])]).states[0], 1)["own"]) == 10

    @pytest.mark.parametrize(
        "tags",
        [
            np.zeros(10**5, np.uint64),
            np.full(100, 2**64 - 1, np.uint64),
            np.zeros(0, np.uint64),
        ],
        ids=["zeros", "ones", "none"],
    )
    def test_made_up_and_repeated_tags_match_nothing(self, tags):
        silo = three_banks()[0]
        assert len(matched(silo, 1, tags).own) == 0

    def test_a_tag_that_comes_twice_counts_once(self):
        silos = three_banks()
        carrier = match(silos)
        tags = opened(silos[0], 1, claimed(carrier, 1, 0))
        twice = matched(silos[0], 1, np.concatenate([tags, tags]))
        assert twice.own.tolist() == links_of(carrier.states[0], 1)["own"]


class TestSealedMessages:
    def test_a_changed_message_counts_as_not_sent(self, caplog):
        silos = three_banks()
        carrier = match(silos)
        good = claimed(carrier, 2, 0)
        changed = claimed(carrier, 1, 0).copy()
        changed[500] ^= 1
        with caplog.at_level(logging.WARNING, logger="feddep"):
            state = receive(silos[0], {"tags/1": changed, "tags/2": good})
        assert links_of(state, 1) == {} and len(links_of(state, 2)["own"]) == 1
        assert "bank-a cannot open what is said to come from bank-b" in caplog.text

    @pytest.mark.parametrize(
        "sender, receiver, options",
        [
            (2, 0, {}),  # another sender's
            (0, 1, {}),  # the receiver's own, sent back
            (1, 2, {}),  # for another receiver
            (1, 0, {"run": "another run"}),
            (1, 0, {"seed": 1}),
        ],
        ids=["sender", "reflected", "receiver", "run", "keys"],
    )
    def test_what_was_sealed_elsewhere_cannot_be_opened(self, sender, receiver, options, caplog):
        other = claimed(match(three_banks(**options)), sender, receiver)
        assert links_of(receive(three_banks()[0], {"tags/1": other}), 1) == {}
        assert "cannot open" in caplog.text

    @pytest.mark.parametrize(
        "change", [{"phase": "another"}, {"step": "match"}, {"round": 1}], ids=str
    )
    def test_nor_what_was_sealed_for_another_moment(self, change):
        silos = three_banks()
        place = dataclasses.replace(CLAIM, **change)
        message = sealed_for(silos[1], 0, np.zeros(3, np.uint64), place)
        assert links_of(receive(silos[0], {"tags/1": message}), 1) == {}

    @pytest.mark.parametrize("size", [0, 1, 16, 40])
    def test_short_messages_are_refused_like_others(self, size):
        silo = three_banks()[0]
        assert links_of(receive(silo, {"tags/1": np.zeros(size, np.uint8)}), 1) == {}

    def test_messages_from_silos_that_do_not_exist_are_not_looked_at(self):
        silo = three_banks()[0]
        message = np.zeros(1040, np.uint8)
        state = receive(silo, {"tags/9": message, f"tags/{'9' * 5000}": message, "tags/0": message})
        assert state == {}

    def test_a_silo_without_keys_says_what_is_missing(self):
        silo = dataclasses.replace(three_banks()[0], links=None)
        with pytest.raises(InputError, match="no keys for linked silos"):
            sealed_for(silo, 1, np.zeros(1), CLAIM)
