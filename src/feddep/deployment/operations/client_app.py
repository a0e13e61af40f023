"""The silo's program for Flower: one envelope, one answer, one process.

A SuperNode says in its node configuration where the silo's resident process listens (``socket``);
so this module imports little.
"""

from collections.abc import Callable

from feddep.deployment.operations.silo_daemon import ask
from feddep.errors import DataError
from feddep.runtime.envelope import Envelope
from feddep.runtime.flower import ClientApp, Context, Message
from feddep.runtime.flower.codec import from_record, to_record

app = ClientApp()


@app.query()
def answer(message: Message, context: Context) -> Message:
    """Answers one envelope."""
    return reply_to(message, lambda envelope: ask(str(context.node_config["socket"]), envelope))


def reply_to(message: Message, answer: Callable[[Envelope], Envelope]) -> Message:
    """The message with the answer to the envelope that a message brings, if it brings one."""
    try:
        envelope = from_record(message.content)
    except DataError as error:
        reply = Envelope({"refused": str(error)})
    else:
        reply = answer(envelope)
    return Message(to_record(reply), reply_to=message)
