"""The statement to be filed about a run, from its folder."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from feddep.errors import DataError
from feddep.graph.sources import sha256
from feddep.privacy.accountant import Guarantee
from feddep.privacy.aggregation import sums_event
from feddep.privacy.events import (
    SAID,
    CappedGradients,
    Event,
    Message,
    NoisedGradients,
    NoisedSums,
    RandomisedResponse,
    SparseResponse,
)
from feddep.reports.filing import (
    ADVERSARY,
    NOT_COVERED,
    RELATION,
    RELATION_OF_SEVERAL,
    UNIT,
    UNIT_OF_SEVERAL,
    Filing,
    Section,
    facts,
)
from feddep.reports.formatting import size
from feddep.reports.privacy import of_run
from feddep.reports.table import Table
from feddep.runs.files import Record, read_record
from feddep.runs.old_formats import read_spec
from feddep.runs.opening import read_events

_SIMULATED = ", against whoever does not know its seed: this was a simulation."
_LEFT = ("phase", "what", "times", "bytes")


def statement_of_run(folder: Path, audit: Section) -> Filing:
    """The statement about a finished run, simulated or seen from the server of a federation.

    Args:
        folder: the run's.
        audit: see :func:`~.filed_audit.audit_section`.

    Raises:
        DataError: the folder holds what a silo has of a run; its log says more.
    """
    record = read_record(folder)
    if "silo" in record or "scores" not in record:
        raise DataError(
            f"{folder} holds what a silo has of a run; give the silo's silo.toml and --run instead"
        )
    events = read_events(folder)
    privacy = of_run(folder) if events else record["privacy"]
    sound = Guarantee(**privacy["sound"])
    done = [event for own in events for event in own]
    edges = hidden_edges(done or _asked_for(folder))
    return Filing(
        f"Privacy statement: {record['method']} on {record['dataset']}, seed {record['seed']}",
        promise(sound, edges, simulated="federation" not in record),
        [
            guarantee(sound, privacy["statement"], edges),
            Section("How it is achieved", [mechanisms(done)]),
            implementation(record["versions"], _noise(record)),
            Section("Against whom", [ADVERSARY]),
            Section("What left", [_left(record, events), *filter(None, [told_to_silos(done)])]),
            Section("Spent and left", [_spent(record)]),
            not_covered(),
            audit,
            Section("What this rests on", [_rests(folder)]),
        ],
    )


def hidden_edges(events: Sequence[Event]) -> int:
    """D, the edges of one node that ε is for, all together; 1 is any single edge."""
    return min((event.edges for event in events if isinstance(event, NoisedSums)), default=1)


def promise(sound: Guarantee, edges: int, *, simulated: bool = False) -> str:
    """The promise in a sentence."""
    if sound.epsilon is None or sound.verdict != "holds":
        return "No privacy guarantee is given for single edges."
    unit = "One edge" if edges == 1 else f"Up to {edges} edges of one node, all together,"
    return (
        f"{unit} inside one silo {'is' if edges == 1 else 'are'} protected with ε = "
        f"{sound.epsilon:.4g} and δ = {sound.delta:.3g}, for everything that left in this run"
        f"{_SIMULATED if simulated else '.'}"
    )


def guarantee(sound: Guarantee, words: str, edges: int) -> Section:
    """What is promised, for which unit and relation, and what that means."""
    epsilon = "unbounded" if sound.epsilon is None else f"{sound.epsilon:.4g}"
    rows = [
        ("verdict", sound.verdict),
        ("ε of this run", epsilon),
        ("δ of this run", f"{sound.delta:.3g}"),
        ("unit of protection", UNIT if edges == 1 else UNIT_OF_SEVERAL.format(edges)),
        ("neighbouring relation", RELATION if edges == 1 else RELATION_OF_SEVERAL.format(edges)),
    ]
    return Section("What is promised", [facts(rows), words])


def mechanisms(events: Sequence[Event]) -> Table | str:
    """The mechanisms that acted, each once."""
    rows = list(dict.fromkeys(row for event in events if (row := _mechanism(event))))
    if not rows:
        return "No mechanism acted on the edges, or what acted has no price for one edge."
    return Table(("mechanism", "settings", "accounting"), rows)


def told_to_silos(events: Sequence[Event]) -> str:
    """What other silos are told; empty if nothing."""
    told = dict.fromkeys(event.sentence for event in events if isinstance(event, SAID))
    return " ".join(told)


def implementation(versions: Mapping[str, str], noise: str) -> Section:
    """What ran, and where its noise came from."""
    known = {**versions, "dp_accounting": version("dp-accounting")}
    names = ", ".join(f"{name} {value}" for name, value in known.items() if name != "processor")
    rounding = (
        "How noise is drawn and rounded, and what that adds to ε, is in docs/privacy.md, *Where "
        "noise comes from*."
    )
    return Section(
        "How it is implemented", [facts([("versions", names), ("noise", noise)]), rounding]
    )


def not_covered() -> Section:
    """The limits of every statement."""
    return Section("What is not covered", [" ".join(NOT_COVERED)])


def _mechanism(event: Event) -> tuple[str, str, str] | None:
    if isinstance(event, RandomisedResponse):
        settings = f"every pair flipped once, ε = {event.epsilon:.4g}"
        return "randomised response", settings, "pure ε; all that follows is post-processing"
    if isinstance(event, SparseResponse):
        settings = f"q₁ = {event.keep:.4g}, q₀ = {event.create:.4g}"
        return "randomised response", settings, "pure ε; all that follows is post-processing"
    if isinstance(event, NoisedSums):
        settings = f"sums of rows of norm 1: σ = {event.noise:.4g}, {event.hops} hops"
        return "aggregation perturbation", settings, "one Gaussian mechanism"
    if isinstance(event, CappedGradients):
        settings = (
            f"{event.purpose}: σ = {event.noise:.4g}, C = {event.clip:g}, q = {event.rate:.3g}, "
            f"{event.steps} steps, K = {event.occurrences}, {event.touched} examples touched"
        )
        return "DP-SGD with capped lists", settings, "privacy loss distributions, dp_accounting"
    if isinstance(event, NoisedGradients):
        settings = f"{event.purpose}: σ = {event.noise:.4g}, C = {event.clip:g}"
        updates = event.purpose == "updates"
        priced = "silo level, of the updates alone (sensitivity 2C)" if updates else "none"
        return "noise without a price for one edge", settings, priced
    return None


def _asked_for(folder: Path) -> list[Event]:
    """The mechanism of a federation's run, of which the server has no events."""
    privacy = read_spec(folder / "spec.toml").privacy
    return [sums_event(privacy)] if privacy.sums else []


def _noise(record: Record) -> str:
    if "federation" in record:
        return "from each silo's secret, as its configuration says; the silos' own statements tell"
    return "PCG64 from the run's seed: a simulation, which whoever knows the seed can repeat"


def _left(record: Record, events: Sequence[Sequence[Event]]) -> Table:
    totals: dict[tuple[str, str], list[int]] = {}
    for event in (event for own in events for event in own if isinstance(event, Message)):
        found = totals.setdefault((event.phase, event.name), [0, 0])
        found[0] += event.times
        found[1] += event.bytes
    rows = [(*key, f"{times}", size(count)) for key, (times, count) in sorted(totals.items())]
    if not rows:  # the server's record of a federation has bytes by phase alone
        phases: dict[str, Any] = record["traffic"]["phases"]
        rows = [(name, "all", "–", size(own["up_bytes"])) for name, own in phases.items()]
    return Table(_LEFT, rows, notes=["All clients together."])


def _spent(record: Record) -> str:
    if "federation" in record:
        return (
            "Each silo keeps a budget of its own, from its own log; the silos' statements tell "
            "what is spent and left."
        )
    return (
        "This is about one run. A simulation keeps no budget: every other run on the same data "
        "comes on top."
    )


def _rests(folder: Path) -> Table:
    names = [name for name in ("record.json", "privacy_events.json") if (folder / name).exists()]
    rows = [(name, f"SHA-256 {sha256((folder / name).read_bytes())}") for name in names]
    return facts([*rows, written()])


def written() -> tuple[str, str]:
    """When the statement was made."""
    return "statement made", datetime.now(UTC).isoformat(timespec="seconds")
