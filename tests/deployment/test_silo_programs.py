"""A silo's programs: what each is told, what it may see, and who ends with whom."""

import os
import pwd
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from flwr.common.config import parse_config_args
from flwr.supercore.constant import TASK_TYPE_TO_COMMAND, TaskType
from stand_ins import Scripts

from feddep.deployment.operations import sandbox, silo_programs
from feddep.deployment.operations.checks import Check
from feddep.deployment.operations.config import NodeConfig, SiloConfig
from feddep.deployment.operations.kit import Kit, init
from feddep.deployment.operations.silo_programs import Node, Silo, with_data
from feddep.errors import InputError, RuntimeFailureError

PORT = 9  # nobody listens there


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Kit:
    folder = tmp_path_factory.mktemp("programs") / "kit"
    return init(folder, hosts=["localhost"], silos=["a"], port=PORT, proxy=False)


@pytest.fixture
def silo_file(made, tmp_path) -> Path:
    """In a copy: state is a test's own."""
    return Path(shutil.copytree(made.silos["a"], tmp_path / "a")) / "silo.toml"


@pytest.fixture
def scripts(tmp_path, monkeypatch) -> Scripts:
    scripts = Scripts(tmp_path / "bin")
    path = f"{scripts.folder}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setattr(silo_programs, "environment", lambda state: {"PATH": path})
    monkeypatch.setattr(sandbox, "version", lambda: 0)  # it would not let the scripts be read
    scripts.add("flower-superexec", "exec /bin/sleep 60")  # its PATH is our own programs
    return scripts


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    quick = SimpleNamespace(sleep=lambda seconds: time.sleep(0.005), monotonic=time.monotonic)
    monkeypatch.setattr(silo_programs, "time", quick)


def test_other_data_make_another_file(silo_file, tmp_path):
    silo_file.write_text(silo_file.read_text().replace("secret = true", "secret = false"))
    before = SiloConfig.read(silo_file)
    own = with_data(silo_file, tmp_path / 'a "folder"')
    after = SiloConfig.read(own)
    assert own == before.state / "silo.toml"
    assert after.data == tmp_path / 'a "folder"'
    assert after.model_dump(exclude={"data"}) == before.model_dump(exclude={"data"})


def is_running(pid: int) -> bool:
    """Whether there is such a process; one that has ended and waits for its parent is none."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


class TestSilo:
    """The daemon is a script too: it makes its socket and goes on until told."""

    @pytest.fixture
    def daemon(self, scripts) -> list[str]:
        scripts.add("daemon", 'touch "$2"; exec sleep 60')
        return [str(scripts.folder / "daemon")]

    @pytest.fixture(autouse=True)
    def unasked(self, monkeypatch):
        self.known = Check("registration", None, "nobody was asked")
        monkeypatch.setattr(silo_programs, "registration", lambda server, config: self.known)

    def test_its_node_is_told_where_the_daemon_listens(self, silo_file, scripts, daemon):
        scripts.add("flower-supernode", "exec sleep 60")
        with Silo(silo_file, daemon) as silo:
            while len(scripts.calls) < 3:
                time.sleep(0.002)
            assert len(silo.processes) == 3
        first, *others = scripts.calls
        node, starter = sorted(others, key=lambda call: call.startswith("flower-superexec"))
        address = first.split()[-1]
        assert first.split()[1] == str(silo_file)
        config = SiloConfig.read(silo_file)
        assert f"--superlink localhost:{PORT} " in node
        assert f"--root-certificates {config.ca} " in node
        assert f"--auth-supernode-private-key {config.key} " in node
        assert " --isolation process " in node, "or else it would start apps in its own sandbox"
        secret = config.state / "node" / "runtime.secret"
        port = node.split("--port ")[1].split()[0]
        assert starter.split()[1:] == [
            *("--insecure", "--runtime-api-address", f"127.0.0.1:{port}"),
            *("--superexec-auth-secret-file", str(secret)),
        ]
        assert f"--superexec-auth-secret-file {secret} " in node
        assert secret.stat().st_mode & 0o777 == 0o600
        told = parse_config_args([node.split("--node-config ")[1]])
        assert told == {"socket": address}
        assert not Path(address).parent.exists(), "the place is gone with the silo"

    def test_a_message_s_program_is_told_nothing_of_the_operator_s_environment(
        self, silo_file, scripts, daemon, monkeypatch
    ):
        monkeypatch.setenv("A_TOKEN", "of the operator")
        scripts.add("flower-supernode", "exec sleep 60")
        dump = scripts.folder / "dump"
        scripts.add(
            "flower-superexec",
            f"/usr/bin/env > {dump}.part; /bin/mv {dump}.part {dump}; exec /bin/sleep 60",
        )
        with Silo(silo_file, daemon):
            while not dump.exists():
                time.sleep(0.002)
        found = dict(line.split("=", 1) for line in dump.read_text().splitlines())
        node = SiloConfig.read(silo_file).state / "node"
        assert "A_TOKEN" not in found
        assert found["PATH"] == str(node / "bin")
        assert found["FLWR_HOME"] == found["HOME"] == str(node / "messages")

    def test_what_flower_starts_for_a_message_is_ours_and_nothing_else(
        self, silo_file, scripts, daemon
    ):
        scripts.add("flower-supernode", "exec sleep 60")
        with Silo(silo_file, daemon):
            folder = SiloConfig.read(silo_file).state / "node" / "bin"
            started = {file.name: file.read_text() for file in folder.iterdir()}
        assert started.pop("flwr-clientapp").endswith(f'{silo_programs.ONE_MESSAGE[-1]} "$@"\n')
        assert started.keys() == {
            TASK_TYPE_TO_COMMAND[kind] for kind in TaskType if kind is not TaskType.CLIENT_APP
        }, "every kind of program that this version of Flower may start"
        assert all("exit 1" in text for text in started.values())

    def test_with_a_user_for_flower_only_the_daemon_starts(self, silo_file, scripts, daemon):
        address = silo_file.parent / "socket"
        me = pwd.getpwuid(os.getuid()).pw_name
        with silo_file.open("a") as file:
            file.write(f'node_user = "{me}"\nsocket = "socket"\n')
        address.touch()  # a killed one left it
        with Silo(silo_file, daemon) as silo:
            assert len(silo.processes) == 1
        assert [call.split()[1:] for call in scripts.calls] == [[str(silo_file), str(address)]]

    def test_the_node_alone(self, silo_file, scripts, tmp_path):
        scripts.add("flower-supernode", "exec sleep 60")
        values = {"name": "a", "server": "localhost:9", "ca": "ca.crt", "key": "a.key"}
        rows = values | {"socket": "/run/x", "state": "elsewhere"}
        file = silo_file.with_name("node.toml")
        file.write_text("".join(f'{name} = "{value}"\n' for name, value in rows.items()))
        config = NodeConfig.read(file)
        with Node.alone(config) as node:
            assert node.ended() is None
        assert node.ended() is not None
        self.known = Check("registration", False, "unknown key", "ask the operator")
        with pytest.raises(InputError, match="unknown key"):
            Node.alone(config)

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
        monkeypatch.setattr(silo_programs, "_START_SECONDS", 0.05)
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
        assert sum("supernode" in call for call in scripts.calls) == 3

    def test_but_not_for_ever(self, silo_file, scripts, daemon, monkeypatch):
        monkeypatch.setattr(silo_programs, "_SIGN_IN_SECONDS", 0.0)
        scripts.add("flower-supernode", "exit 3")
        with Silo(silo_file, daemon) as silo:
            assert silo.wait() == 3

    def test_its_parts_end_with_it_even_if_it_is_killed(self, silo_file, scripts, daemon):
        script = f"""
import sys, time
from pathlib import Path
from feddep.deployment.operations import silo_programs
silo_programs.registration = lambda *_: type("Known", (), {{"ok": True}})
with silo_programs.Silo(Path({str(silo_file)!r}), {daemon!r}) as silo:
    print(*(process.pid for process in silo.processes), flush=True)
    time.sleep(60)
"""
        starter = subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
        )
        parts = [int(pid) for pid in starter.stdout.readline().split()]
        assert len(parts) == 3
        until = time.monotonic() + 10
        while len(scripts.calls) < 1 and time.monotonic() < until:
            time.sleep(0.02)
        starter.kill()
        starter.wait()
        until = time.monotonic() + 10
        while any(is_running(pid) for pid in parts) and time.monotonic() < until:
            time.sleep(0.02)
        assert [is_running(pid) for pid in parts] == [False] * 3
