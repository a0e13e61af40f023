"""Flower's simulation on Ray: with many silos, and with a large model."""

import json
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest
from cluster import feddep, free_port

from feddep.runs.records import without_times
from missing import RAY

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason=RAY)


def simulated(out: Path, *options: str, **environment: str) -> dict:
    done = feddep(
        "run", "--runtime", "flower-sim", "--preset", "paper", "--json", "--out", out, *options,
        env=os.environ | environment, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_a_hundred_silos_finish_a_round(tmp_path):
    record = simulated(
        tmp_path / "run", "--method", "feddep", "--clients", "100", "--rounds", "1",
        "--set", "synthetic.nodes=3000", "--set", "embedding.epochs=1",
        "--set", "generator.epochs=1", "--set", "embedding.width=16",
    )  # fmt: skip
    assert record["clients"] == 100


def test_ten_silos_finish_a_round_with_a_model_of_ten_megabytes(tmp_path):
    record = simulated(
        tmp_path / "run", "--method", "fedavg", "--clients", "10", "--rounds", "1",
        "--set", "model.hidden=1000",
    )  # fmt: skip
    assert (tmp_path / "run" / "model.safetensors").stat().st_size > 10_000_000
    assert record["clients"] == 10


@pytest.fixture
def machines(tmp_path):
    """A Ray cluster of two machines, here of processes; with one core each, so both are needed."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, include_dashboard=False)
        yield cluster.address
    finally:
        cluster.shutdown()


def test_silos_on_two_machines_give_what_silos_in_one_process_give(machines, tmp_path):
    options = (
        "--method", "feddep", "--clients", "4", "--rounds", "2", "--set", "embedding.epochs=2",
        "--set", "generator.epochs=2", "--set", "embedding.width=16",
    )  # fmt: skip
    there = simulated(tmp_path / "there", *options, RAY_ADDRESS=machines)
    here = feddep("run", "--preset", "paper", "--json", "--out", tmp_path / "here", *options)
    known = without_times(json.loads(here.stdout))
    assert known["generation"] is not None
    # The silos keep their memories.
    assert without_times(there) == known | {"generation": None, "measures": None}
    one, other = (tmp_path / name / "model.safetensors" for name in ("here", "there"))
    assert one.read_bytes() == other.read_bytes()


def test_a_cluster_that_somebody_else_has_started_is_left_alone(tmp_path):
    """Ray notes the address of the last cluster started on a machine; this one is gone."""
    place = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # its sockets need short paths
    try:
        noted = place / "ray" / "ray_current_cluster"
        noted.parent.mkdir()
        noted.write_text(f"127.0.0.1:{free_port()}")
        record = simulated(
            tmp_path / "run", "--method", "fedavg", "--clients", "2", "--rounds", "1",
            "--set", "synthetic.nodes=300", RAY_TMPDIR=str(place),
        )  # fmt: skip
    finally:
        shutil.rmtree(place, ignore_errors=True)
    assert record["clients"] == 2


@pytest.mark.parametrize("method", ["global", "oracle"])
def test_what_is_no_federation_is_refused_by_name(method, tmp_path):
    done = feddep("run", "--runtime", "flower-sim", "--method", method, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert f"{method} cannot run on Flower" in done.stderr
    assert not (tmp_path / "run").exists()
