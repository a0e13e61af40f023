"""A silo's process that stays: it holds the data ready, and answers what Flower's processes bring.

Flower starts a process for every message. Importing torch and opening the data there would take
longer than most answers; so that process only hands the envelope over a socket to this one, which
``feddep silo`` keeps running. What a silo must not forget is on its disk all the same.
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
        RuntimeFailureError: it is not there; Flower reports that, and the server asks again.
    """
    try:
        with Client(address, "AF_UNIX") as connection:
            connection.send_bytes(pack(envelope.header, envelope.arrays))
            header, arrays = unpack(connection.recv_bytes())
    except (OSError, EOFError) as error:
        raise RuntimeFailureError(f"the silo's process does not answer ({error})") from None
    return Envelope(header, arrays)


@contextmanager
def socket_address() -> Iterator[str]:
    """A place for the socket that nobody but this user can reach; such paths must be short."""
    with tempfile.TemporaryDirectory(prefix="feddep-", dir="/tmp") as folder:
        yield str(Path(folder) / "silo")


def main() -> None:
    """Serves envelopes for the silo of one file, at one address, until it is stopped."""
    from feddep.deployment.operations.silo_setup import open_service

    config, address = Path(sys.argv[1]), sys.argv[2]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides when it ends
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    try:
        service, pieces = open_service(config)
        service.graph()
    except FeddepError as error:
        sys.exit(f"error: {error}")
    unready = Path(f"{address}.unready")
    with Listener(str(unready), "AF_UNIX") as listener:
        unready.chmod(0o600)
        Path(address).hardlink_to(unready)  # the address appears when somebody listens there
        while True:
            with suppress(OSError, EOFError, FeddepError), listener.accept() as connection:
                _serve(connection, service, pieces)


def _serve(connection: "Connection[Any, Any]", service: Any, pieces: Any) -> None:
    header, arrays = unpack(connection.recv_bytes())
    answer = service.answer(Envelope(header, arrays), pieces)
    connection.send_bytes(pack(answer.header, answer.arrays))


if __name__ == "__main__":
    main()
