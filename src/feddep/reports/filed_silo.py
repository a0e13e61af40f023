"""The statement to be filed about a run at one silo, from the silo's own log."""

import math
from collections.abc import Mapping, Sequence

from feddep.deployment.operations.silo_account import HEADINGS, SiloBooks, rows, sentences
from feddep.deployment.protocol.log_lines import Agreed, Line, Payload
from feddep.errors import InputError
from feddep.federation.messages import group_of
from feddep.privacy.accountant import Guarantee
from feddep.privacy.events import Event, from_plain
from feddep.privacy.meaning import GraphSize, meaning
from feddep.reports.filed_run import (
    guarantee,
    hidden_edges,
    implementation,
    mechanisms,
    not_covered,
    promise,
    told_to_silos,
    written,
)
from feddep.reports.filing import ADVERSARY, Filing, Section, facts
from feddep.reports.formatting import size
from feddep.reports.table import Table
from feddep.runs.records import versions

_EDGES = "This sentence tells how many edges the silo has: leave it out of what is made public."
_LEFT = ("phase", "what", "times", "bytes")


def statement_of_silo(books: SiloBooks, run: str | None, audit: Section) -> Filing:
    """The statement about a run at a silo.

    Args:
        books: the silo's consent and log.
        run: its name; None takes the run that the silo agreed to last.
        audit: see :func:`~.filed_audit.audit_section`.

    Raises:
        InputError: the log does not know the run.
    """
    agreed = _agreed(books.lines, run)
    sound, edges = _sound(agreed), hidden_edges(_events(agreed))
    return Filing(
        f"Privacy statement: {agreed.run} at {books.name}",
        promise(sound, edges),
        [
            guarantee(sound, _words(books, sound, edges), edges),
            Section("How it is achieved", [mechanisms(_events(agreed))]),
            implementation(_versions(agreed), _noise(agreed)),
            Section("Against whom", [ADVERSARY]),
            Section("What left", [_left(books.lines, agreed.run), *_told(agreed)]),
            _spent(books),
            not_covered(),
            audit,
            Section("What this rests on", [_rests(books, agreed)]),
        ],
    )


def _agreed(lines: Sequence[Line], run: str | None) -> Agreed:
    found = [line for line in lines if isinstance(line, Agreed) and run in (None, line.run)]
    if found:
        return found[-1]
    known = dict.fromkeys(line.run for line in lines if isinstance(line, Agreed))
    asked = "any run" if run is None else f"a run {run!r}"
    raise InputError(
        f"the disclosure log has no agreement to {asked}; it knows: {', '.join(known) or 'none'}"
    )


def _sound(agreed: Agreed) -> Guarantee:
    if agreed.epsilon is None or (agreed.priced is not None and agreed.priced.key is None):
        return Guarantee(None, 1.0 if agreed.delta is None else agreed.delta, "none")
    return Guarantee(agreed.epsilon, agreed.delta or 0.0, "holds")


def _words(books: SiloBooks, sound: Guarantee, edges: int) -> str:
    if sound.epsilon is None:
        return (
            "Somebody who sees what left may be able to tell whether two nodes are linked: nothing "
            "bounds what it shows."
        )
    given = "a given edge exists" if edges == 1 else f"up to {edges} given edges of one node exist"
    told = (
        f"Whether {given} changes the odds of anything that an observer sees by a factor of at "
        f"most e^{sound.epsilon:.3g}"
    )
    told += f", but for a chance of {sound.delta:.3g}. " if sound.delta else ". "
    if books.graph is None:
        return told.strip()
    return f"{told}{_means(books, sound.epsilon)} {_EDGES}"


def _means(books: SiloBooks, epsilon: float) -> str:
    """What ε means on the silo's graph; empty if that is not known."""
    if books.graph is None:
        return ""
    return meaning(epsilon, [GraphSize(books.graph.nodes, books.graph.edges)], "at most")


def _events(agreed: Agreed) -> list[Event]:
    """The mechanisms that bound the run, as the log has them."""
    return from_plain(agreed.priced.events or []) if agreed.priced else []


def _told(agreed: Agreed) -> list[str]:
    """What other silos are told of this one, as its phases declare it."""
    events = from_plain(agreed.priced.told) if agreed.priced else []
    return [told_to_silos(events)] if events else []


def _versions(agreed: Agreed) -> Mapping[str, str]:
    drawn = agreed.priced.version if agreed.priced else "unknown"
    here = {name: text for name, text in versions().items() if name != "feddep"}
    return {"feddep": f"{drawn} (as logged); this statement by {versions()['feddep']}", **here}


def _noise(agreed: Agreed) -> str:
    if agreed.priced is None or agreed.priced.key is None:
        return "from the run's seed, which the server knows: it protects nothing"
    return (
        f"AES-256 in counter mode under the silo's secret, recognised by {agreed.priced.key[:16]}"
    )


def _left(lines: Sequence[Line], run: str) -> Table | str:
    totals: dict[tuple[str, str], list[int]] = {}
    for line in lines:
        if not isinstance(line, Payload) or line.run != run:
            continue
        sizes: dict[str, int] = {}
        for name, array in line.names.items():
            sizes[group_of(name)] = sizes.get(group_of(name), 0) + array.bytes
        if line.numbers:
            sizes["numbers: " + ", ".join(sorted(line.numbers))] = 0
        for name, count in sizes.items():
            found = totals.setdefault((line.phase, name), [0, 0])
            found[0] += 1
            found[1] += count
    if not totals:
        return "Nothing."
    return Table(
        _LEFT,
        [(*key, f"{times}", size(count)) for key, (times, count) in sorted(totals.items())],
    )


def _spent(books: SiloBooks) -> Section:
    account = books.account
    told = ". ".join(_capital(text) for text in sentences(books, account)) + "."
    spent = account.epsilon(books.delta(account))
    if account.releases and math.isfinite(spent):
        told = f"{told} {_means(books, spent)}".strip()
    table = Table(HEADINGS, rows(account, books.delta(account)))
    return Section("Spent and left, over all runs", [told, table] if account.releases else [told])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _rests(books: SiloBooks, agreed: Agreed) -> Table:
    return facts(
        [
            ("agreed", f"line {agreed.number} of the disclosure log, {agreed.time}"),
            ("agreement", agreed.agreement),
            ("graph, sealed", agreed.graph or "not recorded"),
            ("head of the log", books.head),
            written(),
        ]
    )
