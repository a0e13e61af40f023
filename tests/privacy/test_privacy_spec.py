"""The name of a mechanism: one that is stored, and the spellings that are accepted."""

import pytest

import feddep
from feddep.errors import InputError
from feddep.privacy.spec import PrivacySpec, mechanism_named
from feddep.reports.privacy import Question, answer
from feddep.scenario.spec import RunSpec
from feddep.sweeps.sweep import Sweep

SPELLINGS = ["randomised-response", "randomized-response"]
STORED = "randomised-response"


@pytest.mark.parametrize("spelt", SPELLINGS)
def test_every_way_to_give_a_mechanism_takes_both_spellings(spelt, tmp_path):
    assert mechanism_named(spelt) == STORED
    assert PrivacySpec(mechanism=spelt).mechanism == STORED
    assert RunSpec().with_settings({"privacy.mechanism": spelt}).privacy.mechanism == STORED
    toml = f'[privacy]\nmechanism = "{spelt}"\n'
    assert RunSpec.from_toml(toml).privacy.mechanism == STORED
    (tmp_path / "spec.toml").write_text(toml)
    assert f'mechanism = "{STORED}"' in RunSpec.read(tmp_path / "spec.toml").to_toml()
    assert answer(Question(mechanism=spelt, epsilon=8.0))["mechanism"] == STORED


def test_so_does_the_python_interface(small_shards):
    settings = {"privacy.epsilon": 8.0, "model.hidden": 8}
    runs = [
        feddep.run(
            "fedavg",
            small_shards,
            rounds=1,
            workers=1,
            settings=settings | {"privacy.mechanism": spelt},
        )
        for spelt in SPELLINGS
    ]
    assert [run.record["privacy"]["mechanism"] for run in runs] == [STORED, STORED]
    assert runs[0].history[0]["loss"] == runs[1].history[0]["loss"]


def test_in_a_sweep_both_spellings_are_the_same_run(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "feddep.sweeps.sweep.run_apart", lambda cell, *, history: {"record": {"seconds": {}}}
    )
    declared = [
        Sweep([{"method": "local", "privacy.mechanism": spelt}], tmp_path / "one.jsonl")
        for spelt in SPELLINGS
    ]
    declared[0].run(1, lambda *news: None)
    assert declared[1].missing() == []


@pytest.mark.parametrize("name", ["", "NFDP", "randomisedresponse", "laplace"])
def test_what_is_no_mechanism_is_refused_with_those_that_there_are(name):
    for given in (
        lambda: PrivacySpec(mechanism=name),
        lambda: RunSpec().with_settings({"privacy.mechanism": name}),
        lambda: answer(Question(mechanism=name)),
    ):
        with pytest.raises(InputError, match=r"mechanism.*randomised-response"):
            given()


@pytest.mark.parametrize("value", [None, 3, ["nfdp"], {"nfdp": 1}])
def test_what_is_no_text_is_refused_by_its_key(value):
    with pytest.raises(InputError, match=r"privacy\.mechanism: expected .*nfdp"):
        RunSpec().with_settings({"privacy.mechanism": value})
