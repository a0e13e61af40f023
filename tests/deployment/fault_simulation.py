"""A federation in one process whose network, disks and parties fail by a seed.

Server and silos are the real classes with real files. Every flush to the disk is a moment at which
a party may be killed, with what it was writing torn, or find its disk full; every delivery may be
lost, repeated, delayed until after later ones, or have its answer lost; a file may be altered while
its party is down. Time is a number. What clients compute is computed once and remembered, so a run
takes milliseconds.

    python tests/deployment/fault_simulation.py fedavg 17        # one seed, told step by step
    python tests/deployment/fault_simulation.py feddep 0 1000    # many, uncounted
"""

import errno
import hashlib
import logging
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import feddep
from feddep.deployment.protocol import federate as federate_module
from feddep.deployment.protocol import remote_runtime, silo_service
from feddep.deployment.protocol.budget import account_of
from feddep.deployment.protocol.consent import Consent
from feddep.deployment.protocol.disclosure_log import DisclosureLog, verify
from feddep.deployment.protocol.federate import federate
from feddep.deployment.protocol.log_lines import Payload
from feddep.deployment.protocol.memory import Files
from feddep.deployment.protocol.silo_service import SiloService
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import FeddepError
from feddep.federation.client import Client
from feddep.federation.messages import Reply, Request, State, pack
from feddep.graph.shard import Shards
from feddep.runs.folder import RunFolder
from feddep.runs.records import versions
from feddep.runtime.envelope import Envelope, Undelivered
from feddep.scenario.spec import RunSpec

SILOS, LIVES, TROUBLES = 2, 60, 12
GROUPS = {"classifier", "prototypes", "generated", "gradients"}
TINY = {
    "partition.clients": SILOS,
    "preset": "paper",
    "training.rounds": 3,
    "training.batch_size": 64,
    "model.hidden": 2,
    "embedding.width": 2,
    "embedding.epochs": 1,
    "generator.epochs": 1,
    "generator.refresh": 2,
    "privacy.mechanism": "randomised-response",
    "privacy.epsilon": 4.0,
}


class Killed(BaseException):
    """The party that is at work ends here, as by ``kill -9``."""


class BrokenPromiseError(AssertionError):
    """An invariant does not hold."""


def tiny_shards() -> Shards:
    graph = feddep.load(
        "synthetic", nodes=48, classes=2, communities_per_class=1, community_mixing=0,
        feature_count=8, topic_words=4, dialect_words=2, topic_share=0.6,
    )  # fmt: skip
    return feddep.partition(graph, clients=SILOS, seed=0)


@dataclass
class Federation:
    """What all seeds of a method share: data, the undisturbed run, what clients computed."""

    method: str
    shards: Shards = field(default_factory=tiny_shards)
    computed: dict[bytes, tuple[Reply, State]] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.graphs = list(self.shards)
        settings = {**TINY, "method": self.method}
        self.spec = RunSpec().with_settings(settings)
        self.expected = Faulty(self, None).outcome()

    def handle(self, client: Client, request: Request, state: State) -> tuple[Reply, State]:
        """What :meth:`Client.handle` returns, computed once."""
        facts = [request.client, request.phase, request.step, request.round]
        key = hashlib.sha256(pack({"f": facts}, request.arrays) + pack({}, state)).digest()
        if key not in self.computed:
            self.computed[key] = _HANDLE(client, request, state)
        return self.computed[key]


_HANDLE = Client.handle
_FROM_TOML = RunSpec.from_toml
_VERSIONS = versions()


class Faulty:
    """One run under the faults of a seed; None has no faults.

    Args:
        shared: of the method.
        seed: of the faults.
        tell: prints what happens.
    """

    def __init__(self, shared: Federation, seed: int | None, *, tell: bool = False) -> None:
        self.shared, self.seed, self.tell = shared, seed, tell
        self.draws = random.Random(seed)
        self.party = "server"
        self.troubles = 0
        self.altered: list[str] = []
        self.now = 0.0
        self.left: dict[tuple[int, str], bytes] = {}
        self.delayed: list[tuple[int, Envelope]] = []
        self.silos: dict[int, SiloService] = {}

    def outcome(self) -> dict[str, Any]:
        """The run's result, or ``{"why": …}``.

        Raises:
            BrokenPromiseError: an invariant does not hold.
        """
        place = "/dev/shm" if Path("/dev/shm").is_dir() else None
        with tempfile.TemporaryDirectory(dir=place) as folder, self._patched():
            self.home = Path(folder)
            (self.home / "tmp").mkdir()
            with mock.patch.object(tempfile, "tempdir", str(self.home / "tmp")):
                found = self._lived()
            self._check_logs()
        if self.seed is not None and "why" not in found:
            self._expect(found == self.shared.expected, "another result than undisturbed")
        if "why" in found:
            self._expect(bool(self.altered), f"no file was altered, and yet: {found['why']}")
        return found

    def _lived(self) -> dict[str, Any]:
        why = ""
        for life in range(LIVES):
            self.party = "server"
            try:
                return self._one_life(resume=life > 0)
            except Killed:
                self._note("the server was killed")
            except (FeddepError, OSError) as error:
                self._expect(bool(str(error)), "the run ended without a word")
                self._note(f"the server ends: {error}")
                why = str(error)
            self._alter(self.home / "run")
        return {"why": why or "killed too often"}

    def _one_life(self, *, resume: bool) -> dict[str, Any]:
        path, spec = self.home / "run", self.shared.spec
        wait = WaitPolicy(wait=300.0, grace=300.0, resend=30.0)
        if (path / "record.json").exists():  # killed after the last write
            return self._read(path)
        with RunFolder.claim(path, spec, resume=resume) as folder:
            federate(self, spec, folder, wait_policy=wait)
        return self._read(path)

    def _read(self, path: Path) -> dict[str, Any]:
        result = feddep.open_run(path)
        record = {k: v for k, v in result.record.items() if k not in ("seconds", "versions")}
        history = [{**entry, "seconds": 0} for entry in result.history]
        weights = [pack({}, model.weights) for model in result.models]
        return {"record": record, "history": history, "weights": weights}

    # The channel

    def addresses(self) -> list[int]:
        return list(range(SILOS))

    def deliver(
        self, envelopes: Mapping[int, Envelope], seconds: float
    ) -> dict[int, Envelope | Undelivered]:
        answers: dict[int, Envelope | Undelivered] = {}
        waiting, self.delayed = self.delayed, []
        for address, envelope in waiting:  # after what was sent later
            self._note(f"an old envelope reaches silo {address}")
            self._asked(address, envelope)
        order = list(envelopes)
        self.draws.shuffle(order)
        for address in order:
            trouble = self._trouble(("lost", "repeated", "delayed", "answer lost", "down"), 0.15)
            if trouble:
                self._note(f"{trouble}: {envelopes[address].header.get('place', '')} to {address}")
            if trouble == "lost":
                continue
            if trouble == "delayed":
                self.delayed.append((address, envelopes[address]))
                continue
            if trouble == "down":
                self.silos.pop(address, None)
                answers[address] = Undelivered("the silo is down")
                continue
            if trouble == "repeated":
                self._asked(address, envelopes[address])
            answer = self._asked(address, envelopes[address])
            if trouble != "answer lost" and answer is not None:
                answers[address] = answer
        self.now += 1.0 if len(answers) == len(envelopes) else seconds
        return answers

    def _asked(self, address: int, envelope: Envelope) -> Envelope | Undelivered:
        """What a silo answers; one that is killed over it starts again at the next envelope."""
        before, self.party = self.party, f"silo {address}"
        home = self.home / f"silo-{address}"
        home.mkdir(exist_ok=True)
        if address not in self.silos:
            self.silos[address] = self._silo(address, home)
        service = self.silos[address]
        try:
            answer = service.answer(envelope, lambda run: Files(home / "state" / run))
        except Killed:
            self._note(f"silo {address} was killed")
            del self.silos[address]
            self._alter(home / "state")
            return Undelivered("the silo is down")
        finally:
            self.party = before
        self._watch(address, envelope, answer)
        return answer

    def _silo(self, address: int, home: Path) -> SiloService:
        graph = self.shared.graphs[address]
        consent = Consent(
            methods={self.shared.method}, messages=GROUPS, rounds=3, smallest_cluster=1,
            highest_epsilon="unbounded", budget_epsilon=4.0,
        )  # fmt: skip
        return SiloService(
            f"silo-{address}", lambda: graph, consent=consent, secret=1000 + address,
            disclosures=DisclosureLog(home / "disclosures.jsonl"), results=home / "results",
        )  # fmt: skip

    # Faults

    def _trouble(self, kinds: tuple[str, ...], likely: float) -> str:
        if self.seed is None or self.troubles >= TROUBLES or self.draws.random() >= likely:
            return ""
        self.troubles += 1
        return self.draws.choice(kinds)

    def flush(self, descriptor: int) -> None:
        """In place of ``os.fsync``: what is written here may be torn, refused, or the last."""
        trouble = self._trouble(("killed", "torn", "killed after", "full"), 0.04)
        if trouble:
            self._note(f"{self.party}: {trouble} at {_name(descriptor)}")
        if trouble == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if trouble == "torn" and not Path(_name(descriptor)).is_dir():
            size = os.fstat(descriptor).st_size
            os.truncate(_name(descriptor), size - self.draws.randrange(min(size, 40) + 1))
        if trouble in ("killed", "torn", "killed after"):
            raise Killed

    def _alter(self, folder: Path) -> None:
        """While a party is down, a byte on its disk changes, in one seed of eight."""
        if self.seed is None or self.seed % 8 or self.draws.random() > 0.3:
            return
        found = [
            file for file in sorted(folder.rglob("*")) if file.is_file() and file.suffix == ".bin"
        ]
        if found and self.troubles < TROUBLES:
            self.troubles += 1
            file = self.draws.choice(found)
            content = bytearray(file.read_bytes())
            content[self.draws.randrange(len(content))] ^= 1 << self.draws.randrange(8)
            file.write_bytes(content)
            self.altered.append(file.name)
            self._note(f"altered: {file}")

    # What must hold

    def _watch(self, address: int, envelope: Envelope, answer: Envelope) -> None:
        """What leaves a silo at a place is the same whenever it leaves."""
        if not answer.arrays and "metrics" not in answer.header:
            return
        key, said = (
            (address, str(envelope.header["place"])),
            pack(dict(answer.header), answer.arrays),
        )
        self._expect(self.left.setdefault(key, said) == said, f"silo {key} said it in other words")

    def _check_logs(self) -> None:
        for address in range(SILOS):
            path = self.home / f"silo-{address}" / "disclosures.jsonl"
            if not path.exists():
                continue
            log = DisclosureLog(path)
            with mock.patch.object(os, "fsync", lambda _: None):
                log.refuse(run="end", reason="moves a torn line aside")
            verify(path)
            lines = log.lines()
            logged = {
                (line.phase, line.round, line.step) for line in lines if isinstance(line, Payload)
            }
            left = sum(1 for silo, _ in self.left if silo == address)
            self._expect(len(logged) >= left, f"silo {address}: {left} left, {len(logged)} logged")
            spent = account_of(lines).epsilon(0.0)
            self._expect(spent <= 4.0 + 1e-9, f"silo {address} spent {spent}")

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            raise BrokenPromiseError(
                f"{what}; again with: python tests/deployment/fault_simulation.py "
                f"{self.shared.method} {self.seed}"
            )

    def _note(self, text: str) -> None:
        if self.tell:
            sys.stdout.write(f"{self.now:8.1f} s  {text}\n")

    @contextmanager
    def _patched(self) -> Iterator[None]:
        clock = mock.Mock(monotonic=lambda: self.now, sleep=self._sleep)
        shared = self.shared
        with (
            mock.patch.object(remote_runtime, "time", clock),
            mock.patch.object(os, "fsync", self.flush),
            mock.patch.object(federate_module.secrets, "token_hex", lambda _: "0" * 12),
            mock.patch.object(Client, "handle", lambda own, *asked: shared.handle(own, *asked)),
            # What is the same every time, and takes most of it.
            mock.patch.object(RunSpec, "from_toml", _spec_of),
            mock.patch.object(silo_service, "versions", lambda: _VERSIONS),
            mock.patch.object(federate_module, "versions", lambda: _VERSIONS),
        ):
            yield

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


def _spec_of(text: str, missing: Mapping[str, Any] | None = None) -> RunSpec:
    return _parsed(text, tuple((missing or {}).items()))


@lru_cache
def _parsed(text: str, missing: tuple[tuple[str, Any], ...]) -> RunSpec:
    return _FROM_TOML(text, dict(missing))


def _name(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def main() -> None:
    method, first, *last = sys.argv[1:]
    seeds = range(int(first), int(last[0]) if last else int(first) + 1)
    logging.disable(logging.CRITICAL)
    shared, began, whys = Federation(method), time.process_time(), 0
    for seed in seeds:
        found = Faulty(shared, seed, tell=len(seeds) == 1).outcome()
        whys += "why" in found
        if len(seeds) == 1:
            sys.stdout.write(f"{found.get('why', 'the undisturbed result')}\n")
    seconds = time.process_time() - began
    sys.stdout.write(
        f"{len(seeds)} seeds of {method}: {whys} said why not, the others are equal; "
        f"{1000 * seconds / len(seeds):.0f} ms a seed\n"
    )


if __name__ == "__main__":
    main()
