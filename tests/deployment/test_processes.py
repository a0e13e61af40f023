"""Other programs: their environment, and how they end."""

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

from feddep.deployment.operations.processes import OFFLINE, end_process, environment


class TestEnvironment:
    def test_flower_neither_reports_nor_installs(self, tmp_path):
        found = environment(tmp_path)
        assert {name: found[name] for name in OFFLINE} == {
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        }

    def test_whatever_the_user_has_set(self, tmp_path, monkeypatch):
        monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "1")
        monkeypatch.setenv("FLWR_HOME", "/elsewhere")
        found = environment(tmp_path)
        assert found["FLWR_TELEMETRY_ENABLED"] == "0"
        assert found["FLWR_HOME"] == str(tmp_path / "flwr")

    def test_programs_of_this_installation_come_first(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PATH", "/usr/bin")
        own = str(Path(sys.executable).parent)
        assert environment(tmp_path)["PATH"].split(os.pathsep) == [own, "/usr/bin"]
        monkeypatch.delenv("PATH")
        assert environment(tmp_path)["PATH"].startswith(own)


def test_a_process_that_does_not_listen_is_killed(monkeypatch):
    process = subprocess.Popen(["sh", "-c", "trap '' TERM; exec sleep 60"])
    time.sleep(0.05)
    wait, calls = process.wait, itertools.count()

    def impatient(seconds: float | None = None) -> int:
        if next(calls) == 0:
            raise subprocess.TimeoutExpired("sh", seconds or 0)
        return wait(seconds)

    monkeypatch.setattr(process, "wait", impatient)
    end_process(process)
    assert process.returncode is not None
