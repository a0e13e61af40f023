"""docs/adding_a_method.md is executed: its file is a method that keeps to the contract."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from agreement import assert_weights_agree, rounds_terms
from feddep.algorithms import METHODS, find_method
from feddep.errors import InputError
from feddep.graph.graph import Part
from feddep.graph.sampling import NeighbourSampler
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec, TrainingSpec
from feddep.models.sage import ModelSpec
from feddep.models.weights import to_arrays
from feddep.runs import pipeline
from feddep.seeding import Seeds
from feddep.sweeps.tuning import Tuning

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/adding_a_method.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", TEXT, flags=re.DOTALL)
FEDPROX, CLASS_SHARES = (text for kind, text in BLOCKS if kind == "python")
COMMANDS = [line for kind, text in BLOCKS if not kind for line in text.splitlines()]
PATHS = [path for path in [os.environ.get("PYTHONPATH")] if path]  # of whoever runs the tests
SMALL = ["--set", "model.hidden=8", "--set", "synthetic.nodes=150", "--workers", "2"]


def load(path):
    """A module from a file, under a name that nothing else has."""
    found = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


contract = load(ROOT / "tests/contracts/test_methods.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A user's folder, with the file from the document in it."""
    path = tmp_path_factory.mktemp("user")
    (path / "fedprox.py").write_text(FEDPROX)
    (path / "class_shares.py").write_text(CLASS_SHARES)
    (path / "broken.py").write_text("1 / 0")
    return path


@pytest.fixture(scope="module")
def fedprox(folder):
    """The user's module, on the import path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        module = importlib.import_module("fedprox")
        module.NOTHING, module.STRONG = module.fedprox(0.0), module.fedprox(5.0)
        yield module
    del sys.modules["fedprox"]


# The contract of all methods, held against the one from the document.


@pytest.fixture(scope="module")
def method(fedprox):
    return find_method("fedprox:METHOD")


result, messages = contract.result, contract.messages
TestResult, TestOddClients = contract.TestResult, contract.TestOddClients
TestStopping, TestTraffic = contract.TestStopping, contract.TestTraffic
TestDisclosure = contract.TestDisclosure


# What FedProx is about.


def weights_of(name, shards):
    # Several batches a round: the first step starts from what was sent, where nothing pulls yet.
    spec = contract.spec_of(find_method(name), shards, **{"training.batch_size": 8})
    return pipeline.run(spec, shards, workers=1).model.weights


def moved(one, other):
    return sum(float(np.square(one[name] - other[name]).sum()) for name in one)


def test_without_a_proximal_term_it_is_fedavg_to_the_last_bit(fedprox, small_shards):
    fedavg, nothing = (weights_of(n, small_shards) for n in ("fedavg", "fedprox:NOTHING"))
    assert fedavg.keys() == nothing.keys()
    assert all(fedavg[name].tobytes() == nothing[name].tobytes() for name in fedavg)


def test_with_one_it_is_not(fedprox, small_shards):
    fedavg, proximal = (weights_of(n, small_shards) for n in ("fedavg", "fedprox:METHOD"))
    assert all(not np.array_equal(fedavg[name], proximal[name]) for name in fedavg)


@pytest.fixture(scope="module")
def silo(small_shards):
    """Without dropout, so that nothing but the batches is left to chance."""
    graph = small_shards[0]
    spec = LearningSpec(
        features=graph.feature_count,
        classes=graph.classes,
        model=ModelSpec(hidden=8, dropout=0),
        training=TrainingSpec(batch_size=8, local_epochs=2),
    )
    return Silo(0, graph, spec, torch.device("cpu"))


def test_a_round_is_sgd_on_the_sum_of_both_losses(fedprox, silo):
    mu, spec = 0.7, silo.spec.training
    model, expected = silo.classifier(), silo.classifier()
    start = [weight.detach().clone() for weight in expected.parameters()]
    fedprox.ProximalTraining(mu)(model, silo, Seeds(3))

    sampler = NeighbourSampler(silo.graph, spec.fanout, silo.spec.model.layers)
    nodes, rng = silo.graph.members(Part.TRAIN), Seeds(3).stream("sampling")
    optimiser = torch.optim.SGD(expected.parameters(), lr=spec.learning_rate)
    for ego in sampler.batches(nodes, spec.batch_size, rng, spec.local_epochs):
        optimiser.zero_grad()
        loss = cross_entropy(expected(silo.table, ego), silo.labels[ego.targets])
        pairs = zip(expected.parameters(), start, strict=True)
        (loss + mu / 2 * sum((w - s).square().sum() for w, s in pairs)).backward()
        optimiser.step()
    terms = rounds_terms(silo.spec, len(nodes))
    assert_weights_agree(to_arrays(model), to_arrays(expected), terms=terms)


def test_a_larger_term_stays_nearer_to_what_was_sent(fedprox, silo):
    sent, far, near = (silo.classifier() for _ in range(3))
    fedprox.ProximalTraining(0.01)(far, silo, Seeds(3))
    fedprox.ProximalTraining(5.0)(near, silo, Seeds(3))
    sent, far, near = map(to_arrays, (sent, far, near))
    assert 0 < moved(sent, near) < 0.5 * moved(sent, far)


# Where it stands.


def test_its_name_is_where_it_was_found(fedprox, small_shards):
    method = find_method("fedprox:STRONG")
    assert method.name == "fedprox:STRONG"
    assert method.phases == fedprox.STRONG.phases
    spec = contract.spec_of(method, small_shards)
    assert pipeline.run(spec, small_shards, workers=1).record["method"] == "fedprox:STRONG"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fedprix:METHOD", "No module named 'fedprix'; .* PYTHONPATH"),
        ("broken:METHOD", "cannot import broken .* ZeroDivisionError"),
        (":METHOD", "cannot import"),
        ("fedprox:NOBODY", r"expected a Method at fedprox:NOBODY \(got NoneType\)"),
        ("fedprox:fedprox", r"\(got function\)"),
        ("__main__:METHOD", "a module that can be imported"),
    ],
)
def test_a_method_that_is_not_there_is_refused_with_the_reason(fedprox, name, message):
    with pytest.raises(InputError, match=message):
        find_method(name)


def test_the_package_s_table_is_left_alone(fedprox):
    find_method("fedprox:METHOD")
    assert not any("fedprox" in name for name in METHODS)


@pytest.mark.slow
def test_the_document_s_commands_run_in_worker_processes(folder):
    assert len(COMMANDS) == 3
    for line in COMMANDS:
        variable, program, *words = shlex.split(line)
        assert (variable, program) == ("PYTHONPATH=.", "feddep")
        words[words.index("--rounds") + 1] = "2"
        done = subprocess.run(
            [Path(sys.executable).with_name("feddep"), *words, *SMALL],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join((".", *PATHS)), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    (report,) = folder.glob("runs/compare-*/report.md")
    assert "| fedprox:METHOD |" in report.read_text()


def test_its_settings_can_be_tuned(fedprox, tmp_path):
    fedprox.TUNABLE = replace(fedprox.METHOD, preset_of=None)
    tuning = Tuning.declare("fedprox:TUNABLE", "synthetic", folder=tmp_path)
    assert tuning.results.name == "fedprox-TUNABLE-synthetic.jsonl"
