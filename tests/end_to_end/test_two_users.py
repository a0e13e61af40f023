"""What somebody who runs code in Flower's place at a silo can get: nothing but a socket.

The daemon runs as one user. The attacker runs as the other, once inside the sandbox of Flower's
programs and once after having got out of it.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from two_users import NODE, SILO, WHY_NOT, as_user, given

from feddep.deployment.operations import sandbox
from feddep.deployment.operations.kit import init
from feddep.deployment.operations.sandbox import Sandbox
from feddep.graph.folder import write_graph

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]

ATTACK = """
import json, os, sys
from pathlib import Path
from feddep.deployment.operations.silo_socket import ask
from feddep.errors import FeddepError
from feddep.runtime.envelope import Envelope

folder, address, pid = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
harmless = sys.argv[4] == "harmless"
unlisted = {"kind": "agree", "run": "x", "spec": "method = 'fedgsl'", "client": 0}

def tried(do):
    try:
        return str(do())[:80]
    except (OSError, FeddepError) as error:
        return None

def everything(folder):
    return [str(path) for path in folder.rglob("*")] or None

files = [*sys.argv[5:]]
got = {name: tried(lambda: (folder / name).read_bytes()) for name in files}
got["list"] = tried(lambda: os.listdir(folder))
got["change the consent"] = tried(lambda: (folder / "consent.toml").open("a").write("#"))
got["its memory"] = tried(lambda: open(f"/proc/{pid}/mem", "rb"))
got["its environment"] = tried(lambda: open(f"/proc/{pid}/environ", "rb").read())
got["its files"] = tried(lambda: os.listdir(f"/proc/{pid}/fd"))
if not harmless:
    got["end it"] = tried(lambda: os.kill(pid, 15))
    got["take its socket's place"] = tried(lambda: os.rename(address, address + ".old"))
print(json.dumps({
    "got": {name: value for name, value in got.items() if value is not None},
    "hello": dict(ask(address, Envelope({"kind": "hello"})).header),
    "asks": dict(ask(address, Envelope(unlisted)).header),
}))
"""
needs_landlock = pytest.mark.skipif(
    not sandbox.version(), reason="this kernel has no Landlock; `feddep doctor` says so, too"
)
HELD = sandbox.version() >= 6  # before, Landlock did not stop signals
GUARDED = ("data/edges.csv", "data/manifest.json", "state/secret", "a.key", "consent.toml")


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Not under pytest's folder, which is root's alone."""
    folder = Path(tempfile.mkdtemp(prefix="feddep-users-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def silo(place: Path, small_graph) -> Iterator[tuple[Path, str, int]]:
    """A running silo of the kit: its folder, its socket, and the number of its daemon."""
    kit = init(place / "kit", hosts=["localhost"], silos=["a"], port=18999)
    folder, meeting = place / "silo", place / "run"
    shutil.move(kit.silos["a"], folder)
    write_graph(small_graph, folder / "data")
    meeting.mkdir()
    address = str(meeting / "socket")
    given(folder, SILO)
    given(meeting, SILO)
    meeting.chmod(0o711)
    program = "from two_users_daemon import main; main()"
    command = [sys.executable, "-c", program, str(folder / "silo.toml"), address]
    own = {"PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])}
    own["NUMBA_CACHE_DIR"] = str(folder / "state" / "numba")
    daemon = subprocess.Popen(as_user(SILO, *command, group=NODE), env=os.environ | own, cwd="/")
    until = time.monotonic() + 120
    while not Path(address).exists():
        assert daemon.poll() is None
        assert time.monotonic() < until
        time.sleep(0.1)
    yield folder, address, daemon.pid
    daemon.terminate()
    daemon.wait(20)


def attacked(silo: tuple[Path, str, int], user: int, kind: str, box: Sandbox | None = None):
    """What the attacker found, as a user, perhaps in a sandbox."""
    folder, address, pid = silo
    assert all((folder / name).exists() for name in GUARDED), "there is something to be had"
    arguments = [str(folder), address, str(pid), kind, *GUARDED]
    command = [sys.executable, "-c", ATTACK, *arguments]
    return json.loads(said_by(user, box.around(command) if box else command))


def said_by(user: int, command: list[str], group: int | None = None, fails: bool = False) -> str:
    own = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        as_user(user, *command, group=group),
        env=os.environ | own,
        capture_output=True,
        text=True,
        cwd="/",
        check=False,
    )
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


@pytest.mark.parametrize("confined", [False, pytest.param(True, marks=needs_landlock)])
def test_an_attacker_in_flower_s_place_gets_nothing(silo, place, confined):
    own = place / f"node-{confined}"
    own.mkdir()
    given(own, NODE)
    box = Sandbox(write=(str(own),)) if confined else None
    found = attacked(silo, NODE, "in earnest", box)
    assert found["got"] == {}
    assert found["hello"]["name"] == "a", "the socket is all there is, and it answers"
    assert "methods: the method is fedgsl" in found["asks"]["refused"], "consent is asked"


def test_the_same_attack_by_the_silo_s_own_user_gets_it_all(silo):
    """So the attack is right, and it is the user that stands in its way."""
    found = attacked(silo, SILO, "harmless")["got"]
    assert {*GUARDED, "list", "change the consent", "its environment"} <= found.keys()


@needs_landlock
def test_the_sandbox_alone_keeps_the_silo_s_own_user_off(silo, place):
    """As in a trial, where Flower's programs run as the user that holds the data."""
    found = attacked(silo, SILO, "in earnest" if HELD else "harmless", Sandbox())["got"]
    assert found == {}


@pytest.mark.parametrize("group", [None, NODE])
def test_a_third_user_is_not_let_in(silo, group):
    code = (
        "import sys; from feddep.deployment.operations.silo_socket import ask;"
        "from feddep.runtime.envelope import Envelope;"
        "ask(sys.argv[1], Envelope({'kind': 'hello'}))"
    )
    command = [sys.executable, "-c", code, silo[1]]
    assert "does not answer" in said_by(NODE + 1, command, group, fails=True)
