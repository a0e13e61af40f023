"""Server and silos as real processes: TLS, node keys, and what happens when parts of it die."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from cluster import FEDDEP, Cluster, CountingProxy, Program, feddep, free_port

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("federation"), silos=3)
    cluster.prepare()
    cluster.start()
    yield cluster
    cluster.stop()


def in_process(cluster: Cluster, spec: Path) -> Path:
    """The same run on one machine; one for each spec."""
    from feddep.experiments.folder import RunFolder
    from feddep.experiments.pipeline import run
    from feddep.scenario.build import build, resolve
    from feddep.scenario.spec import RunSpec, read_settings

    out = cluster.folder / f"here-{spec.stem}"
    if not out.exists():
        given = read_settings(spec)
        asked = resolve(RunSpec().with_settings(given), given)
        folder = RunFolder.claim(out, asked, resume=False)
        run(asked, build(asked), workers=1, folder=folder)
    return out


def assert_same(one: Path, other: Path) -> None:
    mine, theirs = (load_file(path / "model.safetensors") for path in (one, other))
    assert mine.keys() == theirs.keys()
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)
    records = [json.loads((path / "record.json").read_text()) for path in (one, other)]
    assert records[0]["traffic"] == records[1]["traffic"]


def record_of(path: Path) -> dict:
    return json.loads((path / "record.json").read_text())


def wait_for_rounds(folder: Path, rounds: int, program: Program) -> None:
    """Until the history has so many rounds."""
    until = time.monotonic() + 300
    file = folder / "history.jsonl"
    while not file.exists() or len(file.read_text().splitlines()) < rounds:
        assert program.process.poll() is None, program.log.read_text()[-2000:]
        assert time.monotonic() < until
        time.sleep(0.05)


def test_five_rounds_of_feddep_give_what_they_give_in_process(cluster):
    spec = cluster.spec(rounds=5)
    said = cluster.finish(cluster.federate(spec, "five"))
    assert (cluster.folder / "five" / "record.json").exists(), said
    assert_same(cluster.folder / "five", in_process(cluster, spec))
    assert record_of(cluster.folder / "five")["federation"]["left_out"] == []
    for number in range(3):
        state = cluster.silo(number) / "state"
        done = feddep("ledger", "verify", state / "ledger.jsonl")
        assert done.returncode == 0, done.stderr
        results = list((state / "results").glob("*/model.safetensors"))
        assert results


def test_silos_that_are_killed_in_mid_round_come_back_and_nothing_differs(cluster):
    """One of them has lost its memory of the run as well, and is told again."""
    spec = cluster.spec(rounds=2)
    program = cluster.federate(spec, "killed-silos")
    wait_for_rounds(cluster.folder / "killed-silos", 1, program)
    for number in (1, 2):
        cluster.running[number].kill()
    for run in (cluster.silo(2) / "state" / "runs").iterdir():
        for file in run.iterdir():
            file.unlink()
    cluster.start_silos({1: (), 2: ()})
    said = cluster.finish(program)
    assert (cluster.folder / "killed-silos" / "record.json").exists(), said
    assert_same(cluster.folder / "killed-silos", in_process(cluster, spec))


def test_a_server_that_is_killed_between_rounds_goes_on(cluster):
    spec = cluster.spec(rounds=2)
    program = cluster.federate(spec, "killed-server")
    wait_for_rounds(cluster.folder / "killed-server", 1, program)
    cluster.server.kill()
    program.kill()
    assert not (cluster.folder / "killed-server" / "record.json").exists()
    cluster.start_server()
    said = cluster.finish(cluster.federate(spec, "killed-server", "--resume"))
    assert (cluster.folder / "killed-server" / "record.json").exists(), said
    assert_same(cluster.folder / "killed-server", in_process(cluster, spec))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_a_run_whose_starter_is_stopped_goes_on_when_it_is_resumed(cluster, number, code):
    """Ended kindly, it stops the server's part too; if it is killed, that ends at the latest then.

    SIGTERM is to it what Ctrl-C is, and cannot have been switched off by whoever runs the tests.
    """
    out = f"stopped-{number.name}"
    spec = cluster.spec(rounds=5)  # so that it is not over before it hears of it
    program = cluster.federate(spec, out)
    wait_for_rounds(cluster.folder / out, 1, program)
    program.process.send_signal(number)
    assert program.process.wait(60) == code
    if number is signal.SIGTERM:
        assert "--resume" in program.log.read_text()
        time.sleep(10)  # as long as all rounds take, and longer
        assert not (cluster.folder / out / "record.json").exists()
    said = cluster.finish(cluster.federate(spec, out, "--resume"))
    assert (cluster.folder / out / "record.json").exists(), said
    assert_same(cluster.folder / out, in_process(cluster, spec))


def test_a_poisoned_reply_is_left_out(cluster):
    cluster.running[0].kill()
    cluster.start_silo(0, sys.executable, "-P", HERE / "poisoned.py", cluster.silo(0) / "silo.toml")
    try:
        said = cluster.finish(cluster.federate(cluster.spec(rounds=2), "poisoned"))
    finally:
        cluster.running[0].kill()
        cluster.start_silo(0)
    assert (cluster.folder / "poisoned" / "record.json").exists(), said
    left = record_of(cluster.folder / "poisoned")["federation"]["left_out"]
    assert {entry["silo"] for entry in left} == {"bank-0"}
    assert "finite" in left[0]["reason"]
    weights = load_file(cluster.folder / "poisoned" / "model.safetensors")
    assert all(np.isfinite(array).all() for array in weights.values())


def test_a_run_that_a_silo_does_not_consent_to_is_refused_by_name(cluster):
    program = cluster.federate(cluster.spec(rounds=11), "too-many")
    said = cluster.finish(program)
    assert program.process.returncode == 2, said
    assert "rounds: training takes 11 rounds, allowed: at most 10" in said
    program = cluster.federate(cluster.spec("fedgsl"), "unlisted")
    said = cluster.finish(program)
    assert program.process.returncode == 2, said
    assert "methods: the method is fedgsl" in said


def test_an_unregistered_key_is_refused(cluster, tmp_path):
    done = feddep(
        "deploy", "init", tmp_path / "kit", "--host", "localhost", "--port", str(cluster.port),
        "--silo", "stranger", "--no-proxy",
    )  # fmt: skip
    assert done.returncode == 0
    own = tmp_path / "kit" / "silos" / "stranger"
    (own / "ca.crt").write_bytes((cluster.silo(0) / "ca.crt").read_bytes())
    (own / "data").symlink_to(cluster.silo(0) / "data")
    program = Program("stranger", tmp_path / "log", FEDDEP, "silo", own / "silo.toml")
    program.process.wait(120)
    assert program.process.returncode == 2
    assert "the server does not know this key" in program.log.read_text()


def test_flower_itself_refuses_an_unregistered_key(cluster, tmp_path, monkeypatch):
    from feddep.deployment.certificates import key_openssh, new_key

    monkeypatch.setenv("PATH", str(Path(FEDDEP).parent), prepend=os.pathsep)
    key = tmp_path / "stranger.key"
    key.write_bytes(key_openssh(new_key()))
    key.chmod(0o600)
    command = [
        str(Path(FEDDEP).with_name("flower-supernode")),
        *("--root-certificates", str(cluster.silo(0) / "ca.crt")),
        *("--superlink", f"localhost:{cluster.port}"),
        *("--auth-supernode-private-key", str(key)),
        *("--port", str(free_port())),
    ]
    program = Program("stranger", tmp_path / "log", *command)
    program.process.wait(120)
    assert program.process.returncode != 0
    assert "Exit Code: 305" in program.log.read_text()


def test_bytes_on_the_wire(tmp_path):
    cluster = Cluster(tmp_path, silos=2)
    cluster.prepare()
    proxy = CountingProxy(cluster.port)
    for number in range(2):
        cluster.change(number, f"localhost:{cluster.port}", f"localhost:{proxy.port}")
    try:
        cluster.start()
        spec = cluster.spec("fedavg", rounds=2, hidden=2048)
        said = cluster.finish(cluster.federate(spec, "wire"))
    finally:
        cluster.stop()
        proxy.close()
    assert (tmp_path / "wire" / "record.json").exists(), said
    model = (tmp_path / "wire" / "model.safetensors").stat().st_size
    assert model > 1_000_000
    traffic = record_of(tmp_path / "wire")["traffic"]
    metered = traffic["up_bytes"] + traffic["down_bytes"] + 2 * model  # each silo gets the result
    print(f"model {model}, metered {metered}, on the wire {proxy.bytes}")
    assert proxy.bytes <= 1.05 * metered
