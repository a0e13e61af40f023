"""The silo's Flower app: each envelope gets a process, which hands it to the silo daemon.

The node configuration of the SuperNode says where the daemon listens (``socket``). Flower starts
this module anew for every message, so it imports little. As a program it answers one message with
this app, whatever app the server sent along.
"""

from feddep.deployment.operations.silo_socket import ask
from feddep.runtime.flower import ClientApp, Context, Message
from feddep.runtime.flower.codec import reply_to
from feddep.runtime.flower.only_app import run_only

app = ClientApp()


@app.query()
def answer(message: Message, context: Context) -> Message:
    """Answers one envelope."""
    return reply_to(message, lambda envelope: ask(str(context.node_config["socket"]), envelope))


if __name__ == "__main__":
    run_only(app)
