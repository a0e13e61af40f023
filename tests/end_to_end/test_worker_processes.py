"""A federation on one machine in real worker processes: the same as in one process."""

import os
import subprocess
from contextlib import ExitStack, chdir
from types import SimpleNamespace

import numpy as np
import pytest

from feddep.algorithms import METHODS
from feddep.errors import InputError
from feddep.federation.messages import Request, group
from feddep.federation.run_phases import Progress, run_phases
from feddep.models.weights import to_arrays
from feddep.runtime import inprocess
from feddep.runtime.inprocess import InProcess

FEDAVG = METHODS["fedavg"]


@pytest.fixture(scope="module")
def alone(small_shards, small_spec):
    """FedAvg in this process."""
    with InProcess(small_shards, FEDAVG, small_spec, workers=1, device="cpu") as runtime:
        yield runtime


@pytest.fixture(scope="module")
def processes(small_shards, small_spec, tmp_path_factory):
    """FedAvg in two real worker processes; starting them takes seconds, so once for all tests.

    They start in a user's folder, with a script that has the name of a standard module in it.
    """
    folder = tmp_path_factory.mktemp("user")
    (folder / "random.py").write_text("raise SystemExit('this is not the random of Python')")
    with ExitStack() as stack:
        with chdir(folder), pytest.MonkeyPatch.context() as patch:
            patch.setattr(inprocess, "subprocess", SimpleNamespace(Popen=start))
            runtime = InProcess(small_shards, FEDAVG, small_spec, workers=2, device="cpu")
            stack.enter_context(runtime)
        yield runtime
    STARTED.clear()


STARTED = []


def start(*command, **options):
    STARTED.append(subprocess.Popen(*command, **options))
    return STARTED[-1]


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


def initial(spec):
    return {f"classifier/{name}": array for name, array in to_arrays(spec.classifier()).items()}


def fedavg(runtime, spec):
    """The final weights of a whole run."""
    end = run_phases(FEDAVG.phases, spec, runtime.clients, runtime, Progress(), lambda *_: None)
    return group(end.state, "classifier")


def test_two_processes_learn_what_one_learns(processes, alone, small_spec):
    assert same(fedavg(processes, small_spec), fedavg(alone, small_spec))


def test_replies_come_in_the_order_of_the_requests(processes, alone, small_spec):
    arrays = initial(small_spec)
    asked = [(2, 0), (0, 1), (1, 0), (0, 0)]
    requests = [Request(c, "averaging", "train", r, arrays) for c, r in asked]
    found, expected = (runtime.exchange(requests) for runtime in (processes, alone))
    assert [reply.client for reply in found] == [2, 0, 1, 0]
    for one, other in zip(found, expected, strict=True):
        assert same(one.arrays, other.arrays)
        assert one.metrics == other.metrics


def test_some_clients_can_be_asked_alone(processes, small_spec):
    request = Request(1, "averaging", "score", 0, initial(small_spec))
    assert [reply.client for reply in processes.exchange([request])] == [1]


def test_an_error_comes_back_with_its_type_and_its_words(processes, small_spec):
    with pytest.raises(InputError, match="unknown phase 'gossip'; known: averaging"):
        processes.exchange([Request(client, "gossip", "x", 0) for client in range(3)])
    # And the workers go on.
    arrays = initial(small_spec)
    requests = [Request(client, "averaging", "score", 0, arrays) for client in range(3)]
    assert [reply.client for reply in processes.exchange(requests)] == [0, 1, 2]


def test_one_classifier_is_scored_while_the_workers_go_on(processes, alone, small_spec):
    weights = to_arrays(small_spec.classifier())
    assert processes.measure(weights).result() == alone.measure(weights).result()


def test_workers_are_out_of_reach_of_ctrl_c_and_of_modules_in_the_current_folder(processes):
    assert len(STARTED) == 2
    for process in STARTED:
        assert os.getpgid(process.pid) != os.getpgrp()
        assert "-P" in process.args
