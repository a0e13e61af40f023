"""The search: the same trials again, chosen by validation alone, resumable."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from feddep.algorithms import METHODS, find_method
from feddep.errors import InputError
from feddep.reports.tuning import HEADINGS, tuning_rows
from feddep.scenario import presets
from feddep.scenario.spec import RunSpec
from feddep.sweeps import sweep
from feddep.sweeps.tuning import Outcome, Tuning, search_space

SMALL = {"synthetic.nodes": "150", "model.hidden": "4"}
SHARED = {"training.learning_rate", "training.weight_decay"}
RATES = {0.05, 0.1, 0.2, 0.3, 0.5, 1.0}


def declare(tmp_path: Path, method: str = "fedavg", **options: Any) -> Tuning:
    options = {"fixed": SMALL, "folder": tmp_path} | options
    return Tuning.declare(method, "synthetic", **options)


def finish(tuning: Tuning, val: Any, test: float = 0.5) -> None:
    """Stores a record for every run, the last ones first."""
    with tuning.results.open("w") as file:
        for cell in reversed(tuning.runs.cells):
            scores = {"silo": {"val": val(cell), "test": test}, "global": {"test": test}}
            file.write(json.dumps({"settings": cell, "record": {"scores": scores}}) + "\n")


def learning_rate(cell: dict[str, Any]) -> float:
    return cell.get("training.learning_rate", 0.1)


# The space and the trials


@pytest.mark.parametrize("method", METHODS)
def test_every_value_of_the_search_space_fits_its_key(method: str):
    for key, values in search_space(find_method(method)).items():
        for value in values:
            assert RunSpec().with_settings({key: value}).value_of(key) == value
            assert presets.may_set(key)


def test_only_methods_with_embeddings_search_for_them():
    assert search_space(find_method("fedavg")).keys() == SHARED
    assert {"embedding.depth", "generator.keep"} < search_space(find_method("feddep")).keys()
    assert "embedding.depth" not in search_space(find_method("feddep-wo-dgen"))
    local_gnns = {"embedding.depth", "embedding.width"}
    assert search_space(find_method("fedavg-warm")).keys() == SHARED | local_gnns


def test_the_first_trial_is_the_paper_s_preset_with_100_rounds(tmp_path: Path):
    first = declare(tmp_path, "feddep").trials[0]
    settings = SMALL | {"method": "feddep", "preset": "paper", "training.rounds": 100}
    settings |= {"selection.metric": "accuracy", "selection.ties": "first"}
    assert first.spec == RunSpec().with_settings(settings)


def shared_points(tuning: Tuning) -> list[tuple[float, float, int]]:
    found = [trial.spec.training for trial in tuning.trials]
    return [(spec.learning_rate, spec.weight_decay, spec.rounds) for spec in found]


@pytest.mark.parametrize("method", ["feddep", "fedavg-warm", "fedsage", "fedgsl", "local"])
def test_every_method_sees_the_same_points_of_the_keys_that_all_have(tmp_path: Path, method: str):
    points = shared_points(declare(tmp_path))
    assert points[0] == (0.1, 0.0, 100)
    assert sorted(points) == [(rate, decay, 100) for rate in sorted(RATES) for decay in (0, 0.0005)]
    assert shared_points(declare(tmp_path, method)) == points


def test_six_trials_cover_the_learning_rates(tmp_path: Path):
    points = shared_points(declare(tmp_path, trials=6))
    assert {rate for rate, *_ in points} == RATES
    assert {decay for _, decay, _ in points} == {0.0, 0.0005}


def test_the_order_of_the_shared_points_depends_on_the_data_set(tmp_path: Path):
    names = ("cora", "citeseer", "pubmed", "msacademic")
    orders = {
        tuple(shared_points(Tuning.declare("fedavg", name, folder=tmp_path))) for name in names
    }
    assert len(orders) == len(names)


def test_own_keys_are_the_paper_s_in_the_first_trial_and_drawn_in_the_others(tmp_path: Path):
    first, *others = declare(tmp_path, "feddep").trials
    assert first.settings.keys() == {*SHARED, "training.rounds"}
    own = search_space(find_method("feddep")).keys() - SHARED
    assert all(own < trial.settings.keys() for trial in others)
    for key in own - {"embedding.width"}:
        assert len({trial.spec.value_of(key) for trial in others}) > 1, key


def test_methods_draw_their_own_keys_apart(tmp_path: Path):
    feddep, fedgsl = (declare(tmp_path, method).trials[1:] for method in ("feddep", "fedgsl"))
    assert [trial.settings for trial in feddep] != [trial.settings for trial in fedgsl]


def test_the_same_command_draws_the_same_trials_and_more_go_on(tmp_path: Path):
    few, many = (declare(tmp_path, "feddep", trials=count).trials for count in (5, 30))
    assert (len(few), len(many)) == (5, 30)
    assert list(many[:5]) == list(few)


def test_more_trials_than_shared_points_go_through_them_again(tmp_path: Path):
    points = shared_points(declare(tmp_path, "feddep", trials=24))
    assert points[:12] == points[12:]


def test_trials_differ_from_each_other_and_a_small_space_gives_fewer(tmp_path: Path):
    for method, count in (("fedavg", 12), ("fedavg-warm", 12 * 2 * 3)):
        trials = declare(tmp_path, method, trials=100).trials
        assert len(trials) == len({trial.spec for trial in trials}) == count


def test_a_fixed_key_is_not_searched(tmp_path: Path):
    trials = declare(tmp_path, fixed=SMALL | {"training.rounds": "1"}).trials
    assert len(trials) == 12
    assert all(trial.spec.training.rounds == 1 for trial in trials)
    fixed = SMALL | {"training.learning_rate": 0.3}
    assert shared_points(declare(tmp_path, fixed=fixed)) == [(0.3, 0.0, 100), (0.3, 0.0005, 100)]
    all_fixed = fixed | {"training.weight_decay": 0}
    assert len(declare(tmp_path, fixed=all_fixed).trials) == 1


def test_every_trial_is_run_for_the_same_seeds(tmp_path: Path):
    tuning = declare(tmp_path, trials=3, seeds=2)
    assert [cell["seed"] for cell in tuning.runs.cells] == [0, 1] * 3
    for cell in tuning.runs.cells:
        assert cell["preset"] == "paper"
        assert (cell["synthetic.nodes"], cell["partition.clients"]) == (150, 5)


def test_several_splits_count_alike(tmp_path: Path):
    tuning = declare(tmp_path, trials=2, seeds=2, splits=["stratified", "quota"])
    kinds = [cell.get("split.kind", "stratified") for cell in tuning.runs.cells]
    assert kinds == ["stratified", "stratified", "quota", "quota"] * 2
    finish(tuning, lambda cell: float(cell.get("split.kind") == "quota"))
    assert tuning.outcome().scores == [0.5, 0.5]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"splits": ["halves"]}, "split.kind: expected"),
        ({"method": "fedprox"}, "unknown method 'fedprox'"),
        ({"method": "feddep-wo-dgen"}, "tune feddep instead"),
        ({"trials": 0}, r"at least 1 of its trials \(got 0\)"),
        ({"seeds": 0}, r"at least 1 of its seeds \(got 0\)"),
        ({"fixed": {"preset": "tuned"}}, "decides preset itself"),
        ({"fixed": {"training.round": 3}}, "unknown setting 'training.round'"),
        ({"fixed": {"training.rounds": "x"}}, "training.rounds: expected"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], says: str
):
    with pytest.raises(InputError, match=says):
        declare(tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_unknown_data_are_refused_unless_nothing_has_to_be_run(tmp_path: Path):
    tuning = Tuning.declare("fedavg", "coras", trials=2, folder=tmp_path)
    with pytest.raises(InputError, match="unknown data set 'coras'"):
        tuning.runs.check_data()
    finish(tuning, learning_rate)
    tuning.runs.check_data()


# The choice


def test_the_best_mean_validation_score_wins(tmp_path: Path):
    tuning = declare(tmp_path, seeds=2)
    # Seed 1 alone would choose the smallest learning rate.
    finish(tuning, lambda cell: learning_rate(cell) * (2 if cell["seed"] == 0 else -1))
    outcome = tuning.outcome()
    assert outcome.trials[outcome.chosen].spec.training.learning_rate == 1
    assert outcome.scores[outcome.chosen] == pytest.approx(0.5)


def test_the_earlier_of_equal_trials_wins(tmp_path: Path):
    tuning = declare(tmp_path)
    finish(tuning, lambda cell: 0.5)
    assert tuning.outcome().chosen == 0
    finish(tuning, lambda cell: 0.5 if learning_rate(cell) == 0.1 else 0.9)
    assert tuning.outcome().chosen == 1


def test_test_scores_do_not_change_the_choice(tmp_path: Path):
    tuning = declare(tmp_path)
    finish(tuning, learning_rate)
    before = tuning.outcome()
    written = tuning.write_choice(before).read_bytes()
    rows = [json.loads(line) for line in tuning.results.read_text().splitlines()]
    found = []
    for row in rows:
        best = row["settings"].get("training.learning_rate") == 0.2  # not the one that was chosen
        found.append(best)
        row["record"]["scores"]["silo"]["test"] = float(best)
        row["record"]["scores"]["global"] = {
            "test": float(best),
            "test_last": float(best),
            "val": float(best),
        }
    tuning.results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert any(found)
    assert tuning.outcome() == before
    assert tuning.write_choice(tuning.outcome()).read_bytes() == written


def test_there_is_no_choice_before_every_run_is_done(tmp_path: Path):
    tuning = declare(tmp_path, trials=2, seeds=1)
    finish(tuning, learning_rate)
    lines = tuning.results.read_text().splitlines(keepends=True)
    tuning.results.write_text(lines[0])
    with pytest.raises(InputError, match="1 of 2 runs"):
        tuning.outcome()


def test_without_validation_nodes_there_is_nothing_to_choose_by(tmp_path: Path):
    tuning = declare(tmp_path)
    finish(tuning, lambda cell: None)
    with pytest.raises(InputError, match="no validation nodes"):
        tuning.outcome()


# What is stored


def test_the_choice_is_stored_with_where_it_comes_from(tmp_path: Path):
    tuning = declare(tmp_path, seeds=3)
    finish(tuning, learning_rate)
    outcome = tuning.outcome()
    path = tuning.write_choice(outcome)
    assert path == tmp_path / "fedavg-synthetic.toml"
    found = tomllib.loads(path.read_text())
    settings = found.pop("settings")
    assert settings == {"model.hidden": 4} | dict(outcome.trials[outcome.chosen].settings)
    assert found == {
        "method": "fedavg",
        "dataset": "synthetic",
        "clients": 5,
        "records": "fedavg-synthetic.jsonl",
        "trial": outcome.chosen,
        "trials": 12,
        "seeds": [0, 1, 2],
        "splits": ["stratified"],
        "validation": 1.0,
    }


def test_the_choice_can_be_used_as_a_preset(tmp_path: Path):
    tuning = declare(tmp_path)
    finish(tuning, learning_rate)
    path = tuning.write_choice(tuning.outcome())
    found = presets.preset_settings(str(path), find_method("fedavg"), "synthetic")
    chosen_by = {"selection.metric": "accuracy", "selection.ties": "first"}
    assert found == tuning.settings_of(tuning.outcome()) | chosen_by
    assert found["training.learning_rate"] == 1


def test_the_first_trial_as_a_preset_says_no_more_than_the_shared_keys(tmp_path: Path):
    tuning = declare(tmp_path, "feddep", fixed={})
    assert tuning.settings_of(Outcome(tuning.trials, [1.0, *[0.0] * 11])) == {
        "training.rounds": 100,
        "training.learning_rate": 0.1,
        "training.weight_decay": 0.0,
    }


# Running


def test_tuning_on_the_embedded_data_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fixed = SMALL | {"partition.clients": 2, "training.rounds": 1}
    tuning = declare(tmp_path, "local", fixed=fixed, trials=2, seeds=1)
    tuning.runs.check_data()
    tuning.runs.run(1, lambda *_: None)
    first = tuning.outcome()
    assert all(0 <= score <= 1 for score in first.scores)
    monkeypatch.setattr(sweep, "run_apart", lambda *_, **__: pytest.fail("ran again"))
    again = declare(tmp_path, "local", fixed=fixed, trials=2, seeds=1)
    again.runs.run(1, lambda *_: None)
    assert again.outcome() == first
    assert tuning.results.stat().st_size < 2 * 5000, "small enough to keep with the code"


# The table


def test_the_table_shows_what_differs_the_scores_and_the_choice(tmp_path: Path):
    tuning = declare(tmp_path)
    finish(tuning, learning_rate)
    outcome = tuning.outcome()
    rows = tuning_rows(outcome)
    assert all(len(row) == len(HEADINGS) for row in rows)
    assert rows[0][-1].startswith("the preset paper, training.rounds=100")
    assert [number for number, row in enumerate(rows) if row[2]] == [outcome.chosen]
    assert rows[outcome.chosen][1] == "1.0000"
    assert "training.learning_rate=1.0" in rows[outcome.chosen][-1]
