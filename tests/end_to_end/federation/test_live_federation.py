"""Server and silos as real processes: TLS, node keys, and what happens when parts of it die."""

import json
import os
import sys
import time
from pathlib import Path

import malicious_app
import numpy as np
from cluster import FEDDEP, Program, feddep, free_port
from run_comparison import assert_same, in_process, record_of, wait_for_rounds
from safetensors.numpy import load_file

from feddep.deployment.operations import programs
from feddep.deployment.operations.config import ServerConfig

HERE = Path(__file__).parent


def test_five_rounds_of_feddep_give_what_they_give_in_process(cluster):
    spec = cluster.spec(rounds=5)
    said = cluster.finish(cluster.federate(spec, "five"))
    assert (cluster.folder / "five" / "record.json").exists(), said
    assert_same(cluster.folder / "five", in_process(cluster, spec))
    assert record_of(cluster.folder / "five")["federation"]["left_out"] == []
    for number in range(3):
        state = cluster.silo(number) / "state"
        done = feddep("disclosures", "verify", state / "disclosures.jsonl")
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


def test_a_poisoned_reply_is_left_out(cluster):
    cluster.running[0].kill()
    config = cluster.silo(0) / "silo.toml"
    cluster.start_silo(0, sys.executable, "-P", HERE / "poisoning_silo.py", config)
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
    from feddep.deployment.operations.certificates import key_openssh, new_key

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


def test_an_app_that_the_control_interface_sends_is_not_run(cluster, tmp_path):
    """Whoever reaches the control interface, as the server's operator does, can send any app."""
    app, out = malicious_app.write(tmp_path / "app"), tmp_path / "said.json"
    own = cluster.silo(0)
    wanted = [own / "data" / "edges.csv", own / "consent.toml", own / "bank-0.key"]
    settings = tmp_path / "settings.toml"
    settings.write_text(f'out = "{out}"\nwanted = "{":".join(map(str, wanted))}"\n')
    config = ServerConfig.read(cluster.server_file)
    done = programs.flwr(config, "run", str(app), "feddep", "--run-config", str(settings))
    assert done.returncode == 0, done.stderr
    until = time.monotonic() + 300
    while not out.exists():
        assert time.monotonic() < until
        time.sleep(0.5)
    said = json.loads(out.read_text())
    assert len(said) == 3
    for one in said:
        assert "expected a feddep envelope" in one.get("header", {}).get("json", ""), said
    for number in range(3):
        folder = cluster.silo(number) / "state" / "node" / "messages"
        assert not list(folder.rglob("*malicious*")), "not even unpacked"
