"""A run's folder: ``spec.toml``, ``history.jsonl``, ``model.safetensors``, ``record.json``.

During the run it also holds ``checkpoint.bin``, from which ``--resume`` continues, and the
checkpoint before it; afterwards ``SHA256SUMS``, by which a file that was altered is noticed.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any, Self

from feddep.errors import InputError
from feddep.federation.messages import Arrays
from feddep.folder_lock import FolderLock, delete_drafts, is_draft
from feddep.graph.schema import Schema
from feddep.privacy.events import Events, to_plain
from feddep.runs import checkpoint
from feddep.runs.clients import ClientPart
from feddep.runs.files import SUMS, Record, read_record, write_atomically, write_sums
from feddep.runs.old_formats import EVENTS, OLD_FILES, read_spec
from feddep.runs.weight_files import write_model
from feddep.scenario.presets import may_set
from feddep.scenario.spec import RunSpec, difference, spec_keys

LAST_MODEL = "last_model.safetensors"
"""The last round's weights, where another round is the best."""

_FILES = (
    "record.json",
    "model.safetensors",
    LAST_MODEL,
    "history.jsonl",
    "spec.toml",
    checkpoint.NAME,
    checkpoint.BEFORE,
    SUMS,
    EVENTS,
    "report.html",
    "model_card.md",
    "model_card.json",
    "value.html",
    "value.md",
    "value.json",
    *OLD_FILES,
)

_CLIENTS = "clients"
_VALUE = "value"  # what a run was compared with

REQUESTS = "requests"
"""What a server asked silos for, while the run is unfinished."""


def default_folder(spec: RunSpec) -> Path:
    """A folder under ``runs/`` that is the same for the same spec, so that it can be resumed."""
    digest = hashlib.sha256(spec.to_toml().encode()).hexdigest()[:8]
    dataset, clients = plain_name(spec.dataset), spec.partition.clients
    method = plain_method(spec.method)
    return Path("runs") / f"{dataset}-m{clients}-{method}-s{spec.seed}-{digest}"


def plain_name(dataset: str) -> str:
    """A data set's name, or the last part of its path, as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", Path(dataset).name)[:40] or "data"


def plain_method(method: str) -> str:
    """A method's name as a part of a file's name: ``module:ATTRIBUTE`` loses its colon."""
    return method.replace(":", "-")


def as_stored(spec: RunSpec, path: Path, given: Collection[str]) -> RunSpec:
    """The spec to resume with: what the user leaves open is taken from the stored run.

    So a preset that has changed since does not change a run that has begun.
    """
    if not checkpoint.has_checkpoint(path) and not (path / "record.json").is_file():
        return spec
    stored = read_spec(path / "spec.toml")
    left = [key for key in spec_keys() if may_set(key) and key not in given]
    return spec.with_settings({key: stored.value_of(key) for key in left})


@dataclass(frozen=True)
class RunFolder:
    """Where a run is stored. In a with statement, a run that fails early leaves no folder behind.

    Attributes:
        path: the folder.
        is_new: :meth:`claim` made it.
        lock: keeps other processes out, until the run is finished or left.
    """

    path: Path
    is_new: bool = False
    lock: FolderLock | None = field(default=None, compare=False, repr=False)

    @classmethod
    def claim(cls, path: Path, spec: RunSpec, *, resume: bool) -> "RunFolder":
        """Makes the folder ready before any work is done.

        Without ``resume`` a finished run of the same spec is replaced and an unfinished one is
        refused, as is a folder that holds something else or cannot be written.
        """
        folder = cls(path)
        try:
            is_new = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
            folder = cls(path, is_new, FolderLock(path))
            folder._begin(spec, resume=resume)
        except OSError as error:
            folder.leave()
            raise InputError(
                f"cannot write to {path}: {error.strerror}; choose another --out"
            ) from None
        except BaseException:
            folder.leave()
            raise
        return folder

    def leave(self) -> None:
        """Lets other processes into the folder."""
        if self.lock is not None:
            self.lock.release()

    def _begin(self, spec: RunSpec, *, resume: bool) -> None:
        self._refuse_to_mix(spec)
        delete_drafts(self.path, _FILES)
        if not resume and checkpoint.has_checkpoint(self.path):
            raise InputError(
                f"{self.path} holds an unfinished run; add --resume to continue it, or delete it"
            )
        if resume:
            self._keep_spec(spec)
        else:
            self.restart(spec)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """After an error, removes the folder unless there is something to resume."""
        if kind is not None and self._content() == ["spec.toml"]:
            (self.path / "spec.toml").unlink()
            if self.is_new:
                self.path.rmdir()
        self.leave()

    def finished(self) -> Record | None:
        """The record, if the run is complete."""
        file = self.path / "record.json"
        return read_record(file) if file.exists() else None

    def save_checkpoint(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Stores all that is needed to continue."""
        checkpoint.save(self.path, header, arrays)

    def load_checkpoint(self) -> checkpoint.Checkpoint | None:
        """What :meth:`save_checkpoint` stored last, if anything; see :mod:`.checkpoint`."""
        return checkpoint.load(self.path)

    def write_history(self, history: Sequence[dict[str, Any]]) -> None:
        """Writes one line for each round."""
        lines = "".join(json.dumps(entry) + "\n" for entry in history)
        write_atomically(self.path / "history.jsonl", lines)

    def finish(
        self,
        record: Record,
        history: Sequence[dict[str, Any]],
        classifiers: Sequence[Arrays],
        clients: Mapping[int, ClientPart] | None = None,
        events_by_client: Sequence[Events] = (),
        schema: Schema | None = None,
        last: Sequence[Arrays] = (),
    ) -> None:
        """Stores the results; the record comes last, so that its presence means a complete run.

        Args:
            record: the run's record.
            history: one entry for each round.
            classifiers: the weights at the best round, unless silos keep them.
            clients: what each client has besides, so that its subgraph can be mended again.
            events_by_client: what each client's mechanisms did and what left it.
            schema: what the classifiers' feature columns and classes mean, if known.
            last: the weights at the last round, unless that is the best.
        """
        self.write_history(history)
        if classifiers:  # otherwise they stayed with the silos
            write_model(self.path / "model.safetensors", classifiers, schema)
        if last:
            write_model(self.path / LAST_MODEL, last, schema)
        for client, part in (clients or {}).items():
            part.write(client_folder(self.path, client))
        if events_by_client:
            rows = [to_plain(events) for events in events_by_client]
            write_atomically(self.path / EVENTS, json.dumps(rows) + "\n")
        write_sums(self.path, _results(self.path))
        write_atomically(self.path / "record.json", json.dumps(record, indent=2) + "\n")
        checkpoint.delete(self.path)
        self.leave()

    def _keep_spec(self, spec: RunSpec) -> None:
        """Stores the spec to resume with; that of a finished run stays as it was written."""
        if not (self.path / "record.json").exists():
            write_atomically(self.path / "spec.toml", spec.to_toml())

    def _refuse_to_mix(self, spec: RunSpec) -> None:
        content = self._content()
        if "spec.toml" not in content:
            if content:
                raise InputError(f"{self.path} is not empty and holds no run; choose another --out")
            return
        if content == ["spec.toml"]:  # a run that was killed before it had anything to keep
            return
        earlier = read_spec(self.path / "spec.toml")
        if earlier != spec:
            raise InputError(
                f"{self.path} holds a run with another spec ({difference(earlier, spec)}); "
                "delete that folder or choose another one"
            )

    def restart(self, spec: RunSpec) -> None:
        """Clears the folder for the same run."""
        self.clear()
        write_atomically(self.path / "spec.toml", spec.to_toml())

    def clear(self) -> None:
        """Deletes the files of a finished run."""
        for name in _FILES:
            (self.path / name).unlink(missing_ok=True)
        for name in (_CLIENTS, _VALUE):
            if (self.path / name).is_dir():
                rmtree(self.path / name)
        rmtree(self.path / REQUESTS, ignore_errors=True)

    def _content(self) -> list[str]:
        found = self.path.iterdir() if self.path.is_dir() else []
        return [file.name for file in found if not is_draft(file, _FILES)]


def _results(path: Path) -> list[Path]:
    """The files that a finished run is opened from, but for its record."""
    names = ("spec.toml", "history.jsonl", "model.safetensors", LAST_MODEL, EVENTS)
    own = [path / name for name in names]
    return [file for file in own if file.exists()] + sorted((path / _CLIENTS).glob("*/*"))


def client_folder(path: Path, client: int) -> Path:
    """Where a run's folder keeps what one client has."""
    return path / _CLIENTS / str(client)
