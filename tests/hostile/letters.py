"""What comes over a network: records, replies and requests, and envelopes to whole programs."""

import json
import os
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from deployment.envelopes import CONSENT, SiloWithMemory, agree, agreement_on, request
from deployment.fault_simulation import Faulty, Federation
from feddep.deployment.protocol.disclosure_log import DisclosureLog, verify
from feddep.deployment.protocol.silo_service import SiloService
from feddep.deployment.protocol.standing import Repeats
from feddep.errors import DataError, FeddepError
from feddep.federation.inspection import InspectionError, inspect_reply, inspect_request
from feddep.federation.messages import Reply, pack, unpack
from feddep.runtime.envelope import Envelope
from feddep.runtime.flower.codec import from_record, to_record
from federation.declared import ASKED, EXPECTED, HONEST
from hostile.files import REFUSED, TAKEN, said, small_shards
from hostile.mutations import (
    TEXTS,
    altered_array,
    altered_arrays,
    altered_bytes,
    altered_value,
    altered_value_of_table,
    some_plain,
)

Case = Callable[[random.Random], str]

WEIGHTS = {
    "classifier/bias": np.arange(3, dtype=np.float32),
    "n": np.array(7),
    "b": np.ones(2, bool),
}
HEADER = {"kind": "request", "run": "a run", "client": 2, "metrics": {"loss": 0.5}, "list": [1, []]}


# The codec


def codec(folder: Path) -> Case:
    """Packed messages and Flower records."""

    def case(draws: random.Random) -> str:
        try:
            if draws.random() < 0.5:
                header, arrays = unpack(altered_pack(draws))
            else:
                opened = from_record(altered_record(draws))
                header, arrays = opened.header, opened.arrays
        except DataError as error:
            return said(error)
        if not isinstance(header, Mapping):
            raise AssertionError(f"expected a header, got {header!r}")
        for array in arrays.values():
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
                raise AssertionError(f"expected arrays of numbers, got {array!r}")
            array.tobytes()  # every byte of it is there
        return TAKEN

    return case


def altered_pack(draws: random.Random) -> bytes:
    """A packed message with other bytes, or another table of what it holds."""
    whole = pack(HEADER, WEIGHTS)
    if draws.random() < 0.4:
        return altered_bytes(draws, whole)
    start = 8 + int.from_bytes(whole[:8], "little")
    text = json.dumps(altered_value(draws, json.loads(whole[8:start]))).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + whole[start:]


def altered_record(draws: random.Random) -> Any:
    """A record of Flower's, as somebody else may fill it."""
    from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

    text: Any = json.dumps(altered_value_of_table(draws, HEADER))
    if draws.random() < 0.2:
        text = draws.choice((*TEXTS, "[" * 100_000, b"{}", 3, 0.5, ["{", "}"], "1" * 5000))
    found = RecordDict({"header": ConfigRecord({draws.choice(("json", "json", "text")): text})})
    if draws.random() < 0.1:
        found = RecordDict({"header": MetricRecord({"json": 1})})
    data = altered_pack(draws) if draws.random() < 0.7 else pack({}, WEIGHTS)
    kind = draws.choice(("feddep.packed", "feddep.packed", "numpy.ndarray", ""))
    array = Array(draws.choice(("uint8", "f4", "")), (len(data),), kind, data)
    found["arrays"] = ArrayRecord({draws.choice(("packed", "packed", "0")): array})
    return found


# Inspection


def corrupted(draws: random.Random, honest: Mapping[str, Any], value: Callable[[], Any]) -> Any:
    """A mapping with entries dropped, exchanged or added, or something else in its place."""
    if draws.random() < 0.1:
        return some_plain(draws)
    kept = {name: own for name, own in honest.items() if draws.random() > 0.15}
    names: list[Any] = [*NAMES, *honest, *TEXTS, 0, 3, None]
    for _ in range(draws.randrange(3)):
        name = draws.choice(names)
        kept[name] = some_plain(draws) if draws.random() < 0.3 else value()
    return kept


NAMES = (
    *("classifier/bias", "classifier/own", "prototypes", "features/rows", "features/indptr"),
    *("features/indices", "gradients/1", "gradients/1/hidden", "neighgen/hidden", "neighgen/kept"),
    *("nodes", "neighbours", "added/links", "embeddings", "foreign/0", "generated/1"),
)


def arrays_for(draws: random.Random, honest: Mapping[str, np.ndarray]) -> Any:
    """Arrays in place of honest ones: most often a single one that is not right."""
    if honest and draws.random() < 0.6:
        name = draws.choice(sorted(honest))
        return {**honest, name: altered_array(draws, honest[name])}
    if draws.random() < 0.5:
        return altered_arrays(draws, honest)
    some = [array for _, request in HONEST for array in request.arrays.values()]
    return corrupted(draws, honest, lambda: altered_array(draws, draws.choice(some)))


def replies(folder: Path) -> Case:
    """What a client says to a server that knows what it asked."""

    def case(draws: random.Random) -> str:
        honest, asked = draws.choice(HONEST)
        reply = Reply(
            2 if draws.random() < 0.9 else some_plain(draws),
            arrays_for(draws, honest.arrays),
            honest.metrics if draws.random() < 0.5
            else corrupted(draws, honest.metrics, lambda: some_plain(draws)),
        )  # fmt: skip
        try:
            inspect_reply(reply, asked, EXPECTED)
        except InspectionError as error:
            return said(error)
        expect_good(reply.client == 2, reply)
        expect_good(all(np.isfinite(array).all() for array in reply.arrays.values()), reply)
        for name in reply.arrays.keys() & honest.arrays.keys():
            found, right = reply.arrays[name], honest.arrays[name]
            expect_good(found.ndim == right.ndim, reply)
            expect_good(found.dtype.kind == right.dtype.kind or found.dtype.kind in "iu", reply)
        return TAKEN

    return case


def requests(folder: Path) -> Case:
    """What a server asks a client that knows what was agreed."""

    def case(draws: random.Random) -> str:
        honest = draws.choice(ASKED)

        def sometimes(value: Any) -> Any:
            return some_plain(draws) if draws.random() < 0.06 else value

        asked = replace(
            honest,
            client=sometimes(honest.client), phase=sometimes(honest.phase),
            step=sometimes(honest.step), round=sometimes(honest.round),
            arrays=arrays_for(draws, honest.arrays),
        )  # fmt: skip
        try:
            inspect_request(asked, EXPECTED)
        except InspectionError as error:
            return said(error)
        expect_good(all(np.isfinite(array).all() for array in asked.arrays.values()), asked)
        return TAKEN

    return case


def expect_good(holds: bool, message: object) -> None:
    """What passes has to be harmless."""
    if not holds:
        raise AssertionError(f"this passed: {message!r:.300}")


# Envelopes to a silo


def silo(folder: Path) -> Case:
    """Envelopes of any kind to a silo with a consent, a log and a secret, in any of its states."""
    folder.mkdir()
    graph = small_shards()[0]
    agreement, log = agreement_on(graph), DisclosureLog(folder / "disclosures.jsonl")
    service = SiloService(
        "bank-a", lambda: graph, consent=CONSENT.model_copy(update={"smallest_cluster": 1}),
        disclosures=log, secret=7, results=folder / "results",
    )  # fmt: skip
    honest = [
        Envelope({"kind": "hello"}),
        agree(agreement),
        request(agreement),
        request(agreement, round=1),
        Envelope({"kind": "close", "run": "run", "completed": False}),
    ]
    lives: list[tuple[dict[str, dict[str, bytes]], bytes]] = []
    silo = SiloWithMemory(service)
    with without_flushes():
        for envelope in honest[:4]:
            answer = silo(envelope)
            if "refused" in answer.header:
                raise AssertionError(f"an honest envelope is refused: {answer.header}")
            logged = log.path.read_bytes() if log.path.exists() else b""
            lives.append(({run: dict(own) for run, own in silo.runs.items()}, logged))

    def case(draws: random.Random) -> str:
        memory, logged = draws.choice(lives)
        log.path.write_bytes(logged)
        object.__setattr__(service, "repeats", Repeats())
        own = SiloWithMemory(service, {run: dict(pieces) for run, pieces in memory.items()})
        envelope = draws.choice(honest)
        header, arrays = envelope.header, envelope.arrays
        if draws.random() < 0.7:
            header = altered_value_of_table(draws, dict(header))
        if draws.random() < 0.4:
            arrays = altered_arrays(draws, arrays)
        with without_flushes():
            answer = own(Envelope(header, arrays))
        why = str(answer.header.get("refused", ""))
        if re.fullmatch(r"cannot answer: \w+", why):  # no words of our own
            raise AssertionError(why)
        if log.path.stat().st_size:
            verify(log.path)
        expect_good(not answer.arrays or log.path.read_bytes() != logged, answer)
        return REFUSED if why else TAKEN

    return case


# Answers to a server


def server(folder: Path) -> Case:
    """A run in which one answer of one silo is another; see :mod:`deployment.fault_simulation`."""
    methods = [Federation(method) for method in ("fedavg", "feddep")]

    def case(draws: random.Random) -> str:
        found = OneFalseAnswer(draws.choice(methods), draws).outcome()
        if "\n" in found.get("why", ""):
            raise AssertionError(found["why"])
        return REFUSED if "why" in found else TAKEN

    return case


class OneFalseAnswer(Faulty):
    """No faults but one: an answer that its silo did not give."""

    def __init__(self, shared: Federation, draws: random.Random) -> None:
        super().__init__(shared, None)
        self.draws, self.wait = draws, draws.randrange(20)

    def deliver(self, envelopes: Mapping[int, Envelope], seconds: float) -> dict[int, Any]:
        """The answers, of which one may be false."""
        answers = super().deliver(envelopes, seconds)
        self.wait -= 1
        if self.wait == -1 and answers:
            address = self.draws.choice(sorted(answers))
            honest, draws = answers[address], self.draws
            header, arrays = dict(honest.header), dict(honest.arrays)
            if draws.random() < 0.6:
                header = altered_value_of_table(draws, header)
            if draws.random() < 0.6:
                arrays = altered_arrays(draws, arrays)
            try:  # it has to come over the wire
                answers[address] = from_record(to_record(Envelope(header, arrays)))
            except (FeddepError, TypeError, ValueError, UnicodeError):
                return answers
            self.altered.append("an answer")
        return answers


def without_flushes() -> Any:
    """Half of the time would be waiting for the disk."""
    return mock.patch.object(os, "fsync", lambda _: None)
