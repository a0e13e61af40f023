import io
import json
import os
import signal
import sys
import threading
from dataclasses import replace
from queue import SimpleQueue

import pytest

from feddep import api
from feddep.algorithms import fingerprint
from feddep.errors import DataError, InputError, RuntimeFailureError
from feddep.graph.shard import write_shards
from feddep.runs.records import without_times
from feddep.scenario import presets
from feddep.scenario.build import resolve
from feddep.scenario.spec import RunSpec
from feddep.sweeps import one_run, runners, sweep
from feddep.sweeps.rows import in_use, read_rows
from feddep.sweeps.runners import FailedRunError
from feddep.sweeps.sweep import Sweep

DECLARATION = """
[fixed]
"synthetic.nodes" = 150
"training.rounds" = 1

[grid]
method = ["local", "fedavg"]
seed = [0, 1]
"""

REST = {"loading": 0.0, "setup": 0.0, "measuring": 0.0}
SECONDS = {"local": {"total": 1.0, **REST}, "fedavg": {"total": 2.0, **REST}}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(DECLARATION)
    return path


@pytest.fixture
def ran(monkeypatch):
    cells = []

    def pretend(cell, *, history):
        cells.append(cell)
        own = {"method": cell["method"], "seed": cell["seed"], "seconds": SECONDS[cell["method"]]}
        return {"record": own}

    monkeypatch.setattr(sweep, "run_apart", pretend)
    return cells


def apart(cell):
    """The record of one run in a process of its own."""
    return runners.run_apart(cell, history=False)["record"]


def test_what_a_shard_folder_brings_is_shown_as_it_was_run(tmp_path, small_graph):
    shards = api.partition(small_graph, clients=2, kind="random")
    write_shards(shards, tmp_path / "silos")
    declaration = f'[grid]\ndataset = ["{tmp_path / "silos"}"]\nmethod = ["fedavg"]\n'
    small = '[fixed]\n"training.rounds" = 1\n"model.hidden" = 8\n'
    (tmp_path / "own.toml").write_text(small + declaration)
    found = Sweep.read(tmp_path / "own.toml")
    found.run(1, lambda done, total, cell: None)
    ((_, record),) = found.records()
    assert (record["clients"], record["partition"], record["split"]) == (2, "random", "stratified")
    lost = len(shards.graph.edge_list()) - sum(len(own.edge_list()) for own in shards)
    assert record["data"]["lost_share"] == pytest.approx(lost / len(shards.graph.edge_list()))


def test_every_combination_of_the_grid_is_a_run(file):
    assert [(cell["method"], cell["seed"]) for cell in Sweep.read(file).cells] == [
        ("local", 0),
        ("local", 1),
        ("fedavg", 0),
        ("fedavg", 1),
    ]
    assert all(cell["synthetic.nodes"] == 150 for cell in Sweep.read(file).cells)


def test_records_are_stored_one_a_line_and_told_of(file, ran):
    told = []
    Sweep.read(file).run(2, lambda *news: told.append(news[:2]))
    assert sorted(told) == [(1, 4), (2, 4), (3, 4), (4, 4)]
    lines = (file.parent / "results/small.jsonl").read_text().splitlines()
    assert len(lines) == 4
    assert {"settings", "record"} == json.loads(lines[0]).keys()


def test_what_is_there_is_not_run_again(file, ran):
    Sweep.read(file).run(1, lambda *_: None)
    ran.clear()
    file.write_text(DECLARATION.replace("[0, 1]", "[0, 1, 2]"))
    declared = Sweep.read(file)
    assert [cell["seed"] for cell in declared.missing()] == [2, 2]
    declared.run(1, lambda *_: None)
    assert [cell["seed"] for cell in ran] == [2, 2]
    assert [record["seed"] for _, record in declared.records()] == [0, 1, 2, 0, 1, 2]


def test_a_setting_that_is_named_and_is_the_default_makes_no_other_run(file, ran):
    Sweep.read(file).run(1, lambda *_: None)
    named = file.with_name("other.toml")
    named.write_text(DECLARATION.replace("[grid]", '"partition.kind" = "louvain"\n[grid]'))
    assert Sweep.read(named).missing() == []
    named.write_text(DECLARATION.replace("[grid]", '"partition.kind" = "random"\n[grid]'))
    assert len(Sweep.read(named).missing()) == 4


def test_presets_that_come_to_the_same_are_one_run_under_two_names(file, ran, monkeypatch):
    text = DECLARATION.replace("[grid]", '[grid]\npreset = ["paper", "tuned"]')
    file.write_text(text.replace('["local", "fedavg"]', '["fedavg"]'))
    declared = Sweep.read(file)  # nobody tuned anything on this data set
    assert len(declared.missing()) == 4
    declared.run(1, lambda *_: None)
    assert len(ran) == 2
    assert declared.missing() == []
    presets = [(cell["preset"], record["preset"]) for cell, record in declared.records()]
    assert presets == [("paper", "paper")] * 2 + [("tuned", "tuned")] * 2


def test_who_has_the_whole_graph_runs_once_for_all_partitions(file, monkeypatch):
    cells = []

    def pretend(cell, *, history):
        cells.append(cell)
        clients = cell["partition.clients"]
        data = {"nodes": 150, "lost_share": clients / 100}
        seconds = {"total": 1.0, **REST}
        facts = {"clients": clients, "partition": "louvain", "data": data, "seconds": seconds}
        return {"record": facts}

    monkeypatch.setattr(sweep, "run_apart", pretend)
    grid = DECLARATION.replace("seed = [0, 1]", '"partition.clients" = [3, 10]')
    file.write_text(grid.replace('["local", "fedavg"]', '["global", "fedavg"]'))
    declared = Sweep.read(file)
    assert len(declared.cells) == 4
    declared.run(1, lambda *_: None)
    assert [cell["method"] for cell in cells] == ["global", "fedavg", "fedavg"]
    assert declared.missing() == []
    shown = [(cell["method"], record["clients"]) for cell, record in declared.records()]
    assert shown == [("global", 3), ("global", 10), ("fedavg", 3), ("fedavg", 10)]
    shares = [record["data"].get("lost_share") for _, record in declared.records()]
    assert shares == [None, 0.1, 0.03, 0.1]  # what ran was the one with 10 clients


def test_a_row_that_nobody_understands_any_more_is_passed_over(file, ran):
    results = file.parent / "results"
    results.mkdir()
    row = {"settings": {"method": "local", "gone.key": 1}, "record": {}}
    (results / "older.jsonl").write_text(json.dumps(row) + "\n")
    assert len(Sweep.read(file).missing()) == 4


def test_what_will_take_longest_comes_first(file, ran):
    Sweep.read(file).run(1, lambda *_: None)
    assert [cell["method"] for cell in ran] == ["local", "local", "fedavg", "fedavg"]
    ran.clear()
    file.write_text(DECLARATION.replace("[0, 1]", "[2, 3, 1]"))
    Sweep.read(file).run(1, lambda *_: None)
    assert [(cell["method"], cell["seed"]) for cell in ran] == [
        ("fedavg", 2),
        ("fedavg", 3),
        ("local", 2),
        ("local", 3),
    ]


@pytest.mark.parametrize("at_once", [1, 2])
def test_failed_runs_are_named_and_the_others_are_kept(file, monkeypatch, at_once):
    def fails_for_seed_1(cell, *, history):
        if cell["seed"] == 1:
            raise FailedRunError(f"the run {cell} failed")
        return {"record": {"seed": cell["seed"]}}

    monkeypatch.setattr(sweep, "run_apart", fails_for_seed_1)
    file.write_text(DECLARATION.replace("[0, 1]", "[1, 0]"))
    with pytest.raises(RuntimeFailureError, match=r"'seed': 1.* failed; 2 of 4 runs failed in all"):
        Sweep.read(file).run(at_once, lambda *_: None)
    assert [record["seed"] for _, record in Sweep.read(file).records()] == [0, 0]


def test_what_goes_on_while_a_sweep_is_stopped_is_kept(file, monkeypatch):
    """Whoever waited half an hour for a run should have it."""
    stopped, asked = threading.Event(), []

    def slow_for_seed_0(cell, *, history):
        asked.append(cell)
        assert cell["seed"] == 1 or stopped.wait(timeout=60)
        return {"record": {"seed": cell["seed"]}}

    def stop(*_):
        stopped.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "run_apart", slow_for_seed_0)
    file.write_text(DECLARATION.replace('["local", "fedavg"]', '["local"]'))
    with pytest.raises(KeyboardInterrupt):
        Sweep.read(file).run(2, stop)
    assert len(asked) == 2
    assert [record["seed"] for _, record in Sweep.read(file).records()] == [0, 1]


def test_what_somebody_else_ran_in_the_meantime_is_not_run_again(file, ran, monkeypatch):
    declared, pretend = Sweep.read(file), sweep.run_apart

    def while_somebody_else_runs_the_rest(cell, *, history):
        monkeypatch.setattr(sweep, "run_apart", pretend)
        replace(declared, cells=[other for other in declared.cells if other != cell]).run(
            1, lambda *_: None
        )
        return pretend(cell, history=history)

    monkeypatch.setattr(sweep, "run_apart", while_somebody_else_runs_the_rest)
    declared.run(1, lambda *_: None)
    assert len(ran) == 4
    assert not declared.missing()


def test_who_measures_seconds_is_alone_in_the_folder(file, ran):
    def begin(text):
        declared = file.with_name("other.toml")
        declared.write_text(text + DECLARATION)
        Sweep.read(declared).run(1, lambda *_: None)

    results = file.parent / "results"
    results.mkdir()
    with in_use(results, alone=False):
        begin("")
        with pytest.raises(InputError, match="needs the machine to itself, but another is"):
            begin("timed = true\n")
    with (
        in_use(results, alone=True),
        pytest.raises(InputError, match="so needs the machine to itself, is running"),
    ):
        begin("history = true\n")


def test_half_a_row_is_refused_with_its_place(file, ran):
    Sweep.read(file).run(1, lambda *_: None)
    results = file.parent / "results/small.jsonl"
    results.write_text(results.read_text()[:-20])
    with pytest.raises(DataError, match=r"line 4 of .*small.jsonl is not a complete row.*delete"):
        Sweep.read(file).missing()


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (b"[1, 2]", "expected settings and record"),
        (b'{"settings": {}}', "expected settings and record"),
        (b'{"settings": {}, "record": {"scores": {"silo": {"val": "abc"}}}}', "silo.val is 'abc'"),
        (b"\xff\xfe", "Expecting value"),
    ],
)
def test_what_no_run_has_written_is_refused_with_its_place(file, row, why):
    results = file.parent / "results/small.jsonl"
    results.parent.mkdir()
    results.write_bytes(row + b"\n")
    with pytest.raises(DataError, match=rf"line 1 of .*small.jsonl is not a complete row.*{why}"):
        Sweep.read(file).missing()


def test_a_run_of_a_method_whose_file_has_changed_does_not_count(tmp_path, ran, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    own = tmp_path / "own_method_of_a_sweep.py"
    own.write_text("from feddep.algorithms.fedavg import METHOD\n")
    name = f"{own.stem}:METHOD"
    monkeypatch.setitem(SECONDS, name, SECONDS["fedavg"])
    declared = tmp_path / "own.toml"
    declared.write_text(f'[grid]\nmethod = ["{name}"]\nseed = [0]\n')
    Sweep.read(declared).run(1, lambda *_: None)
    assert len(Sweep.read(declared).missing()) == 1, "no fingerprint"
    (row,) = read_rows(tmp_path / "results/own.jsonl")
    row["record"]["versions"] = {"method": fingerprint(name)}
    (tmp_path / "results/own.jsonl").write_text(json.dumps(row))
    assert Sweep.read(declared).missing() == []
    own.write_text(own.read_text() + "# another one\n")
    assert len(Sweep.read(declared).missing()) == 1


def test_data_that_are_not_there_are_refused_before_anything_runs(file, ran, monkeypatch):
    file.write_text(DECLARATION.replace("[grid]", '[grid]\ndataset = ["nowhere/at/all"]'))
    declared = Sweep.read(file)
    with pytest.raises(InputError, match="nowhere"):
        declared.check_data()
    declared.run(1, lambda *_: None)
    declared.check_data()  # nothing is missing any more


def test_histories_are_kept_where_they_are_declared(file, monkeypatch):
    def pretend(cell, *, history):
        assert history
        return {"record": {"seed": cell["seed"]}, "history": {"round": [1], "loss": [0.5]}}

    plain = Sweep.read(file)
    file.write_text("history = true\n" + DECLARATION)
    monkeypatch.setattr(sweep, "run_apart", pretend)
    declared = Sweep.read(file)
    declared.run(1, lambda *_: None)
    assert [history["loss"] for _, _, history in declared.histories()] == [[0.5]] * 4
    assert [record["seed"] for _, record in declared.records()] == [0, 1, 0, 1]
    assert plain.missing() == []
    assert plain.histories() == []


def test_a_record_without_a_history_does_not_count_where_histories_are_declared(file, ran):
    Sweep.read(file).run(1, lambda *_: None)
    file.write_text("history = true\n" + DECLARATION)
    assert len(Sweep.read(file).missing()) == 4
    assert Sweep.read(file).records() == []


def test_a_timed_sweep_runs_one_at_a_time_and_counts_nothing_else(file, ran):
    crowded = Sweep.read(file)
    crowded.run(2, lambda *_: None)
    assert {record["at_once"] for _, record in crowded.records()} == {2}
    file.write_text("timed = true\n" + DECLARATION)
    timed = Sweep.read(file)
    assert (crowded.processes(2), timed.processes(2)) == (2, 1)
    assert len(timed.missing()) == 4
    timed.run(2, lambda *_: None)
    assert {record["at_once"] for _, record in timed.records()} == {1}
    assert timed.missing() == []


def test_a_timed_sweep_takes_turns(file):
    """A machine is now faster, now slower; so no method has one spell to itself."""
    file.write_text("timed = true\n" + DECLARATION)
    order = [(cell["method"], cell["seed"]) for cell, _ in Sweep.read(file).waiting()]
    assert order == [("local", 0), ("fedavg", 0), ("local", 1), ("fedavg", 1)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("grid = [", "cannot read"),
        ("history = 3\n[grid]\nseed = [0]", "history must be true or false \\(got 3"),
        ("[fixed]\nseed = 1", "expected \\[grid\\]"),
        ('[grid]\nmethod = "local"', "list of values"),
        ("[grid]\nnonsense = [1]", "unknown setting 'nonsense'"),
        ("[grid]\nseed = [0]\n[other]\na = 1", "expected \\[grid\\]"),
        ("grid = 5", "\\[grid\\] must be a table \\(got \\[5\\]"),
        ("fixed = 3\n[grid]\nseed = [0]", "\\[fixed\\] must be a table \\(got 3"),
        ("[grid]\nseed = []", "entry of \\[grid\\] must be a list of values"),
        ("[grid]\nseed = [0]\n[quick]\nseed = 0", "entry of \\[quick\\] must be a list"),
        ("[grid]\ntraining.rounds = [1]", 'quote keys .* as "training.rounds" in \\[grid\\]'),
        ("[fixed]\nseed = 1\n[grid]\nseed = [0]", "seed stands in \\[fixed\\] and in"),
    ],
)
def test_a_wrong_declaration_is_refused_before_anything_runs(tmp_path, text, says):
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        Sweep.read(path)


def test_a_small_version_is_declared_or_refused(file):
    with pytest.raises(InputError, match=r"no table \[quick\]; add one"):
        Sweep.read(file, quick=True)
    file.write_text(DECLARATION + "[quick]\nseed = [7]\n")
    with pytest.raises(InputError, match="declares no run"):
        Sweep.read(file, quick=True)


def test_the_small_version_sets_a_single_value_and_only_chooses_among_several(file):
    quick = """
[quick]
seed = [0]
"generator.epochs" = [5]
"training.learning_rate" = [0.1, 0.2]
"""
    file.write_text(DECLARATION + quick)
    cells = Sweep.read(file, quick=True).cells
    assert [(cell["method"], cell["seed"]) for cell in cells] == [("local", 0), ("fedavg", 0)]
    assert all(cell["generator.epochs"] == 5 for cell in cells)
    assert not any("training.learning_rate" in cell for cell in cells)


def test_a_run_in_a_process_of_its_own_gives_a_record():
    cell = {"method": "local", "synthetic.nodes": 150, "training.rounds": 1}
    record = apart(cell)
    assert record["method"] == "local"
    assert 0 <= record["scores"]["global"]["test"] <= 1


def test_a_run_with_its_history_gives_one_entry_a_round():
    cell = {"method": "local", "synthetic.nodes": 150, "training.rounds": 2}
    row = runners.run_apart(cell, history=True)
    assert row.keys() == {"record", "history"}
    history, scores = row["history"], row["record"]["scores"]
    assert history["round"] == [1, 2]
    assert {len(column) for column in history.values()} == {2}
    assert history["global_test"][-1] == pytest.approx(scores["global"]["test_last"], abs=1e-5)
    assert history["seconds"] == sorted(history["seconds"])


def test_a_run_that_cannot_be_is_an_error_with_its_reason():
    with pytest.raises(RuntimeFailureError, match="at most 150 clients"):
        apart({"synthetic.nodes": 150, "partition.clients": 151})


def test_a_run_after_a_failed_one_is_as_if_there_had_been_none():
    cell = {"method": "local", "synthetic.nodes": 150, "training.rounds": 1}
    first = apart(cell)
    with pytest.raises(RuntimeFailureError, match="at most 150 clients"):
        apart({"synthetic.nodes": 150, "partition.clients": 151})
    assert without_times(apart(cell)) == without_times(first)


def test_a_run_whose_process_dies_is_an_error(monkeypatch):
    monkeypatch.setattr(one_run, "_answer", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    assert json.loads(one_run.in_a_fork({})) == {"failed": "its process ended with exit code -9"}


def test_one_run_answers_line_by_line(monkeypatch, capsys):
    cell = {"method": "local", "synthetic.nodes": 150, "training.rounds": 1}
    lines = [json.dumps({"settings": cell | {"seed": seed}, "history": True}) for seed in (0, 1)]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
    one_run.main()
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["record"]["seed"] for row in found] == [0, 1]
    assert all(row.keys() == {"record", "history"} for row in found)


def test_where_runs_cannot_be_started_the_sweep_says_so(monkeypatch):
    monkeypatch.setattr(runners, "_IDLE", SimpleQueue())
    monkeypatch.setattr(runners.sys, "executable", "/bin/false")
    says = 'carries out runs ended with exit code 1, at the run {"seed": 0}'
    with pytest.raises(RuntimeFailureError, match=says):
        apart({"seed": 0})


def test_a_record_counts_for_what_was_run_whatever_its_preset_says_by_now(
    file, monkeypatch, tmp_path
):
    def pretend(cell, *, history):
        spec = resolve(RunSpec().with_settings(cell), cell)
        return {"record": {"settings": spec.settings_of(["training"]) | {"gone.key": 1}}}

    def tuned(rounds):
        presets_file = tmp_path / f"presets-{rounds}.toml"
        presets_file.write_text(f'[tuned.fedavg.synthetic]\n"training.rounds" = {rounds}\n')
        monkeypatch.setattr(presets, "FILE", presets_file)

    monkeypatch.setattr(sweep, "run_apart", pretend)
    file.write_text('[grid]\nmethod = ["fedavg"]\npreset = ["paper", "tuned"]\n')
    tuned(rounds=RunSpec().training.rounds)  # as in the paper: one run, under both names
    Sweep.read(file).run(1, lambda *_: None)
    assert Sweep.read(file).missing() == []
    tuned(rounds=9)
    assert [cell["preset"] for cell in Sweep.read(file).missing()] == ["tuned"]
    other = file.with_name("other.toml")
    other.write_text('[grid]\nmethod = ["fedavg"]\npreset = ["tuned"]\n"training.rounds" = [50]\n')
    assert Sweep.read(other).missing() == []
