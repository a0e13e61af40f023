"""Where the head of a silo's disclosure log is noted, so that a log that was cut is recognised.

- beside the log, after every agreement: it notices a log that was deleted or rotated away;
- at the server, which gets the head with every agreement and gives it back with the next run: it
  notices a lost disk, or one restored from an old copy;
- in the owner's consent (``noted_head``), which the silo's program cannot write.

A head is a hash of a line that depends on the silo's secret, and tells the server no more than how
many lines the log has.
"""

import json
from pathlib import Path

from feddep.deployment.protocol.disclosure_log import DisclosureLog
from feddep.deployment.protocol.log_lines import Head, head_from, spelt
from feddep.deployment.protocol.memory import Files
from feddep.deployment.protocol.names import silo_name
from feddep.errors import DataError, InputError


def noted_heads(disclosures: DisclosureLog, server: object) -> dict[str, Head]:
    """The heads that were noted beside the log and by the server, by where.

    Args:
        disclosures: the log.
        server: what the server sent; None if it sent nothing.

    Raises:
        InputError: the server sent something that is no head.
        DataError: the note beside the log is none.
    """
    found: dict[str, Head] = {}
    note = disclosures.note
    noted = Files(note.parent).load(note.name)
    if noted is not None:
        head = head_from(noted.decode(errors="replace").strip())
        if head is None:
            raise DataError(
                f"{note}: expected a head of the log, NUMBER:HASH (got "
                "something else); delete the file if `feddep disclosures verify` finds no fault"
            )
        found[f"noted in {note.name}"] = head
    if server is not None:
        head = head_from(server)
        if head is None:
            raise InputError("expected a head of this silo's log, NUMBER:HASH, or none")
        found["noted by the server"] = head
    return found


class ServersNotes:
    """The heads of all silos' logs, as a server keeps them: a file for each silo.

    Args:
        folder: where.
    """

    def __init__(self, folder: Path) -> None:
        self._files = Files(folder)

    def head_of(self, silo: str) -> str | None:
        """The head that a silo gave last; None if it gave none."""
        text = self._files.load(silo_name(silo))
        return None if text is None else str(json.loads(text)["head"])

    def note(self, silo: str, head: object) -> None:
        """Notes what a silo gave, which is not trusted; anything but a head is ignored."""
        found = head_from(head)
        if found is not None:
            self._files.save(silo_name(silo), json.dumps({"head": spelt(found)}).encode())
