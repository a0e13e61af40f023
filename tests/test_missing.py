"""What was skipped is said once for each reason, with how many tests it concerns."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from missing import DATA, published_folder, summary


def skipped(reason):
    return SimpleNamespace(longrepr=("tests/test_x.py", 7, f"Skipped: {reason}"))


def test_a_line_for_each_reason_the_most_frequent_first():
    found = summary([skipped("no browser"), *[skipped(DATA)] * 31])
    assert found == [f"31 tests skipped: {DATA}", "1 test skipped: no browser"]


def test_nothing_skipped_is_not_worth_a_line():
    assert summary([]) == []


@pytest.mark.parametrize("folder", [None, ""])
def test_without_data_a_test_is_skipped_for_that_reason(folder):
    with pytest.raises(pytest.skip.Exception, match=DATA):
        published_folder(folder, "cora")


def test_with_another_folder_it_is_said_what_that_lacks(tmp_path):
    (tmp_path / "cora").mkdir()
    assert published_folder(str(tmp_path), "cora") == Path(tmp_path)
    with pytest.raises(pytest.skip.Exception, match="does not hold pubmed"):
        published_folder(str(tmp_path), "cora", "pubmed")
