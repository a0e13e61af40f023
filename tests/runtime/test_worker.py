"""The worker's side of the connection, served by a thread."""

from contextlib import suppress
from dataclasses import asdict
from multiprocessing import Pipe
from threading import Thread

import numpy as np
import pytest
import torch

from feddep.algorithms import METHODS
from feddep.errors import DisclosureError, InputError
from feddep.federation.messages import Request, group, grouped, pack, unpack
from feddep.learning.evaluation import Scores
from feddep.runtime import worker
from feddep.runtime.client_pool import ClientPool
from feddep.runtime.sharing import share_graph
from feddep.runtime.worker import pack_requests, unpack_answer, unpack_replies


@pytest.fixture(scope="module")
def connection(tmp_path_factory, small_shards, small_spec):
    """The parent's end; the other holds clients 0 and 2 of ``local``."""
    folder = tmp_path_factory.mktemp("shared")
    for client in (0, 2):
        share_graph(small_shards[client], folder / f"client-{client}")
    share_graph(small_shards.graph, folder / "whole")
    ours, theirs = Pipe()

    def serve():
        with theirs, suppress(EOFError):
            worker.serve(theirs)

    thread = Thread(target=serve, daemon=True)
    thread.start()
    start = {
        "folder": str(folder),
        "method": "local",
        "spec": asdict(small_spec),
        "device": "cpu",
        "clients": [0, 2],
    }
    ours.send_bytes(pack(start, {}))
    assert unpack(ours.recv_bytes()) == ({}, {})
    yield ours
    ours.close()
    thread.join()  # hanging up ends it


@pytest.fixture
def ask(connection):
    def ask(message):
        connection.send_bytes(message)
        return connection.recv_bytes()

    # Every test starts without memories.
    ask(pack({"call": "restore", "clients": [0, 2], "kept": []}, {}))
    return ask


def train(client, round_=0):
    return Request(client, "local_training", "train", round_)


@pytest.fixture
def pool(small_shards, small_spec):
    """The same clients here."""
    graphs = {client: small_shards[client] for client in (0, 2)}
    whole = small_shards.graph
    return ClientPool(METHODS["local"], small_spec, torch.device("cpu"), graphs, lambda: whole)


def test_it_answers_what_the_clients_would_answer_here(ask, pool):
    requests = [train(2), train(0), train(2, 1)]
    found = unpack_replies(ask(pack_requests(requests)))
    expected = pool.handle(requests)
    assert [(r.client, r.metrics) for r in found] == [(r.client, r.metrics) for r in expected]


def test_memories_can_be_fetched_and_given_back(ask, pool):
    ask(pack_requests([train(0), train(2)]))
    _, after_one = unpack_answer(ask(pack({"call": "states", "clients": [0, 2]}, {})))
    second = unpack_replies(ask(pack_requests([train(0, 1)])))
    unpack_answer(ask(pack({"call": "restore", "clients": [0, 2], "kept": []}, after_one)))
    again = unpack_replies(ask(pack_requests([train(0, 1)])))
    assert [r.metrics for r in again] == [r.metrics for r in second]
    pool.handle([train(0), train(2)])
    for client in (0, 2):
        for name, array in group(after_one, str(client)).items():
            assert np.array_equal(array, pool.states[client][name])


def test_own_classifiers_are_scored_on_the_whole_graph(ask, pool):
    ask(pack_requests([train(0), train(2)]))
    pool.handle([train(0), train(2)])
    header, _ = unpack_answer(ask(pack({"call": "score_own"}, {})))
    assert [Scores(**counts) for counts in header["scores"]] == pool.score_own()


def test_an_error_is_raised_at_the_parent_with_its_type(ask):
    with pytest.raises(InputError, match="unknown phase 'gossip'; known: local_training"):
        unpack_replies(ask(pack_requests([Request(0, "gossip", "x", 0)])))


def test_it_goes_on_after_an_error(ask):
    ask(pack_requests([Request(0, "gossip", "x", 0)]))
    assert len(unpack_replies(ask(pack_requests([train(0)])))) == 1


@pytest.mark.parametrize("kind", [InputError, DisclosureError])
def test_every_error_of_the_project_keeps_its_type(kind):
    with pytest.raises(kind, match="why"):
        unpack_answer(pack({"error": kind.__name__, "message": "why"}, {}))


def test_arrays_that_requests_share_travel_once():
    shared, own = {"w": np.zeros(1000)}, {"w": np.zeros(1000)}
    together = [Request(client, "p", "s", 0, shared) for client in range(3)]
    apart = [*together[:2], Request(2, "p", "s", 0, own)]
    assert len(pack_requests(together)) < 8000 + 500
    assert 16000 < len(pack_requests(apart)) < 16000 + 700


def test_every_request_gets_its_own_arrays():
    requests = [Request(client, "p", "s", 3, {"w": np.full(2, client)}) for client in (5, 7)]
    seen = []

    class Echo:
        def handle(self, found):
            seen.extend(found)
            return []

    header, arrays = unpack(pack_requests(requests))
    worker.handle(Echo(), header, arrays)
    assert [(r.client, r.phase, r.step, r.round, r.arrays["w"].tolist()) for r in seen] == [
        (5, "p", "s", 3, [5, 5]),
        (7, "p", "s", 3, [7, 7]),
    ]


def test_arrays_of_replies_come_back_to_the_right_client():
    arrays = grouped("0", {"c/w": np.zeros(1)}) | grouped("1", {"c/w": np.ones(1)})
    found = unpack_replies(pack({"replies": [[4, {"loss": 0.5}], [2, {}]]}, arrays))
    assert [(r.client, r.arrays["c/w"].tolist(), r.metrics) for r in found] == [
        (4, [0], {"loss": 0.5}),
        (2, [1], {}),
    ]
