"""Every tuned preset is what its stored validation records choose."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from feddep.scenario import presets
from feddep.sweeps.tuning import Tuning
from feddep_study.source import STUDY

TEXT = Path(presets.__file__).with_name("presets.toml").read_text()
ENTRIES = re.findall(
    r"\[tuned\.([\w-]+)\.(\w+)\]\n# (\S+\.jsonl): trial (\d+) of (\d+), .* over (\d+) seeds, "
    r"5 clients(?:, (.*) split)?",
    TEXT,
)


def test_every_entry_names_its_records():
    tuned = tomllib.loads(TEXT).get("tuned", {})
    stored = {(method, name) for method, entries in tuned.items() for name in entries}
    assert stored == {(method, name) for method, name, *_ in ENTRIES}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry[0]}-{entry[1]}")
def test_the_records_choose_it_by_validation(entry):
    method, dataset, records, trial, trials, seeds, splits = entry
    folder = STUDY / "tuning"
    first = json.loads((folder / records).read_text().splitlines()[0])["settings"]
    promised = {key: first[key] for key in presets.PROMISES if key in first}  # FedGNN: no noise
    tuning = Tuning.declare(
        method,
        dataset,
        trials=int(trials),
        seeds=int(seeds),
        splits=splits.split(" and ") if splits else (),
        fixed={"partition.clients": 5, **promised},
        folder=folder,
    )
    assert tuning.results.name == records
    outcome = tuning.outcome()
    assert outcome.chosen == int(trial)
    assert tuning.settings_of(outcome) == tomllib.loads(TEXT)["tuned"][method][dataset]
