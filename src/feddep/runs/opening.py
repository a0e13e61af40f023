"""A stored run, opened again: the same :class:`~feddep.runs.result.Result` that the run gave."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from feddep.algorithms import find_method
from feddep.algorithms.method import Method
from feddep.errors import DataError
from feddep.learning.classifier import Classifier
from feddep.learning.spec import LearningSpec
from feddep.privacy.events import Events, from_plain
from feddep.reading import json_of, plain_text
from feddep.runs.clients import ClientPart
from feddep.runs.files import SILO_RECORD, Record, check_sums, read_record
from feddep.runs.folder import LAST_MODEL, client_folder
from feddep.runs.old_formats import events_file, read_spec
from feddep.runs.result import Result
from feddep.runs.weight_files import check_weights, read_arrays, schema_in, shapes_of, split_model
from feddep.scenario.build import learning_spec_of


def open_run(path: Path) -> Result:
    """Opens the folder of a finished run, or of a silo's results after a federation.

    Raises:
        DataError: the folder holds no finished run, or a file in it is damaged or from another run.
    """
    if (path / SILO_RECORD).exists() and not (path / "record.json").exists():
        return _of_silo(path)
    record = read_record(path)
    check_sums(path)
    spec = read_spec(path / "spec.toml")
    method = find_method(spec.method)
    learning = learning_spec_of(spec, *_sizes(path, record), method)
    clients = 1 if method.whole_graph else spec.partition.clients
    last = path / LAST_MODEL
    return Result(
        spec,
        record,
        read_history(path),
        _models(path / "model.safetensors", method, learning, clients),
        {} if "federation" in record else _clients(path, learning, clients),  # silos keep their own
        read_events(path),
        _models(last, method, learning, clients) if last.exists() else (),
        path,
    )


def _of_silo(path: Path) -> Result:
    """What one silo has of a run: the classifier, its own generator, its own record."""
    try:
        found = json_of(plain_text(path / SILO_RECORD))
        own, client = found["privacy"]["sound"], int(found.get("client", 0))
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise DataError(f"cannot read the silo's record {path / SILO_RECORD}: {error}") from None
    check_sums(path)
    spec = read_spec(path / "spec.toml")
    method = find_method(spec.method)
    learning = learning_spec_of(spec, *_sizes(path, found), method)
    record = {
        "method": spec.method,
        "dataset": "silos",
        "clients": spec.partition.clients,
        "rounds": spec.training.rounds,
        "scores": {"global": {"test": None, "val": None}, "silo": found.get("scores") or {}},
        "measures": found.get("measures"),
        "privacy": {"mechanism": spec.privacy.mechanism, "sound": own},
        "silo": {"run": found.get("run"), "client": client},
    }
    models = _models(path / "model.safetensors", method, learning, 1)
    return Result(spec, record, [], models, {client: ClientPart.read(path, learning)}, folder=path)


def read_history(path: Path) -> list[dict[str, Any]]:
    """One entry for each round."""
    file = path / "history.jsonl"
    try:
        return [dict(json_of(line)) for line in plain_text(file).splitlines()]
    except (OSError, TypeError, ValueError) as error:
        raise DataError(f"cannot read the history {file}: {error}") from None


def read_events(path: Path) -> list[Events]:
    """What each client's mechanisms did and what left it."""
    file = events_file(path)
    if not file.exists():  # in a real federation each silo keeps its own
        return []
    try:
        return [from_plain(rows) for rows in json_of(plain_text(file))]
    except (OSError, AttributeError, TypeError, ValueError) as error:
        raise DataError(f"cannot read the privacy events {file}: {error}") from None


def _sizes(path: Path, record: Record) -> tuple[int, int]:
    """Feature columns and classes of the data that were trained on."""
    try:
        return int(record["data"]["features"]), int(record["data"]["classes"])
    except (LookupError, TypeError, ValueError):
        arrays, _ = read_arrays(path / "model.safetensors")  # older records have no sizes
        found = split_model(arrays, 1)[0]
    try:
        last = max(name for name in found if name.startswith("convolutions.") and "bias" in name)
        return found["features"].shape[0], len(found[last])
    except (LookupError, ValueError):
        raise DataError(f"{path} does not say how many features and classes there were") from None


def _models(
    file: Path, method: Method, learning: LearningSpec, clients: int
) -> Sequence[Classifier]:
    """The classifier, or one for each client; none where silos keep their own."""
    if not file.exists() and not method.discloses:
        return []
    arrays, about = read_arrays(file)
    found = split_model(arrays, clients)
    if not method.discloses and len(found) != clients:
        raise DataError(
            f"{file} holds {len(found)} classifier; {method.name} trains one for each of "
            f"{clients} clients"
        )
    expected = shapes_of(learning.classifier())
    for weights in found:
        check_weights(file, weights, expected)
    schema = schema_in(file, about)
    return [Classifier(learning, weights, schema) for weights in found]


def _clients(path: Path, learning: LearningSpec, count: int) -> dict[int, ClientPart]:
    """What each client has beside the classifier."""
    return {
        client: ClientPart.read(client_folder(path, client), learning) for client in range(count)
    }
