"""A federation on one machine: the same with and without workers, and when a worker dies."""

import subprocess
import sys
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from feddep.algorithms import METHODS
from feddep.errors import RuntimeFailureError
from feddep.federation.messages import Request, pack
from feddep.models.weights import to_arrays
from feddep.runtime import inprocess
from feddep.runtime.inprocess import InProcess, balanced, import_path

FEDAVG, LOCAL = METHODS["fedavg"], METHODS["local"]


@pytest.fixture
def local_pair(small_shards, small_spec, thread_workers):
    """The method that has memories, alone and in two (thread) workers."""
    options = {"device": "cpu"}
    with (
        InProcess(small_shards, LOCAL, small_spec, workers=1, **options) as one,
        InProcess(small_shards, LOCAL, small_spec, workers=2, **options) as two,
    ):
        yield one, two


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


def initial(spec):
    return {f"classifier/{name}": array for name, array in to_arrays(spec.classifier()).items()}


def train_alone(client, round_=0):
    return Request(client, "local_training", "train", round_)


class TestMemories:
    def test_both_keep_the_same_memories(self, local_pair):
        for runtime in local_pair:
            runtime.exchange([train_alone(client) for client in range(3)])
        one, two = (runtime.states() for runtime in local_pair)
        assert len(one) == len(two) == 3
        assert all(map(same, one, two))
        assert one[0]

    def test_memories_can_be_moved_from_one_to_the_other(self, local_pair):
        one, two = local_pair
        one.exchange([train_alone(client) for client in range(3)])
        two.restore(one.states())
        assert all(map(same, one.states(), two.states()))
        requests = [train_alone(client, 1) for client in range(3)]
        assert [r.metrics for r in one.exchange(requests)] == [
            r.metrics for r in two.exchange(requests)
        ]

    def test_memories_can_be_emptied(self, local_pair):
        for runtime in local_pair:
            runtime.exchange([train_alone(0)])
            runtime.restore([{}, {}, {}])
            assert runtime.states() == [{}, {}, {}]

    def test_what_clients_keep_stays_as_it_was_and_can_be_moved(self, local_pair):
        """Of a memory, what mends a subgraph."""
        for runtime in local_pair:
            assert runtime.kept() == []
            first = [
                {"missing_embeddings": np.full(2, client), "other": np.zeros(1)}
                for client in range(3)
            ]
            runtime.restore(first)
            runtime.keep()
            runtime.restore([{"missing_embeddings": np.full(2, -1)}] * 3, runtime.kept())
            expected = [{"missing_embeddings": np.full(2, client)} for client in range(3)]
            assert all(map(same, runtime.kept(), expected))

    def test_own_classifiers_are_measured_in_the_clients_order(self, local_pair):
        found = []
        for runtime in local_pair:
            runtime.exchange([train_alone(client) for client in range(3)])
            found += [runtime.measure(None).result() for _ in range(2)]
        assert len(found[0]) == 3
        assert all(scores == found[0] for scores in found)


@pytest.fixture
def started(thread_workers, monkeypatch):
    """The workers that are started, as threads."""
    found, start = [], inprocess.subprocess.Popen

    def counting(command, **options):
        found.append(start(command, **options))
        return found[-1]

    monkeypatch.setattr(inprocess, "subprocess", SimpleNamespace(Popen=counting))
    return found


class TestParties:
    def test_the_whole_graph_is_one_client(self, small_shards, small_spec, started):
        runtime = InProcess(small_shards, METHODS["global"], small_spec, workers=4)
        with runtime:
            assert runtime.clients == 1
            reply = runtime.exchange([train_alone(0)])[0]
            assert reply.metrics["training_nodes"] == (small_shards.graph.split == 1).sum()
        assert not started

    def test_there_are_never_more_workers_than_clients(self, small_shards, small_spec, started):
        with InProcess(small_shards, LOCAL, small_spec, workers=9, device="cpu"):
            assert len(started) == 3

    @pytest.mark.parametrize(
        ("load", "workers", "expected"),
        [
            ([5, 5, 5], 3, [[0], [1], [2]]),
            ([1, 9, 2, 3], 2, [[1], [0, 2, 3]]),
            ([0, 0, 0, 0], 2, [[0, 2], [1, 3]]),
            ([4], 1, [[0]]),
        ],
    )
    def test_the_load_is_balanced(self, load, workers, expected):
        assert balanced(load, workers) == expected


class TestLife:
    def test_it_must_be_started(self, small_shards, small_spec):
        with pytest.raises(RuntimeFailureError, match="use it in a with statement"):
            InProcess(small_shards, FEDAVG, small_spec).exchange([])

    def test_it_computes_on_one_thread_and_gives_the_others_back(self, small_shards, small_spec):
        before = torch.get_num_threads()
        torch.set_num_threads(2)
        try:
            with InProcess(small_shards, FEDAVG, small_spec):
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(before)

    def test_shared_graphs_are_gone_afterwards(
        self, small_shards, small_spec, thread_workers, shared
    ):
        with InProcess(small_shards, LOCAL, small_spec, workers=2, device="cpu"):
            assert {folder.name for folder in shared.iterdir()} == {
                "client-0",
                "client-1",
                "client-2",
            }
        assert not shared.exists()


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """Where the next runtime shares its graphs."""
    folder = tmp_path / "shared"
    monkeypatch.setattr(inprocess, "shared_folder", lambda _: folder.mkdir() or folder)
    return folder


def impostor(deed):
    """A process that looks like a worker until it does ``deed``."""
    ready = pack({}, {}).hex()
    script = f"""
import os, signal, sys
from multiprocessing.connection import Connection
parent = Connection(int(sys.argv[1]))
parent.recv_bytes()
if {deed!r} == "exits at the start":
    sys.exit(3)
parent.send_bytes(bytes.fromhex("{ready}"))
if {deed!r} == "is killed at work":
    parent.recv_bytes()
os.kill(os.getpid(), signal.SIGKILL)
"""
    started = []

    def start(command, **options):
        process = subprocess.Popen([sys.executable, "-c", script, command[-1]], **options)
        started.append(process)
        return process

    return SimpleNamespace(Popen=start), started


def patiently(function):
    """What the function raises; a minute without an answer is a hang."""
    raised = []

    def call():
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = Thread(target=call, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it hangs"
    return raised[0] if raised else None


class TestDeath:
    @pytest.fixture
    def runtime(self, small_shards, small_spec):
        return InProcess(small_shards, FEDAVG, small_spec, workers=2, device="cpu")

    @pytest.mark.parametrize("deed", ["is killed at work", "is killed while it waits"])
    def test_a_worker_that_is_killed_ends_the_run(
        self, monkeypatch, runtime, shared, small_spec, deed
    ):
        stand_in, started = impostor(deed)
        monkeypatch.setattr(inprocess, "subprocess", stand_in)
        # More than a connection holds, so that the parent also meets a closed one while sending.
        arrays = initial(small_spec) | {"ballast": np.zeros(10**6)}
        requests = [Request(c, "averaging", "train", 0, arrays) for c in range(3)]
        with runtime:
            error = patiently(lambda: runtime.exchange(requests))
        assert isinstance(error, RuntimeFailureError)
        assert "exit code -9" in str(error)
        assert "the worker of clients " in str(error)
        assert len(started) == 2
        assert all(process.returncode is not None for process in started)
        assert not shared.exists()

    def test_a_worker_that_does_not_start_leaves_nothing_behind(self, monkeypatch, runtime, shared):
        stand_in, started = impostor("exits at the start")
        monkeypatch.setattr(inprocess, "subprocess", stand_in)
        threads = torch.get_num_threads()
        error = patiently(runtime.__enter__)
        assert isinstance(error, RuntimeFailureError)
        assert "exit code 3" in str(error)
        assert all(process.returncode is not None for process in started)
        assert not shared.exists()
        assert torch.get_num_threads() == threads


def test_a_worker_looks_where_its_parent_does_and_in_a_notebook_s_folder_last(monkeypatch):
    monkeypatch.setattr(sys, "path", ["", "/here", "/there"])
    assert import_path().split(inprocess.os.pathsep) == ["/here", "/there", str(Path.cwd())]
    monkeypatch.setattr(sys, "path", ["/here", "/there"])
    assert import_path().split(inprocess.os.pathsep) == ["/here", "/there"]
