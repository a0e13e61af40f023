"""Names are bound to keys: who a silo says it is does not decide who it is."""

from dataclasses import replace

import pytest
from direct_channel import DirectChannel, services

from feddep.deployment.protocol.federate import federate
from feddep.deployment.protocol.registry import (
    Registered,
    RegisteredOnly,
    read_registry,
    write_registry,
)
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import InputError, InterruptedRunError
from feddep.runs.folder import RunFolder
from feddep.runtime.envelope import Envelope, Undelivered
from feddep.scenario.spec import RunSpec

QUICK = WaitPolicy(quorum=0.6, grace=0.2, wait=2.0, resend=0.2)


@pytest.fixture
def registry(small_shards) -> dict[int, Registered]:
    return {100 - n: Registered(f"silo-{n}", f"key-{n}") for n in range(len(small_shards))}


@pytest.fixture
def spec(small_shards) -> RunSpec:
    text = (
        'method = "fedavg"\n[partition]\nclients = {}\n[training]\nrounds = 3\n[model]\nhidden = 4'
    )
    return RunSpec.from_toml(text.format(len(small_shards)))


def run(channel, spec, path, registry, *, resume=False, wait_policy=QUICK):
    with RunFolder.claim(path, spec, resume=resume) as folder:
        return federate(channel, spec, folder, registry=registry, wait_policy=wait_policy)


def stopped_after_a_round(channel, spec, path, registry) -> None:
    """One silo is away from the second round on, and the server waits for all of them."""

    def tamper(address, envelope, answer):
        late = envelope.header.get("round") == 1
        return Undelivered("away") if late and address == 99 else answer

    channel.tamper, honest = tamper, channel.tamper
    every = WaitPolicy(grace=0.2, wait=0.4, resend=0.2)
    with pytest.raises(InterruptedRunError):
        run(channel, spec, path, registry, wait_policy=every)
    channel.tamper = honest


def test_a_silo_under_another_s_name_does_not_start(small_shards, spec, registry, tmp_path):
    own = services(small_shards)
    own[1] = replace(own[1], name="silo-0")
    own[0] = replace(own[0], name="silo-1")
    with pytest.raises(InputError, match=r"silo-0, silo-1: the name in silo\.toml is not"):
        run(DirectChannel(own), spec, tmp_path / "run", registry)


def test_on_resuming_nobody_takes_an_absent_silo_s_place(
    small_shards, spec, registry, tmp_path, caplog
):
    """The attack: silo-1 is away, and silo-0 gives its name, to be sent what it missed."""
    channel = DirectChannel(services(small_shards))
    stopped_after_a_round(channel, spec, tmp_path / "run", registry)
    channel.services[0] = replace(channel.services[0], name="silo-1")
    channel.asked.clear()

    def tamper(address, envelope, answer):
        return Undelivered("away") if address == 99 else answer

    channel.tamper = tamper
    run(channel, spec, tmp_path / "run", registry, resume=True)
    to_the_liar = [e.header for address, e in channel.asked if address == 100]
    assert {header.get("client") for header in to_the_liar} <= {None, 0}, "no letter of silo-1's"
    assert "calls itself 'silo-1'" in caplog.text


def test_a_stranger_is_neither_asked_nor_waited_for(small_shards, spec, registry, tmp_path):
    channel = DirectChannel(services(small_shards))
    channel.services.append(replace(channel.services[0], name="a stranger"))
    stranger = 100 - len(small_shards)
    assert stranger in channel.addresses()
    assert run(channel, spec, tmp_path / "run", registry)
    assert stranger not in {address for address, _ in channel.asked}


def test_nor_does_one_block_resuming(small_shards, spec, registry, tmp_path):
    """Not even one that the operator has let in since."""
    channel = DirectChannel(services(small_shards))
    stopped_after_a_round(channel, spec, tmp_path / "run", registry)
    stranger = 100 - len(small_shards)
    channel.services.append(replace(channel.services[0], name="new"))
    later = {**registry, stranger: Registered("new", "key-new")}
    assert run(channel, spec, tmp_path / "run", later, resume=True)


def test_what_was_one_key_s_goes_to_no_other(small_shards, spec, registry, tmp_path):
    channel = DirectChannel(services(small_shards))
    stopped_after_a_round(channel, spec, tmp_path / "run", registry)
    changed = {**registry, 99: Registered("silo-1", "another key")}
    with pytest.raises(InputError, match=r"silo-1\.pub is not the key that silo-1 had"):
        run(channel, spec, tmp_path / "run", changed, resume=True)


def test_who_has_other_data_than_before_is_refused(small_shards, spec, registry, tmp_path):
    channel = DirectChannel(services(small_shards))
    stopped_after_a_round(channel, spec, tmp_path / "run", registry)

    def tamper(address, envelope, answer):
        if envelope.header["kind"] == "hello" and address == 100:
            return Envelope({**answer.header, "nodes": 10**9})
        return answer

    channel.tamper = tamper
    with pytest.raises(InputError, match="silo-0 is not what it was when this run began: it has 1"):
        run(channel, spec, tmp_path / "run", registry, resume=True)


def test_nothing_is_delivered_to_a_stranger(small_shards, registry):
    channel = DirectChannel(services(small_shards))
    only = RegisteredOnly(channel, {100: registry[100]})
    assert list(only.addresses()) == [100]
    hello = Envelope({"kind": "hello"})
    assert only.deliver({100: hello, 99: hello}, 1.0).keys() == {100}
    assert [address for address, _ in channel.asked] == [100]


def test_it_is_read_as_it_was_written(tmp_path, registry):
    write_registry(tmp_path / "r.json", registry)
    assert read_registry(tmp_path / "r.json") == registry
    for wrong in ("", "[]", '{"x": {}}', '{"1": {"name": "a"}}'):
        (tmp_path / "r.json").write_text(wrong)
        with pytest.raises(InputError, match="restart the server"):
            read_registry(tmp_path / "r.json")
