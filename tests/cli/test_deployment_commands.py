"""The commands for several machines: what they print, their exit codes, and what they leave."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from calls import Feddep, Outcome
from feddep.deployment.operations import doctor, programs, silo_programs
from feddep.deployment.operations.checks import Check
from feddep.deployment.operations.kit import Kit, init, read_kit
from feddep.deployment.protocol.disclosure_log import DisclosureLog
from feddep.deployment.protocol.federate import RUN_NAME
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import InterruptedRunError
from feddep.federation.messages import Reply
from feddep.scenario.spec import RunSpec

SPEC = 'method = "fedavg"\npreset = "paper"\n[partition]\nclients = 2\n[training]\nrounds = 2\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Kit:
    folder = tmp_path_factory.mktemp("commands") / "kit"
    return init(folder, hosts=["localhost"], silos=["a"], port=9, proxy=False)


@pytest.fixture
def kit(made, tmp_path) -> Kit:
    return read_kit(Path(shutil.copytree(made.folder, tmp_path / "kit")))


class TestDeploy:
    def test_init_makes_a_kit_and_says_what_to_do_with_it(self, feddep):
        done = feddep(
            *("deploy", "init", "kit", "--host", "fl.example.org", "--port", 4711),
            *("--silo", "bank-a", "--silo", "bank-b", "--days", 30),
        )
        assert done.code == 0
        kit = read_kit(Path("kit"))
        assert set(kit.silos) == {"bank-a", "bank-b"}
        for said in (str(kit.server), "(bank-b)", "fl.example.org:4711", kit.fingerprint):
            assert said in done.out
        assert f"{kit.until:%Y-%m-%d}" in done.out
        assert "keep ca/ offline" in done.err

    @pytest.mark.parametrize(
        "wrong", [("--silo", "../a"), ("--silo", "a", "--silo", "a"), ("--silo", "a", "--port", 0)]
    )
    def test_init_with_nonsense_leaves_nothing(self, feddep, wrong):
        done = feddep("deploy", "init", "kit", "--host", "localhost", *wrong)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: ")
        assert list(Path().iterdir()) == []

    def test_init_does_not_overwrite(self, feddep, kit):
        done = feddep("deploy", "init", "kit", "--host", "localhost", "--silo", "b")
        assert done.code == 2
        assert set(read_kit(Path("kit")).silos) == {"a"}

    def test_add(self, feddep, kit):
        done = feddep("deploy", "add", "kit", "bank-c")
        assert done.code == 0
        for said in ("kit/silos/bank-c", "kit/server/silos/bank-c.pub"):
            assert said in done.out
            assert Path(said).exists()
        assert feddep("deploy", "add", "kit", "bank-c").code == 2

    def test_renew(self, feddep, kit):
        done = feddep("deploy", "renew", "kit", "--days", 400, "--host", "fl.example.org")
        assert done.code == 0
        after = read_kit(Path("kit"))
        assert after.until > kit.until
        assert "fl.example.org" in after.hosts
        assert done.out == f"{after.server / 'server.pem'}: valid until {after.until:%Y-%m-%d}\n"

    @pytest.mark.parametrize("command", [("add", "nowhere", "x"), ("renew", "nowhere")])
    def test_without_a_kit(self, feddep, command):
        assert feddep("deploy", *command).code == 2


class TestDisclosures:
    @pytest.fixture
    def log(self, tmp_path) -> DisclosureLog:
        disclosures = DisclosureLog(tmp_path / "disclosures.jsonl")
        for round in range(3):
            reply = Reply(0, {"classifier/bias": np.zeros(2)}, {"loss": 0.5})
            disclosures.append(
                run="run", phase="averaging", step="train", round=round, reply=reply, epsilon=None
            )
        return disclosures

    @pytest.mark.parametrize("command", ["disclosures", "ledger"])
    def test_an_unbroken_one(self, feddep, log, command):
        done = feddep(command, "verify", "disclosures.jsonl")
        number, digest = log.head()
        assert done.code == 0
        assert done.out == f"3 lines of 1 run, 48 bytes: unbroken\nhead {number}:{digest}\n"

    def test_a_head_that_was_noted(self, feddep, log):
        number, digest = log.head()
        assert feddep("disclosures", "verify", log.path, "--head", f"{number}:{digest}").code == 0
        done = feddep("disclosures", "verify", log.path, "--head", f"{number}:{'0' * 64}")
        assert done.code == 2
        assert "the log was rewritten" in done.err
        done = feddep("disclosures", "verify", log.path, "--head", f"9:{digest}")
        assert done.code == 2
        assert "lines were cut off" in done.err

    @pytest.mark.parametrize("head", ["", "3", "3:", ":abc", "three:abc", "-3:abc"])
    def test_a_head_that_is_none(self, feddep, log, head):
        done = feddep("disclosures", "verify", log.path, "--head", head)
        assert done.code == 2
        assert "--head is NUMBER:HASH" in done.err

    def test_a_broken_one(self, feddep, log):
        text = log.path.read_text()
        log.path.write_text(text.replace('"round":1', '"round":7'))
        done = feddep("disclosures", "verify", log.path)
        assert (done.code, done.out) == (2, "")
        assert "line 2 has a wrong hash" in done.err

    def test_none_at_all(self, feddep):
        assert feddep("disclosures", "verify", "nowhere.jsonl").code == 2


class TestDoctor:
    def diagnosed(self, monkeypatch, *checks: Check) -> None:
        monkeypatch.setattr(doctor, "diagnose", lambda config: list(checks))

    def test_all_is_well(self, feddep, monkeypatch):
        self.diagnosed(monkeypatch, Check("clock", True, "0 s ahead of the server's"))
        done = feddep("doctor", "silo.toml")
        assert (done.code, done.err) == (0, "")
        assert "0 s ahead" in done.out

    def test_a_warning_is_no_fault(self, feddep, monkeypatch):
        soon = Check("certificate", True, "20 days left", "renew it")
        self.diagnosed(monkeypatch, soon, Check("port", None, "not asked"))
        done = feddep("doctor", "server.toml")
        assert done.code == 0
        for said in ("warning", "certificate: renew it", "not checked"):
            assert said in done.out

    def test_a_fault(self, feddep, monkeypatch):
        bad = Check("key", False, "no key", "take it from the kit")
        self.diagnosed(monkeypatch, Check("clock", True, "right"), bad)
        done = feddep("doctor", "silo.toml")
        assert done.code == 2
        assert "FAULT" in done.out
        assert "key: take it from the kit" in done.out
        assert "1 of 2 checks found a fault" in done.err

    def test_without_a_server(self, feddep, kit):
        done = feddep("doctor", kit.silos["a"] / "silo.toml")
        assert done.code == 2
        assert "Traceback" not in done.out + done.err

    def test_without_a_file(self, feddep):
        assert feddep("doctor", "nowhere.toml").code == 2


class TestFederate:
    @pytest.fixture(autouse=True)
    def spec(self, tmp_path) -> Path:
        (tmp_path / "spec.toml").write_text(SPEC)
        return tmp_path / "spec.toml"

    @pytest.fixture
    def federate(self, feddep, kit) -> Feddep:
        def call(*options: object) -> Outcome:
            return feddep("federate", "spec.toml", "--config", "kit/server/server.toml", *options)

        return call

    @pytest.fixture
    def server(self, monkeypatch) -> SimpleNamespace:
        """A server that answers; runs end with what it is told to leave."""
        server = SimpleNamespace(calls=[], record=RECORD, error=None, names=[])

        def run_on_silos(config, folder, *told):
            server.calls.append(told)
            name = folder / RUN_NAME
            if not name.exists():
                name.write_text(json.dumps({"run": f"run-{len(server.calls)}"}))
            server.names.append(json.loads(name.read_text())["run"])
            if server.error is not None:
                raise server.error
            (folder / "record.json").write_text(json.dumps(server.record))
            return server.record

        monkeypatch.setattr(programs, "answers", lambda config: True)
        monkeypatch.setattr(programs, "run_on_silos", run_on_silos)
        return server

    def test_without_a_server_it_says_how_to_start_one(self, federate):
        done = federate("--out", "run")
        assert done.code == 1
        assert done.err == (
            "error: the server does not answer at 127.0.0.1:9; start it with "
            "`feddep server kit/server/server.toml`\n"
        )
        assert done.out == ""
        assert not Path("run").exists()
        assert not Path("kit/server/state/runs").exists()

    @pytest.mark.parametrize(
        "wrong",
        [
            ("--quorum", 0),
            ("--quorum", 1.5),
            ("--quorum", "nan"),
            ("--grace", 0),
            ("--wait", -1),
            ("--resend", 0),
            ("--crossings", "nowhere.safetensors"),
        ],
    )
    def test_nonsense_is_refused_before_anything_else(self, federate, server, wrong):
        done = federate("--out", "run", *wrong)
        assert done.code == 2
        assert wrong[0].removeprefix("--") in done.err
        assert not Path("run").exists()
        assert server.calls == []

    def test_a_spec_that_is_none(self, federate, server, spec):
        spec.write_text("colour = 3\n")
        assert "unknown setting 'colour'" in federate().err
        spec.unlink()
        assert federate().code == 2
        assert server.calls == []

    def test_a_run(self, federate, server):
        done = federate("--out", "run", "--quorum", 0.5, "--grace", 7, "--largest-norm", 3)
        assert done.code == 0, done.err
        assert "test accuracy, own silo" in done.out
        assert done.err == (
            "bank-b was left out of averaging, round 1: no answer within 7 s\nstored in run\n"
        )
        assert server.calls == [(WaitPolicy(quorum=0.5, grace=7), 3.0, None)]
        stored = RunSpec.read(Path("run/spec.toml"))
        assert (stored.method, stored.partition.clients) == ("fedavg", 2)

    def test_by_default_it_is_stored_in_the_server_s_state(self, federate, server):
        assert federate().code == 0
        (folder,) = Path("kit/server/state/runs").iterdir()
        assert (folder / "record.json").exists()

    def test_again_is_another_run_and_resumed_is_the_same(self, federate, server):
        server.error = InterruptedRunError("1 of 2 silos answered")
        assert federate("--out", "run").code == 130
        assert federate("--out", "run", "--resume").code == 130
        server.error = None
        assert federate("--out", "run", "--resume").code == 0
        assert federate("--out", "run", "--resume").code == 0
        assert server.names == ["run-1", "run-1", "run-1"], "what is finished is not run again"
        assert federate("--out", "run").code == 0
        assert server.names[3:] == ["run-4"]

    def test_a_preset_that_has_changed_does_not_change_a_run_that_has_begun(
        self, federate, server, spec, monkeypatch, tmp_path_factory
    ):
        file = tmp_path_factory.mktemp("presets") / "presets.toml"
        monkeypatch.setattr("feddep.scenario.presets.FILE", file)
        server.error = InterruptedRunError("1 of 2 silos answered")
        file.write_text("")
        spec.write_text(SPEC.replace('"paper"', '"tuned"'))
        assert federate("--out", "run").code == 130
        Path("run/checkpoint.bin").touch()
        before = RunSpec.read(Path("run/spec.toml"))
        file.write_text('[tuned.fedavg.synthetic]\n"model.hidden" = 4\n')
        server.error = None
        assert federate("--out", "run", "--resume").code == 0
        assert RunSpec.read(Path("run/spec.toml")) == before


RECORD: dict[str, Any] = {
    "method": "fedavg",
    "dataset": "silos",
    "clients": 2,
    "rounds": 2,
    "seed": 0,
    "split": "given",
    "partition": "given",
    "preset": "paper",
    "best_round": 1,
    "scores": {
        "global": {"test": None, "val": None, "test_last": None},
        "silo": {"test": 0.5, "val": 0.5},
    },
    "seconds": {"total": 1.0, "phases": {"averaging": 1.0}, "measuring": 0.0},
    "traffic": {"up_bytes": 8, "down_bytes": 8, "phases": {}},
    "privacy": {
        "mechanism": "none",
        "verdict": "none",
        "sound": {"epsilon": None, "delta": 1.0, "verdict": "none"},
        "silos": [],
    },
    "federation": {
        "silos": ["bank-a", "bank-b"],
        "left_out": [
            {
                "client": 1,
                "silo": "bank-b",
                "phase": "averaging",
                "round": 1,
                "reason": "no answer within 7 s",
            }
        ],
    },
}


class Ended:
    """A program that was started and has ended."""

    def __init__(self, *told: object) -> None:
        self.running = self
        type(self).told = told

    def __enter__(self) -> "Ended":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def wait(self) -> int:
        return 3


class TestStarting:
    def test_a_server_that_ends_is_a_failure(self, feddep, kit, monkeypatch):
        monkeypatch.setattr(programs, "Server", Ended)
        done = feddep("server", kit.server / "server.toml")
        assert done.code == 1
        assert done.err == "the server is ready\nerror: the server ended with exit code 3\n"

    def test_so_is_a_silo_that_ends(self, feddep, kit, monkeypatch):
        monkeypatch.setattr(silo_programs, "Silo", Ended)
        done = feddep("silo", kit.silos["a"] / "silo.toml")
        assert done.code == 1
        assert "the silo is ready\nerror: the silo ended with exit code 3" in done.err
        assert Ended.told == (kit.silos["a"] / "silo.toml",)

    def test_a_silo_with_other_data(self, feddep, kit, monkeypatch):
        monkeypatch.setattr(silo_programs, "Silo", Ended)
        feddep("silo", kit.silos["a"] / "silo.toml", "--data", "elsewhere")
        assert Ended.told == (kit.silos["a"] / "state" / "silo.toml",)

    @pytest.mark.parametrize("command", ["server", "silo"])
    def test_without_a_file(self, feddep, command):
        done = feddep(command)
        assert done.code == 2
        assert f"cannot read {command}.toml" in done.err


class TestRuntime:
    def test_nonsense_is_refused(self, feddep):
        done = feddep("run", "--runtime", "nonsense")
        assert done.code == 2
        assert "unknown runtime 'nonsense'; known: flower-sim, in-process" in done.err
        assert list(Path().iterdir()) == []

    @pytest.mark.parametrize("method", ["global", "oracle"])
    def test_what_is_no_federation_is_refused(self, feddep, method):
        done = feddep("run", "--runtime", "flower-sim", "--method", method)
        assert done.code == 2
        assert f"{method} cannot run on Flower" in done.err
        assert list(Path().iterdir()) == []
