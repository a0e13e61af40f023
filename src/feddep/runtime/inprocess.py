"""A federation on one machine: clients in worker processes, one torch thread each.

Results do not depend on the number of workers: a client's random streams are named after it, it
computes on one thread, and sums over clients are taken in the clients' order.
"""

import logging
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import torch
from threadpoolctl import threadpool_limits

from feddep.algorithms.method import Method
from feddep.errors import RuntimeFailureError
from feddep.federation.messages import Arrays, Reply, Request, State, group, grouped, pack
from feddep.folder_lock import FolderLock
from feddep.graph.graph import Part
from feddep.graph.silos import ClientData
from feddep.learning.evaluation import Scores
from feddep.learning.spec import LearningSpec
from feddep.runtime.client_pool import ClientPool, choose_device, warm_up
from feddep.runtime.sharing import share_graph, shared_folder
from feddep.runtime.worker import pack_requests, unpack_answer, unpack_replies
from feddep.scenario.build import client_graphs

_LOOK_SECONDS = 5.0
_AT_ONCE = 32  # clients of a worker in one message, which is in memory twice on its way

log = logging.getLogger(__name__)


class InProcess:
    """A :class:`~feddep.runtime.runtime.Runtime` on this machine; use it as a context manager.

    Args:
        shards: the clients' data.
        method: the method whose phases will run.
        spec: the learning settings.
        workers: number of processes; 1 runs everything in the calling process.
        device: ``auto``, ``cpu`` or ``cuda``.
    """

    def __init__(
        self,
        shards: ClientData,
        method: Method,
        spec: LearningSpec,
        *,
        workers: int = 1,
        device: str = "auto",
    ) -> None:
        self._shards, self._method, self._spec = shards, method, spec
        self._device = choose_device(device)
        self.clients = 1 if method.whole_graph else shards.clients
        self._names = list(shards.client_names[: self.clients])
        self._worker_count = min(workers, self.clients)
        self._workers: list[_Worker] = []
        self._cleanup = ExitStack()
        self._folder: Path | None = None
        # The parent's own pool: all clients with one worker, none (measuring only) with more.
        self._pool: ClientPool | None = None
        self._measuring: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        threads = torch.get_num_threads()
        self._cleanup.callback(torch.set_num_threads, threads)
        torch.set_num_threads(1)
        with ExitStack() as undo:  # a failed start leaves nothing behind
            undo.push(self._cleanup.__exit__)
            graphs = {}
            if self._worker_count > 1:
                self._start_workers()
            else:
                graphs = dict(enumerate(client_graphs(self._shards, self._method)))
            self._pool = ClientPool(
                self._method,
                self._spec,
                self._device,
                graphs,
                lambda: self._shards.whole,
                names=self._names,
            )
            warm_up(self._device)
            # Only after the first use is the linear algebra behind numba loaded and can be limited.
            self._cleanup.enter_context(threadpool_limits(1))
            for worker in self._workers:
                unpack_answer(worker.receive())  # the worker is ready
            undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._cleanup.close()

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        """Delivers the requests to the clients' workers; the replies have the same order."""
        if not self._workers:
            return self._local.handle(requests)
        owners = {client: n for n, w in enumerate(self._workers) for client in w.clients}
        shares: list[list[Request]] = [[] for _ in self._workers]
        for request in requests:
            shares[owners[request.client]].append(request)
        by_client: dict[int, list[Reply]] = {}
        for first in range(0, max(map(len, shares), default=0), _AT_ONCE):
            some = [share[first : first + _AT_ONCE] for share in shares]
            asked = [(w, own) for w, own in zip(self._workers, some, strict=True) if own]
            for worker, own in asked:
                worker.send(pack_requests(own))
            # Receive all answers first: an error in one must not leave another unread.
            for answer in [worker.receive() for worker, _ in asked]:
                for reply in unpack_replies(answer):
                    by_client.setdefault(reply.client, []).append(reply)
        return [by_client[request.client].pop(0) for request in requests]

    def states(self) -> list[State]:
        """Every client's state, in the clients' order."""
        if not self._workers:
            return [self._local.states[client] for client in range(self.clients)]
        found: dict[int, State] = {}
        for worker in self._workers:
            for clients in _portions(worker.clients):
                worker.send(pack({"call": "states", "clients": clients}, {}))
                _, arrays = unpack_answer(worker.receive())
                found |= {client: group(arrays, str(client)) for client in clients}
        return [found[client] for client in range(self.clients)]

    def keep(self) -> None:
        """Has every client keep how its subgraph is mended now; nothing is carried for that."""
        if not self._workers:
            self._local.keep()
        for worker in self._workers:
            worker.send(pack({"call": "keep"}, {}))
        for worker in self._workers:
            unpack_answer(worker.receive())

    def kept(self) -> list[State]:
        """What the clients kept last, in the clients' order; nothing if they never did."""
        found: dict[int, State] = dict(self._local.kept)
        for worker in self._workers:
            for clients in _portions(worker.clients):
                worker.send(pack({"call": "kept", "clients": clients}, {}))
                header, arrays = unpack_answer(worker.receive())
                found |= {client: group(arrays, str(client)) for client in header["clients"]}
        return [found[client] for client in sorted(found)]

    def restore(self, states: Sequence[State], kept: Sequence[State] = ()) -> None:
        """Gives every client its state back, and what it kept."""
        if not self._workers:
            self._local.states = dict(enumerate(states))
            self._local.kept = dict(enumerate(kept))
        for worker in self._workers:
            for clients in _portions(worker.clients):
                arrays: dict[str, Any] = {}
                for client in clients:
                    arrays |= grouped(str(client), states[client])
                    if kept:
                        arrays |= grouped(f"kept-{client}", kept[client])
                call = {"call": "restore", "clients": clients, "kept": clients if kept else []}
                worker.send(pack(call, arrays, once=True))
                unpack_answer(worker.receive())

    def measure(self, classifier: Arrays | None) -> "Future[list[Scores]]":
        """Scores a classifier, or each client's own, on the whole graph; of silos there is none.

        One classifier is scored by the parent while the workers continue with the next round.
        """
        if classifier is not None and self._measuring is not None:
            return self._measuring.submit(lambda: [self._local.score(classifier)])
        done: Future[list[Scores]] = Future()
        if classifier is not None:
            done.set_result([self._local.score(classifier)])
        elif not self._workers:
            done.set_result(self._local.score_own())
        else:
            done.set_result(self._score_own())
        return done

    @property
    def _local(self) -> ClientPool:
        if self._pool is None:
            raise RuntimeFailureError("the federation is not running; use it in a with statement")
        return self._pool

    def _score_own(self) -> list[Scores]:
        folder, whole = self._shared(), self._shards.whole
        if whole is None:
            return []
        if not (folder / "whole").exists():
            share_graph(whole, folder / "whole")
        for worker in self._workers:
            worker.send(pack({"call": "score_own"}, {}))
        found: dict[int, Scores] = {}
        for worker in self._workers:
            header, _ = unpack_answer(worker.receive())
            for client, counts in zip(worker.clients, header["scores"], strict=True):
                found[client] = Scores(**counts)
        return [found[client] for client in range(self.clients)]

    def _shared(self) -> Path:
        if self._folder is None:
            self._folder = shared_folder(2 * self._shards.nbytes)
            self._cleanup.callback(FolderLock(self._folder).release)
            self._cleanup.callback(shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def _start_workers(self) -> None:
        folder = self._shared()
        load = []
        for client, graph in enumerate(client_graphs(self._shards, self._method)):
            share_graph(graph, folder / f"client-{client}")
            load.append(len(graph.members(Part.TRAIN)))
        for clients in balanced(load, self._worker_count):
            worker = _Worker(
                clients,
                {
                    "folder": str(folder),
                    "method": self._method.name,
                    "spec": asdict(self._spec),
                    "device": str(self._device),
                    "names": self._names,
                },
            )
            self._cleanup.callback(worker.stop)
            self._workers.append(worker)
        self._measuring = ThreadPoolExecutor(1)
        self._cleanup.callback(self._measuring.shutdown, cancel_futures=True)


def _portions(clients: Sequence[int]) -> Iterator[Sequence[int]]:
    for first in range(0, len(clients), _AT_ONCE):
        yield clients[first : first + _AT_ONCE]


class _Worker:
    """The parent's end of one worker process."""

    def __init__(self, clients: list[int], start: Mapping[str, Any]) -> None:
        self.clients = clients
        ours, theirs = socket.socketpair()
        # One thread beats two (benchmarks); one arena, or malloc keeps freed memory in several.
        alone = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "MALLOC_ARENA_MAX"), "1")
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "feddep.runtime.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                process_group=0,  # so that Ctrl-C reaches the parent only
                env=os.environ | alone | {"PYTHONPATH": import_path()},
            )
        self._connection: Connection[Any, Any] = Connection(ours.detach())
        self._told = False
        self.send(pack({**start, "clients": clients}, {}))

    def send(self, data: bytes) -> None:
        try:
            self._connection.send_bytes(data)
        except OSError:
            raise self._died() from None

    def receive(self) -> bytes:
        try:
            while not self._connection.poll(_LOOK_SECONDS):
                self._look()
            return self._connection.recv_bytes()
        except (EOFError, OSError):
            raise self._died() from None

    def _look(self) -> None:
        """Says so if somebody stopped the worker: waiting would look like work."""
        stopped = is_stopped(self._process.pid)
        if stopped and not self._told:
            log.warning(
                "the worker of clients %s is stopped; the run waits for it. Continue it with "
                "kill -CONT %d",
                ", ".join(map(str, self.clients)),
                self._process.pid,
            )
        self._told = stopped

    def stop(self) -> None:
        self._connection.close()
        self._process.kill()  # it holds nothing worth saving
        self._process.wait()

    def _died(self) -> RuntimeFailureError:
        code = self._process.wait()
        return RuntimeFailureError(
            f"the worker of clients {', '.join(map(str, self.clients))} ended (exit code {code}); "
            "see its message above. A common cause is too little memory: try fewer --workers"
        )


def is_stopped(process: int) -> bool:
    """Whether a process is stopped, by a signal or a debugger; unknown where there is no /proc."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except OSError:
        return False
    return state.split()[0] in ("T", "t")


def import_path() -> str:
    """A worker's module search path: that of this process, in the same order.

    Only the current folder, which a notebook has first as "", comes last: otherwise a grp.py in it
    would replace the standard library's.
    """
    paths = sorted(sys.path, key=lambda path: path == "")
    return os.pathsep.join(path or str(Path.cwd()) for path in paths)


def balanced(load: Sequence[int], workers: int) -> list[list[int]]:
    """Assigns clients to workers, the largest first to the least loaded; each list is sorted."""
    groups: list[list[int]] = [[] for _ in range(workers)]
    for client in sorted(range(len(load)), key=lambda c: (-load[c], c)):
        lightest = min(groups, key=lambda g: (sum(load[c] for c in g), len(g)))
        lightest.append(client)
    return [sorted(clients) for clients in groups]
