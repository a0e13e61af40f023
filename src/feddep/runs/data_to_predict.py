"""What predictions are made for: a graph folder, or tables that are encoded as in the run."""

from dataclasses import fields
from pathlib import Path

from feddep.errors import InputError
from feddep.graph.folder import is_graph_folder, read_graph
from feddep.graph.graph import Graph
from feddep.runs.folder import client_folder
from feddep.scenario.spec import RunSpec
from feddep.tables.encoder import ENCODER, Encoder
from feddep.tables.files import is_table_folder, open_tables
from feddep.tables.settings import TableSettings
from feddep.tables.silo_data import names_of

_FOUND_ANEW = ("nodes", "edges", "label", "split", "case", "since", "split_by")


def read_data(
    folder: Path, run: Path | None, silo: int | None, encoder: Encoder | None = None
) -> Graph:
    """The graph in a folder.

    Args:
        folder: a graph folder, or a folder of tables.
        run: the run's folder, which keeps how each silo's tables were encoded.
        silo: whose tables they are.
        encoder: how the run encoded the silo's tables, if that is known already.

    Raises:
        InputError: it holds neither, or the run kept no encoder; it says what to do.
    """
    if is_graph_folder(folder):
        return read_graph(folder)
    if not is_table_folder(folder):
        raise InputError(
            f"{folder} holds neither a graph (manifest.json) nor tables such as nodes.csv and "
            "edges.csv; see docs/own_data.md"
        )
    encoder = encoder or Encoder.read(_encoder_file(folder, run, silo))
    known = {field.name for field in fields(TableSettings)} - set(_FOUND_ANEW)
    flags = {name: value for name, value in encoder.settings.items() if name in known and value}
    return encoder.encode(open_tables(folder, **flags)).graph


def silo_names(spec: RunSpec, clients: int) -> list[str]:
    """What the silos of a run are called: their folders' names, or their numbers."""
    return names_of(spec.silos) if spec.silos else list(map(str, range(clients)))


def numbered(silo: str | int, names: list[str]) -> int:
    """The number of a silo that is given by name or number.

    Raises:
        InputError: there is none.
    """
    text = str(silo)
    if text in names:
        return names.index(text)
    if text.isdigit() and int(text) < len(names):
        return int(text)
    raise InputError(f"the run's silos are {', '.join(names)} (got {text})")


def _encoder_file(folder: Path, run: Path | None, silo: int | None) -> Path:
    places = [] if run is None else [run / ENCODER]
    if run is not None and silo is not None:
        places.append(client_folder(run, silo) / ENCODER)
    for file in places:
        if file.exists():
            return file
    if run is not None and silo is None and any(run.glob(f"clients/*/{ENCODER}")):
        raise InputError(
            f"each silo's tables are encoded in their own way; say whose {folder} is, with --silo"
        )
    raise InputError(
        f"the run does not keep how tables are encoded, as it was made on graph folders; turn "
        f"{folder} into one with feddep import --schema"
    )
