"""Presets: what fills a spec that its user left open, and what does not."""

import tomllib
from pathlib import Path

import pytest

from feddep.algorithms import METHODS, find_method
from feddep.errors import DataError, InputError
from feddep.graph.folder import write_graph
from feddep.graph.graph import Graph
from feddep.graph.shard import Shards, write_shards
from feddep.scenario import presets
from feddep.scenario.build import dataset_names, resolve
from feddep.scenario.presets import preset_settings
from feddep.scenario.spec import RunSpec, spec_keys

PACKAGED = Path(presets.__file__).with_name("presets.toml")
CONTENT = """
[paper.citeseer]
"embedding.width" = 64

[tuned.feddep.citeseer]
"training.rounds" = 100
"embedding.width" = 256
"embedding.depth" = 3

[tuned.fedavg.synthetic]
"training.learning_rate" = 0.5
"""


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "presets.toml"
    path.write_text(CONTENT)
    monkeypatch.setattr(presets, "FILE", path)
    return path


def resolved(**given: object) -> RunSpec:
    dotted = {key.replace("__", "."): value for key, value in given.items()}
    return resolve(RunSpec().with_settings(dotted), dotted)


PAPERS_CHOICE = {"selection.metric": "accuracy", "selection.ties": "first"}


# The packaged file


@pytest.mark.parametrize(
    ("dataset", "width"),
    [("cora", 128), ("citeseer", 64), ("pubmed", 256), ("msacademic", 256), ("synthetic", 128)],
)
@pytest.mark.parametrize("method", ["fedavg", "feddep"])
def test_the_paper_preset_is_the_defaults_and_the_paper_s_widths(method, dataset, width):
    found = resolved(method=method, dataset=dataset, preset="paper")
    expected = {"method": method, "dataset": dataset, "preset": "paper", "embedding.width": width}
    assert found == RunSpec().with_settings(expected | PAPERS_CHOICE)


def test_what_is_packaged_fits_the_methods_and_the_data_sets(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(presets, "FILE", PACKAGED)
    content = tomllib.loads(PACKAGED.read_text())
    assert content.keys() <= {"paper", "tuned"}
    assert content["paper"].keys() <= {*dataset_names(), presets.ANY}
    for method, entries in content.get("tuned", {}).items():
        assert METHODS[method].preset_of is None, "it would never be looked at"
        assert entries.keys() <= set(dataset_names())
    for method in METHODS:
        for dataset in dataset_names():
            assert resolved(method=method, dataset=dataset).training.rounds <= 100


def test_stored_runs_were_chosen_by_accuracy_and_the_first_of_equal_rounds():
    for preset, dataset in [("paper", "cora"), ("tuned", "cora"), ("tuned", "synthetic")]:
        found = resolved(method="feddep", dataset=dataset, preset=preset)
        assert {key: found.value_of(key) for key in PAPERS_CHOICE} == PAPERS_CHOICE
    assert resolved(dataset="some/folder", preset="paper").selection.ties == "first"


def test_data_of_ones_own_are_chosen_by_what_fits_them():
    found = resolved(dataset="some/folder").selection
    assert (found.metric, found.ties) == ("auto", "loss")
    assert resolved(dataset="cora", selection__ties="loss").selection.ties == "loss"


# What comes from where


def test_tuned_stands_on_top_of_paper(file: Path):
    spec = resolved(method="feddep", dataset="citeseer")
    assert spec.preset == "tuned"
    assert (spec.training.rounds, spec.embedding.width, spec.embedding.depth) == (100, 256, 3)
    assert spec.training.learning_rate == RunSpec().training.learning_rate


@pytest.mark.parametrize(
    ("method", "dataset"), [("fedavg", "citeseer"), ("feddep", "cora"), ("feddep", "my/folder")]
)
def test_without_a_stored_entry_tuned_is_paper(file: Path, method: str, dataset: str):
    found = find_method(method)
    assert preset_settings("tuned", found, dataset) == preset_settings("paper", found, dataset)


def test_paper_does_not_look_at_what_was_tuned(file: Path):
    spec = resolved(method="feddep", dataset="citeseer", preset="paper")
    assert (spec.training.rounds, spec.embedding.width) == (50, 64)


def test_what_is_given_wins_over_the_preset_even_if_it_is_the_default(file: Path):
    spec = resolved(
        method="feddep", dataset="citeseer", training__rounds=50, embedding__width="128"
    )
    assert (spec.training.rounds, spec.embedding.width, spec.embedding.depth) == (50, 128, 3)


def test_a_whole_spec_leaves_nothing_to_the_preset(file: Path):
    spec = RunSpec().with_settings({"method": "feddep", "dataset": "citeseer"})
    content = tomllib.loads(spec.to_toml())
    given = {
        key if not isinstance(value, dict) else f"{key}.{name}"
        for key, value in content.items()
        for name in (value if isinstance(value, dict) else [key])
    }
    assert resolve(spec, given) == spec


def test_the_number_of_clients_does_not_matter(file: Path):
    three = resolved(method="feddep", dataset="citeseer", partition__clients=3)
    ten = resolved(method="feddep", dataset="citeseer", partition__clients=10)
    assert three.training == ten.training
    assert three.embedding == ten.embedding


def test_an_unknown_preset_is_refused():
    with pytest.raises(InputError, match=r"preset: expected 'tuned', 'paper' or .* \(got 'best'\)"):
        RunSpec().with_settings({"preset": "best"})


# Methods


def test_an_ablation_takes_the_values_of_its_method_but_for_what_it_fixes(file: Path):
    spec = resolved(method="feddep-wo-dgen", dataset="citeseer")
    assert (spec.training.rounds, spec.embedding.width, spec.embedding.depth) == (100, 256, 0)
    method = find_method("feddep-wo-dgen")
    assert "embedding.depth" not in preset_settings("tuned", method, "citeseer")


def test_a_method_s_own_settings_are_not_to_be_contradicted_beside_a_preset(file: Path):
    with pytest.raises(InputError, match=r"feddep-wo-dgen has embedding.depth = 0 \(got 3\)"):
        resolved(method="feddep-wo-dgen", dataset="citeseer", embedding__depth=3)


DEFAULTS = {
    "fedgnn-update": {"training.update_clip": 0.1, "training.update_noise": 2.0},
    "fedgsl": {"embedding.width": 32, "generator.keep": 0.2},
}


@pytest.mark.parametrize("preset", ["paper", "tuned"])
@pytest.mark.parametrize("dataset", ["cora", "citeseer"])
@pytest.mark.parametrize("method", DEFAULTS)
def test_a_method_s_defaults_stand_above_the_paper_s_values(file: Path, method, dataset, preset):
    spec = resolved(method=method, dataset=dataset, preset=preset)
    assert {key: spec.value_of(key) for key in DEFAULTS[method]} == DEFAULTS[method]
    others = resolved(method="fedavg", dataset=dataset, preset=preset)
    assert all(others.value_of(key) != value for key, value in DEFAULTS[method].items())


def test_a_method_with_defaults_takes_the_paper_s_other_values(file: Path):
    assert resolved(method="fedgnn-update", dataset="citeseer").embedding.width == 64


@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_what_is_given_wins_over_a_method_s_defaults(file: Path, preset):
    quiet = resolved(method="fedgnn-update", preset=preset, training__update_noise=0.0)
    assert (quiet.training.update_clip, quiet.training.update_noise) == (0.1, 0.0)
    wide = resolved(method="fedgsl", preset=preset, embedding__width=128)
    assert (wide.embedding.width, wide.generator.keep) == (128, 0.2)


def test_what_was_tuned_wins_over_a_method_s_defaults(file: Path):
    file.write_text(CONTENT + '\n[tuned.fedgsl.citeseer]\n"generator.keep" = 0.5\n')
    tuned = resolved(method="fedgsl", dataset="citeseer")
    assert (tuned.embedding.width, tuned.generator.keep) == (32, 0.5)
    paper = resolved(method="fedgsl", dataset="citeseer", preset="paper")
    assert (paper.embedding.width, paper.generator.keep) == (32, 0.2)
    given = resolved(method="fedgsl", dataset="citeseer", generator__keep=0.2)
    assert given.generator.keep == 0.2


# Folders


def test_a_folder_has_the_preset_of_the_data_that_it_holds(
    file: Path, tmp_path: Path, small_graph: Graph, small_shards: Shards
):
    write_graph(small_graph, tmp_path / "graph")
    write_shards(small_shards, tmp_path / "shards")
    for folder in ("graph", "shards"):
        found = resolved(method="fedavg", dataset=str(tmp_path / folder))
        assert found.training.learning_rate == 0.5


# The file


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[paper", "cannot read the presets"),
        ("[paper.synthetic]\nseed = 3", "keys of model, .* \\(got seed\\)"),
        ('[paper.synthetic]\n"partition.clients" = 3', "got partition.clients"),
    ],
)
def test_a_broken_file_is_named(file: Path, content: str, says: str):
    file.write_text(content)
    with pytest.raises(DataError, match=says) as caught:
        resolved()
    assert str(file) in str(caught.value)


def test_an_unknown_key_in_the_file_is_refused(file: Path):
    file.write_text('[paper.synthetic]\n"training.round" = 3')
    with pytest.raises(InputError, match=r"unknown setting 'training\.round'"):
        resolved()


# A file that feddep tune wrote

CHOICE = """
method = "feddep"
dataset = "cora"
trial = 3

[settings]
"training.rounds" = 70
"embedding.depth" = 1
"""


@pytest.fixture
def choice(tmp_path: Path) -> Path:
    path = tmp_path / "choice.toml"
    path.write_text(CHOICE)
    return path


def test_a_choice_stands_in_for_what_is_tuned(file: Path, choice: Path):
    spec = resolved(method="feddep", dataset="citeseer", preset=str(choice))
    assert spec.preset == str(choice)
    assert (spec.training.rounds, spec.embedding.depth) == (70, 1)
    assert spec.embedding.width == 64, "the tuned 256 is not mixed with the choice"
    given = resolved(method="feddep", preset=str(choice), training__rounds=3)
    assert (given.training.rounds, given.embedding.depth) == (3, 1)


def test_an_ablation_takes_its_method_s_choice(file: Path, choice: Path):
    spec = resolved(method="feddep-wo-dgen", dataset="cora", preset=str(choice))
    assert (spec.training.rounds, spec.embedding.depth) == (70, 0)


def test_another_method_has_what_is_tuned_for_it_and_that_is_said_once(
    file: Path, choice: Path, caplog: pytest.LogCaptureFixture
):
    for _ in range(2):
        spec = resolved(method="fedavg", dataset="synthetic", preset=str(choice))
    assert spec.training.learning_rate == 0.5
    assert [record.message for record in caplog.records] == [
        f"{choice} is a choice for feddep; fedavg has the preset tuned"
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot read the preset .*choice.toml: .*No such file"),
        ("[settings", "cannot read the preset .*choice.toml"),
        ('method = "feddep"\nseed = 3\n', r"choice.toml: expected a method and \[settings\].*seed"),
        ('method = "feddep"\n[settings]\nseed = 3\n', r"choice.toml: a preset holds .*got seed"),
        ('method = "feddep"\n[settings]\n"training.round" = 3\n', "unknown setting"),
    ],
)
def test_what_is_no_choice_is_refused(file: Path, choice: Path, content: str | None, says: str):
    choice.unlink() if content is None else choice.write_text(content)
    with pytest.raises(InputError, match=says):
        resolved(method="feddep", preset=str(choice))


def test_a_whole_spec_does_not_need_the_choice_any_more(file: Path, choice: Path):
    spec = resolved(method="feddep", preset=str(choice))
    choice.unlink()
    assert resolve(spec, spec_keys()) == spec
