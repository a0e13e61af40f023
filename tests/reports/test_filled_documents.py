import json

import pytest

from feddep.errors import InputError
from feddep.reports.documents import documents, filled, main

TEXT = "before\n<!-- tiny:begin -->\nold\n<!-- tiny:end -->\nafter\n"


@pytest.fixture
def root(tmp_path):
    (tmp_path / "experiments/results").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    (tmp_path / "experiments/tiny.toml").write_text('[grid]\nmethod = ["local", "fedavg"]\n')
    scores = {"global": {"test": 0.5}, "silo": {"test": 0.6, "val": 0.7}}
    row = {"settings": {"method": "local"}, "record": {"scores": scores}}
    (tmp_path / "experiments/results/tiny.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "README.md").write_text(TEXT)
    return tmp_path


def test_a_place_is_filled_and_the_rest_untouched(root):
    text = filled(TEXT, root / "experiments")
    assert text.startswith("before\n<!-- tiny:begin -->\n| ")
    assert "0.5000" in text
    assert "old" not in text
    assert text.endswith("<!-- tiny:end -->\nafter\n")


def test_what_is_not_run_yet_is_said(root):
    assert "1 of 2 runs are not run yet." in filled(TEXT, root / "experiments")


def test_filling_twice_changes_nothing(root):
    once = filled(TEXT, root / "experiments")
    assert filled(once, root / "experiments") == once


def test_an_unknown_sweep_is_refused(root):
    with pytest.raises(InputError, match="nowhere"):
        filled(TEXT.replace("tiny", "nowhere"), root / "experiments")


def test_main_fills_readme_and_docs(root, monkeypatch):
    (root / "docs/more.md").write_text(TEXT)
    monkeypatch.chdir(root)
    main()
    assert [path.name for path in documents(root)] == ["README.md", "more.md"]
    assert all("0.5000" in path.read_text() for path in documents(root))
