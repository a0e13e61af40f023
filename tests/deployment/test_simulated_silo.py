"""A silo of a simulation: its data by its number, its memory in Flower's context."""

from functools import partial

import pytest
from envelopes import agree, agreement_on, request
from flower_messages import context, sent
from flwr.app import ConfigRecord, Context

from feddep.deployment.protocol import simulated_silo
from feddep.deployment.protocol.simulated_silo import answer
from feddep.graph.shard import write_shards
from feddep.runtime.envelope import Envelope

pytestmark = pytest.mark.usefixtures("inside_a_flower_run")


@pytest.fixture
def answered(small_shards, tmp_path):
    """A envelope goes to a simulated silo; its answer."""
    write_shards(small_shards, tmp_path)
    yield partial(sent, partial(answer, tmp_path))
    simulated_silo.service_of.cache_clear()


def test_a_node_has_the_data_of_its_number(answered, small_shards):
    for number in range(3):
        said = answered(Envelope({"kind": "hello"}), context(partition_id=number)).header
        assert (said["name"], said["client"]) == (f"client-{number:03d}", number)
        assert said["nodes"] == small_shards[number].nodes


def test_its_memory_travels_in_the_context(answered, small_shards):
    own, agreement = context(partition_id=0), agreement_on(small_shards[0])
    assert answered(request(agreement), own).header == {"sync": None}
    assert "sound" in answered(agree(agreement), own).header
    first = answered(request(agreement), own)
    assert first.arrays
    assert set(own.state["run"]) == {"agreement.json", "state.bin", "00-000000-00.answer"}
    again = Context(1, 2, own.node_config, own.state, {})
    simulated_silo.service_of.cache_clear()  # another process
    assert answered(request(agreement), again).header == first.header
    assert answered(request(agreement, 1), again).arrays
    assert answered(Envelope({"kind": "close", "run": "run"}), again).header == {"done": True}
    assert list(own.state["run"]) == []


def test_other_state_in_the_context_stays(answered, small_shards):
    own = context(partition_id=0)
    own.state["other"] = ConfigRecord({"a": 1})
    answered(agree(agreement_on(small_shards[0])), own)
    assert own.state["other"] == ConfigRecord({"a": 1})
