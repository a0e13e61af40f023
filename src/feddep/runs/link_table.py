"""What linked silos told one silo about its nodes' counterparties, as columns for any model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from feddep.errors import InputError
from feddep.graph.arranging import arranged
from feddep.graph.fingerprint import fingerprint
from feddep.graph.graph import Array, Graph
from feddep.learning.link_codes import CodePart, LinksSpec
from feddep.privacy.events import LinkAnswers
from feddep.runs.clients import ClientPart
from feddep.runs.data_to_predict import numbered, read_data, silo_names
from feddep.runs.predictions import class_names
from feddep.runs.result import Result
from feddep.runs.table_files import write_table
from feddep.scenario import build


@dataclass(frozen=True, eq=False)
class LinkTable:
    """A row for each own node of one silo, or of all silos of a simulation.

    Attributes:
        columns: ``silo`` where there are several, ``id``, ``answered``, and of each value of each
            code the expected ``count_…`` and the ``mean_…`` over those that answered.
        price: what the answers cost a node of a silo that gave them, in words.
    """

    columns: dict[str, Array]
    price: str

    def __len__(self) -> int:
        return len(self.columns["id"])

    @property
    def answered(self) -> int:
        """Nodes with a counterparty that answered."""
        return int(np.count_nonzero(self.columns["answered"]))

    def write(self, file: Path) -> None:
        """Writes a CSV or a Parquet file, with the price in its header."""
        write_table(self.columns, file, self.price)


def link_table(result: Result, data: Path | None = None, silo: str | None = None) -> LinkTable:
    """The private counts and means that silos have from a run.

    Args:
        result: an opened run, or what a silo kept of a federation.
        data: the silo's graph folder or tables; a simulation builds its own.
        silo: whose, by name or number; None takes all that the run kept.

    Raises:
        InputError: the run told nobody codes, or the data are not those that it was run on.
    """
    if not any(part.heard is not None for part in result.clients.values()):
        raise InputError(
            f"nobody heard codes over links in this run of {result.spec.method}; run "
            "feddep-linked or linked-nodes on data with known links, and open that run's folder"
        )
    graphs = _graphs(result, data, silo)
    tables = [_of_silo(result, client, graph) for client, graph in graphs.items()]
    columns = {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}
    if len(graphs) > 1:
        names = _names(result)
        whose = [np.full(graph.nodes, names[client]) for client, graph in graphs.items()]
        columns = {"silo": np.concatenate(whose), **columns}
    return LinkTable(columns, price_in_words(result))


def price_in_words(result: Result) -> str:
    """What a file says of the price of its columns."""
    spec = result.spec.links
    what = f"What linked silos were told: {spec.in_words}."
    if spec.noise == "none":
        price = "Price: none is given, as there is no noise. Treat the columns as others' data."
        return f"{what}\n{price}"
    several = f", {spec.refreshes} answers together" if spec.refreshes > 1 else ""
    price = (
        f"Price: epsilon = {spec.epsilon:g} for each node of a silo that answered{several}, by "
        "randomised response; what is computed from the columns costs no more."
    )
    simulated = {event.noise_from for events in result.events_by_client for event in _told(events)}
    if "seed" in simulated:
        price += " This is a simulation: whoever knows the seed can remove the noise."
    elif not simulated:
        price += " That holds for silos with a secret of their own."
    return f"{what}\n{price}"


def column_names(spec: LinksSpec, classes: Sequence[str]) -> list[str]:
    """What each value of each code is called, in the order of the columns."""
    return [name for part in spec.parts(len(classes)) for name in _values(part, classes)]


def _told(events: Sequence[object]) -> list[LinkAnswers]:
    return [event for event in events if isinstance(event, LinkAnswers)]


def _values(part: CodePart, classes: Sequence[str]) -> list[str]:
    if part.kind == "scores":
        levels = part.values // len(classes)
        return [
            f"score_{name}_{level + 1}of{levels}" for name in classes for level in range(levels)
        ]
    if part.kind == "features":
        return [f"cell_{number + 1}of{part.values}" for number in range(part.values)]
    unknown = ["unknown"] if part.kind == "confirmed" else []
    return [f"{part.kind}_{name}" for name in [*classes, *unknown]]


def _graphs(result: Result, data: Path | None, silo: str | None) -> dict[int, Graph]:
    """The graphs of the silos that are asked for."""
    clients = sorted(result.clients)
    if silo is not None:
        client = numbered(silo, _names(result))
        if client not in clients:
            raise InputError(f"the run keeps nothing of silo {silo}; open that silo's own results")
        clients = [client]
    if data is not None:
        if len(clients) > 1:
            raise InputError(
                f"{data} is of one silo; say which of {', '.join(_names(result))} with --silo"
            )
        return {clients[0]: read_data(data, result.folder, clients[0])}
    if "silo" in result.record or "federation" in result.record:
        raise InputError("the run is of a real federation; give the silo's own data with --data")
    shards = build.build(result.spec)
    return {client: shards[client] for client in clients}


def _names(result: Result) -> list[str]:
    return silo_names(result.spec, int(result.record["clients"]))


def _of_silo(result: Result, client: int, graph: Graph) -> dict[str, Array]:
    part, spec, model = result.clients[client], result.spec.links, result.model
    graph = arranged(graph, model.schema)
    _check_same(part, graph, client)
    trained = () if model.schema is None else model.schema.classes
    names = column_names(spec, class_names(graph, model.spec.classes, trained))
    width = spec.columns(model.spec.classes)
    heard = np.zeros((graph.nodes, width)) if part.heard is None else part.heard.astype(float)
    means, counts = heard[:, : len(names)], np.expm1(heard[:, len(names) : 2 * len(names)])
    return {
        "id": graph.node_ids,
        "answered": np.rint(np.expm1(heard[:, -1])).astype(np.int64),
        **{f"count_{name}": counts[:, place] for place, name in enumerate(names)},
        **{f"mean_{name}": means[:, place] for place, name in enumerate(names)},
    }


def _check_same(part: ClientPart, graph: Graph, client: int) -> None:
    if part.graph != fingerprint(graph):
        raise InputError(
            f"these are not the data that client {client} had in the run; the columns are about "
            f"its nodes and links then (got {graph.nodes} nodes, {graph.edges} edges)"
        )
