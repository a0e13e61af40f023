"""The spec: strict keys, values of the right type, TOML there and back."""

import os
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feddep.errors import InputError
from feddep.graph.partition import PartitionSpec
from feddep.learning.spec import TrainingSpec
from feddep.scenario.spec import RunSpec, parse_settings, spec_keys

# Defaults


def test_the_defaults_are_those_of_the_command_line():
    spec = RunSpec()
    assert (spec.method, spec.dataset, spec.seed) == ("feddep", "synthetic", 0)
    assert (spec.partition.clients, spec.partition.kind) == (5, "louvain")
    assert (spec.split.kind, spec.training.rounds) == ("stratified", 50)


def test_keys_are_plain_names_at_the_top_and_section_name_below():
    keys = spec_keys()
    assert len(set(keys)) == len(keys)
    assert {"method", "dataset", "silos", "seed", "feature_share", "preset"} == {
        key for key in keys if "." not in key
    }
    assert {"training.rounds", "partition.clients", "split.kind", "model.hidden"} <= set(keys)


@pytest.mark.parametrize("key", spec_keys())
def test_every_key_can_be_set(key: str):
    section, _, name = key.rpartition(".")
    holder = getattr(RunSpec(), section) if section else RunSpec()
    value = getattr(holder, name)
    text = os.pathsep.join(value) if isinstance(value, tuple) else str(value)
    assert RunSpec().with_settings({key: text}) == RunSpec()


def test_folders_of_silos_are_one_text_separated_as_in_path():
    spec = RunSpec().with_settings({"silos": os.pathsep.join(["north", "south"])})
    assert spec.silos == ("north", "south")
    assert RunSpec.from_toml(spec.to_toml()) == spec


# Settings


def test_text_is_read_as_the_type_of_the_key():
    spec = RunSpec().with_settings({"training.rounds": "7", "training.learning_rate": "0.5"})
    assert spec.training == TrainingSpec(rounds=7, learning_rate=0.5)
    assert type(spec.training.rounds) is int


def test_settings_change_only_what_they_name():
    before = RunSpec().with_settings({"seed": 3, "model.hidden": 8})
    after = before.with_settings({"partition.clients": 2})
    assert after.partition == PartitionSpec(clients=2)
    assert (after.seed, after.model) == (3, before.model)
    assert before.partition.clients == 5


@pytest.mark.parametrize(
    "key", ["training.round", "rounds", "training", "", ".", "training.", "model.rounds", "a.b.c"]
)
def test_an_unknown_key_is_refused_by_name_with_the_known_ones(key: str):
    with pytest.raises(InputError) as caught:
        RunSpec().with_settings({key: 1})
    assert repr(key) in str(caught.value)
    assert "training.rounds" in str(caught.value)
    assert "synthetic.nodes" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("training.rounds", "many", "integer"),
        ("training.rounds", "2.5", "integer"),
        ("training.rounds", 0, "greater than or equal to 1"),
        ("training.learning_rate", 0, "greater than 0"),
        ("training.learning_rate", "nan", "greater than 0"),
        ("training.weight_decay", -1, "greater than or equal to 0"),
        ("model.dropout", 1, "less than 1"),
        ("model.form", "open", "'closed' or 'separate'"),
        ("partition.kind", "metis", "'louvain', 'random', 'label-skew' or 'given'"),
        ("split.kind", "", "'stratified', 'random', 'quota' or 'given'"),
        ("seed", -1, "greater than or equal to 0"),
        ("dataset", None, "string"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_key_expectation_and_value(
    key: str, value: object, expected: str
):
    with pytest.raises(InputError) as caught:
        RunSpec().with_settings({key: value})
    message = str(caught.value)
    assert message.startswith(f"{key}: expected ")
    assert expected in message
    assert f"(got {value!r})" in message


@pytest.mark.parametrize(
    "settings",
    [{"partition.clients": 0}, {"partition.concentration": 0}, {"synthetic.nodes": 3}],
)
def test_a_value_that_makes_no_sense_is_refused_with_the_value(settings: dict[str, int]):
    (value,) = settings.values()
    with pytest.raises(InputError, match=rf"\(got {value}(\.0)?\)"):
        RunSpec().with_settings(settings)


# Pairs from the command line


def test_pairs_are_parsed_at_the_first_equals_sign():
    assert parse_settings(["a=1", " b = x=y "]) == {"a": "1", "b": "x=y"}


def test_the_last_of_equal_keys_wins():
    assert parse_settings(["a=1", "a=2"]) == {"a": "2"}


@pytest.mark.parametrize("pair", ["training.rounds", "=3", ""])
def test_a_text_that_is_no_pair_is_refused(pair: str):
    with pytest.raises(InputError, match="expected key=value") as caught:
        parse_settings([pair])
    assert repr(pair) in str(caught.value)


# TOML


def test_toml_holds_every_key():
    content = tomllib.loads(RunSpec().to_toml())
    found = set()
    for name, value in content.items():
        found |= {f"{name}.{key}" for key in value} if isinstance(value, dict) else {name}
    assert found == set(spec_keys())


@given(
    dataset=st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    seed=st.integers(0, 2**63 - 1),
    rate=st.floats(0, exclude_min=True, allow_infinity=True),
)
def test_toml_there_and_back_gives_the_same_spec(dataset: str, seed: int, rate: float):
    spec = RunSpec().with_settings(
        {"dataset": dataset, "seed": seed, "training.learning_rate": rate}
    )
    assert RunSpec.from_toml(spec.to_toml()) == spec


def test_keys_missing_in_toml_take_their_defaults():
    spec = RunSpec.from_toml("[training]\nrounds = 3\n")
    assert spec == RunSpec().with_settings({"training.rounds": 3})


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("round = 3", "round"),
        ("[training]\nround = 3", "training.round"),
        ("[federation]\nclients = 3", "federation.clients"),
        ("training = 3", "training"),
        ("[training.inner]\nrounds = 3", "training.inner"),
    ],
)
def test_unknown_keys_in_toml_are_refused_by_name(text: str, key: str):
    with pytest.raises(InputError, match=f"unknown setting '{key}'"):
        RunSpec.from_toml(text)


def test_a_spec_file_is_read_back(tmp_path):
    spec = RunSpec().with_settings({"dataset": "Fälle/größer", "method": "local"})
    (tmp_path / "spec.toml").write_bytes(spec.to_toml().encode())
    assert RunSpec.read(tmp_path / "spec.toml") == spec


@pytest.mark.parametrize("content", [b"seed = ", b"\xff\xfe", b"nonsense = 1", b"seed = 'x'"])
def test_a_broken_spec_file_is_named(tmp_path, content: bytes):
    file = tmp_path / "spec.toml"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        RunSpec.read(file)
    assert str(file) in str(caught.value)


def test_a_missing_spec_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot read the spec .*absent\.toml"):
        RunSpec.read(tmp_path / "absent.toml")
