"""The server's program for Flower: it runs what the folder asks for, and writes down trouble."""

import fcntl
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from feddep.deployment.operations import server_app
from feddep.deployment.operations.programs import TROUBLE
from feddep.deployment.operations.server_app import LOCK, main
from feddep.deployment.protocol.registry import Registered, write_registry
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import InputError
from feddep.runtime.flower.channel import FlowerChannel
from feddep.scenario.spec import RunSpec

SPEC = RunSpec(method="fedavg", seed=3)
REGISTRY = {7: Registered("bank-a", "ab12")}


@pytest.fixture
def config(tmp_path) -> dict[str, Any]:
    (tmp_path / "spec.toml").write_text(SPEC.to_toml())
    write_registry(tmp_path / "registry.json", REGISTRY)
    seconds = {"grace": 2.0, "wait": 3.0, "resend": 4.0}
    return {
        "folder": str(tmp_path),
        "crossings": "",
        "heads": "",
        "registry": str(tmp_path / "registry.json"),
        "quorum": 0.5,
        "largest-norm": 9.0,
        **seconds,
    }


@pytest.fixture
def called(monkeypatch) -> dict[str, Any]:
    told: dict[str, Any] = {}

    def federate(channel, spec, folder, **options):
        told.update(channel=channel, spec=spec, folder=folder, **options)
        if "error" in told:
            raise told["error"]

    monkeypatch.setattr(server_app, "federate", federate)
    return told


def run(config: dict[str, Any]) -> None:
    main(None, SimpleNamespace(run_config=config))


def test_it_runs_the_folder_s_spec(config, called, tmp_path):
    run(config)
    assert isinstance(called["channel"], FlowerChannel)
    assert called["spec"] == SPEC
    assert called["folder"].path == tmp_path
    assert called["wait_policy"] == WaitPolicy(quorum=0.5, grace=2, wait=3, resend=4)
    assert called["largest_norm"] == 9.0
    assert called["registry"] == REGISTRY
    assert called["known"] == {}
    assert not (tmp_path / TROUBLE).exists()


def test_edges_between_silos_are_the_server_s_knowledge(config, called, tmp_path):
    rows = np.array([[0, 1, 2]])
    save_file({"0": rows}, tmp_path / "crossings")
    run(config | {"crossings": str(tmp_path / "crossings")})
    assert np.array_equal(called["known"]["crossings/0"], rows)


def test_trouble_is_written_down_for_whoever_started_it(config, called, tmp_path):
    called["error"] = InputError("client 1 refuses the run: no")
    with pytest.raises(InputError):
        run(config)
    assert (tmp_path / TROUBLE).read_text() == "InputError\nclient 1 refuses the run: no\n"


@pytest.mark.parametrize("wrong", [{"quorum": 3.0}, {"crossings": "/nowhere"}])
def test_so_is_trouble_with_what_it_was_told(config, called, tmp_path, wrong):
    with pytest.raises(InputError):
        run(config | wrong)
    assert (tmp_path / TROUBLE).read_text().startswith("InputError\n")


def test_and_a_crossings_file_that_is_none(config, called, tmp_path):
    (tmp_path / "crossings").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="crossings"):
        run(config | {"crossings": str(tmp_path / "crossings")})


def test_a_folder_in_which_another_server_works_is_left_alone(
    config, called, tmp_path, monkeypatch
):
    monkeypatch.setattr(server_app, "_LOCK_SECONDS", 0.0)
    with (tmp_path / LOCK).open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another server is running"):
            run(config)
        assert "channel" not in called
    run(config)
    assert "channel" in called


def test_a_folder_that_the_server_cannot_write_is_named(config, called):
    with pytest.raises(InputError, match="the server cannot write to /nowhere/at/all"):
        run(config | {"folder": "/nowhere/at/all"})
    assert "channel" not in called


def test_without_the_list_of_keys_nobody_is_asked(config, called, tmp_path):
    (tmp_path / "registry.json").unlink()
    with pytest.raises(InputError, match="says whose key is whose"):
        run(config)
    assert not called
