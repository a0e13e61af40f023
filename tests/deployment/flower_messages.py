"""Messages as Flower hands them to a silo's program."""

from collections.abc import Callable

from flwr.app import Context, Message, RecordDict

from feddep.runtime.envelope import Envelope
from feddep.runtime.flower.codec import from_record, to_record

Answer = Callable[[Message, Context], Message]


def context(**node_config: object) -> Context:
    return Context(1, 2, {k.replace("_", "-"): v for k, v in node_config.items()}, RecordDict(), {})


def sent(answer: Answer, envelope: Envelope | RecordDict, to: Context) -> Envelope:
    """What a program answers to a envelope."""
    content = to_record(envelope) if isinstance(envelope, Envelope) else envelope
    message = Message(content, dst_node_id=2, message_type="query")
    message.metadata.__dict__["_message_id"] = "message-1"
    reply = answer(message, to)
    assert reply.metadata.reply_to_message_id == "message-1"
    return from_record(reply.content)
