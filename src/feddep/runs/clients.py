"""What each client has from a run besides the classifier, in memory and on disk."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from feddep.errors import DataError
from feddep.federation.messages import Arrays, group, grouped
from feddep.graph.csr import csr_problem
from feddep.graph.graph import Array
from feddep.graph.silos import Written
from feddep.learning.link_mending import COLUMNS
from feddep.learning.mending import GENERATOR, MENDING
from feddep.learning.spec import LearningSpec
from feddep.models.generator import DeepGenerator
from feddep.runs.weight_files import check_weights, read_arrays, shapes_of, write_arrays
from feddep.tables.encoder import ENCODER, Encoder

_MENDING, _WEIGHTS = "mending.safetensors", "generator.safetensors"
_HEARD = "links.safetensors"
_SPARSE = {"added/indptr", "added/indices", "added/data"}

Draws = Literal["seed", "secret"]


@dataclass(frozen=True, eq=False)
class ClientPart:
    """Enough to mend one client's subgraph as it was when the best classifier was scored.

    Attributes:
        graph: fingerprint of the graph that it had; None if that was not kept.
        mending: the parts of its memory in :data:`~feddep.learning.mending.MENDING`, from the best
            round. None if they were not kept; then ``generator`` is from the last round.
        generator: the weights of its generator, for methods that have one.
        draws: whether its random draws came from the run's seed or from a secret of its own.
        heard: ``(n, w)``, what linked silos told it about its nodes' counterparties until the last
            round; None if they told nothing.
        encoder: how its tables were encoded; None if it brought a graph.
    """

    graph: str | None = None
    mending: Arrays | None = None
    generator: Arrays = field(default_factory=dict)
    draws: Draws = "seed"
    heard: Array | None = None
    encoder: Written | None = None

    @classmethod
    def from_memory(
        cls, graph: str, memory: Arrays | None, last: Arrays | None = None, draws: Draws = "seed"
    ) -> "ClientPart":
        """From what :func:`~feddep.learning.mending.mending_of` kept.

        Args:
            graph: fingerprint of the client's graph.
            memory: what was kept in the best round; None if nothing was.
            last: its memory after the last round, for what it heard, and for the generator if
                nothing was kept.
            draws: where its random draws came from.
        """
        heard = (last or {}).get(COLUMNS)
        if memory is None:
            return cls(graph, None, group(last or {}, GENERATOR), draws, heard)
        mending = {name: array for name, array in memory.items() if name in MENDING}
        return cls(graph, mending, group(memory, GENERATOR), draws, heard)

    @property
    def memory(self) -> Arrays:
        """What a mender recalls."""
        return {**(self.mending or {}), **grouped(GENERATOR, self.generator)}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClientPart):
            return NotImplemented
        facts = [(p.graph, p.draws, p.mending is None, p.encoder) for p in (self, other)]
        heard = [{} if p.heard is None else {"heard": p.heard} for p in (self, other)]
        same = same_arrays(self.memory, other.memory) and same_arrays(*heard)
        return facts[0] == facts[1] and same

    __hash__ = None  # type: ignore[assignment]

    def write(self, folder: Path) -> None:
        """Stores it: the generator, and what else it takes to mend."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.generator:
            write_arrays(folder / _WEIGHTS, self.generator)
        if self.heard is not None:
            write_arrays(folder / _HEARD, {"columns": self.heard})
        if self.encoder is not None:
            self.encoder.write(folder)
        if self.graph is None:
            return
        parts = "unknown" if self.mending is None else " ".join(sorted(self.mending))
        about = {"graph": self.graph, "draws": self.draws, "parts": parts}
        write_arrays(folder / _MENDING, self.mending or {}, about)

    @classmethod
    def read(cls, folder: Path, learning: LearningSpec) -> "ClientPart":
        """The inverse of :meth:`write`; a missing file means that nothing was kept.

        Raises:
            DataError: a file is damaged, or belongs to another run.
        """
        generator: Arrays = {}
        if (folder / _WEIGHTS).exists():
            generator, _ = read_arrays(folder / _WEIGHTS)
            check_weights(folder / _WEIGHTS, generator, generator_shapes(learning))
        heard = _read_heard(folder / _HEARD, learning)
        encoder = Encoder.read(folder) if (folder / ENCODER).exists() else None
        if not (folder / _MENDING).exists():
            return cls(generator=generator, heard=heard, encoder=encoder)
        arrays, about = read_arrays(folder / _MENDING)
        mending = _checked(folder / _MENDING, arrays, about, learning)
        draws: Draws = "secret" if about["draws"] == "secret" else "seed"
        return cls(about["graph"], mending, generator, draws, heard, encoder)


def same_arrays(one: Arrays, other: Arrays) -> bool:
    """Whether both hold the same names with the same content."""
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype and np.array_equal(one[name], other[name])
        for name in one
    )


def generator_shapes(learning: LearningSpec) -> Mapping[str, tuple[int, ...]]:
    """The names and shapes of a generator's weights."""
    width = learning.embedding_width
    return shapes_of(DeepGenerator(learning.model, learning.generator, learning.features, width))


def _read_heard(file: Path, learning: LearningSpec) -> Array | None:
    """What a client heard over links; refused if no client of such a run could have heard it."""
    if not file.exists():
        return None
    arrays, _ = read_arrays(file)
    try:
        _expect(arrays, "columns", None, learning.links.columns(learning.classes))
    except (LookupError, ValueError) as error:
        raise DataError(f"{file} does not fit the run's spec: {error}") from None
    found: Array = arrays["columns"]
    return found


def _checked(
    file: Path, arrays: Arrays, about: Mapping[str, str], learning: LearningSpec
) -> Arrays | None:
    """What a client kept; refused if no client of such a run could have kept it."""
    if not {"graph", "draws", "parts"} <= about.keys():
        raise DataError(f"{file} does not say whose it is, so it does not belong to a run")
    if about["parts"] == "unknown" and not arrays:
        return None
    named = set(about["parts"].split())
    if named != set(arrays) or not named <= MENDING:
        raise DataError(
            f"{file} should hold {', '.join(sorted(named)) or 'nothing'} "
            f"(got {', '.join(sorted(arrays)) or 'nothing'})"
        )
    try:
        _check_embeddings(arrays, learning)
        _check_added(arrays, learning)
    except (LookupError, ValueError) as error:
        raise DataError(f"{file} does not fit the run's spec: {error}") from None
    return arrays


def _check_embeddings(arrays: Arrays, learning: LearningSpec) -> None:
    """z̄ is ``(n, d_z)``, or ``(n, k)`` with a basis ``(k, d_z)``; ñ is ``(n,)``."""
    width = learning.embedding_width
    if "basis" in arrays:
        _expect(arrays, "basis", None, width)
        width = len(arrays["basis"])
    if "missing_embeddings" in arrays or "basis" in arrays:
        _expect(arrays, "missing_embeddings", None, width)
    if "counts" in arrays:
        _expect(arrays, "counts", None)


def _check_added(arrays: Arrays, learning: LearningSpec) -> None:
    """Links to new nodes, and the features of these, dense or sparse."""
    parts = {name for name in arrays if name.startswith("added/")}
    if not parts:
        return
    if parts == {"added/links", "added/rows"}:
        _expect(arrays, "added/rows", None, learning.features)
        count = len(arrays["added/rows"])
    elif parts == {"added/links", *_SPARSE}:
        count = _check_sparse(arrays, learning.features)
    else:
        raise ValueError(f"{', '.join(sorted(parts))} do not make nodes")
    links = arrays["added/links"]
    if links.dtype.kind != "i" or links.ndim != 2 or links.shape[1] != 2:
        raise ValueError(f"added/links is {links.dtype} {links.shape}, expected int64 (L, 2)")
    if links.min(initial=0) < 0 or links[:, 1].max(initial=-1) >= count:
        raise ValueError(f"added/links names nodes beyond the {count} that were added")


def _check_sparse(arrays: Arrays, columns: int) -> int:
    """Whether three arrays are rows in SciPy's CSR format; how many rows."""
    indptr, indices, data = (arrays[f"added/{name}"] for name in ("indptr", "indices", "data"))
    problem = csr_problem(indptr, indices, data, columns)
    if problem or data.dtype != np.float32:
        raise ValueError(f"added is no table of float32 features: {problem or data.dtype}")
    return len(indptr) - 1


def _expect(arrays: Arrays, name: str, *shape: Any) -> None:
    found = arrays[name]
    fits = found.ndim == len(shape) and all(
        want in (None, have) for want, have in zip(shape, found.shape, strict=True)
    )
    if not fits or found.dtype != np.float32:
        wanted = ", ".join("n" if want is None else str(want) for want in shape)
        raise ValueError(f"{name} is {found.dtype} {found.shape}, expected float32 ({wanted})")
