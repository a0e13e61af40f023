"""The silo's program for Flower: one letter, one answer, one process.

A SuperNode says in its node configuration where the silo's resident process listens (``socket``);
so this module imports little.
"""

from collections.abc import Callable

from feddep.deployment.resident import ask
from feddep.errors import DataError
from feddep.runtime.flower import ClientApp, Context, Message
from feddep.runtime.flower.codec import from_record, to_record
from feddep.runtime.letter import Letter

app = ClientApp()


@app.query()
def answer(message: Message, context: Context) -> Message:
    """Answers one letter."""
    return reply_to(message, lambda letter: ask(str(context.node_config["socket"]), letter))


def reply_to(message: Message, answer: Callable[[Letter], Letter]) -> Message:
    """The message with the answer to the letter that a message brings, if it brings one."""
    try:
        letter = from_record(message.content)
    except DataError as error:
        reply = Letter({"refused": str(error)})
    else:
        reply = answer(letter)
    return Message(to_record(reply), reply_to=message)
