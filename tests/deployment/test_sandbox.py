"""What a program in the sandbox can still do, tried by real programs."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from feddep.deployment.operations import sandbox
from feddep.deployment.operations.sandbox import Sandbox
from feddep.errors import RuntimeFailureError

needs_landlock = pytest.mark.skipif(
    not sandbox.version(), reason="this kernel has no Landlock, so there is no sandbox to try"
)
TRY = """
import json, os, socket, sys
from pathlib import Path

def tried(do):
    try:
        do()
    except OSError as error:
        return type(error).__name__
    return "done"

folder, port, other, parent = Path(sys.argv[1]), *map(int, sys.argv[2:])
print(json.dumps({
    "read": tried(lambda: (folder / "shown").read_text()),
    "read secret": tried(lambda: (folder / "secret").read_text()),
    "list": tried(lambda: os.listdir(folder)),
    "write": tried(lambda: (folder / "own" / "new").write_text("x")),
    "write elsewhere": tried(lambda: (folder / "new").write_text("x")),
    "append to the secret": tried(lambda: (folder / "secret").open("a").write("x")),
    "link": tried(lambda: os.link(folder / "secret", folder / "own" / "link")),
    "through a link": tried(lambda: (folder / "own" / "symbolic").read_text()),
    "memory": tried(lambda: open(f"/proc/{parent}/mem", "rb").close()),
    "environment": tried(lambda: open(f"/proc/{parent}/environ", "rb").read(1)),
    "connect": tried(lambda: socket.create_connection(("127.0.0.1", port), 2)),
    "connect elsewhere": tried(lambda: socket.create_connection(("127.0.0.1", other), 2)),
    "kill": tried(lambda: os.kill(parent, 0)),
}))
"""


@needs_landlock
def test_only_what_is_named_can_be_reached(tmp_path):
    for name in ("shown", "secret"):
        (tmp_path / name).write_text(name)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "symbolic").symlink_to(tmp_path / "secret")
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("", 0)) as two:
        ports = [s.getsockname()[1] for s in (one, two)]
        box = Sandbox(
            read=(str(tmp_path / "shown"),), write=(str(tmp_path / "own"),), connect=(ports[0],)
        )
        command = [sys.executable, "-c", TRY, str(tmp_path), *map(str, ports), str(os.getpid())]
        outside = json.loads(subprocess.check_output(command))
        (tmp_path / "own" / "link").unlink()
        inside = json.loads(subprocess.check_output(box.around(command)))
    assert set(outside.values()) == {"done"}, "the attempts themselves are right"
    allowed = {"read", "write", "connect"}
    if sandbox.version() < 4:
        allowed |= {"connect elsewhere"}
    if sandbox.version() < 6:
        allowed |= {"kill"}
    assert {name for name, result in inside.items() if result == "done"} == allowed


@needs_landlock
def test_installed_programs_can_be_run_in_it(tmp_path):
    command = [sys.executable, "-P", "-c", "import feddep.deployment.operations.client_app"]
    done = subprocess.run(Sandbox().around(command), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@needs_landlock
def test_what_is_not_there_needs_no_rule(tmp_path):
    box = Sandbox(read=(str(tmp_path / "nowhere"),), write=(str(tmp_path / "neither"),))
    assert subprocess.run(box.around([sys.executable, "-c", ""]), check=False).returncode == 0


def test_without_the_kernel_s_help_the_command_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(sandbox, "version", lambda: 0)
    assert Sandbox().around(["a", "b"]) == ["a", "b"]
    with pytest.raises(RuntimeFailureError, match="no Landlock"):
        sandbox.enter(Sandbox())


def test_another_system_has_none(monkeypatch):
    monkeypatch.setattr(sandbox.sys, "platform", "darwin")
    assert sandbox.version() == 0


def test_no_folder_that_holds_more_than_programs_is_opened():
    home = Path.home().resolve()
    opened = [Path(path).resolve() for path in sandbox.programs()]
    assert Path("/") not in opened
    assert Path("/etc") not in opened
    assert home not in opened
