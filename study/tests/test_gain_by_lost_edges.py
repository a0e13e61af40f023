"""Accuracy over the share of lost edges, also from records that do not tell it."""

import json
import re
from dataclasses import replace

import pytest

from feddep.errors import DataError
from feddep_study.against_paper import Paper
from feddep_study.gain_by_lost_edges import (
    bother_figure,
    gain_tables,
    lost_edges_figure,
    weaker_features_figure,
)
from feddep_study.source import Library, Source
from made_up_records import row_of


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
    (tmp_path / "declarations").mkdir()
    (tmp_path / "declarations/pays.toml").write_text('[grid]\nmethod = ["fedavg"]\n')
    (tmp_path / "paper.toml").write_text("[accuracy]\n")
    (tmp_path / "results").mkdir()
    file = tmp_path / "results/data.json"
    assert Library(tmp_path)["pays"].lost_shares == {}
    file.write_text(json.dumps([{"dataset": "cora", "clients": 3, "seed": 0, "lost_share": 0.1}]))
    assert Library(tmp_path)["pays"].lost_shares == {("cora", 3, 0): 0.1}
    file.write_text("[{}]")
    with pytest.raises(DataError, match="data table"):
        Library(tmp_path)["pays"]


def test_runs_with_fewer_features_have_a_figure_of_their_own():
    thinned = [cell | {"feature_share": 0.1} for cell in cells() if cell["partition.clients"] == 10]
    both = source(cells() + thinned)
    assert list(lost_edges_figure(both)) == list(lost_edges_figure(source(cells())))
    (figure,) = weaker_features_figure(both)
    assert [panel.title for panel in figure.panels] == [
        "cora, on the whole graph",
        "cora, on the own silo",
    ]
    for panel in figure.panels:
        for line in panel.series:
            assert [point.x for point in line.points] == [-1.0, 0.0]  # logarithms of 0.1 and 1
    assert figure.caption.startswith("With 10 clients. Mean over seeds")
    assert list(weaker_features_figure(source(cells()))) == []


class TestGains:
    """Two seeds, 10 clients; accuracies as given, on both metrics alike."""

    ACCURACIES = {  # noqa: RUF012
        "local": (0.50, 0.60),
        "fedavg": (0.70, 0.80),
        "feddep": (0.72, 0.80),
        "oracle": (0.75, 0.85),
    }

    declared = (*ACCURACIES, "fedsage")

    def source(self, without=()):
        rows = []
        for method, found in self.ACCURACIES.items():
            for seed, accuracy in enumerate(found):
                if (method, seed) in without:
                    continue
                cell = {"dataset": "cora", "partition.clients": 10, "method": method, "seed": seed}
                record = row_of(cell)["record"]
                record["data"]["lost_share"] = 0.1 + 0.2 * seed
                for scores in record["scores"].values():
                    scores["test"] = accuracy
                rows.append((cell | {"partition.kind": "louvain"}, record))
        # Another setting, so that there is something in which settings differ.
        cell = {"dataset": "citeseer", "partition.clients": 10, "method": "fedavg", "seed": 0}
        rows.append((cell | {"partition.kind": "louvain"}, row_of(cell)["record"]))
        return Source("pays", [{"method": m} for m in self.declared], rows, Paper({}))

    def tables(self, without=()):
        return list(gain_tables(self.source(without)))

    def test_mending_is_compared_with_averaging_and_averaging_with_training_alone(self):
        whole, silo = self.tables()
        assert whole.headings[1:] == (
            "edges lost",
            "fedavg",
            "fedsage over fedavg",
            "feddep over fedavg",
            "oracle† over fedavg",
            "pairs",
        )
        assert silo.headings[2:4] == ("local", "fedavg over local")
        # Two equal differences have no interval. 2 and 0: mean 1, s = √2, t = 12.706 with one
        # degree of freedom, so ± 12.706 · √2 / √2.
        gains = ("not run yet", "+1.00 [−11.71, +13.71]", "+5.00")
        assert whole.rows[0] == ("cora", "20%", "0.7500", *gains, "0 / 2 / 2")
        assert silo.rows[0] == ("cora", "20%", "0.5500", "+20.00", *gains, "2 / 0 / 2 / 2")

    def test_a_line_tells_the_pairs_and_what_is_not_run_yet(self):
        whole, silo = self.tables(without=[("local", 0), ("local", 1), ("oracle", 1)])
        assert silo.rows[0][2:4] == ("not run yet", "not run yet")
        assert silo.rows[0][-1] == "0 / 0 / 2 / 1"
        assert whole.rows[1][-4:] == ("not run yet", "not run yet", "not run yet", "0")
        assert re.fullmatch(r"0\.\d{4}", whole.rows[1][-5])  # the reference was run all the same

    def test_a_method_that_is_not_declared_has_no_column(self, monkeypatch):
        monkeypatch.setattr(TestGains, "declared", ("fedavg", "local", "feddep"))
        whole, silo = self.tables()
        assert whole.headings[-2:] == ("feddep over fedavg", "pairs")
        assert silo.headings[-3:] == ("fedavg over local", "feddep over fedavg", "pairs")

    def test_the_figure_asks_whether_to_federate_and_whether_to_mend(self):
        (figure,) = bother_figure(self.source())
        federate, mend = figure.panels
        assert (federate.title, mend.title) == (
            "cora: federate at all?",
            "cora: mend lost links?",
        )
        (averaging,) = federate.series
        assert [(p.y, p.low) for p in averaging.points] == [(pytest.approx(20), None)]
        feddep, oracle = mend.series
        (point,) = feddep.points
        assert (point.y, point.low, point.high) == pytest.approx((1.0, -11.706, 13.706), abs=1e-3)
        assert [point.y for point in oracle.points] == pytest.approx([5.0])
        assert {key.name for key in figure.legend} == {"fedavg", "feddep", "oracle", "louvain"}
        assert mend.guide == 0.0

    def test_without_anything_to_compare_there_is_no_figure(self):
        assert list(bother_figure(self.source(without=ALONE))) == []


ALONE = [(method, seed) for method in ("local", "feddep", "oracle") for seed in (0, 1)]
