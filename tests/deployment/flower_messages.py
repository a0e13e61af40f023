"""Messages as Flower hands them to a silo's program."""

from collections.abc import Callable

from flwr.app import Context, Message, RecordDict

from feddep.runtime.flower.codec import from_record, to_record
from feddep.runtime.letter import Letter

Answer = Callable[[Message, Context], Message]


def context(**node_config: object) -> Context:
    return Context(1, 2, {k.replace("_", "-"): v for k, v in node_config.items()}, RecordDict(), {})


def sent(answer: Answer, letter: Letter | RecordDict, to: Context) -> Letter:
    """What a program answers to a letter."""
    content = to_record(letter) if isinstance(letter, Letter) else letter
    message = Message(content, dst_node_id=2, message_type="query")
    message.metadata.__dict__["_message_id"] = "message-1"
    reply = answer(message, to)
    assert reply.metadata.reply_to_message_id == "message-1"
    return from_record(reply.content)
