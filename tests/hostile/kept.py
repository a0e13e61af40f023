"""What runs, silos and servers keep on their disks, altered between two lives of a process."""

import hashlib
import random
import shutil
from pathlib import Path

import numpy as np

from feddep.errors import DataError
from feddep.federation.messages import Reply, Request, pack, unpack
from hostile.files import EitherFiles, OfFiles, Read, one_file, small_shards
from hostile.mutations import altered_arrays, altered_value_of_table

ARRAYS = {"server/w": np.arange(6, dtype=np.float32), "client-0/n": np.array(7)}


class Resealed(OfFiles):
    """A sealed message with another content under a seal that fits, as whoever wrote it may do.

    Args:
        folder: with the file.
        name: of the file.
        seal: content to file.
        read: what is tried.
    """

    def __init__(self, folder: Path, name: str, seal, header: dict, read: Read) -> None:
        super().__init__(folder, read)
        self.name, self.seal, self.header = name, seal, header

    def __call__(self, draws: random.Random) -> str:
        header, arrays = self.header, ARRAYS
        if draws.random() < 0.6:
            header = altered_value_of_table(draws, header)
        else:
            arrays = altered_arrays(draws, arrays)
        try:
            content = self.seal(pack(header, arrays))
        except (DataError, ValueError, UnicodeError):  # it cannot even be written
            return "not written"
        (self.folder / self.name).write_bytes(content)
        try:
            return self._outcome(altered=False)
        finally:
            self._restore({self.name})


def checkpoints(folder: Path) -> EitherFiles:
    """Checkpoints: alone, and with one before, which must then be what is taken."""
    from feddep.runs import checkpoint
    from feddep.runs.folder import RunFolder
    from feddep.scenario.spec import RunSpec

    for name, rounds in {"alone": [4], "second": [4, 5]}.items():
        with RunFolder.claim(folder / name, RunSpec(), resume=False) as run:
            for number in rounds:
                run.save_checkpoint({"round": number, "history": [{"loss": 0.5}]}, ARRAYS)
    shutil.copytree(folder / "alone", folder / "resealed")

    mark, start = b"feddep-check-2\r\n", 48
    spec = unpack((folder / "alone" / checkpoint.NAME).read_bytes()[start:])[0]["spec"]

    def seal(data: bytes) -> bytes:
        return mark + hashlib.sha256(data).digest() + data

    return EitherFiles(
        _Checkpoint(folder / "alone", 4),
        _Checkpoint(folder / "second", 5),
        Resealed(
            folder / "resealed", checkpoint.NAME, seal, {"round": 4, "spec": spec}, checkpoint.load
        ),
    )


class _Checkpoint(OfFiles):
    """What is read is what was written: this checkpoint, or the one before it."""

    def __init__(self, folder: Path, newest: int) -> None:
        self.newest = newest
        super().__init__(folder, self._read_back)
        self.honest.pop("spec.toml", None)

    def _read_back(self, path: Path) -> None:
        from feddep.runs import checkpoint

        found = checkpoint.load(path)
        if found is None:  # there is no file any more, which its owner sees
            return
        header, arrays = found
        expected = {"round": header.get("round"), "history": [{"loss": 0.5}]}
        same = all(np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)
        if header != expected or header["round"] not in (4, self.newest) or not same:
            raise AssertionError(f"an altered checkpoint was taken: {header}")


def ledgers(folder: Path) -> EitherFiles:
    """A silo's disclosure log, whose head was noted elsewhere."""
    from feddep.deployment.protocol.budget import account_of
    from feddep.deployment.protocol.disclosure_log import DisclosureLog, verify
    from feddep.deployment.protocol.noted_heads import noted_heads

    folder.mkdir()
    log = DisclosureLog(folder / "disclosures.jsonl")
    for number in range(3):
        run = f"run-{number % 2}"
        log.agree(run=run, agreement="0" * 64, epsilon=None, delta=0.0)
        log.begin(run=run)
        fields = {"phase": "averaging", "step": "train", "round": number, "epsilon": None}
        log.append(
            run=run, reply=Reply(0, {"classifier/bias": np.zeros(5)}, {"loss": 0.5}), **fields
        )
    log.refuse(run="run-3", reason="not allowed")
    head = log.head()
    shutil.copytree(folder, folder.with_name("noted"))
    log.note.unlink()

    def read(path: Path) -> None:
        file = path / "disclosures.jsonl"
        found = DisclosureLog(file)
        verify(file, head)
        account_of(found.lines())

    def read_note(path: Path) -> None:
        noted_heads(DisclosureLog(path / "disclosures.jsonl"), None)

    return EitherFiles(
        OfFiles(folder, read, sealed=True), OfFiles(folder.with_name("noted"), read_note)
    )


def memories(folder: Path) -> EitherFiles:
    """What a silo remembers of a run, and what a server asked, under their seals."""
    from feddep.deployment.protocol.memory import Answer, Files, RunMemory
    from feddep.deployment.protocol.registry import Registered, read_registry, write_registry
    from feddep.deployment.protocol.request_log import RequestLog

    silo, asked, registry = folder / "silo", folder / "requests", folder / "registry"
    registry.mkdir(parents=True)
    memory = RunMemory(Files(silo))
    memory.agree({"run": "run", "spec": "seed = 0", "sent": {}})
    memory.begin()
    answer = Answer("0-0-0", "f" * 64, Reply(0, ARRAYS, {"loss": 0.5}), {})
    memory.move_on(answer, ARRAYS, {"classifier": 1})
    RequestLog(asked).write("0-0-0", [Request(0, "averaging", "train", 0, ARRAYS)])
    write_registry(registry / "registry.json", {7: Registered("bank-a", "SHA256:x")})

    def remember(path: Path) -> None:
        own = RunMemory(Files(path))
        own.agreement, own.begun, own.recall(), own.answer_at("0-0-0")

    def asked_before(path: Path) -> None:
        list(RequestLog(path).between(None, "9-9-9", 0))

    remembered = OfFiles(silo, remember, sealed=True)
    del remembered.honest["begun"]  # it is empty: that it is there says all
    return EitherFiles(
        remembered,
        OfFiles(asked, asked_before, sealed=True),
        OfFiles(registry, lambda path: read_registry(path / "registry.json")),
    )


def runs(folder: Path) -> EitherFiles:
    """Folders of finished runs, with the sums of their files and, made by hand, without."""
    import feddep
    from feddep.algorithms import find_method
    from feddep.runs import pipeline
    from feddep.runs.files import SUMS, read_record
    from small_runs import spec_of

    shards, sets = small_shards(), []
    for name in ("feddep", "local", "fedsage"):
        spec = spec_of(find_method(name), shards)
        made = pipeline.run(spec, shards, workers=1, device="cpu").save(folder / name)
        bare = folder / f"{name}-bare"
        shutil.copytree(made, bare, ignore=shutil.ignore_patterns(SUMS))
        sets += [OfFiles(made, feddep.open_run), OfFiles(bare, feddep.open_run)]
        sets[-1].honest.pop("model_card.md", None)
    record = (folder / "feddep" / "record.json").read_text()
    return EitherFiles(
        *sets, *sets[1::2], one_file(folder / "one/record.json", record, read_record)
    )


def rows(folder: Path) -> OfFiles:
    """Rows of sweeps."""
    from feddep.sweeps.rows import append_row, read_rows

    folder.mkdir()
    for seed in range(3):
        record = {"scores": {"global": {"test": 0.5, "val": None}}}
        append_row(folder / "rows.jsonl", {"settings": {"seed": seed}, "record": record})
    return OfFiles(folder, lambda path: list(read_rows(path / "rows.jsonl")))
