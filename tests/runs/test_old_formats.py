"""Run folders of version 0.1, as it wrote them, still open; a run that it began can be finished."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import feddep
from agreement import assert_agree, assert_weights_agree, rounds_terms
from feddep.errors import InputError
from feddep.federation.messages import group, unpack
from feddep.reports.privacy import of_run
from feddep.runs.clients import same_arrays
from feddep.runs.execute import execute
from feddep.runs.files import read_record
from feddep.runs.folder import RunFolder
from feddep.runs.old_formats import SETTINGS_BEFORE, read_spec
from feddep.runs.records import versions
from feddep.runs.result import Result
from feddep.scenario.build import build
from feddep.scenario.spec import RunSpec, read_settings

HERE = Path(__file__).parent / "old_folders"
FINISHED = ["feddep", "fedavg", "local"]
STOPPED = ["stopped_at_best", "stopped_after_best"]


@pytest.fixture(params=FINISHED)
def folder(request: pytest.FixtureRequest) -> Path:
    return HERE / request.param


def correct(result: Result, graph: feddep.Graph, part: feddep.Part, client: int | None) -> float:
    nodes = graph.members(part)
    chosen = result.predict(graph, client).argmax(axis=1)[nodes]
    return float((chosen == graph.labels[nodes]).mean())


# Finished runs


def test_it_is_opened(folder: Path):
    result = feddep.open_run(folder)
    assert result.record == read_record(folder)
    assert result.spec == RunSpec.read(folder / "spec.toml", SETTINGS_BEFORE)
    assert [entry["round"] for entry in result.history] == [1, 2, 3, 4]
    assert len(result.models) == (2 if folder.name == "local" else 1)
    assert result.privacy["statement"]


def test_its_generators_are_set_to_what_they_did_then(folder: Path):
    """Asked about another graph, they would otherwise generate as they were never trained to."""
    assert "sampler" not in (folder / "spec.toml").read_text()
    spec = feddep.open_run(folder).spec
    assert {key: spec.value_of(key) for key in SETTINGS_BEFORE} == SETTINGS_BEFORE
    today = RunSpec()
    assert all(today.value_of(key) != value for key, value in SETTINGS_BEFORE.items())


def test_its_events_are_read_under_their_old_name(folder: Path):
    """The prices are those of then; the words for them, and sizes, are of today."""
    assert (folder / "ledger.json").exists()
    assert [len(events) > 0 for events in feddep.open_run(folder).events_by_client] == [True, True]
    found, stored = of_run(folder), read_record(folder)["privacy"]
    assert found.keys() == stored.keys() | {"sizes"}
    assert {**found, "statement": stored["statement"]} == {**stored, "sizes": found["sizes"]}
    assert found["statement"].split(".")[0] == stored["statement"].split(".")[0]


def test_its_classifier_still_scores_what_the_record_says(folder: Path):
    result = feddep.open_run(folder)
    graph = build(result.spec).graph
    own = [None] if len(result.models) == 1 else [0, 1]
    found = [correct(result, graph, feddep.Part.TEST, client) for client in own]
    assert np.mean(found) == pytest.approx(result.accuracy, abs=1 / 24)  # a node, elsewhere


def test_its_generators_are_those_of_the_last_round_and_say_so():
    result = feddep.open_run(HERE / "feddep")
    assert [sorted(own)[0] for own in result.generators] == ["degree", "degree"]
    assert [part.mending for part in result.clients.values()] == [None, None]
    with pytest.raises(InputError, match="did not keep for client 1 how its subgraph was mended"):
        result.predict(build(result.spec)[1], client=1)


@pytest.mark.parametrize("name", ["fedavg", "local"])
def test_where_nothing_is_mended_clients_can_predict(name: str):
    result = feddep.open_run(HERE / name)
    shards = build(result.spec)
    counts = [len(graph.members(feddep.Part.VAL)) for graph in shards]
    found = [correct(result, graph, feddep.Part.VAL, i) for i, graph in enumerate(shards)]
    silo_val = np.average(found, weights=counts)
    assert silo_val == pytest.approx(result.record["scores"]["silo"]["val"], abs=1 / 12)


def test_saved_anew_it_has_the_names_of_today_and_is_equal(folder: Path, tmp_path: Path):
    result = feddep.open_run(folder)
    path = result.save(tmp_path / "run")
    assert (path / "privacy_events.json").exists()
    assert not (path / "ledger.json").exists()
    assert feddep.open_run(path) == result


def test_run_again_nothing_old_is_left(tmp_path: Path):
    shutil.copytree(HERE / "feddep", tmp_path / "run")
    spec = read_spec(tmp_path / "run" / "spec.toml")
    RunFolder.claim(tmp_path / "run", spec, resume=False)
    assert [file.name for file in (tmp_path / "run").iterdir()] == ["spec.toml"]


# Runs that were stopped


def rounding_of(result: Result) -> int:
    """Roundings in a run: as many again for its generators as for the classifier."""
    learning, nodes = result.model.spec, result.spec.synthetic.nodes
    return 2 * rounds_terms(learning, nodes, learning.training.rounds)


@pytest.mark.parametrize("name", STOPPED)
def test_it_goes_on_to_the_same_result_as_one_that_was_never_stopped(name: str, tmp_path: Path):
    shutil.copytree(HERE / name, tmp_path / "run")
    settings = read_settings(tmp_path / "run" / "spec.toml")
    resumed = execute(settings, out=tmp_path / "run", resume=True, workers=1, device="cpu")
    anew = execute(SETTINGS_BEFORE | settings, workers=1, device="cpu")
    assert resumed.spec == anew.spec
    assert resumed.record["best_round"] == anew.record["best_round"] == 2
    same_processor = (
        read_record(HERE / "feddep")["versions"]["processor"] == versions()["processor"]
    )
    terms = rounding_of(anew)
    assert_weights_agree(resumed.model.weights, anew.model.weights, terms=terms)
    if same_processor:
        assert all(
            np.array_equal(resumed.model.weights[part], weights)
            for part, weights in anew.model.weights.items()
        )
    losses, expected = ([entry["loss"] for entry in run.history] for run in (resumed, anew))
    refresh = anew.spec.generator.refresh
    assert_agree(losses[:refresh], expected[:refresh], terms=terms, precision=np.float32)
    # The second joint step had z̄ that was not centred, a mistake since mended.
    assert losses[refresh:] == pytest.approx(expected[refresh:], rel=1e-3)
    assert feddep.open_run(tmp_path / "run") == resumed


def test_the_mending_of_the_best_round_is_known_if_it_was_the_last(tmp_path: Path):
    for name, known in zip(STOPPED, (True, False), strict=True):
        shutil.copytree(HERE / name, tmp_path / name)
        settings = read_settings(tmp_path / name / "spec.toml")
        result = execute(settings, out=tmp_path / name, resume=True, workers=1, device="cpu")
        assert [part.mending is not None for part in result.clients.values()] == [known] * 2
        assert len(result.generators) == 2
    _, checkpoint = unpack((HERE / STOPPED[0] / "checkpoint.bin").read_bytes())
    for client, part in feddep.open_run(tmp_path / STOPPED[0]).clients.items():
        memory = group(checkpoint, f"client-{client}")
        assert part.mending is not None and part.mending.keys() == {"missing_embeddings"}
        assert np.array_equal(part.mending["missing_embeddings"], memory["mended"])
        assert same_arrays(part.generator, group(memory, "generator"))


def test_the_fixtures_are_of_the_old_version():
    for name in STOPPED:
        assert b'"client-0/mended"' in (HERE / name / "checkpoint.bin").read_bytes()
    assert (
        json.loads((HERE / "feddep" / "record.json").read_text())["versions"]["feddep"] == "0.1.0"
    )
