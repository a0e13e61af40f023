"""Graphs in memory shared by all workers of a machine: plain array files, mapped read-only."""

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from feddep.folder_lock import delete_abandoned
from feddep.graph.graph import Array, Features, Graph
from feddep.graph.outside import OutsideLinks

_MEMORY = Path("/dev/shm")
_PREFIX = "feddep-shared-"
_OUTSIDE = ("nodes", "silos", "ids")


def shared_folder(nbytes: int) -> Path:
    """A new temporary folder with room for ``nbytes``, in memory if the system has room there.

    Those of processes that were killed are deleted; whoever uses one holds it locked.
    """
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 2 * nbytes
    place = _MEMORY if roomy else Path(tempfile.gettempdir())
    delete_abandoned(place, f"{_PREFIX}*")
    return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))


def share_graph(graph: Graph, folder: Path) -> None:
    """Writes the arrays of ``graph`` to a new folder."""
    folder.mkdir(parents=True)
    arrays: dict[str, Array] = {
        name: getattr(graph, name) for name in ("indptr", "indices", "labels", "node_ids", "split")
    }
    if isinstance(graph.features, np.ndarray):
        arrays["features"] = graph.features
    else:
        for name in ("indptr", "indices", "data"):
            arrays[f"features.{name}"] = getattr(graph.features, name)
    if graph.flows is not None:
        arrays["flows"] = graph.flows
    if graph.outside is not None:
        for name in _OUTSIDE:
            arrays[f"outside.{name}"] = getattr(graph.outside, name)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    facts = {
        "classes": graph.classes,
        "name": graph.name,
        "columns": graph.feature_count,
        "outside": None if graph.outside is None else graph.outside.names,
    }
    (folder / "facts.json").write_text(json.dumps(facts))


def open_graph(folder: Path) -> Graph:
    """The graph that :func:`share_graph` wrote, without copying its arrays."""
    facts = json.loads((folder / "facts.json").read_text())
    arrays = {path.stem: _mapped(path) for path in folder.glob("*.npy")}
    return Graph(
        indptr=arrays["indptr"],
        indices=arrays["indices"],
        features=_features(arrays, facts["columns"]),
        labels=arrays["labels"],
        classes=facts["classes"],
        node_ids=arrays["node_ids"],
        split=arrays["split"],
        name=facts["name"],
        outside=_outside(arrays, facts["outside"]),
        flows=arrays.get("flows"),
    )


def _outside(arrays: dict[str, Array], names: list[str] | None) -> OutsideLinks | None:
    if names is None:
        return None
    nodes, silos, ids = (arrays[f"outside.{name}"] for name in _OUTSIDE)
    return OutsideLinks(nodes, silos, ids, tuple(names))


def _features(arrays: dict[str, Array], columns: int) -> Features:
    if "features" in arrays:
        return arrays["features"]
    data, indices, indptr = (arrays[f"features.{name}"] for name in ("data", "indices", "indptr"))
    return sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, columns), copy=False)


def _mapped(path: Path) -> Array:
    # As the base class, because numba compiles for plain arrays only.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
