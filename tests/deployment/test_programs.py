"""Starting the parts: what Flower's programs are told, what they may see, and who waits for whom.

Flower's programs are small shell scripts here, which note how they were called.
"""

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
from stand_ins import Scripts
from tls_server import listening

from feddep.deployment.operations import programs
from feddep.deployment.operations.config import ServerConfig
from feddep.deployment.operations.kit import Kit, init, read_kit
from feddep.deployment.operations.programs import (
    NUMBER,
    TROUBLE,
    Server,
    answers,
)
from feddep.deployment.protocol.registry import Registered, read_registry
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import InputError, InterruptedRunError, RuntimeFailureError

A = Registered("a", "ab12")
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


def changed(config: ServerConfig, **fields) -> ServerConfig:
    return config.model_copy(update=fields)


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
        monkeypatch.setattr(programs, "registry_of", lambda database, known: {7: A})

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

    def test_who_is_not_listed_is_removed_before_it_starts(
        self, config, scripts, there, registered, monkeypatch, caplog
    ):
        scripts.add("flower-superlink", "exec sleep 60")
        seen = []

        def strangers(database, known):
            seen.append((database, sorted(known.values()), [*scripts.calls]))
            return ["mallory"]

        monkeypatch.setattr(programs, "remove_strangers", strangers)
        with Server(config):
            assert [*read_registry(config.state / "registry.json").values()] == [A]
        assert seen == [(config.state / "flower.db", ["a", "b"], [])]
        assert "whose key is not in" in caplog.text
        assert "mallory" in caplog.text

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
        lines = r"two of three\nare there" if error.has_lines else r"two of three\\nare there"
        with pytest.raises(error, match=lines) as caught:
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
