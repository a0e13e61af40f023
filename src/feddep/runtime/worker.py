"""A worker process: some clients of an in-process federation, behind a local connection.

It is started as ``python -m feddep.runtime.worker`` rather than forked: a fork of a process with
running torch threads can hang, and a spawned child of :mod:`multiprocessing` would run the
caller's script again. Parent and worker exchange packed arrays and JSON, never pickles.
"""

import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter

from feddep import errors
from feddep.algorithms import find_method
from feddep.federation.messages import Arrays, Reply, Request, group, grouped, pack, unpack
from feddep.learning.spec import LearningSpec
from feddep.runtime.client_pool import ClientPool, warm_up
from feddep.runtime.sharing import open_graph


def main() -> None:
    """Serves the connection whose descriptor the parent passed, until the parent closes it."""
    # Ctrl-C reaches the whole process group; the parent decides what to do about it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    connection: Connection[Any, Any] = Connection(int(sys.argv[1]))
    with connection, suppress(EOFError, BrokenPipeError, ConnectionResetError):
        serve(connection)


def serve(connection: "Connection[Any, Any]") -> None:
    """Answers the parent's messages, one at a time."""
    start, _ = unpack(connection.recv_bytes())
    try:
        pool = open_pool(start)
    except errors.FeddepError as error:
        connection.send_bytes(_trouble(error))
        return
    connection.send_bytes(pack({}, {}))
    while True:
        header, arrays = unpack(connection.recv_bytes(), once=True)
        try:
            answer = _ANSWERS[header["call"]](pool, header, arrays)
        except errors.FeddepError as error:
            answer = _trouble(error)
        except Exception as error:  # a user's own method may fail in any way
            traceback.print_exc()
            told = f"a client failed: {type(error).__name__}: {error}; see the traceback above"
            answer = _trouble(errors.RuntimeFailureError(told))
        connection.send_bytes(answer)


def _trouble(error: errors.FeddepError) -> bytes:
    return pack({"error": type(error).__name__, "message": str(error)}, {})


def open_pool(start: Mapping[str, Any]) -> ClientPool:
    """The clients that the parent assigned to this worker, ready to answer."""
    folder = Path(start["folder"])
    device = torch.device(start["device"])
    warm_up(device)
    return ClientPool(
        method=find_method(start["method"]),
        spec=TypeAdapter(LearningSpec).validate_python(start["spec"]),
        device=device,
        graphs={c: open_graph(folder / f"client-{c}") for c in start["clients"]},
        whole=partial(open_graph, folder / "whole"),
        names=start.get("names", ()),
    )


def pack_requests(requests: Sequence[Request]) -> bytes:
    """Packs requests together; arrays that several requests share are packed once."""
    shared: dict[int, int] = {}
    arrays: dict[str, Any] = {}
    rows = []
    for request in requests:
        number = shared.setdefault(id(request.arrays), len(shared))
        arrays |= grouped(str(number), request.arrays)
        rows.append([request.client, request.phase, request.step, request.round, number])
    return pack({"call": "handle", "requests": rows}, arrays, once=True)


def unpack_replies(data: bytes) -> list[Reply]:
    """Unpacks the replies to :func:`pack_requests`; raises an error that the worker reports."""
    header, arrays = unpack_answer(data)
    return [
        Reply(client, group(arrays, str(number)), metrics)
        for number, (client, metrics) in enumerate(header["replies"])
    ]


def unpack_answer(data: bytes) -> tuple[dict[str, Any], Arrays]:
    """Unpacks a worker's answer; raises an error that the worker reports."""
    header, arrays = unpack(data, once=True)
    if "error" in header:
        raise getattr(errors, header["error"])(header["message"])
    return header, arrays


def handle(pool: ClientPool, header: Mapping[str, Any], arrays: Arrays) -> bytes:
    """Answers what :func:`pack_requests` packed."""
    payloads = {number: group(arrays, str(number)) for *_, number in header["requests"]}
    replies = pool.handle(
        [
            Request(client, phase, step, round_, payloads[number])
            for client, phase, step, round_, number in header["requests"]
        ]
    )
    packed: dict[str, Any] = {}
    for number, reply in enumerate(replies):
        packed |= grouped(str(number), reply.arrays)
    return pack({"replies": [[r.client, dict(r.metrics)] for r in replies]}, packed)


def _states(pool: ClientPool, header: Mapping[str, Any], arrays: Arrays) -> bytes:
    packed: dict[str, Any] = {}
    for client in header["clients"]:
        packed |= grouped(str(client), pool.states[client])
    return pack({}, packed, once=True)


def _keep(pool: ClientPool, header: Mapping[str, Any], arrays: Arrays) -> bytes:
    pool.keep()
    return pack({}, {})


def _kept(pool: ClientPool, header: Mapping[str, Any], arrays: Arrays) -> bytes:
    packed: dict[str, Any] = {}
    clients = [client for client in header["clients"] if client in pool.kept]
    for client in clients:
        packed |= grouped(str(client), pool.kept[client])
    return pack({"clients": clients}, packed, once=True)


def _restore(pool: ClientPool, header: Mapping[str, Any], arrays: Arrays) -> bytes:
    for client in header["clients"]:
        pool.states[client] = group(arrays, str(client))
        pool.kept.pop(client, None)
    pool.kept |= {client: group(arrays, f"kept-{client}") for client in header["kept"]}
    return pack({}, {})


def _score_own(pool: ClientPool, header: Mapping[str, Any], arrays: Arrays) -> bytes:
    return pack({"scores": [asdict(scores) for scores in pool.score_own()]}, {})


_ANSWERS = {
    "handle": handle,
    "states": _states,
    "keep": _keep,
    "kept": _kept,
    "restore": _restore,
    "score_own": _score_own,
}


if __name__ == "__main__":
    main()
