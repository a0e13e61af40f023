"""What a silo's runs have spent of the budget that its owner set, counted from its own log.

A line of the log counts as soon as the silo is about to agree to a run, whether or not the run
then comes to its end; only a run that was withdrawn before it began costs nothing: one of which an
answer was worked out has drawn its noise, whether or not the answer left. Runs that
show the same perturbed graph are one release. Everything else adds up
(:mod:`feddep.privacy.budget`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from feddep.deployment.protocol.log_lines import Agreed, Begun, Line, Payload, Withdrawn
from feddep.errors import DataError
from feddep.privacy.budget import needs_delta, total_epsilon
from feddep.privacy.events import Event, from_plain
from feddep.privacy.links import link_epsilon

_Key = tuple[str, ...]


@dataclass(frozen=True)
class Release:
    """Answers that all come from the same noise, and so cost what one of them costs.

    Attributes:
        key: the same for the same release.
        runs: the runs that showed it, in the order of the log.
        events: the mechanisms that bound it; None if nothing does, or if it is not known.
        left: whether anything of it has left.
    """

    key: _Key
    runs: tuple[str, ...]
    events: tuple[Event, ...] | None
    left: bool

    def epsilon(self, delta: float) -> float:
        """ε of this release alone at δ; infinite if nothing bounds it."""
        return math.inf if self.events is None else total_epsilon(self.events, delta)


@dataclass(frozen=True)
class Account:
    """What has been spent on some data.

    Attributes:
        data: the name that the owner gave them; empty if none.
        graphs: how many versions of the graph the releases were computed from.
        nodes: of the largest of them.
        releases: what was shown.
        since: the last line of the log that is not counted.
    """

    data: str
    graphs: int
    nodes: int
    releases: tuple[Release, ...]
    since: int = 0

    def epsilon(self, delta: float) -> float:
        """ε of all releases together at δ; infinite if something is not bounded."""
        if any(release.events is None for release in self.releases):
            return math.inf
        return total_epsilon(self._events(), delta)

    def delta(self, budget: float) -> float:
        """δ that is spent: all of the budget's if some price depends on it, otherwise none."""
        return budget if needs_delta(self._events()) else 0.0

    def holds(self, key: _Key) -> bool:
        """Whether something of a release has left already: showing it again costs nothing."""
        return any(release.key == key and release.left for release in self.releases)

    def _events(self) -> list[Event]:
        return [event for release in self.releases for event in release.events or ()]


def account_of(
    lines: Sequence[Line], data: str = "", graph: str | None = None, since: int = 0
) -> Account:
    """What was spent on the data of a name.

    Lines of another name count too if they are about a graph that this name has or had: a graph
    does not become another one by being called so.

    Args:
        lines: of the log, checked.
        data: the name.
        graph: recognises the silo's graph of today; None if it is not known.
        since: the last line not to be counted. A run that was agreed to before counts all the
            same if something left afterwards.
    """
    agreed = [line for line in lines if isinstance(line, Agreed)]
    left, later = _left(lines), _left(lines, since)
    counted = _counted(lines, data, graph, since)
    releases = [*_releases(counted, left), *_unexplained(later, agreed, data)]
    nodes = [line.priced.nodes for line in counted if line.priced]
    seals = {line.graph for line in counted if line.graph}
    return Account(data, len(seals), max(nodes, default=0), tuple(releases), since)


def links_spent(lines: Sequence[Line], asked: Agreed, data: str, since: int = 0) -> float:
    """ε for all that runs told other silos of one node, but for the run that is asked for.

    Args:
        lines: of the log, checked.
        asked: the line about the run that is to be the next.
        data: as in :func:`account_of`.
        since: likewise.
    """
    epsilons: dict[str, float] = {}
    for line in _counted(lines, data, asked.graph, since):
        if (line.run, line.agreement) != (asked.run, asked.agreement):
            epsilons[line.run] = max(epsilons.get(line.run, 0.0), told_epsilon(line))
    return math.fsum(epsilons.values())


def told_epsilon(line: Agreed) -> float:
    """ε for all that a run tells other silos of one node; infinite where nothing bounds it."""
    return link_epsilon(_read(line, line.priced.told)) if line.priced else 0.0


def _counted(lines: Sequence[Line], data: str, graph: str | None, since: int) -> list[Agreed]:
    """The agreements that count, see :func:`account_of`."""
    agreed = [line for line in lines if isinstance(line, Agreed)]
    left, later = _left(lines), _left(lines, since)
    within = [line for line in agreed if line.number > since or line.run in later]
    graphs = {line.graph for line in within if named(line) == data} | {graph}
    ours = [line for line in within if named(line) == data or (line.graph and line.graph in graphs)]
    idle = _withdrawn(lines) - left - {line.run for line in lines if isinstance(line, Begun)}
    return [line for line in ours if line.run not in idle]


def _left(lines: Iterable[Line], since: int = 0) -> set[str]:
    """The runs of which something left after a line."""
    return {line.run for line in lines if isinstance(line, Payload) and line.number > since}


def names_in(lines: Iterable[Line]) -> list[str]:
    """The names of all data that a log knows, in their order."""
    return list(dict.fromkeys(named(line) for line in lines if isinstance(line, Agreed)))


def named(line: Agreed) -> str:
    """The name of the data that a run was about; earlier versions knew none."""
    return "" if line.priced is None else line.priced.data


def release_key(line: Agreed) -> _Key:
    """The same for lines whose runs show the same release.

    A perturbed graph is shown again as it was: the same graph, rates and secret, drawn in the same
    way. All other noise is that of one run under one agreement.
    """
    if line.priced is None or not is_shown(line):
        return ("run", line.run, line.agreement)
    rates = [rate.hex() for rate in line.priced.rates or ()]
    return ("shown", str(line.graph), str(line.priced.shown), *rates)


def is_shown(line: Agreed) -> bool:
    """Whether a run's answers all come from one perturbed graph, which is the same every time."""
    return bool(line.graph and line.priced and line.priced.shown)


def _releases(lines: Iterable[Agreed], left: set[str]) -> list[Release]:
    rows = sorted(lines, key=release_key)
    found = [_release(key, list(own), left) for key, own in groupby(rows, release_key)]
    first = {release_key(line): line.number for line in reversed(rows)}
    return sorted(found, key=lambda release: first[release.key])


def _release(key: _Key, lines: Sequence[Agreed], left: set[str]) -> Release:
    runs = tuple(dict.fromkeys(line.run for line in lines))
    prices = [_events(line) for line in lines]
    worst = None if None in prices else max(filter(None, prices), key=_cost, default=())
    return Release(key, runs, worst, any(run in left for run in runs))


def _cost(events: Sequence[Event]) -> float:
    return total_epsilon(events, 1e-5)


def _events(line: Agreed) -> tuple[Event, ...] | None:
    """What bounds the run; None if nothing does, as in a line that does not say."""
    if line.priced is None or line.priced.events is None:
        return None
    return _read(line, line.priced.events)


def _read(line: Agreed, rows: Sequence[Mapping[str, Any]]) -> tuple[Event, ...]:
    try:
        return tuple(from_plain(rows))
    except DataError as error:
        raise DataError(
            f"line {line.number} of the log: {error}; a later version wrote it, install that one"
        ) from None


def _unexplained(runs: Iterable[str], agreed: Iterable[Agreed], data: str) -> list[Release]:
    """Runs of which something left without a line about what was agreed to, as in version 0.1."""
    known = {line.run for line in agreed}
    if data:
        return []
    return [Release(("run", run), (run,), None, True) for run in sorted(set(runs) - known)]


def _withdrawn(lines: Iterable[Line]) -> set[str]:
    """Runs that were withdrawn and not agreed to again."""
    last: dict[str, Agreed | Withdrawn] = {}
    for line in lines:
        if isinstance(line, Agreed | Withdrawn):
            last[line.run] = line
    return {run for run, line in last.items() if isinstance(line, Withdrawn)}
