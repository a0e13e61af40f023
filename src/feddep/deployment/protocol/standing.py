"""What a silo has done in all its runs, kept beside its disclosure log: seconds, and nodes shown.

The log says what left and how often; it does not say of which nodes, since that would tell its
reader too much, nor how long the silo worked. Both are counted before an answer leaves.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from feddep.deployment.protocol.consent import Consent
from feddep.deployment.protocol.disclosure_log import DisclosureLog
from feddep.deployment.protocol.memory import Files
from feddep.errors import DataError
from feddep.federation.content import Content, Count, Rows, Table
from feddep.federation.messages import Reply, Request, group_of
from feddep.graph.fingerprint import fingerprint
from feddep.graph.graph import Graph

_SECONDS = "seconds.json"
_MOST_REPEATS, _MOST_REFUSALS = 100, 1000


@dataclass(frozen=True)
class Standing:
    """The counts of a silo, and the consent that bounds them.

    Attributes:
        consent: what the owner allows.
        disclosures: the silo's log, beside which the counts are kept.
    """

    consent: Consent
    disclosures: DisclosureLog

    @property
    def _files(self) -> Files:
        return Files(self.disclosures.path.parent)

    @property
    def seconds(self) -> float:
        """How long the silo has worked in all runs.

        Raises:
            DataError: the count cannot be read.
        """
        data = self._files.load(_SECONDS)
        try:
            return 0.0 if data is None else float(json.loads(data))
        except (ValueError, TypeError):
            raise DataError(
                f"{self.disclosures.path.with_name(_SECONDS)}: expected a number of seconds; "
                "correct it, or delete it to count from 0"
            ) from None

    @contextmanager
    def clocked(self) -> Iterator[None]:
        """Counts the time that passes within, also if it ends in a refusal.

        Raises:
            ConsentError: all of it is spent.
        """
        if self.consent.all_seconds is None:
            yield
            return
        self.consent.refuse("the request", self.consent.beyond_seconds(self.seconds))
        began = time.monotonic()
        try:
            yield
        finally:
            total = self.seconds + time.monotonic() - began
            self._files.save(_SECONDS, json.dumps(round(total, 3)).encode())

    def check(
        self, request: Request, reply: Reply, declared: Mapping[str, Content], graph: Graph
    ) -> None:
        """Refuses what goes beyond all runs' limits, and notes which nodes are shown.

        Args:
            request: what was asked.
            reply: what is about to leave.
            declared: what the step's replies may hold.
            graph: the silo's graph.

        Raises:
            ConsentError: names everything that may not leave.
        """
        consent, what = self.consent, f"a reply in {request.phase}"
        if consent.all_releases is not None:
            lines = self.disclosures.lines()
            consent.refuse(what, consent.beyond_releases(lines, request.phase, reply))
        if consent.share_of_nodes is None:
            return
        for group in sorted({group_of(name) for name in reply.arrays}):
            shown = _nodes_shown(declared[group], request, graph.nodes)
            if shown is not None:
                self._show(group, shown, fingerprint(graph), what)

    def _show(self, group: str, shown: npt.NDArray[np.bool_], graph: str, what: str) -> None:
        nodes = len(shown)
        name = f"shown-{hashlib.sha256(f'{graph}/{group}'.encode()).hexdigest()[:24]}"
        data = self._files.load(name)
        if data is not None:
            before = np.unpackbits(np.frombuffer(data, np.uint8), count=nodes).astype(bool)
            shown = shown | before
        number = int(np.count_nonzero(shown))
        self.consent.refuse(what, self.consent.beyond_share(group, number, nodes))
        self._files.save(name, np.packbits(shown).tobytes())


def _nodes_shown(content: Content, request: Request, nodes: int) -> npt.NDArray[np.bool_] | None:
    """The nodes of which a reply has a row each; None if its rows are not about single nodes."""
    count = getattr(content, "count", None)
    about_nodes = isinstance(content, Table) or (isinstance(content, Rows) and not content.means_of)
    if not about_nodes or not isinstance(count, Count):
        return None
    if count is Count.ASKED:
        shown = np.zeros(nodes, bool)
        shown[request.arrays["nodes"]] = True
        return shown
    return np.ones(nodes, bool)


class Repeats:
    """What a server could have the silo write into its log without end; it stays with the process.

    Nothing here leaves anything unlogged that left: what goes too far is refused.
    """

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], int] = {}
        self._refusals = 0

    def may_log_refusal(self) -> bool:
        """Whether one more refusal of a run may take a line. Nothing leaves with a refusal."""
        self._refusals += 1
        return self._refusals <= _MOST_REFUSALS

    def check(self, run: str, place: str) -> None:
        """Refuses an answer that was given very often: each time is a line of the log.

        Raises:
            DataError: it was.
        """
        times = self._times.get((run, place), 0) + 1
        if times > _MOST_REPEATS:
            raise DataError(
                f"cannot answer: this was answered {_MOST_REPEATS} times already since the silo "
                "was started, and every time takes a line of its log"
            )
        self._times = {key: n for key, n in self._times.items() if key[0] == run}
        self._times[run, place] = times
