"""Predictions as a table: what a silo hands to whoever acts on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from feddep.errors import InputError
from feddep.graph.graph import Array, Graph
from feddep.runs.files import drafted

ENDINGS = (".csv", ".parquet")


@dataclass(frozen=True, eq=False)
class Predictions:
    """A row for each node, in the order of the silo's own table.

    Attributes:
        ids: of the nodes.
        classes: names of the classes.
        probabilities: ``(n, classes)``.
        called: ``(n,)`` number of the class that each node is called; of two classes not the more
            probable one, but the one beyond the run's threshold.
        threshold: of two classes, the one that is looked for and the probability from which on a
            node is called so; None where the most probable class is taken.
        silo: number of the silo whose model and generator were used; None for none.
    """

    ids: Array
    classes: Sequence[str]
    probabilities: npt.NDArray[np.float64]
    called: npt.NDArray[np.int64]
    threshold: tuple[int, float] | None = None
    silo: int | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def columns(self) -> dict[str, Array]:
        """``id``, ``class`` and ``probability_…`` of each class, as arrays for a data frame."""
        chosen = np.array(self.classes)[self.called]
        named = {
            f"probability_{name}": self.probabilities[:, number]
            for number, name in enumerate(self.classes)
        }
        return {"id": self.ids, "class": chosen, **named}

    def highest(self, count: int) -> tuple[str, list[tuple[object, float]]]:
        """The nodes that most probably are of the class that is looked for, or else the rarest."""
        rare = int(self.probabilities.mean(axis=0).argmin())
        if self.threshold is not None:
            rare = self.threshold[0]
        scores = self.probabilities[:, rare]
        first = np.argsort(-scores, kind="stable")[:count]
        return self.classes[rare], [(self.ids[i].item(), float(scores[i])) for i in first]

    def write(self, file: Path) -> None:
        """Writes a CSV or a Parquet file, by the ending of its name; a whole one or none.

        Raises:
            InputError: the name ends in something else.
        """
        check_ending(file)
        table = pa.table({name: pa.array(values) for name, values in self.columns.items()})
        file.parent.mkdir(parents=True, exist_ok=True)
        with drafted(file) as opened:
            _write(table, opened, parquet=file.suffix == ".parquet")


def check_ending(file: Path) -> None:
    """Refuses a file that is neither CSV nor Parquet."""
    if file.suffix not in ENDINGS:
        raise InputError(f"expected a file that ends in {' or '.join(ENDINGS)} (got {file})")


def class_names(graph: Graph, classes: int, trained: Sequence[str]) -> list[str]:
    """What classes are called: as the graph does, as the model does, or by number."""
    own = () if graph.schema is None else graph.schema.classes
    return list(own or trained or map(str, range(classes)))


def _write(table: pa.Table, file: BinaryIO, *, parquet: bool) -> None:
    if parquet:
        pyarrow.parquet.write_table(table, file)
        return
    file.write((",".join(map(_quoted, table.column_names)) + "\n").encode())
    # pyarrow quotes either every text or none, and refuses none where a text needs it.
    plain = all(_is_plain(column) for column in table.columns)
    options = pyarrow.csv.WriteOptions(
        include_header=False, quoting_style="none" if plain else "needed"
    )
    pyarrow.csv.write_csv(table, file, options)


def _is_plain(column: pa.ChunkedArray) -> bool:
    if not pa.types.is_string(column.type):
        return True
    return not pc.any(pc.match_substring_regex(column, '[,"\r\n]')).as_py()


def _quoted(name: str) -> str:
    needs = any(sign in name for sign in ',"\r\n')
    return '"' + name.replace('"', '""') + '"' if needs else name
