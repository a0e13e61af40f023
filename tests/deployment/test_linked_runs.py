"""Linked silos over a network: names, keys, consent, budget; silos that are away or start anew."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from direct_channel import DirectChannel
from envelopes import SMALL, SiloWithMemory, refused

import linked_methods
from feddep.algorithms import METHODS
from feddep.deployment.protocol import remote_runtime
from feddep.deployment.protocol.agreement import Agreement
from feddep.deployment.protocol.consent import Consent
from feddep.deployment.protocol.disclosure_log import DisclosureLog
from feddep.deployment.protocol.federate import RUN_NAME, federate
from feddep.deployment.protocol.link_consent import LinkConsent
from feddep.deployment.protocol.memory import Carried, RunMemory
from feddep.deployment.protocol.silo_service import SiloService
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import InputError
from feddep.federation.messages import group
from feddep.graph.shard import Shards
from feddep.privacy.events import MatchedLinks
from feddep.privacy.pair_keys import Keyring
from feddep.runs.folder import RunFolder
from feddep.runs.opening import open_run
from feddep.runs.pipeline import run as run_here
from feddep.runtime.envelope import Envelope, Undelivered
from feddep.scenario.spec import RunSpec

SPEC = RunSpec().with_settings({**SMALL, "method": linked_methods.ADDRESS, "training.rounds": 2})
TINY = {"embedding.width": 6, "embedding.epochs": 1}
CONSENT = {
    "methods": {linked_methods.ADDRESS},
    "messages": {"classifier", "tags", "labels"},
    "rounds": 3,
    "smallest_cluster": 5,
    "highest_epsilon": "unbounded",
    "links": "labels",
    "links_epsilon": 2.0,
}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(remote_runtime.time, "sleep", lambda seconds: None)


@pytest.fixture(scope="module")
def linked_shards(small_shards) -> Shards:
    """Three banks that know their links to each other, by each other's names."""
    named = replace(small_shards, names=("bank-a", "bank-b", "bank-c"))
    return named.with_known_links()


@pytest.fixture
def silos(linked_shards, tmp_path) -> list[SiloService]:
    names = linked_shards.client_names
    private = {name: X25519PrivateKey.generate() for name in names}
    public = {name: key.public_key().public_bytes_raw() for name, key in private.items()}
    return [
        SiloService(
            name,
            lambda graph=graph: graph,
            consent=Consent(**CONSENT),
            disclosures=DisclosureLog(tmp_path / f"{name}.jsonl"),
            secret=number,
            link_keys=Keyring(private[name], public),
        )
        for number, (name, graph) in enumerate(zip(names, linked_shards, strict=True))
    ]


def federated(channel, path, spec=SPEC, *, resume=False, **policy):
    wait_policy = WaitPolicy(**{"wait": 20.0, "resend": 5.0, "grace": 0.01, **policy})
    with RunFolder.claim(path, spec, resume=resume) as folder:
        return federate(channel, spec, folder, wait_policy=wait_policy)


def heard(channel: DirectChannel) -> dict[int, dict[str, list[int]]]:
    """What each silo was told, from its memory just before the run ended."""
    found = {}
    for address, memory in channel.memories.items():
        for run in memory.values():
            _, state, _ = RunMemory(Carried(run)).recall()
            told = group(state, "heard")
            found[100 - address] = {peer: codes.tolist() for peer, codes in told.items()}
    return found


class Remembering(DirectChannel):
    """Silos that forget nothing when the run ends."""

    def deliver(self, envelopes, seconds):
        kept = {a: e for a, e in envelopes.items() if e.header["kind"] != "close"}
        closed = {a: Envelope({"done": True}) for a in envelopes.keys() - kept.keys()}
        return super().deliver(kept, seconds) | closed


def expected_labels(shards: Shards) -> dict[int, dict[str, list[int]]]:
    """The labels at the other ends, as a third party would tell them."""
    found = {}
    for client, rows in enumerate(shards.crossings()):
        found[client] = {}
        for peer in range(shards.clients):
            there = np.unique(rows[rows[:, 1] == peer, 2])
            graph = shards[peer]
            order = there[np.argsort(graph.node_ids[there].astype(str))]
            if peer != client:
                found[client][str(peer)] = graph.labels[order].tolist()
    return found


def refusal(channel, path, match, spec=SPEC):
    with pytest.raises(InputError, match=match):
        federated(channel, path, spec)


class TestARun:
    def test_silos_hear_what_stands_at_the_other_end_and_the_server_does_not(
        self, silos, linked_shards, tmp_path
    ):
        channel = Remembering(silos)
        record = federated(channel, tmp_path / "run")
        assert heard(channel) == expected_labels(linked_shards)
        assert record["privacy"]["silos"][0]["links"] == 2.0
        known = json.loads((tmp_path / "run" / RUN_NAME).read_text())
        assert [silo["name"] for silo in known["silos"]] == ["bank-a", "bank-b", "bank-c"]

    @pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].linked])
    def test_simulated_silos_train_what_they_train_in_one_process(
        self, linked_shards, tmp_path, method
    ):
        one_sided = {"links.one_sided": True} if method == "feddep-linked" else {}
        spec = SPEC.with_settings(
            {**TINY, **one_sided, **METHODS[method].settings, "method": method}
        )
        spec = replace(spec, seed=linked_shards.seed)
        silos = [
            SiloService(name, lambda graph=graph: graph)
            for name, graph in zip(linked_shards.client_names, linked_shards, strict=True)
        ]
        federated(DirectChannel(silos), tmp_path / "run", spec)
        here = run_here(spec, linked_shards, workers=1, device="cpu")
        there = open_run(tmp_path / "run")
        weights = there.models[0].weights
        assert all(np.array_equal(weights[name], own) for name, own in here.model.weights.items())
        assert there.record["traffic"] == here.record["traffic"]

    def test_two_runs_have_no_eight_bytes_in_common(self, silos, tmp_path):
        seen = []
        for name in ("one", "two"):
            channel = DirectChannel(silos)
            federated(channel, tmp_path / name)
            data = b"".join(
                array.tobytes()
                for _, envelope in channel.asked
                for key, array in envelope.arrays.items()
                if key.startswith(("tags/", "labels/"))
            )
            seen.append({data[start : start + 8] for start in range(0, len(data), 8)})
        assert len(seen[0]) > 100
        assert not seen[0] & seen[1]

    def test_a_silo_that_is_away_is_linked_with_nobody(self, silos, tmp_path):
        def away(address, envelope, answer):
            absent = address == 100 and envelope.header.get("phase") == "link_matching"
            return Undelivered("away") if absent else answer

        channel = Remembering(silos, tamper=away)
        federated(channel, tmp_path / "run", quorum=0.5)
        told = heard(channel)
        assert set(told[1]) == {"2"} and set(told[2]) == {"1"}

    def test_a_silo_that_lost_its_disk_hears_the_same_again(self, silos, linked_shards, tmp_path):
        lost = []

        def forgets(address, envelope, answer):
            if envelope.header.get("phase") == "averaging" and address == 99 and not lost:
                lost.append(channel.memories[address].clear())
                return Undelivered("lost its disk")
            return answer

        channel = Remembering(silos, tamper=forgets)
        federated(channel, tmp_path / "run")
        assert lost and heard(channel) == expected_labels(linked_shards)

    def test_a_killed_server_goes_on(self, silos, linked_shards, tmp_path):
        def dies(address, envelope, answer):
            if envelope.header.get("step") == "hear":
                raise KeyboardInterrupt
            return answer

        channel = Remembering(silos, tamper=dies)
        with pytest.raises(KeyboardInterrupt):
            federated(channel, tmp_path / "run")
        channel.tamper = lambda address, envelope, answer: answer
        federated(channel, tmp_path / "run", resume=True)
        assert heard(channel) == expected_labels(linked_shards)

    def test_a_server_that_changes_a_message_is_not_believed(self, silos, tmp_path, caplog):
        def swap(address, envelope, answer):
            if address == 100 and "labels/1" in answer.arrays:
                changed = answer.arrays["labels/1"].copy()
                changed[-1] ^= 1
                return Envelope(answer.header, {**answer.arrays, "labels/1": changed})
            return answer

        channel = Remembering(silos, tamper=swap)
        federated(channel, tmp_path / "run")
        assert set(heard(channel)[1]) == {"2"} and set(heard(channel)[2]) == {"0", "1"}
        assert "bank-b cannot open what is said to come from bank-a" in caplog.text


class TestNamesAndKeys:
    @pytest.mark.parametrize(
        "names, match",
        [
            (["bank-b", "bank-a", "bank-c"], "calls client 0, which is bank-a, by another name"),
            ([], "by another name"),
            (["bank-a", "bank-b", "stranger"], "bank-a has no link key of stranger"),
            (["bank-a", "bank-a", "bank-c"], "silos are named, each once"),
            (["bank-a", "../../etc", "bank-c"], "expected an agreement"),
            ("bank-a", "expected an agreement"),
            (3, "expected an agreement"),
        ],
    )
    def test_a_server_that_calls_silos_by_other_names_is_refused(self, silos, names, match):
        graph = silos[0].graph()
        honest = Agreement(
            "run", SPEC, graph.feature_count, graph.classes, 300, ("bank-a", "bank-b", "bank-c")
        ).to_plain()
        envelope = Envelope({"kind": "agree", "client": 0, **honest, "silos": names})
        assert re.search(match, refused(SiloWithMemory(silos[0])(envelope)))

    def test_silos_with_different_agreements_cannot_read_each_other(self, silos, tmp_path, caplog):
        """A server that tells one silo another number of nodes, to see what it then says."""

        class TwoFaced(Remembering):
            def deliver(self, envelopes, seconds):
                changed = {
                    address: Envelope({**e.header, "nodes": e.header["nodes"] + 1}, e.arrays)
                    if address == 100 and e.header["kind"] == "agree"
                    else e
                    for address, e in envelopes.items()
                }
                return super().deliver(changed, seconds)

        channel = TwoFaced(silos)
        federated(channel, tmp_path / "run")
        assert set(heard(channel)[1]) == {"2"}
        assert "cannot open" in caplog.text

    def test_a_silo_without_a_key_says_where_to_get_one(self, silos, tmp_path):
        silos[1] = replace(silos[1], link_keys=None)
        refusal(DirectChannel(silos), tmp_path / "run", "bank-b has no key for messages")

    def test_a_silo_whose_key_is_not_the_one_of_the_list_is_refused(self, silos, tmp_path):
        ring = replace(silos[0].link_keys, private=X25519PrivateKey.generate())
        silos[0] = replace(silos[0], link_keys=ring)
        refusal(DirectChannel(silos), tmp_path / "run", "another key of bank-a")

    def test_other_methods_need_neither_names_nor_keys(self, silos):
        graph = silos[0].graph()
        spec = SPEC.with_settings({"method": "fedavg"})
        assert not Agreement("run", spec, graph.feature_count, graph.classes, 300).is_linked
        with pytest.raises(InputError, match="where they seal messages"):
            Agreement("run", spec, graph.feature_count, graph.classes, 300, ("bank-a",))


class TestConsent:
    @pytest.mark.parametrize(
        "lines, match",
        [
            ({"links": "none"}, "links: the run looks for links to other silos, allowed: none"),
            ({"links": "scores"}, "would be told labels of nodes with links, allowed: scores"),
            ({"links_epsilon": 1.9}, "told of one node costs an ε of 2, allowed: at most 1.9"),
            ({"links_budget": 1.0}, "ε of 2 in all runs together; 0 is spent by earlier ones"),
            ({"messages": {"classifier"}}, "labels, tags would leave the silo"),
        ],
    )
    def test_what_it_does_not_allow_is_refused(self, silos, tmp_path, lines, match):
        silos[2] = replace(silos[2], consent=Consent(**{**CONSENT, **lines}))
        refusal(DirectChannel(silos), tmp_path / "run", match)

    def test_without_lines_about_links_there_are_none(self, silos, tmp_path):
        silent = {key: value for key, value in CONSENT.items() if not key.startswith("links")}
        silos[0] = replace(silos[0], consent=Consent(**silent))
        refusal(DirectChannel(silos), tmp_path / "run", "looks for links to other silos")

    def test_noise_from_the_seed_counts_as_none(self, silos, tmp_path):
        silos[0] = replace(silos[0], secret=None)
        refusal(DirectChannel(silos), tmp_path / "run", "costs an ε of any size")
        unbounded = {**CONSENT, "links_epsilon": "unbounded"}
        silos[0] = replace(silos[0], consent=Consent(**unbounded))
        record = federated(DirectChannel(silos), tmp_path / "other")
        assert record["privacy"]["silos"][0]["links"] is None

    def test_the_budget_counts_all_runs(self, silos, tmp_path):
        budget = Consent(**CONSENT, links_budget=5.0)
        silos[0] = replace(silos[0], consent=budget)
        for name in ("one", "two"):
            federated(DirectChannel(silos), tmp_path / name)
        refusal(DirectChannel(silos), tmp_path / "three", r"ε of 6 in all runs.*4 is spent")
        lines = [json.loads(line) for line in silos[0].disclosures.path.read_text().splitlines()]
        agreed = [line for line in lines if line.get("kind") == "agreed"]
        assert [event["event"] for event in agreed[0]["priced"]["told"]] == [
            "MatchedLinks",
            "LinkAnswers",
        ]
        assert agreed[0]["priced"]["told"][1]["noise_from"] == "secret"

    def test_a_budget_needs_a_log(self, silos, tmp_path):
        silos[0] = replace(silos[0], consent=Consent(**CONSENT, links_budget=5.0), disclosures=None)
        refusal(DirectChannel(silos), tmp_path / "run", "counted from the disclosure log")

    def test_answers_about_links_of_others_take_a_line_of_their_own(self):
        told = [MatchedLinks(one_sided=True)]
        assert [key for key, *_ in LinkConsent(links="labels").beyond_links(told)] == [
            "links_one_sided"
        ]
        assert not [*LinkConsent(links="labels", links_one_sided=9).beyond_links(told)]
