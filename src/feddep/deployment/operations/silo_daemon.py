"""The silo daemon: the process that holds the data, and answers envelopes.

It alone reads data, secret, keys and disclosure log, keeps torch and the data loaded, and talks to
nobody but Flower's programs on this machine, which it does not trust: over a socket, one envelope
a connection. What a silo must not forget is on its disk all the same.
"""

import logging
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from feddep.deployment.operations.config import SiloConfig
from feddep.deployment.operations.silo_socket import (
    SILENCE,
    listening,
    receive,
    send,
    user,
    user_of,
)
from feddep.errors import FeddepError

log = logging.getLogger("feddep")
_MOST_PEERS = 3  # each may take the memory of one message


def main() -> None:
    """Answers envelopes for the silo of a configuration file, at a socket, until it is stopped."""
    from feddep.deployment.operations.silo_setup import open_service

    config, address = Path(sys.argv[1]), sys.argv[2]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started it will stop it
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        service, pieces = open_service(config)
        service.graph()
        node_user = SiloConfig.read(config).node_user
        serve(address, node_user, partial(service.answer, pieces=pieces))
    except FeddepError as error:
        sys.exit(f"error: {error}")


def serve(address: str, node_user: str | None, answer: Any, silence: float = SILENCE) -> None:
    """Answers whoever may connect, one at a time; does not return.

    Messages are received side by side, so that a peer that dawdles holds up nobody else.

    Args:
        address: where to listen.
        node_user: another user who may connect.
        answer: answers an envelope.
        silence: seconds in which a peer must have said, or taken, all of a message.
    """
    allowed = {os.getuid()} | ({user(node_user).pw_uid} if node_user else set())
    one_at_a_time, places = threading.Lock(), threading.BoundedSemaphore(_MOST_PEERS)

    def attend(connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError, EOFError, FeddepError):
                asked = receive(connection, silence)
                with one_at_a_time:
                    answered = answer(asked)
                send(connection, answered, silence)
        except BaseException:
            log.exception("the silo daemon ends")
            os._exit(1)
        finally:
            places.release()

    with listening(address, node_user) as listener:
        while True:
            places.acquire()
            connection, _ = listener.accept()
            if user_of(connection) in allowed:
                threading.Thread(target=attend, args=(connection,), daemon=True).start()
            else:
                log.warning("user %d tried to talk to this silo", user_of(connection))
                connection.close()
                places.release()


if __name__ == "__main__":
    main()
