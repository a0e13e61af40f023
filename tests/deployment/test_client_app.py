"""The silo's program for Flower: simulated, and in front of a resident process."""

import pytest
from correspondence import agree, agreement_on, request
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from feddep.deployment import client_app
from feddep.deployment.client_app import SIMULATION, answer
from feddep.errors import RuntimeFailureError
from feddep.graph.shard import write_shards
from feddep.runtime.flower.codec import from_record, to_record
from feddep.runtime.letter import Letter


@pytest.fixture(autouse=True)
def inside_a_run(monkeypatch):
    """Flower builds messages only in the process of a run."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def context(**node_config) -> Context:
    return Context(1, 2, {k.replace("_", "-"): v for k, v in node_config.items()}, RecordDict(), {})


def sent(letter: Letter | RecordDict, to: Context) -> Letter:
    content = to_record(letter) if isinstance(letter, Letter) else letter
    message = Message(content, dst_node_id=2, message_type="query")
    message.metadata.__dict__["_message_id"] = "message-1"
    reply = answer(message, to)
    assert reply.metadata.reply_to_message_id == "message-1"
    return from_record(reply.content)


class TestSimulated:
    @pytest.fixture(autouse=True)
    def shards(self, small_shards, tmp_path, monkeypatch):
        write_shards(small_shards, tmp_path / "shards")
        monkeypatch.setenv(SIMULATION, str(tmp_path / "shards"))
        yield small_shards
        client_app._station.cache_clear()

    def test_a_node_has_the_data_of_its_number(self, shards):
        for number in range(3):
            said = sent(Letter({"kind": "hello"}), context(partition_id=number)).header
            assert (said["name"], said["client"]) == (f"client-{number:03d}", number)
            assert said["nodes"] == shards[number].nodes

    def test_its_memory_travels_in_the_context(self, shards):
        own, agreement = context(partition_id=0), agreement_on(shards[0])
        assert sent(request(agreement), own).header == {"sync": None}
        assert "sound" in sent(agree(agreement), own).header
        first = sent(request(agreement), own)
        assert first.arrays
        assert set(own.state["run"]) == {"agreement.json", "state.bin", "00-000000-00.answer"}
        again = Context(1, 2, own.node_config, own.state, {})
        client_app._station.cache_clear()  # another process
        assert sent(request(agreement), again).header == first.header
        assert sent(request(agreement, 1), again).arrays
        assert sent(Letter({"kind": "close", "run": "run"}), again).header == {"done": True}
        assert list(own.state["run"]) == []

    def test_other_state_in_the_context_stays(self, shards):
        own = context(partition_id=0)
        own.state["other"] = ConfigRecord({"a": 1})
        sent(agree(agreement_on(shards[0])), own)
        assert own.state["other"] == ConfigRecord({"a": 1})


class TestInFrontOfAResident:
    def test_a_letter_is_handed_over(self, monkeypatch):
        handed = []

        def ask(address: str, letter: Letter) -> Letter:
            handed.append((address, letter.header))
            return Letter({"name": "bank-a"})

        monkeypatch.setattr(client_app, "ask", ask)
        said = sent(Letter({"kind": "hello"}), context(socket="/tmp/x/silo"))
        assert said.header == {"name": "bank-a"}
        assert handed == [("/tmp/x/silo", {"kind": "hello"})]

    def test_a_resident_that_is_away_is_flower_s_to_report(self, tmp_path):
        with pytest.raises(RuntimeFailureError):
            sent(Letter({"kind": "hello"}), context(socket=str(tmp_path / "nobody")))

    def test_what_is_no_letter_goes_no_further(self):
        said = sent(RecordDict(), context(socket="/nowhere"))
        assert "expected a message of feddep's" in said.header["refused"]
