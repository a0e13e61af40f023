"""Starting the parts: what Flower's programs are told, what they may see, and who waits for whom.

Flower's programs are small shell scripts here, which note how they were called.
"""

import itertools
import os
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from flwr.common.config import parse_config_args
from tls_server import listening

from feddep.deployment.operations import programs
from feddep.deployment.operations.checks import Check
from feddep.deployment.operations.config import ServerConfig, SiloConfig
from feddep.deployment.operations.kit import Kit, init, read_kit
from feddep.deployment.operations.programs import (
    NUMBER,
    OFFLINE,
    TROUBLE,
    Server,
    Silo,
    answers,
    environment,
    with_data,
)
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import InputError, InterruptedRunError, RuntimeFailureError

PORT = 9  # nobody listens there


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Kit:
    folder = tmp_path_factory.mktemp("programs") / "kit"
    return init(folder, hosts=["localhost"], silos=["a", "b"], port=PORT, proxy=False)


@pytest.fixture
def kit(made, tmp_path) -> Kit:
    """A copy: state is a test's own."""
    return read_kit(Path(shutil.copytree(made.folder, tmp_path / "kit")))


@pytest.fixture
def config(kit) -> ServerConfig:
    return ServerConfig.read(kit.server / "server.toml")


@pytest.fixture
def silo_file(kit) -> Path:
    return kit.silos["a"] / "silo.toml"


def changed(config: ServerConfig, **fields) -> ServerConfig:
    return config.model_copy(update=fields)


class Scripts:
    """Programs that stand in for Flower's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        folder.mkdir()
        self.log.touch()

    def add(self, name: str, then: str) -> None:
        file = self.folder / name
        file.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.log}\n{then}\n')
        file.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def scripts(tmp_path, monkeypatch) -> Scripts:
    scripts = Scripts(tmp_path / "bin")
    path = f"{scripts.folder}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setattr(programs, "environment", lambda state: {"PATH": path})
    return scripts


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    quick = SimpleNamespace(sleep=lambda seconds: time.sleep(0.005), monotonic=time.monotonic)
    monkeypatch.setattr(programs, "time", quick)


def done(code: int = 0, out: str = "", err: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.CompletedProcess([], code, out, err)


def is_running(pid: int) -> bool:
    """Whether there is such a process; one that has ended and waits for its parent is none."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


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


class TestAnswers:
    def test_nobody_is_there(self, config):
        assert answers(config) is False

    def test_the_server_is_there(self, config, kit):
        with listening(kit.server, lambda *_: (200, {}, b"")) as port:
            assert answers(changed(config, port=port)) is True
            assert answers(changed(config, port=port, host="0.0.0.0")) is True

    def test_somebody_else_is_there(self, config, tmp_path):
        stranger = init(tmp_path / "other", hosts=["localhost"], silos=["x"], proxy=False)
        with listening(stranger.server, lambda *_: (200, {}, b"")) as port:
            assert answers(changed(config, port=port)) is False

    def test_without_the_authority_s_certificate_nothing_can_be_said(self, config):
        with pytest.raises(InputError, match=r"cannot read the certificate .*missing\.crt"):
            answers(changed(config, ca=config.ca.with_name("missing.crt")))


def test_other_data_make_another_file(silo_file, tmp_path):
    silo_file.write_text(silo_file.read_text().replace("secret = true", "secret = false"))
    before = SiloConfig.read(silo_file)
    own = with_data(silo_file, tmp_path / 'a "folder"')
    after = SiloConfig.read(own)
    assert own == before.state / "silo.toml"
    assert after.data == tmp_path / 'a "folder"'
    assert after.model_dump(exclude={"data"}) == before.model_dump(exclude={"data"})


class TestFlwr:
    def test_it_is_told_where_the_server_is(self, config, monkeypatch):
        calls = []

        def run(command, **options):
            calls.append((command, options["env"]["FLWR_HOME"], options["check"]))
            return done()

        monkeypatch.setattr(programs.subprocess, "run", run)
        programs.flwr(changed(config, host="::", port=4711), "ls")
        home = config.state / "flwr"
        assert calls == [(["flwr", "ls"], str(home), False)]
        written = tomllib.loads((home / "config.toml").read_text())["superlink"]
        assert written["default"] == "feddep"
        assert written["feddep"] == {
            "address": "[::1]:4711",
            "root-certificates": str(config.ca),
        }


class TestServer:
    @pytest.fixture
    def there(self, monkeypatch):
        monkeypatch.setattr(programs, "answers", lambda config: True)

    @pytest.fixture
    def registered(self, monkeypatch) -> list[tuple[str, ...]]:
        calls: list[tuple[str, ...]] = []
        monkeypatch.setattr(programs, "flwr", lambda config, *a: calls.append(a) or done())
        return calls

    def test_without_a_silo_s_key_it_does_not_start(self, config, scripts):
        for key in config.silos.iterdir():
            key.unlink()
        with (
            pytest.raises(InputError, match="expected the silos' public keys"),
            Server(config),
        ):
            pass
        assert scripts.calls == []

    def test_who_is_no_longer_listed_is_not_remembered(self, config, scripts, there, registered):
        scripts.add("flower-superlink", "exec sleep 60")
        memory = config.state / "flower.db"
        config.state.mkdir(exist_ok=True)
        memory.write_text("every key so far")
        with Server(config):
            assert memory.exists()
        next(config.silos.glob("*.pub")).unlink()
        (config.silos / "another.pub").write_text("another key")
        with Server(config):
            assert not memory.exists()

    def test_before_it_is_started_there_is_no_process(self, config):
        server = Server(config)
        server.stop()
        with pytest.raises(RuntimeFailureError, match="not started"):
            _ = server.running

    def test_it_starts_with_keys_and_certificates_and_lets_the_silos_in(
        self, config, scripts, there, registered
    ):
        scripts.add("flower-superlink", "exec sleep 60")
        with Server(config) as server:
            assert server.running.poll() is None
            while not scripts.calls:
                time.sleep(0.002)
        assert server.running.returncode is not None
        (call,) = scripts.calls
        for words in (
            f"--ssl-ca-certfile {config.ca}",
            f"--ssl-certfile {config.certificate} --ssl-keyfile {config.key}",
            f"--host {config.host} --port {PORT}",
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
        ):
            assert words in call
        keys = [str(config.silos / f"{name}.pub") for name in "ab"]
        assert [(call[:2], call[2], call[-1]) for call in registered] == [
            (("supernode", "register"), keys[0], "a"),
            (("supernode", "register"), keys[1], "b"),
        ]
        assert config.state.stat().st_mode & 0o777 == 0o700

    def test_one_that_ends_at_once_says_so(self, config, scripts, monkeypatch):
        monkeypatch.setattr(programs, "answers", lambda config: False)
        scripts.add("flower-superlink", "exit 3")
        with pytest.raises(RuntimeFailureError, match=r"code 3;.*feddep doctor"), Server(config):
            pass

    def test_one_that_never_answers_is_ended(self, config, scripts, monkeypatch):
        monkeypatch.setattr(programs, "answers", lambda config: False)
        monkeypatch.setattr(programs, "_START_SECONDS", 0.05)
        scripts.add("flower-superlink", "exec sleep 60")
        server = Server(config)
        with pytest.raises(RuntimeFailureError, match="did not answer within"), server:
            pass
        assert server.running.returncode is not None

    @pytest.mark.parametrize(
        ("said", "fails"), [("public key already in use", False), ("no such key", True)]
    )
    def test_a_silo_that_is_known_already_stays_so(
        self, config, scripts, there, monkeypatch, said, fails
    ):
        monkeypatch.setattr(programs, "flwr", lambda config, *a: done(1, err=said))
        scripts.add("flower-superlink", "exec sleep 60")
        server = Server(config)
        if fails:
            with pytest.raises(RuntimeFailureError, match="register the silo a: no such key"):
                server.__enter__()
        else:
            with server:
                pass
        assert server.running.returncode is not None


class TestSilo:
    """The daemon is a script too: it makes its socket and goes on until told."""

    @pytest.fixture
    def daemon(self, scripts) -> list[str]:
        scripts.add("daemon", 'touch "$2"; exec sleep 60')
        return [str(scripts.folder / "daemon")]

    @pytest.fixture(autouse=True)
    def unasked(self, monkeypatch):
        self.known = Check("registration", None, "nobody was asked")
        monkeypatch.setattr(programs, "registration", lambda server, config: self.known)

    def test_its_node_is_told_where_the_daemon_listens(self, silo_file, scripts, daemon):
        scripts.add("flower-supernode", "exec sleep 60")
        with Silo(silo_file, daemon):
            while len(scripts.calls) < 2:
                time.sleep(0.002)
        first, node = scripts.calls
        address = first.split()[-1]
        assert first.split()[1] == str(silo_file)
        config = SiloConfig.read(silo_file)
        assert f"--superlink localhost:{PORT} " in node
        assert f"--root-certificates {config.ca} " in node
        assert f"--auth-supernode-private-key {config.key} " in node
        told = parse_config_args([node.split("--node-config ")[1]])
        assert told == {"socket": address}
        assert not Path(address).parent.exists(), "the place is gone with the silo"

    def test_a_key_that_the_server_does_not_know_is_refused_at_once(
        self, silo_file, scripts, daemon
    ):
        self.known = Check("registration", False, "unknown key", "ask the operator")
        with pytest.raises(InputError, match="unknown key: ask the operator"):
            Silo(silo_file, daemon).__enter__()
        assert scripts.calls == []

    def test_a_daemon_that_cannot_start_ends_it(self, silo_file, scripts):
        scripts.add("daemon", "exit 1")
        with pytest.raises(InputError, match="the silo cannot start"):
            Silo(silo_file, [str(scripts.folder / "daemon")]).__enter__()
        assert len(scripts.calls) == 1, "no node without a daemon"

    def test_a_daemon_that_is_never_ready_is_ended(self, silo_file, scripts, monkeypatch):
        monkeypatch.setattr(programs, "_START_SECONDS", 0.05)
        scripts.add("daemon", "exec sleep 60")
        silo = Silo(silo_file, [str(scripts.folder / "daemon")])
        with pytest.raises(RuntimeFailureError, match="the silo was not ready within"):
            silo.__enter__()
        assert [process.returncode is not None for process in silo.processes] == [True]

    def test_a_node_that_ends_is_started_again(self, silo_file, scripts):
        three = f"[ $(grep -c supernode {scripts.log}) -ge 3 ]"
        scripts.add("flower-supernode", f"{three} && exec sleep 60; exit 3")
        scripts.add("daemon", f'touch "$2"; until {three}; do sleep 0.01; done; exit 5')
        with Silo(silo_file, [str(scripts.folder / "daemon")]) as silo:
            assert silo.wait() == 5, "the daemon's end is the silo's"
        assert len(scripts.calls) == 4

    def test_but_not_for_ever(self, silo_file, scripts, daemon, monkeypatch):
        monkeypatch.setattr(programs, "_SIGN_IN_SECONDS", 0.0)
        scripts.add("flower-supernode", "exit 3")
        with Silo(silo_file, daemon) as silo:
            assert silo.wait() == 3

    def test_its_parts_end_with_it_even_if_it_is_killed(self, silo_file, scripts, daemon):
        script = f"""
import sys, time
from pathlib import Path
from feddep.deployment.operations import programs
programs.registration = lambda *_: type("Known", (), {{"ok": True}})
with programs.Silo(Path({str(silo_file)!r}), {daemon!r}) as silo:
    print(*(process.pid for process in silo.processes), flush=True)
    time.sleep(60)
"""
        starter = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
        )
        parts = [int(pid) for pid in starter.stdout.readline().split()]
        assert len(parts) == 2
        starter.kill()
        starter.wait()
        until = time.monotonic() + 10
        while any(is_running(pid) for pid in parts) and time.monotonic() < until:
            time.sleep(0.02)
        assert [is_running(pid) for pid in parts] == [False, False]

    def test_a_process_that_does_not_listen_is_killed(self, monkeypatch):
        process = subprocess.Popen(["sh", "-c", "trap '' TERM; exec sleep 60"])
        time.sleep(0.05)
        wait, calls = process.wait, itertools.count()

        def impatient(seconds: float | None = None) -> int:
            if next(calls) == 0:
                raise subprocess.TimeoutExpired("sh", seconds or 0)
            return wait(seconds)

        monkeypatch.setattr(process, "wait", impatient)
        programs.end_process(process)
        assert process.returncode is not None


class TestRunOnSilos:
    @pytest.fixture
    def folder(self, tmp_path) -> Path:
        folder = tmp_path / 'a "run", so to say'
        folder.mkdir()
        return folder

    def run(self, config, folder, monkeypatch, leaves: dict[str, str], crossings=None):
        told = []

        def flwr(config, *arguments):
            told.append([*arguments])
            if arguments[0] == "run":
                self.settings = parse_config_args([arguments[-1]])
                return done(0, out='{"success": true, "run-id": "17"}')
            for name, text in leaves.items():
                (folder / name).write_text(text)
            return done(1, err="x" * 2000 + "last words")

        monkeypatch.setattr(programs, "flwr", flwr)
        try:
            return programs.run_on_silos(config, folder, WaitPolicy(quorum=0.5), 9, crossings)
        finally:
            self.told = told

    def test_what_it_is_told(self, config, folder, monkeypatch):
        record = self.run(config, folder, monkeypatch, {"record.json": '{"scores": {}}'})
        assert record == {"scores": {}}
        (command, app, connection, *_), waited = self.told
        assert (command, connection) == ("run", "feddep")
        assert waited == ["log", "17", "feddep"]
        declared = tomllib.loads((Path(app) / "pyproject.toml").read_text())["tool"]["flwr"]["app"]
        assert declared["components"] == {
            "serverapp": "feddep.deployment.operations.server_app:app",
            "clientapp": "feddep.deployment.operations.client_app:app",
        }
        told = self.settings
        assert told.keys() == declared["config"].keys()
        assert {name: type(value) for name, value in told.items()} == {
            name: type(value) for name, value in declared["config"].items()
        }
        assert (told["folder"], told["quorum"], told["largest-norm"]) == (str(folder), 0.5, 9.0)
        assert [file.name for file in folder.iterdir()] == ["record.json"]

    def test_who_stops_it_stops_the_server_s_part_too(self, config, folder, monkeypatch):
        told = []

        def flwr(config, *arguments):
            told.append([*arguments])
            if arguments[0] == "log":
                raise KeyboardInterrupt
            return done(0, out='{"run-id": "17"}')

        monkeypatch.setattr(programs, "flwr", flwr)
        with pytest.raises(InterruptedRunError, match="command with --resume"):
            programs.run_on_silos(config, folder, WaitPolicy(), 9)
        assert told[-1] == ["stop", "17", "feddep"]

    def test_a_run_whose_starter_was_killed_is_stopped_first(self, config, folder, monkeypatch):
        (folder / NUMBER).write_text("16\n")
        self.run(config, folder, monkeypatch, {"record.json": '{"scores": {}}'})
        assert [command for command, *_ in self.told] == ["stop", "run", "log"]
        assert self.told[0] == ["stop", "16", "feddep"]
        assert not (folder / NUMBER).exists()

    @pytest.mark.parametrize("said", ["", "no such app", '{"success": false, "run-id": null}'])
    def test_a_run_that_the_server_does_not_take(self, config, folder, monkeypatch, said):
        monkeypatch.setattr(programs, "flwr", lambda *_: done(1, out=said, err="no such app"))
        with pytest.raises(RuntimeFailureError, match=r"accept the run\. Flower says: no such app"):
            programs.run_on_silos(config, folder, WaitPolicy(), 9)
        assert list(folder.iterdir()) == []

    def test_crossings_are_told_by_their_full_path(self, config, folder, monkeypatch):
        monkeypatch.chdir(folder)
        leaves = {"record.json": '{"scores": {}}'}
        self.run(config, folder, monkeypatch, leaves, Path("edges.safetensors"))
        assert self.settings["crossings"] == str(folder / "edges.safetensors")

    @pytest.mark.parametrize(
        ("kind", "error"),
        [
            ("InputError", InputError),
            ("InterruptedRunError", InterruptedRunError),
            ("ConsentError", RuntimeFailureError),
            ("nonsense", RuntimeFailureError),
        ],
    )
    def test_trouble_is_told_as_it_was(self, config, folder, monkeypatch, kind, error):
        with pytest.raises(error, match="two of three\nare there") as caught:
            self.run(config, folder, monkeypatch, {TROUBLE: f"{kind}\ntwo of three\nare there\n"})
        assert type(caught.value) is error
        assert not (folder / TROUBLE).exists()

    def test_old_trouble_is_forgotten(self, config, folder, monkeypatch):
        (folder / TROUBLE).write_text("InputError\nof yesterday\n")
        with pytest.raises(InterruptedRunError) as caught:
            self.run(config, folder, monkeypatch, {})
        assert "--resume to continue" in str(caught.value)
        assert str(caught.value).endswith("last words")
        assert len(str(caught.value)) < 1000


def test_whoever_only_starts_others_does_not_load_torch():
    """It takes seconds, and a federation on one machine starts a dozen programs."""
    code = "import sys, feddep.deployment.operations.programs; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode == 0
