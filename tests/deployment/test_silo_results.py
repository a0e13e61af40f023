"""What a silo has after a federation can be opened: its model, and its subgraph mended as then."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from direct_channel import DirectChannel, services

import feddep
from feddep.algorithms import METHODS, find_method
from feddep.deployment.protocol import remote_runtime
from feddep.deployment.protocol.federate import federate
from feddep.errors import DataError, InputError, RuntimeFailureError
from feddep.graph.shard import Shards
from feddep.reports.run_page import write_run_page
from feddep.runs import pipeline
from feddep.runs.folder import RunFolder
from feddep.runs.result import Result
from feddep.runtime.envelope import Undelivered
from feddep.scenario.build import initial_server_state
from feddep.scenario.spec import RunSpec
from small_runs import spec_of

ONE_OF_EACH_KIND = ["local", "fedavg", "fedsage", "fedgnn", "fedgraph", "fedgsl", "feddep"]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(remote_runtime.time, "sleep", lambda seconds: None)


def small_spec(name: str, shards: Shards, **settings: object) -> RunSpec:
    usual = {"training.rounds": 5, "training.learning_rate": 0.4, "generator.refresh": 2}
    return spec_of(find_method(name), shards, **(usual | settings))


def here(spec: RunSpec, shards: Shards) -> Result:
    return pipeline.run(spec, shards, workers=1, device="cpu")


class Federation:
    """Three silos with folders for their results, and a server."""

    def __init__(self, spec: RunSpec, shards: Shards, folder: Path, **options: object) -> None:
        self.spec, self.shards, self.folder = spec, shards, folder
        silos = [replace(silo, results=folder / silo.name, **options) for silo in services(shards)]
        self.channel = DirectChannel(silos)

    def run(self, *, resume: bool = False) -> None:
        known = initial_server_state(self.shards, METHODS[self.spec.method])
        with RunFolder.claim(self.folder / "server", self.spec, resume=resume) as folder:
            federate(self.channel, self.spec, folder, known=known)

    def results(self, client: int) -> Path:
        (found,) = (self.folder / f"silo-{client}").iterdir()
        return found

    def opened(self, client: int) -> Result:
        return feddep.open_run(self.results(client))


def silo_scores(results: list[Result], shards: Shards) -> dict[str, float]:
    """Of all silos together, each predicting for its own graph from its own folder."""
    right, total = {"val": 0, "test": 0}, {"val": 0, "test": 0}
    for client, (result, graph) in enumerate(zip(results, shards, strict=True)):
        chosen = result.predict(graph, client=client).argmax(axis=1)
        for part in right:
            nodes = graph.members(feddep.Part[part.upper()])
            right[part] += int((chosen[nodes] == graph.labels[nodes]).sum())
            total[part] += len(nodes)
    return {part: right[part] / total[part] for part in right}


@pytest.mark.parametrize("name", ONE_OF_EACH_KIND)
def test_it_holds_what_a_client_has_in_a_simulation(
    name: str, small_shards: Shards, tmp_path: Path
):
    spec = small_spec(name, small_shards)
    expected = here(spec, small_shards)
    federation = Federation(spec, small_shards, tmp_path)
    federation.run()
    opened = [federation.opened(client) for client in range(3)]
    for client, result in enumerate(opened):
        model = expected.models[client] if name == "local" else expected.model
        assert result.spec == spec
        assert result.model.spec == model.spec
        assert all(np.array_equal(result.model.weights[n], a) for n, a in model.weights.items())
        assert dict(result.clients) == {client: expected.clients[client]}
        assert result.accuracy is None
        own = expected.record["measures"]["silos"][client]
        assert {part: own[part]["accuracy"] for part in own} == result.record["scores"]["silo"]
        assert result.record["measures"]["pooled"]["test"].keys() >= {"macro_f1"}
        note = json.loads((federation.results(client) / "silo.json").read_text())
        assert note["pooled"] == expected.record["scores"]["silo"]
        assert result.privacy["sound"]["verdict"] == expected.privacy["sound"]["verdict"]
    assert silo_scores(opened, small_shards) == expected.record["scores"]["silo"]


def late_best(name: str, shards: Shards) -> tuple[RunSpec, Result]:
    """A run whose best round is neither the first nor the last."""
    for seed in range(50):
        spec = small_spec(name, shards, seed=seed)
        result = here(spec, shards)
        if 1 < result.record["best_round"] < 5:
            return spec, result
    raise AssertionError("no such run")


def test_a_silo_that_lost_its_memory_after_the_best_round_still_has_it(
    small_shards: Shards, tmp_path: Path
):
    spec, expected = late_best("feddep", small_shards)
    federation = Federation(spec, small_shards, tmp_path)
    gone: list[int] = []

    def tamper(address, envelope, answer):
        if address == 99 and envelope.header.get("round") == 5 and not gone:
            gone.append(address)
            federation.channel.memories[address].clear()
            return Undelivered("its disk is gone")
        return answer

    federation.channel.tamper = tamper
    federation.run()
    assert gone
    assert federation.opened(1).clients[1] == expected.clients[1]


def test_a_server_that_was_killed_tells_the_silos_the_same(
    small_shards: Shards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    spec, expected = late_best("feddep", small_shards)
    best = expected.record["best_round"]
    federation = Federation(spec, small_shards, tmp_path)
    save = RunFolder.save_checkpoint

    def killed(folder, header, arrays):
        if header["best"] == best:  # noted, and the silos are not told yet
            monkeypatch.setattr(RunFolder, "save_checkpoint", save)
            raise RuntimeFailureError("killed")
        save(folder, header, arrays)

    monkeypatch.setattr(RunFolder, "save_checkpoint", killed)
    with pytest.raises(RuntimeFailureError, match="killed"):
        federation.run()
    federation.run(resume=True)
    for client in range(3):
        assert federation.opened(client).clients[client] == expected.clients[client]


def test_one_that_never_heard_of_the_best_round_says_so(small_shards: Shards, tmp_path: Path):
    spec, expected = late_best("feddep", small_shards)
    federation = Federation(spec, small_shards, tmp_path)
    deliver = federation.channel.deliver

    def old_server(envelopes, seconds):
        for envelope in envelopes.values():
            envelope.header.pop("best", None)
        return deliver(envelopes, seconds)

    federation.channel.deliver = old_server  # type: ignore[method-assign]
    federation.run()
    result = federation.opened(0)
    assert result.clients[0].mending is None
    assert len(result.generators) == 1
    with pytest.raises(InputError, match="did not keep for client 0"):
        result.predict(small_shards[0], client=0)
    assert np.array_equal(result.predict(small_shards.graph), expected.predict(small_shards.graph))


@pytest.mark.parametrize("name", ["fedavg", "feddep"])
def test_with_a_secret_the_true_graph_is_used(name: str, small_shards: Shards, tmp_path: Path):
    settings = {"privacy.mechanism": "randomised-response", "privacy.epsilon": 3.0}
    spec = small_spec(name, small_shards, **settings)
    federation = Federation(spec, small_shards, tmp_path, secret=12)
    federation.run()
    result, own = federation.opened(0), small_shards[0]
    assert result.clients[0].draws == "secret"
    assert result.predict(own, client=0).shape == (own.nodes, own.classes)
    if name == "fedavg":
        assert np.array_equal(result.predict(own, client=0), result.predict(own))


def test_other_clients_are_not_in_it(small_shards: Shards, tmp_path: Path):
    federation = Federation(small_spec("fedavg", small_shards), small_shards, tmp_path)
    federation.run()
    with pytest.raises(InputError, match=r"about clients 2 \(got 0\)"):
        federation.opened(2).predict(small_shards[0], client=0)


@pytest.mark.parametrize("name", ["fedavg", "local"])
def test_the_server_s_folder_knows_no_client(name: str, small_shards: Shards, tmp_path: Path):
    federation = Federation(small_spec(name, small_shards), small_shards, tmp_path)
    federation.run()
    result = feddep.open_run(tmp_path / "server")
    assert result.record["federation"]["silos"] == ["silo-0", "silo-1", "silo-2"]
    with pytest.raises(InputError, match="none: silos keep their own"):
        result.predict(small_shards[0], client=0)
    if name == "local":
        with pytest.raises(InputError, match="stayed with the silos"):
            _ = result.model
    else:
        assert result.predict(small_shards.graph).shape == (120, 3)


def test_it_is_no_record_of_the_run_and_says_so(small_shards: Shards, tmp_path: Path):
    federation = Federation(small_spec("fedavg", small_shards), small_shards, tmp_path)
    federation.run()
    result = federation.opened(1)
    assert result.traffic == {}
    assert repr(result) == "Result(fedavg, 3 clients, what client 1 kept)"
    with pytest.raises(InputError, match=r"the run's record is with the server; copy"):
        result.save(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    with pytest.raises(DataError, match="what a silo has of a run"):
        write_run_page(federation.results(1))


def test_a_folder_of_the_first_version_is_opened(small_shards: Shards, tmp_path: Path):
    federation = Federation(small_spec("feddep", small_shards), small_shards, tmp_path)
    federation.run()
    path = federation.results(1)
    report = json.loads((path / "silo.json").read_text())
    old = {"privacy": report["privacy"], "scores": report["scores"]}
    (path / "silo.json").write_text(json.dumps(old))
    (path / "mending.safetensors").unlink()
    result = feddep.open_run(path)
    assert result.model.spec.features == 60
    assert [part.mending for part in result.clients.values()] == [None]
    assert len(result.generators) == 1


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"privacy": {}}', b'{"privacy": 3}', b"\xff"])
def test_a_damaged_note_is_named(small_shards: Shards, tmp_path: Path, content: bytes):
    federation = Federation(small_spec("fedavg", small_shards), small_shards, tmp_path)
    federation.run()
    (federation.results(0) / "silo.json").write_bytes(content)
    with pytest.raises(DataError, match=r"silo\.json"):
        federation.opened(0)
