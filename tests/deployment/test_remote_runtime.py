"""Every federated method over envelopes gives what it gives in process: weights and bytes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from direct_channel import DirectChannel, services
from safetensors.numpy import load_file

from feddep.algorithms import METHODS
from feddep.deployment.protocol import remote_runtime as remote_runtime_module
from feddep.deployment.protocol.federate import federate
from feddep.deployment.protocol.simulation import connected
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import InputError, InterruptedRunError
from feddep.learning import mending
from feddep.runs.folder import RunFolder
from feddep.runs.opening import open_run
from feddep.runs.pipeline import run
from feddep.runs.prediction import averaging_of
from feddep.runs.records import without_times
from feddep.runtime.envelope import Envelope, Undelivered
from feddep.scenario.build import build, initial_server_state, resolve
from feddep.scenario.spec import RunSpec

FEDERATED = [
    name
    for name, method in METHODS.items()
    if name not in ("global", "oracle") and not method.linked
]
SMALL = {
    "synthetic.nodes": 150,
    "partition.clients": 3,
    "model.hidden": 8,
    "embedding.width": 8,
    "embedding.epochs": 2,
    "generator.epochs": 2,
    "training.rounds": 2,
}
PATIENT = WaitPolicy(quorum=0.6, grace=60, wait=60, resend=1)
QUICK = WaitPolicy(quorum=0.6, grace=0.2, wait=0.5, resend=0.05)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    sleep = remote_runtime_module.time.sleep  # a moment, or a silo is asked hundreds of times
    monkeypatch.setattr(remote_runtime_module.time, "sleep", lambda s: sleep(min(s, 0.01)))


def spec_of(method: str, **more) -> RunSpec:
    links = "known" if METHODS[method].linked else "lost"
    given = {**SMALL, "partition.links": links, **more, "method": method, "preset": "paper"}
    return resolve(RunSpec().with_settings(given), given)


def federated(
    channel: DirectChannel, spec: RunSpec, path: Path, shards, *, resume=False, wait_policy=PATIENT
):
    known = initial_server_state(shards, METHODS[spec.method])
    with RunFolder.claim(path, spec, resume=resume) as folder:
        return federate(channel, spec, folder, wait_policy=wait_policy, known=known)


def weights(path: Path):
    return load_file(path / "model.safetensors")


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("method", FEDERATED)
def test_as_in_process(method, tmp_path):
    spec = spec_of(method)
    shards = build(spec)
    here = run(spec, shards, workers=1)
    here.save(tmp_path / "here")
    start = partial(connected, spec, DirectChannel(services(shards)), tmp_path / "requests")
    there = run(spec, shards, start=start)
    if method != "local":  # whose classifiers stay with the silos
        there.save(tmp_path / "there")
        assert same(weights(tmp_path / "here"), weights(tmp_path / "there"))
        # What was generated is measured where memories are at hand, and silos keep theirs.
        unknown = without_times(here.record) | {"generation": None}
        mends = averaging_of(METHODS[method]).mender is not None
        unknown |= {"measures": None} if mends else {}
        assert unknown == without_times(there.record)
        assert open_run(tmp_path / "there") == there
    assert here.record["traffic"] == there.record["traffic"]


def test_nothing_is_asked_of_silos_after_the_last_round(tmp_path):
    """Neither memories nor what was mended: they are the silos' own."""
    spec = spec_of("feddep")
    shards = build(spec)
    channel = DirectChannel(services(shards))
    run(spec, shards, start=partial(connected, spec, channel, tmp_path / "requests"))
    kinds = [envelope.header["kind"] for _, envelope in channel.asked]
    assert set(kinds) == {"hello", "agree", "request"}
    for _, envelope in channel.asked[-shards.clients :]:
        assert (envelope.header["phase"], envelope.header["step"]) == ("averaging", "score")


@pytest.mark.parametrize("method", ["feddep", "local", "fedgnn"])
def test_between_silos_nobody_measures_on_the_whole_graph(method, tmp_path):
    spec = spec_of(method)
    shards = build(spec)
    here = run(spec, shards, workers=1)
    record = federated(DirectChannel(services(shards)), spec, tmp_path / "run", shards)
    assert record["scores"]["global"] == {"test": None, "val": None, "test_last": None}
    assert record["scores"]["silo"] == here.record["scores"]["silo"]
    assert record["traffic"] == here.record["traffic"]
    assert record["federation"] == {"silos": ["silo-0", "silo-1", "silo-2"], "left_out": []}
    assert record["privacy"]["sound"] == here.record["privacy"]["sound"]


@pytest.mark.parametrize("method", ["global", "oracle"])
def test_what_is_no_federation_is_refused_by_name(method, tmp_path):
    spec = spec_of(method)
    with pytest.raises(InputError, match=f"{method} cannot run on Flower"):
        federated(DirectChannel([]), spec, tmp_path / "run", build(spec))


def reference(spec, shards, path):
    federated(DirectChannel(services(shards)), spec, path, shards)
    return weights(path)


def test_an_envelope_that_is_lost_is_sent_again(tmp_path):
    spec = spec_of("feddep")
    shards = build(spec)
    lost = []

    def tamper(address, envelope, answer):
        key = (address, envelope.header.get("place"))
        if address == 99 and envelope.header["kind"] == "request" and key not in lost:
            lost.append(key)
            return Undelivered("down") if len(lost) % 2 else None
        return answer

    record = federated(DirectChannel(services(shards), tamper), spec, tmp_path / "run", shards)
    assert len(lost) > 5
    assert record["federation"]["left_out"] == []
    assert same(weights(tmp_path / "run"), reference(spec, shards, tmp_path / "quiet"))


def test_a_silo_that_lost_its_memory_is_told_again_and_nothing_differs(tmp_path):
    spec = spec_of("feddep")
    shards = build(spec)
    channel = DirectChannel(services(shards))
    rounds = []

    def tamper(address, envelope, answer):
        if address == 100 and envelope.header.get("round") == 1 and not rounds:
            rounds.append(1)
            channel.memories[100].clear()
            return Undelivered("its disk is gone")
        return answer

    channel.tamper = tamper
    record = federated(channel, spec, tmp_path / "run", shards)
    silent = [envelope for _, envelope in channel.asked if envelope.header.get("silent")]
    assert len(silent) > 3
    assert record["federation"]["left_out"] == []
    assert same(weights(tmp_path / "run"), reference(spec, shards, tmp_path / "quiet"))


def test_a_silo_that_is_away_is_left_out_and_comes_back(tmp_path):
    spec = spec_of("feddep", **{"training.rounds": 4})
    shards = build(spec)

    def tamper(address, envelope, answer):
        away = address == 98 and envelope.header.get("phase") == "averaging"
        return Undelivered("away") if away and envelope.header["round"] in (1, 2) else answer

    # What it never got to see: in this test it did, but its answers did not arrive.
    channel = DirectChannel(services(shards), tamper)
    record = federated(channel, spec, tmp_path / "run", shards, wait_policy=QUICK)
    left = record["federation"]["left_out"]
    assert {(entry["silo"], entry["round"]) for entry in left} == {("silo-2", 1), ("silo-2", 2)}


def test_below_the_quorum_the_run_ends_and_goes_on_later(tmp_path):
    spec = spec_of("feddep")
    shards = build(spec)
    channel = DirectChannel(services(shards))
    channel.tamper = lambda address, envelope, answer: (
        Undelivered("down") if address < 100 and envelope.header.get("round") == 1 else answer
    )
    with pytest.raises(InterruptedRunError, match="1 of 3 silos answered"):
        federated(channel, spec, tmp_path / "run", shards, wait_policy=QUICK)
    channel.tamper = lambda address, envelope, answer: answer
    federated(channel, spec, tmp_path / "run", shards, resume=True)
    assert same(weights(tmp_path / "run"), reference(spec, shards, tmp_path / "quiet"))


@pytest.mark.parametrize("method", ["feddep", "fedsage", "feddep-wo-proto"])
@pytest.mark.parametrize("at", range(0, 13, 3))
def test_a_server_that_is_killed_anywhere_goes_on_as_if_nothing_had_been(method, at, tmp_path):
    spec = spec_of(method)
    shards = build(spec)
    channel = DirectChannel(services(shards))
    exchanges = []

    def tamper(address, envelope, answer):
        if envelope.header["kind"] == "request":
            exchanges.append(address)
            if len(exchanges) == 3 * at + 2:
                raise KeyboardInterrupt  # as good as kill -9: nothing below catches it
        return answer

    channel.tamper = tamper
    try:
        federated(channel, spec, tmp_path / "run", shards)
    except KeyboardInterrupt:
        federated(channel, spec, tmp_path / "run", shards, resume=True)
    assert same(weights(tmp_path / "run"), reference(spec, shards, tmp_path / "quiet"))


def test_a_poisoned_reply_is_left_out_and_named(tmp_path):
    spec = spec_of("fedavg")
    shards = build(spec)

    def tamper(address, envelope, answer):
        if address == 99 and answer.arrays:
            poisoned = {name: np.full_like(a, np.nan) for name, a in answer.arrays.items()}
            return replace(answer, arrays=poisoned)
        return answer

    record = federated(DirectChannel(services(shards), tamper), spec, tmp_path / "run", shards)
    left = record["federation"]["left_out"]
    assert {entry["silo"] for entry in left} == {"silo-1"}
    assert "finite" in left[0]["reason"]
    assert all(np.isfinite(a).all() for a in weights(tmp_path / "run").values())


@pytest.mark.parametrize(
    "nonsense",
    [
        Envelope({}),
        Envelope({"client": "x", "metrics": {}}),
        Envelope({"client": 1, "metrics": []}),
        Envelope({"sync": 7}),
        Envelope({"refused": "no"}),
    ],
)
def test_nonsense_from_a_silo_does_not_stop_the_others(nonsense, tmp_path):
    spec = spec_of("fedavg")
    shards = build(spec)

    def tamper(address, envelope, answer):
        return nonsense if address == 99 and envelope.header["kind"] == "request" else answer

    channel = DirectChannel(services(shards), tamper)
    record = federated(channel, spec, tmp_path / "run", shards, wait_policy=QUICK)
    assert {entry["silo"] for entry in record["federation"]["left_out"]} == {"silo-1"}


HOSTILE = 98  # the address of silo-2


@dataclass
class Forging:
    """Changes the arrays, and perhaps the numbers, of one silo's answers in one step."""

    step: str
    forge: Callable[[Envelope, Envelope], Envelope]

    def __call__(self, address: int, envelope: Envelope, answer: Envelope) -> Envelope:
        mine = address == HOSTILE and envelope.header.get("step") == self.step and answer.arrays
        return self.forge(envelope, answer) if mine else answer


def also_gradients_of_inputs(envelope: Envelope, answer: Envelope) -> Envelope:
    more = {f"gradients/{n}": a for n, a in envelope.arrays.items() if n.endswith("/inputs")}
    return replace(answer, arrays={**answer.arrays, **more})


def one_row_less(envelope: Envelope, answer: Envelope) -> Envelope:
    kept = answer.arrays["neighgen/kept"][:-1]
    return replace(answer, arrays={**answer.arrays, "neighgen/kept": kept})


def more_nodes_than_it_has(envelope: Envelope, answer: Envelope) -> Envelope:
    numbers = {**answer.header["metrics"], "training_nodes": 2.0**53}
    return replace(answer, header={**answer.header, "metrics": numbers})


def far_out(envelope: Envelope, answer: Envelope) -> Envelope:
    """As far as it goes; the gradients that answer this are longer than any message may be."""
    rows = answer.arrays["generated"]
    return replace(answer, arrays={"generated": np.full_like(rows, 9e5 / rows.shape[-1] ** 0.5)})


@pytest.mark.parametrize(
    ("method", "forging", "left_out"),
    [
        ("fedsage", Forging("compare", also_gradients_of_inputs), {"silo-2"}),
        ("fedsage", Forging("share", one_row_less), {"silo-2"}),
        ("fedavg", Forging("train", more_nodes_than_it_has), {"silo-2"}),
        ("feddep-wo-proto", Forging("generate", far_out), set()),
    ],
)
def test_a_hostile_silo_gets_no_honest_one_shut_out(method, forging, left_out, tmp_path):
    spec = spec_of(method)
    shards = build(spec)
    wait_policy = replace(PATIENT, quorum=1.0)
    channel = DirectChannel(services(shards), forging)
    record = federated(channel, spec, tmp_path / "run", shards, wait_policy=wait_policy)
    assert {entry["silo"] for entry in record["federation"]["left_out"]} == left_out


def test_a_poisoner_is_named_after_a_restart_too(tmp_path):
    spec = spec_of("fedavg")
    shards = build(spec)
    killed = []

    def tamper(address, envelope, answer):
        if envelope.header.get("round") == 1 and not killed:
            killed.append(address)
            raise KeyboardInterrupt
        poison = address == 99 and envelope.header.get("round") == 0
        return Envelope({"client": 1, "metrics": {}}) if poison else answer

    channel = DirectChannel(services(shards), tamper)
    with pytest.raises(KeyboardInterrupt):
        federated(channel, spec, tmp_path / "run", shards)
    record = federated(channel, spec, tmp_path / "run", shards, resume=True)
    left = record["federation"]["left_out"]
    assert [(entry["silo"], entry["round"]) for entry in left] == [("silo-1", 0)]


class Away(DirectChannel):
    """One silo is not connected until it comes back."""

    away: int | None = None

    def addresses(self) -> list[int]:
        return [address for address in super().addresses() if address != self.away]

    def deliver(self, envelopes, seconds):
        here = {address: own for address, own in envelopes.items() if address != self.away}
        lost = {address: Undelivered("not connected") for address in envelopes.keys() - here.keys()}
        return super().deliver(here, seconds) | lost


def killed_in_the_last_round(method, path):
    """A run whose server died there: its silos, its spec and its data."""

    def tamper(address, envelope, answer):
        if envelope.header.get("round") == 1 and envelope.header["phase"] == "averaging":
            raise KeyboardInterrupt
        return answer

    spec = spec_of(method)
    shards = build(spec)
    channel = Away(services(shards), tamper)
    with pytest.raises(KeyboardInterrupt):
        federated(channel, spec, path, shards, wait_policy=QUICK)
    channel.tamper = lambda address, envelope, answer: answer
    return channel, spec, shards


class Clock:
    """Time goes on only while somebody sleeps."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class TestGoingOnWithoutASilo:
    @pytest.fixture(autouse=True)
    def clock(self, monkeypatch):
        monkeypatch.setattr(remote_runtime_module, "time", Clock())

    def test_a_quorum_is_enough_and_every_silo_keeps_its_number(self, tmp_path):
        channel, spec, shards = killed_in_the_last_round("feddep", tmp_path / "run")
        channel.away = 100  # the first of them
        record = federated(channel, spec, tmp_path / "run", shards, resume=True, wait_policy=QUICK)
        assert record["federation"]["silos"] == ["silo-0", "silo-1", "silo-2"]
        left = record["federation"]["left_out"]
        assert [(entry["silo"], entry["round"]) for entry in left] == [
            ("silo-0", 1),
            ("silo-0", 2),
        ]
        assert len(record["privacy"]["silos"]) == 3

    def test_who_comes_back_in_the_meantime_takes_part(self, tmp_path):
        channel, spec, shards = killed_in_the_last_round("feddep", tmp_path / "run")
        channel.away = 100

        def tamper(address, envelope, answer):
            if envelope.header["kind"] == "request":
                channel.away = None
            return answer

        channel.tamper = tamper
        record = federated(channel, spec, tmp_path / "run", shards, resume=True)
        assert record["federation"]["left_out"] == []
        assert same(weights(tmp_path / "run"), reference(spec, shards, tmp_path / "quiet"))

    def test_below_the_quorum_it_does_not_go_on(self, tmp_path):
        channel, spec, shards = killed_in_the_last_round("fedavg", tmp_path / "run")
        channel.away = 100
        with pytest.raises(InterruptedRunError, match="2 of 3 silos connected"):
            federated(
                channel,
                spec,
                tmp_path / "run",
                shards,
                resume=True,
                wait_policy=replace(QUICK, quorum=1.0),
            )

    def test_nobody_takes_the_place_of_another(self, tmp_path):
        channel, spec, shards = killed_in_the_last_round("fedavg", tmp_path / "run")
        channel.services[1] = replace(channel.services[1], name="stranger")
        with pytest.raises(InputError, match="stranger did not take part when this run began"):
            federated(channel, spec, tmp_path / "run", shards, resume=True)


@pytest.mark.parametrize(
    ("method", "prepared"), [("fedgnn", "expand"), ("feddep-wo-proto", "GeneratorTraining")]
)
def test_what_a_silo_has_prepared_is_found_again_with_the_next_envelope(
    tmp_path, monkeypatch, method, prepared
):
    made, make = [], getattr(mending, prepared)
    monkeypatch.setattr(mending, prepared, lambda *told: made.append(prepared) or make(*told))
    spec = spec_of(method, **{"generator.refresh": 1})
    shards = build(spec)
    federated(DirectChannel(services(shards)), spec, tmp_path / "run", shards)
    assert len(made) == 3, "once at each silo"
