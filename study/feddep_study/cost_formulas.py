"""The paper's formulas for what training a neighbour generator costs, worked out for a run.

Source: section 3.2, "Efficiency Analysis", and its table of the additional overhead, "one round of
updating a generator for one node":

    ================  ===========  ===========  ===============
    scheme            comp.        comm./epoch  total comm.
    ================  ===========  ===========  ===============
    FedSage           |V| ñ d_x    M |θ| |h|    E_g M |θ| |h|
    FedDEP w/o Proto  |V| ñ d_z    M ñ d_z      E_g M ñ d_z
    FedDEP            M C² d_z     0            M C d_z
    ================  ===========  ===========  ===============

The O() is dropped and a number counts 4 bytes. Where the table is loose, :data:`NOTES` say how it
is read here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from feddep.phases.neighgen import NeighGenTraining
from feddep.phases.peer_search import PeerSearch
from feddep.phases.prototype_exchange import PrototypeExchange
from feddep.reports.costs import (
    costs_markdown,
    generator_epochs,
    phase_bytes,
    seconds_before,
)
from feddep.reports.formatting import marked, size
from feddep.reports.table import Table
from feddep.runs.files import Record

BYTES = 4
OPERATIONS = "operations"
HEADINGS = ("method", "what", "formula", "numbers", "gives", "measured", "measured ÷ formula")
NOTES = (
    "Symbols: M clients, V nodes of the whole graph, d_x features, d_z width of the embeddings "
    "(d_x where they are the features), C prototypes of a client, ñ generated neighbours, θ the "
    "number of the generator's weights, h the width of what it starts from, E_g epochs of its "
    "training. A number has 4 bytes.",
    "The paper prices one generator and one node. Ours: × N or × B, the nodes of all clients that "
    "are updated in an epoch (N: all that remain when some are hidden as ground truth, up to "
    "rounding; B: one batch at each client); and for FedDEP × M, because M·C·d_z is what one "
    "client sends and receives, its own prototypes up and those of M − 1 others down. Read as what "
    "all clients send up, it would be M times smaller.",
    "Ours: ñ is P, the rows that a node generates, because all of them are sent, kept or not. C is "
    "the most that a client may release; fewer give a ratio below 1.",
    "Ours: θ is the part of NeighGen that travels, behind the encoder. The paper's θ·h is a "
    "product, for each node; we send θ and its gradients once an epoch and one batch of h, so the "
    "ratio is about 2 / (b·h) for a batch of b nodes.",
    "Without prototypes the ratio is about 2: rows go out, gradients of the same size come back.",
    "Operations are compared with the seconds before the averaging rounds, in nanoseconds an "
    "operation. These hold all work of those phases, not the search for the closest rows alone.",
)


@dataclass(frozen=True)
class Priced:
    """One entry of the paper's table, worked out for a run.

    Attributes:
        what: ``bytes an epoch``, ``bytes in all`` or ``operations``.
        formula: with its symbols.
        numbers: the same with the run's numbers.
        value: what that gives.
        measured: bytes; seconds for operations.
        ratio: measured ÷ value, in nanoseconds for operations; None where the formula gives 0.
    """

    what: str
    formula: str
    numbers: str
    value: int
    measured: float
    ratio: float | None


def costs_page(records: Sequence[Record]) -> str:
    """What was measured, then the paper's formulas for it where it has any, in Markdown."""
    page, formulas = costs_markdown(records), formula_table(records)
    if not formulas.rows:
        return page
    notes = "".join(f"- {note}\n" for note in NOTES)
    return f"{page}\n## The paper's formulas\n\n{formulas.markdown()}\n{notes}"


def formula_table(records: Sequence[Record]) -> Table:
    """The paper's formulas for these runs; without rows where it has none."""
    return Table(HEADINGS, [_row(record, one) for record in records for one in price(record)])


def price(record: Record) -> tuple[Priced, ...]:
    """The paper's formulas for the phases of a run; none for methods that it does not price.

    A formula belongs to a phase, so ablations, and methods of somebody's own, are priced too. Nor
    is there any for a run between silos, who do not tell how many validation nodes they have.
    """
    if "validation_nodes" not in record["data"]:
        return ()
    of, phases = _symbols(record), record["traffic"]["phases"]
    if NeighGenTraining.name in phases:
        return _every_epoch(record, of, NeighGenTraining.name, "M θ h", "V ñ d_x", "B")
    if PeerSearch.name in phases:
        return _every_epoch(record, of, PeerSearch.name, "M ñ d_z", "V ñ d_z", "N")
    if PrototypeExchange.name in phases:
        sent = phase_bytes(record, PrototypeExchange.name)
        return (
            Priced("bytes an epoch", "0", "0", 0, 0, None),
            _in_bytes("bytes in all", "M C d_z × M", of, sent),
            _in_operations("M C² d_z × N E_g", of, record),
        )
    return ()


def _row(record: Record, priced: Priced) -> tuple[str, ...]:
    start = (marked(record["method"]), priced.what, priced.formula, priced.numbers)
    ratio = "–" if priced.ratio is None else f"{priced.ratio:#.3g}"
    if priced.what == OPERATIONS:
        return *start, f"{priced.value:.2g}", f"{priced.measured:.2f} s", f"{ratio} ns"
    return *start, size(priced.value), size(round(priced.measured)), ratio


def _symbols(record: Record) -> dict[str, int]:
    """The run's numbers by their symbols."""
    settings: Mapping[str, Any] = record["settings"]
    data: Mapping[str, int] = record["data"]
    hidden, rows = settings["model.hidden"], settings["generator.slots"]
    features, clients = data["features"], record["clients"]
    pool = data["validation_nodes" if settings["generator.pool"] == "val" else "nodes"]
    remaining = data["nodes"] - round(settings["generator.impaired_share"] * pool)
    return {
        "M": clients,
        "V": data["nodes"],
        "d_x": features,
        "d_z": settings["embedding.width"] if settings["embedding.depth"] else features,
        "ñ": rows,
        "C": settings["embedding.clusters"],
        "C²": settings["embedding.clusters"] ** 2,
        "h": hidden,
        "θ": hidden * hidden + hidden + (hidden + 1) * rows * features,
        "E_g": generator_epochs(record),
        "N": remaining,
        "B": min(clients * settings["generator.batch_size"], remaining),
    }


def _every_epoch(
    record: Record, of: Mapping[str, int], phase: str, sent: str, searched: str, nodes: str
) -> tuple[Priced, ...]:
    """The three entries of a scheme that sends messages in every epoch."""
    measured = phase_bytes(record, phase)
    return (
        _in_bytes("bytes an epoch", f"{sent} × {nodes}", of, measured / of["E_g"]),
        _in_bytes("bytes in all", f"E_g {sent} × {nodes}", of, measured),
        _in_operations(f"{searched} × {nodes} E_g", of, record),
    )


def _in_bytes(what: str, formula: str, of: Mapping[str, int], measured: float) -> Priced:
    value = BYTES * _value(formula, of)
    return Priced(what, _shown(formula), _shown(formula, of), value, measured, measured / value)


def _in_operations(formula: str, of: Mapping[str, int], record: Record) -> Priced:
    value, seconds = _value(formula, of), seconds_before(record)
    ratio = 1e9 * seconds / value
    return Priced(OPERATIONS, _shown(formula), _shown(formula, of), value, seconds, ratio)


def _value(formula: str, of: Mapping[str, int]) -> int:
    """A product of symbols; × is a multiplication like the others."""
    return math.prod(of[symbol] for symbol in formula.split() if symbol != "×")


def _shown(formula: str, of: Mapping[str, int] | None = None) -> str:
    """The product as people write it, with its symbols or with the numbers that they stand for."""
    words = [str((of or {}).get(symbol, symbol)) for symbol in formula.split()]
    return "·".join(words).replace("·×·", " × ")
