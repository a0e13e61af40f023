"""Accuracy over the share of lost edges, also from records that do not tell it."""

import json
from dataclasses import replace

import pytest
from pretend import row_of

from feddep.errors import DataError
from feddep.reports.against_paper import Paper
from feddep.reports.pays import lost_edges_figure
from feddep.reports.source import Library, Source


def cells(kind="louvain"):
    return [
        {"dataset": "cora", "partition.kind": kind, "partition.clients": clients}
        | {"method": method, "seed": seed}
        for clients in (10, 3)
        for method in ("fedavg", "feddep")
        for seed in (0, 1)
    ]


def source(declared, told=lambda cell: True):
    rows = []
    for cell in declared:
        record = row_of(cell)["record"]
        if not told(cell):
            del record["data"]["lost_share"]
        rows.append((cell, record))
    return Source("pays", declared, rows, Paper({}))


KNOWN = {("cora", m, seed): share for m, share in ((3, 0.1), (10, 0.3)) for seed in (0, 1)}


def test_points_stand_at_the_share_that_records_tell():
    (figure,) = lost_edges_figure(source(cells() + cells("random")))
    whole, silo = figure.panels
    assert [panel.title for panel in (whole, silo)] == [
        "cora, on the whole graph",
        "cora, on the own silo",
    ]
    lines = {one.keys: [point.x for point in one.points] for one in whole.series}
    assert lines["feddep", "louvain"] == pytest.approx([0.05 * 3**0.5, 0.05 * 10**0.5])
    assert lines["feddep", "random"] == pytest.approx([2 / 3, 0.9])
    assert "90.0% of edges lost" in whole.series[-1].points[-1].tip


def test_an_old_record_s_share_is_that_of_the_data_table():
    old = source(cells(), told=lambda cell: False)
    (figure,) = lost_edges_figure(replace(old, lost_shares=KNOWN))
    assert [point.x for point in figure.panels[0].series[0].points] == pytest.approx([0.1, 0.3])


def test_another_run_with_the_same_partition_tells_it_too():
    old = source(cells("random"), told=lambda cell: cell["method"] == "fedavg")
    (figure,) = lost_edges_figure(old)
    assert [one.keys[0] for one in figure.panels[0].series] == ["fedavg", "feddep"]
    for one in figure.panels[0].series:
        assert [point.x for point in one.points] == pytest.approx([2 / 3, 0.9])


@pytest.mark.parametrize("known", [{}, KNOWN], ids=["no data table", "another partition"])
def test_a_run_whose_share_nobody_tells_is_left_out(known):
    old = source(cells("random"), told=lambda cell: cell["partition.clients"] == 3)
    (figure,) = lost_edges_figure(replace(old, lost_shares=known))
    for one in figure.panels[0].series:
        assert [point.x for point in one.points] == pytest.approx([2 / 3])
    nobody = source(cells("random"), told=lambda cell: False)
    assert list(lost_edges_figure(replace(nobody, lost_shares=known))) == []


def test_a_record_without_any_data_is_old_too():
    record = row_of(cells()[0])["record"]
    del record["data"]
    assert source([]).lost_share(record) is None


def test_the_data_table_is_read_from_beside_the_records(tmp_path):
    (tmp_path / "pays.toml").write_text('[grid]\nmethod = ["fedavg"]\n')
    (tmp_path / "paper.toml").write_text("[accuracy]\n")
    (tmp_path / "results").mkdir()
    file = tmp_path / "results/data.json"
    assert Library(tmp_path)["pays"].lost_shares == {}
    file.write_text(json.dumps([{"dataset": "cora", "clients": 3, "seed": 0, "lost_share": 0.1}]))
    assert Library(tmp_path)["pays"].lost_shares == {("cora", 3, 0): 0.1}
    file.write_text("[{}]")
    with pytest.raises(DataError, match="data table"):
        Library(tmp_path)["pays"]
