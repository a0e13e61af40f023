"""What comes out of Flower's simulation: the run's own errors as they are, its own as ours."""

import os
from typing import Any

import pytest

from feddep.errors import InputError, RuntimeFailureError
from feddep.runtime.flower import ClientApp
from feddep.runtime.flower import simulation as module
from feddep.runtime.flower.simulation import QUIET, simulate

GRID: Any = object()


@pytest.fixture
def flower(monkeypatch) -> dict[str, Any]:
    """Flower's simulation as a call of the server's part; what it was told is noted."""
    told: dict[str, Any] = {"calls": True}

    def run_simulation(server_app, client_app, silos, backend_config):
        told.update(silos=silos, **backend_config)
        if "error" in told:
            raise told["error"]
        if told["calls"]:
            server_app._main(GRID, None)

    monkeypatch.setattr(module, "run_simulation", run_simulation)
    monkeypatch.setattr(module.os, "environ", {})
    return told


def run(main, address: str | None = None) -> None:
    simulate(main, ClientApp(), silos=5, cores=2, address=address)


def test_the_server_s_part_gets_the_grid_and_nothing_calls_home(flower):
    seen = []
    run(seen.append)
    assert seen == [GRID]
    assert flower["silos"] == 5
    assert flower["init_args"] == {
        "address": "local",  # never a cluster that somebody else has started
        "num_cpus": 2,
        "include_dashboard": False,
        "log_to_driver": False,
    }
    assert {name: os.environ[name] for name in QUIET} == QUIET


def test_a_cluster_that_runs_already_is_used(flower):
    run(lambda grid: None, address="10.0.0.1:6379")
    assert flower["init_args"] == {"address": "10.0.0.1:6379"}


@pytest.mark.parametrize("error", [InputError("no such method"), KeyboardInterrupt()])
def test_an_error_of_the_run_comes_as_it_is(flower, error):
    def main(_):
        raise error

    with pytest.raises(type(error)) as caught:
        run(main)
    assert caught.value is error


def test_a_failure_of_the_simulation_is_named(flower):
    flower["error"] = ValueError("no ray")
    with pytest.raises(RuntimeFailureError, match="simulation failed: no ray"):
        run(lambda grid: None)


def test_a_simulation_that_ends_early_is_a_failure(flower):
    flower["calls"] = False
    with pytest.raises(RuntimeFailureError, match="ended before the run did"):
        run(lambda grid: None)
