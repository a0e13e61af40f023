"""The page of one run."""

import json

import pytest

from feddep.algorithms import METHODS
from feddep.errors import DataError
from feddep.reports.run_page import run_page, write_run_page
from feddep.runs.records import make_record
from feddep.scenario.spec import RunSpec

ENTRY = {"loss": 1.0, "silo": {"test": 0.5, "val": 0.6}, "global": {"test": 0.7, "val": 0.8}}
HISTORY = [ENTRY | {"round": number, "seconds": number / 10} for number in (1, 2, 3)]
PRIVACY = {
    "mechanism": "nfdp",
    "verdict": "none",
    "statement": "A statement in <words>.",
    "paper": {"epsilon": 1.1, "delta": 0.02, "verdict": "none"},
    "composed": {"epsilon": 12.5, "delta": 0.3, "verdict": "none"},
    "sound": {"epsilon": None, "delta": 1.0, "verdict": "none"},
}


def folder_of(tmp_path, method="feddep"):
    names = [phase.name for phase in METHODS[method].phases]
    record = make_record(
        RunSpec().with_settings({"method": method, "dataset": "cora", "training.rounds": 3}),
        split="stratified",
        data={"nodes": 2708},
        history=HISTORY,
        best=2,
        privacy=PRIVACY,
        seconds={"total": 0.3, "phases": dict.fromkeys(names, 0.1)},
        traffic={name: {"up_bytes": 10, "down_bytes": 10} for name in names},
    )
    (tmp_path / "record.json").write_text(json.dumps(record))
    return record


def test_a_run_has_its_summary_prices_traffic_and_curve(tmp_path):
    record = folder_of(tmp_path)
    (tmp_path / "history.jsonl").write_text("".join(json.dumps(one) + "\n" for one in HISTORY))
    page = write_run_page(tmp_path).read_text()
    assert page == (tmp_path / "report.html").read_text()
    assert f"<td>{record['scores']['global']['test']:.4f}</td>" in page
    assert "A statement in &lt;words&gt;." in page
    for epsilon in ("1.1", "12.5", "unbounded"):
        assert f"<td>{epsilon}</td>" in page
    for phase in record["traffic"]["phases"]:
        assert f'<th scope="row" class="words">{phase}</th>' in page
    assert "round 2, test, whole graph: 0.7" in page
    assert page.count('<svg class="panel"') == 3
    assert "http" not in page


def test_a_run_s_page_can_go_elsewhere_and_do_without_a_history(tmp_path):
    folder_of(tmp_path)
    page = write_run_page(tmp_path, tmp_path / "pages/own.html").read_text()
    assert "Training" not in page
    assert not (tmp_path / "report.html").exists()


def test_a_record_without_prices_says_so(tmp_path):
    record = folder_of(tmp_path, method="fedgnn")
    record["privacy"] = {"mechanism": "none", "verdict": "none", "statement": "Nothing."}
    page = run_page(record, {"round": []})
    assert page.count("not priced") == 3
    assert "fedgnn†" in page
    assert "sees cross-client edges" in page


def test_training_that_ran_away_is_told(tmp_path):
    record = folder_of(tmp_path) | {"diverged": "the loss of client 2 is no number in round 7"}
    page = run_page(record, {"round": []})
    assert "training diverged" in page
    assert "client 2 is no number in round 7" in page


def test_a_damaged_history_is_an_error_with_its_file(tmp_path):
    folder_of(tmp_path)
    (tmp_path / "history.jsonl").write_text("{")
    with pytest.raises(DataError, match=r"history\.jsonl"):
        write_run_page(tmp_path)


def test_what_a_silo_kept_and_somebody_saved_as_a_run_has_no_page(tmp_path):
    record = {"scores": {"global": {"test": None}}, "silo": {"run": "r", "client": 1}}
    (tmp_path / "record.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match="there is no page about that"):
        write_run_page(tmp_path)
    assert not (tmp_path / "report.html").exists()
