"""The silo daemon: a process that keeps torch and the data loaded, and answers envelopes.

Flower starts a process for every message. Importing torch and opening the data there would take
longer than most answers. So that process only passes the envelope over a socket to the daemon,
which ``feddep silo`` keeps running. What a silo must not forget is on its disk all the same.
"""

import logging
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from feddep.errors import FeddepError, RuntimeFailureError
from feddep.federation.messages import pack, unpack
from feddep.runtime.envelope import Envelope


def ask(address: str, envelope: Envelope) -> Envelope:
    """Hands an envelope to the daemon and waits for its answer.

    Raises:
        RuntimeFailureError: the daemon does not answer; Flower reports it, and the server asks
            again.
    """
    try:
        with Client(address, "AF_UNIX") as connection:
            connection.send_bytes(pack(envelope.header, envelope.arrays))
            header, arrays = unpack(connection.recv_bytes())
    except (OSError, EOFError) as error:
        raise RuntimeFailureError(f"the silo daemon does not answer ({error})") from None
    return Envelope(header, arrays)


@contextmanager
def socket_address() -> Iterator[str]:
    """A path for a socket that only this user can reach; socket paths must be short."""
    with tempfile.TemporaryDirectory(prefix="feddep-", dir="/tmp") as folder:
        yield str(Path(folder) / "silo")


def main() -> None:
    """Answers envelopes for the silo of a configuration file, at a socket, until it is stopped."""
    from feddep.deployment.operations.silo_setup import open_service

    config, address = Path(sys.argv[1]), sys.argv[2]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started it will stop it
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        service, pieces = open_service(config)
        service.graph()
    except FeddepError as error:
        sys.exit(f"error: {error}")
    unready = Path(f"{address}.unready")
    with Listener(str(unready), "AF_UNIX") as listener:
        unready.chmod(0o600)
        Path(address).hardlink_to(unready)  # the address appears only once the daemon listens
        while True:
            with suppress(OSError, EOFError, FeddepError), listener.accept() as connection:
                _serve(connection, service, pieces)


def _serve(connection: "Connection[Any, Any]", service: Any, pieces: Any) -> None:
    header, arrays = unpack(connection.recv_bytes())
    answer = service.answer(Envelope(header, arrays), pieces)
    connection.send_bytes(pack(answer.header, answer.arrays))


if __name__ == "__main__":
    main()
