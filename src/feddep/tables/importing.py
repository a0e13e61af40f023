"""From a folder of tables to a graph folder, with the encoder beside it."""

from pathlib import Path
from typing import Any

from feddep.graph.files import AnyPath, replacing
from feddep.graph.folder import fill_graph_folder
from feddep.tables.agreeing import read_schema
from feddep.tables.encoder import Encoded, fit
from feddep.tables.files import open_tables


def encoded_folder(
    folder: AnyPath, schema: Path | None = None, *, seed: int = 0, **flags: Any
) -> Encoded:
    """The tables of a folder as a graph.

    Args:
        folder: the silo's.
        schema: the file of the agreed schema; None takes what the tables suggest.
        seed: of the split, if the table of nodes has none.
        **flags: see :func:`~feddep.tables.files.open_tables`.
    """
    agreed = None if schema is None else read_schema(schema)
    return fit(open_tables(folder, **flags), agreed, seed=seed)


def import_folder(
    folder: AnyPath,
    out: AnyPath,
    schema: Path | None = None,
    *,
    seed: int = 0,
    overwrite: bool = False,
    **flags: Any,
) -> Encoded:
    """Writes the tables of a folder as a graph folder, and the encoder into it."""
    encoded = encoded_folder(folder, schema, seed=seed, **flags)
    with replacing(Path(out), overwrite) as draft:
        fill_graph_folder(encoded.graph, draft)
        encoded.encoder.write(draft)
    return encoded
