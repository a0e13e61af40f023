"""Predictions as a table: what a silo hands to whoever acts on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from feddep.graph.graph import Array, Graph
from feddep.runs.table_files import write_table


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
        write_table(self.columns, file)


def class_names(graph: Graph, classes: int, trained: Sequence[str]) -> list[str]:
    """What classes are called: as the graph does, as the model does, or by number."""
    own = () if graph.schema is None else graph.schema.classes
    return list(own or trained or map(str, range(classes)))
