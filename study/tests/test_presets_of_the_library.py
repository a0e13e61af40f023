"""How a choice becomes one of the presets that the library ships."""

import tomllib
from pathlib import Path

import pytest

from feddep.algorithms import find_method
from feddep.errors import InputError
from feddep.scenario import presets
from feddep_study.presets import adopt, with_tuned
from feddep_study.source import STUDY

PACKAGED = Path(presets.__file__).with_name("presets.toml")
CONTENT = """
# precious
[paper.citeseer]
"embedding.width" = 64

[tuned.feddep.citeseer]
"training.rounds" = 100
"""
CHOICE = """
method = "fedavg"
dataset = "synthetic"
clients = 5
records = "fedavg-synthetic.jsonl"
trial = 2
trials = 12
seeds = [0, 1]
splits = ["stratified"]
validation = 0.5

[settings]
"training.learning_rate" = 0.5
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The presets of a library that may be changed."""
    path = tmp_path / "presets.toml"
    path.write_text(CONTENT)
    monkeypatch.setattr(presets, "FILE", path)
    return path


def test_the_preset_is_what_was_chosen(file, tmp_path):
    choice = tmp_path / "choice.toml"
    choice.write_text(CHOICE)
    assert adopt(choice) == ("fedavg", "synthetic")
    tuned = presets.preset_settings("tuned", find_method("fedavg"), "synthetic")
    assert tuned == {"training.learning_rate": 0.5}
    assert file.read_text().startswith("# precious\n")
    assert (
        "# fedavg-synthetic.jsonl: trial 2 of 12, mean validation accuracy 0.5000 over 2 seeds, "
        "5 clients, stratified split" in file.read_text()
    )


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('"fedavg"', '"mine:METHOD"', "method and a data set of the library .got mine:METHOD"),
        ('"synthetic"', '"./mine"', "on ./mine.; use the choice with --preset"),
        ("trial = 2\n", "", "what feddep tune writes .trial missing"),
    ],
)
def test_what_the_library_could_not_use_is_refused(file, tmp_path, before, after, says):
    choice = tmp_path / "choice.toml"
    choice.write_text(CHOICE.replace(before, after))
    with pytest.raises(InputError, match=says):
        adopt(choice)
    assert file.read_text() == CONTENT


def test_the_stored_choices_are_the_presets_of_the_library(file):
    file.write_text(PACKAGED.read_text().partition("[tuned.")[0])
    for choice in (STUDY / "tuning").glob("*.toml"):
        adopt(choice)
    assert file.read_text() == PACKAGED.read_text()


def test_an_entry_is_put_in_and_the_rest_is_kept():
    settings = {"generator.pool": "val", "embedding.warm_start": True, "generator.keep": 0.2}
    text = with_tuned(CONTENT, "fedavg", "cora", settings, "from a test")
    before, after = tomllib.loads(CONTENT), tomllib.loads(text)
    assert after["tuned"].pop("fedavg") == {"cora": settings}
    assert after == before
    assert "# from a test" in text


def test_an_entry_replaces_the_one_before_it():
    text = with_tuned(CONTENT, "feddep", "citeseer", {"training.rounds": 50}, "again")
    assert tomllib.loads(text)["tuned"]["feddep"]["citeseer"] == {"training.rounds": 50}
    assert with_tuned(text, "feddep", "citeseer", {"training.rounds": 50}, "again") == text


def test_the_order_in_which_entries_are_written_does_not_matter():
    entries = [("local", "cora"), ("feddep", "pubmed"), ("feddep", "cora")]
    one = other = PACKAGED.read_text()
    for method, dataset in entries:
        one = with_tuned(one, method, dataset, {"training.rounds": 50}, "x")
    for method, dataset in reversed(entries):
        other = with_tuned(other, method, dataset, {"training.rounds": 50}, "x")
    assert one == other
