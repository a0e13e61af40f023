"""What each method costs: bytes and seconds of metered runs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from feddep.algorithms import METHODS, find_method
from feddep.errors import InputError
from feddep.phases.averaging import Averaging
from feddep.phases.neighgen import NeighGenTraining
from feddep.phases.peer_search import PeerSearch
from feddep.reports.formatting import footnotes, marked, size
from feddep.reports.table import Table
from feddep.runs.files import Record

REFERENCE = "fedavg"
ROUNDS = 3
"""What a round costs does not depend on the number of rounds, so a few will do."""

MEASURED_HEADINGS = (
    *("method", "sent once", "a generator epoch", "an averaging round"),
    *("up in all", "down in all", f"more than {REFERENCE}"),
    *("seconds before the rounds", "a round", "in all", f"÷ {REFERENCE}"),
)
NOTES = (
    "Bytes are those of all clients together. What is *sent once* and in a *generator epoch* comes "
    "before the averaging rounds. A round is what goes up divided by the rounds plus what goes "
    "down divided by one more, because the last classifier goes down only to be scored; what a "
    "method sends every few rounds is spread over all.",
    f"*More than {REFERENCE}* includes the wider classifier of a method that mends: the weights "
    "for embeddings of missing neighbours travel in every round.",
    "Seconds are those of the clock, with however many workers there were.",
)

# The phases in which a generator is trained with messages in every epoch.
EPOCH_PHASES = frozenset({NeighGenTraining.name, PeerSearch.name})
# What the runs in one table must have in common.
_COMMON = ("dataset", "clients", "rounds", "seed", "split", "partition")


@dataclass(frozen=True)
class Cost:
    """What one run cost; bytes of all clients together.

    Attributes:
        method: which.
        once_bytes: before the averaging rounds, but for generator epochs.
        generator_epochs: epochs of a generator's training that send messages.
        epoch_bytes: in one of them.
        round_bytes: in an averaging round.
        up_bytes: in all.
        down_bytes: in all.
        extra_bytes: more than FedAvg's run; None without one.
        seconds_before: in the phases before the averaging rounds.
        seconds_round: in an averaging round.
        seconds: in all phases.
        times_reference: seconds ÷ FedAvg's; None without one.
    """

    method: str
    once_bytes: int
    generator_epochs: int
    epoch_bytes: float
    round_bytes: float
    up_bytes: int
    down_bytes: int
    extra_bytes: int | None
    seconds_before: float
    seconds_round: float
    seconds: float
    times_reference: float | None


def methods_to_run(asked: Sequence[str] = ()) -> list[str]:
    """The reference, then the methods that are asked for; by default all that send anything.

    Raises:
        InputError: one of them is unknown or sends nothing.
    """
    federated = [name for name, method in METHODS.items() if method.discloses]
    for name in asked:
        if not find_method(name).discloses:
            raise InputError(
                f"{name} sends nothing, so there is no cost to measure; "
                f"choose among {', '.join(federated)}"
            )
    return list(dict.fromkeys([REFERENCE, *(asked or federated)]))


def costs_of(records: Sequence[Record]) -> list[Cost]:
    """What each run cost.

    Raises:
        InputError: the runs are not of one scenario, two are of one method, or one sent nothing.
    """
    _check_comparable(records)
    reference = next((record for record in records if record["method"] == REFERENCE), None)
    return [_cost(record, reference) for record in records]


def costs_json(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Plain data, one entry for each run."""
    return [asdict(cost) for cost in costs_of(records)]


def costs_markdown(records: Sequence[Record]) -> str:
    """A page: what was measured, and how it is to be read."""
    first = records[0]
    lines = [
        f"# Costs: {first['dataset']}, {first['clients']} clients, {first['rounds']} rounds, "
        f"seed {first['seed']}",
        "",
        measured_table(costs_of(records)).markdown(),
        *(f"- {note}" for note in NOTES),
    ]
    return "\n".join(lines) + "\n"


def measured_table(costs: Sequence[Cost]) -> Table:
    """What was measured, a line for each run."""
    notes = footnotes(cost.method for cost in costs)
    return Table(MEASURED_HEADINGS, [_measured_row(cost) for cost in costs], notes)


def generator_epochs(record: Record) -> int:
    """E_g; without any epoch there would be no generator, so there is at least one."""
    return max(1, int(record["settings"]["generator.epochs"]))


def phase_bytes(record: Record, name: str) -> int:
    """Bytes of one phase, both ways."""
    counts: Mapping[str, int] = record["traffic"]["phases"][name]
    return counts["up_bytes"] + counts["down_bytes"]


def total_bytes(record: Record) -> int:
    """Bytes in all, both ways."""
    return int(record["traffic"]["up_bytes"] + record["traffic"]["down_bytes"])


def seconds_before(record: Record) -> float:
    """Seconds of the phases before the averaging rounds."""
    phases: Mapping[str, float] = record["seconds"]["phases"]
    return sum(seconds for name, seconds in phases.items() if name != Averaging.name)


def _check_comparable(records: Sequence[Record]) -> None:
    first, methods = records[0], set[str]()
    for record in records:
        name = record["method"]
        if name in methods:
            raise InputError(f"expected one run of each method (got two of {name})")
        methods.add(name)
        if not total_bytes(record):
            raise InputError(f"{name} sent nothing, so it has no cost to show; leave its run out")
        if "data" not in record:
            raise InputError(f"the run of {name} is of an older version; run it again")
        for key in _COMMON:
            if record[key] != first[key]:
                raise InputError(
                    f"expected runs of one scenario (got {key} {first[key]} of {first['method']} "
                    f"and {record[key]} of {name})"
                )


def _cost(record: Record, reference: Record | None) -> Cost:
    traffic, rounds = record["traffic"], record["rounds"]
    before = {name: phase_bytes(record, name) for name in traffic["phases"]}
    before.pop(Averaging.name, None)
    epochs = generator_epochs(record) if before.keys() & EPOCH_PHASES else 0
    in_epochs = sum(count for name, count in before.items() if name in EPOCH_PHASES)
    averaging = traffic["phases"].get(Averaging.name, {"up_bytes": 0, "down_bytes": 0})
    seconds, waited = record["seconds"]["total"], seconds_before(record)
    return Cost(
        method=record["method"],
        once_bytes=sum(before.values()) - in_epochs,
        generator_epochs=epochs,
        epoch_bytes=in_epochs / max(1, epochs),
        round_bytes=averaging["up_bytes"] / rounds + averaging["down_bytes"] / (rounds + 1),
        up_bytes=traffic["up_bytes"],
        down_bytes=traffic["down_bytes"],
        extra_bytes=None if reference is None else total_bytes(record) - total_bytes(reference),
        seconds_before=waited,
        seconds_round=(seconds - waited) / rounds,
        seconds=seconds,
        times_reference=None if reference is None else seconds / reference["seconds"]["total"],
    )


def _measured_row(cost: Cost) -> tuple[str, ...]:
    epoch = f"{size(round(cost.epoch_bytes))} × {cost.generator_epochs}"
    extra, times = cost.extra_bytes, cost.times_reference
    return (
        marked(cost.method),
        size(cost.once_bytes),
        epoch if cost.generator_epochs else "–",
        size(round(cost.round_bytes)),
        size(cost.up_bytes),
        size(cost.down_bytes),
        "–" if extra is None else f"{'−' if extra < 0 else ''}{size(abs(extra))}",
        f"{cost.seconds_before:.2f}",
        f"{cost.seconds_round:.2f}",
        f"{cost.seconds:.2f}",
        "–" if times is None else f"{times:.2f}",
    )
