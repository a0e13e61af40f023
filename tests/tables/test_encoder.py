"""Tables of text, gaps and wild scales become a graph; the same encoder treats others alike."""

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from agreement import assert_agree
from feddep.errors import DataError, InputError
from feddep.graph.folder import read_graph
from feddep.graph.graph import Part
from feddep.tables.encoder import Encoder, fit
from feddep.tables.files import frames, is_table_folder, open_tables
from feddep.tables.importing import import_folder
from feddep.tables.report import sentences
from tables.banks import ACCOUNTS, PAYMENTS, write_bank


@pytest.fixture
def bank(tmp_path):
    return write_bank(tmp_path / "north")


def column(graph, name):
    return graph.features[:, graph.schema.features.index(name)]


def test_every_kind_of_column(bank):
    graph = fit(open_tables(bank)).graph
    assert graph.schema.features == (
        "age",
        "age is missing",
        "balance",
        "code = 0123",
        "code = 0471",
        "kind = firm",
        "kind = person",
        "kind is missing",
        "vip",
        "vip is missing",
    )
    assert column(graph, "kind = firm").tolist() == [0, 1, 0, 0, 1, 0]
    assert column(graph, "kind is missing").tolist() == [0, 0, 0, 1, 0, 0]
    assert column(graph, "vip").tolist() == [1, 0, 0, 0, 1, 0]
    assert column(graph, "code = 0471").tolist() == [1, 1, 0, 0, 1, 0]


def test_scales_are_fitted_on_training_nodes_alone(bank):
    encoded = fit(open_tables(bank))
    ages = np.array([41, 33, 58], np.float64)  # of training nodes, where known
    mean, deviation = encoded.encoder.scales["age"]
    assert mean == pytest.approx(ages.mean())
    assert deviation == pytest.approx(ages.std())
    shown = column(encoded.graph, "age")
    assert_agree(shown[4:5], [(29 - mean) / deviation], terms=8)
    assert shown[1] == 0.0  # missing: the mean


def test_labels_and_split(bank):
    graph = fit(open_tables(bank)).graph
    assert graph.schema.classes == ("0", "1")
    assert graph.labels.tolist() == [0, 1, 0, 1, 0, -1]
    assert graph.split.tolist() == [1, 1, 1, 1, 2, 0]


def test_links_inside_and_out(bank):
    encoded = fit(open_tables(bank))
    graph = encoded.graph
    assert {tuple(graph.node_ids[pair]) for pair in graph.edge_list()} == {
        ("a1", "a2"),
        ("a2", "a3"),
        ("a3", "a4"),
        ("a1", "a5"),
    }
    assert encoded.edges.silo == "north"
    outside = graph.outside
    named = zip(graph.node_ids[outside.nodes], outside.silo_names, outside.ids, strict=True)
    assert list(named) == [("a1", "south", "x9"), ("a2", "south", "x9"), ("a4", "west", "y1")]
    dropped = fit(open_tables(bank, outside="drop"))
    assert dropped.graph.outside is None


def test_banks_that_number_their_accounts_alike(tmp_path):
    accounts = "id,x,label\n1,0.1,0\n2,0.2,1\n3,0.3,0\n"
    payments = "source,target,source_bank,target_bank\n1,2,b,a\n2,3,a,a\n3,1,a,c\n1,3,b,a\n"
    encoded = fit(open_tables(write_bank(tmp_path / "a", accounts, payments)))
    assert encoded.edges.silo == "a"
    assert encoded.graph.edge_list().tolist() == [[1, 2]]
    assert encoded.graph.outside.ids.tolist() == [1, 1, 1]
    assert encoded.graph.outside.silo_names.tolist() == ["b", "b", "c"]


def test_counts_and_amounts_as_features(bank):
    encoded = fit(open_tables(bank, edge_features=True))
    mean, deviation = encoded.encoder.scales["amount out"]
    sent = np.expm1(column(encoded.graph, "amount out") * deviation + mean)
    assert_agree(sent, [10, 135, 1, 8, 2.5, 9], terms=64, scale=135.0)
    mean, deviation = encoded.encoder.scales["edges outside"]
    outside = np.expm1(column(encoded.graph, "edges outside") * deviation + mean)
    assert_agree(outside, [1, 2, 0, 1, 0, 0], terms=64, scale=2.0)
    assert encoded.graph.schema.reads_edges


def test_the_same_encoder_treats_next_months_tables_alike(bank, tmp_path):
    first = fit(open_tables(bank))
    first.encoder.write(tmp_path)
    later = ACCOUNTS.replace("a6,person,71", "a6,alien,71").replace("33,12", "33,")
    next_month = open_tables(write_bank(tmp_path / "next", later))
    encoder = Encoder.read(tmp_path)
    assert encoder == first.encoder
    encoded = encoder.encode(next_month)
    assert encoded.encoder.scales == first.encoder.scales
    assert column(encoded.graph, "kind = person")[5] == 0
    assert column(encoded.graph, "balance")[2] == 0
    told = " ".join(sentences(encoded))
    assert "'kind': 1 cells" in told
    assert "'balance': 1 cells" in told
    same = encoder.encode(open_tables(bank)).graph
    assert np.array_equal(same.features, first.graph.features)


def test_a_column_that_is_gone_is_named(bank, tmp_path):
    encoder = fit(open_tables(bank)).encoder
    other = write_bank(tmp_path / "o", ACCOUNTS.replace(",balance,", ",saldo,"))
    with pytest.raises(InputError, match=r"no column 'balance'.*got 'saldo'"):
        encoder.encode(open_tables(other))


def test_the_order_of_columns_does_not_matter(bank, tmp_path):
    rows = [line.split(",") for line in ACCOUNTS.splitlines()]
    swapped = "\n".join(",".join(reversed(row)) for row in rows)
    other = fit(open_tables(write_bank(tmp_path / "swapped" / "north", swapped)))
    first = fit(open_tables(bank))
    assert np.array_equal(first.graph.features, other.graph.features)
    assert first.graph.schema.digest() == other.graph.schema.digest()


def test_parquet_frames_and_gzip_give_the_same_graph(bank, tmp_path):
    first = fit(open_tables(bank)).graph
    zipped = tmp_path / "zipped"
    zipped.mkdir()
    (zipped / "accounts.csv.gz").write_bytes(gzip.compress(ACCOUNTS.encode()))
    (zipped / "transactions.csv.gz").write_bytes(gzip.compress(PAYMENTS.encode()))
    rows = [line.split(",") for line in ACCOUNTS.splitlines()]
    cells = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    typed = {
        **cells,
        "age": pa.array([float(c) if c else None for c in cells["age"]]),
        "balance": pa.array([float(c) for c in cells["balance"]]),
        "vip": pa.array([{"yes": True, "no": False}.get(c) for c in cells["vip"]]),
        "label": pa.array([float(c) if c != "NA" else None for c in cells["label"]]),
    }
    paid = [line.split(",") for line in PAYMENTS.splitlines()]
    payments = dict(zip(paid[0], zip(*paid[1:], strict=True), strict=True))
    parquet = tmp_path / "parquet"
    parquet.mkdir()
    pq.write_table(pa.table(typed), parquet / "accounts.parquet", row_group_size=2)
    pq.write_table(pa.table(payments), parquet / "transactions.parquet")
    for tables in (open_tables(zipped), open_tables(parquet), frames(typed, payments)):
        graph = fit(tables).graph
        assert graph.schema == first.schema
        assert_agree(graph.features, first.features, terms=8, scale=4.0)
        assert np.array_equal(graph.labels, first.labels)
        assert np.array_equal(graph.indices, first.indices)


def test_semicolons_decimal_commas_and_a_byte_order_mark(bank, tmp_path):
    german = ACCOUNTS.replace(".", "!").replace(",", ";").replace("!", ",").replace("\n", "\r\n")
    folder = write_bank(tmp_path / "german")
    (folder / "accounts.csv").write_bytes(b"\xef\xbb\xbf" + german.encode())
    first, other = (fit(open_tables(path)).graph for path in (bank, folder))
    assert np.array_equal(first.features, other.features)


def test_a_split_is_drawn_where_there_is_none(tmp_path):
    accounts = "id,x,label\n" + "".join(f"{i},{i},{i % 2}\n" for i in range(40))
    bank = write_bank(tmp_path / "b", accounts, "source,target\n0,1\n")
    one, other = (fit(open_tables(bank), seed=seed).graph.split for seed in (0, 1))
    assert (one == Part.TRAIN).sum() == 24
    assert (one != other).any()


def test_skewed_amounts_are_log_scaled_and_said_so(tmp_path):
    rng = np.random.default_rng(0)
    rows = zip(np.exp(rng.normal(0, 3, 60)), rng.integers(0, 2, 60), strict=True)
    accounts = "id,turnover,flag,label\n" + "".join(
        f"{i},{x:.4f},{int(i < 3)},{y}\n" for i, (x, y) in enumerate(rows)
    )
    bank = write_bank(tmp_path / "b", accounts, "source,target\n0,1\n")
    encoded = fit(open_tables(bank))
    assert {c.name: c.log for c in encoded.encoder.schema.columns} == {
        "turnover": True,
        "flag": False,
    }
    assert any("very skewed" in line and "turnover" in line for line in sentences(encoded))
    plain = fit(open_tables(bank, log="none"))
    assert not any(c.log for c in plain.encoder.schema.columns)


def test_a_column_of_names_is_no_feature(tmp_path):
    accounts = "id,owner,x,label,\n" + "".join(f"{i},Name {i},{i},{i % 2},\n" for i in range(60))
    bank = write_bank(tmp_path / "b", accounts, "source,target\n0,1\n")
    encoded = fit(open_tables(bank))
    assert encoded.graph.schema.features == ("x",)
    assert any("'owner' has more than 50 texts" in line for line in sentences(encoded))


def test_import_writes_a_graph_folder_with_its_encoder(bank, tmp_path):
    encoded = import_folder(bank, tmp_path / "graph")
    graph = read_graph(tmp_path / "graph")
    assert np.array_equal(graph.features, encoded.graph.features)
    assert graph.schema == encoded.graph.schema
    assert Encoder.read(tmp_path / "graph") == encoded.encoder


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"format": "x"}', '{"format": "feddep-encoder", "version": 1, "schema": 3}'],
)
def test_a_damaged_encoder_is_refused(tmp_path, text):
    (tmp_path / "encoder.json").write_text(text)
    with pytest.raises(DataError, match=r"encoder\.json"):
        Encoder.read(tmp_path)


def test_settings_name_files_and_columns(tmp_path):
    settings = """
nodes = "kunden.csv"
id = "nr"
label = "betrug"
categories = ["filiale"]
drop = ["notiz"]
"""
    bank = write_bank(tmp_path / "b", settings=settings, payments="from,to\n1,2\n2,3\n")
    (bank / "kunden.csv").write_text("nr,filiale,notiz,betrug\n1,7,x,0\n2,9,y,1\n3,7,z,0\n")
    assert is_table_folder(bank)
    graph = fit(open_tables(bank)).graph
    assert graph.schema.features == ("filiale = 7", "filiale = 9")
    assert graph.edges == 2


def test_what_is_useless_is_said_plainly(tmp_path):
    accounts = "id,x,label\n1,2,0\n2,3,0\n3,1,0\n"
    bank = write_bank(tmp_path / "b", accounts, "source,target\n")
    told = " ".join(sentences(fit(open_tables(bank))))
    assert "all labelled nodes are of one class, '0'" in told
    assert "no edges inside this silo" in told


RINGS = """id,age,ring,known,label,split
a1,41,r1,2024-01-05,0,train
a2,30,r1,2024-02-01,1,train
a3,33,,2024-03-01T12:00:00,0,test
a4,58,r2,,1,train
a5,29,r3,2024-04-01,0,val
a6,71,r2,2024-05-01,1,
"""


def test_cases_and_times_are_no_features_but_a_split_may_follow_them(tmp_path):
    bank = write_bank(tmp_path / "north", accounts=RINGS)
    plain = fit(open_tables(bank, case="ring", since="known"))
    assert plain.graph.schema.features == ("age",)
    assert plain.graph.marks.case.tolist() == ["r1", "r1", "", "r2", "r3", "r2"]
    assert plain.graph.marks.time[0] == 1704412800.0
    assert plain.graph.marks.time[2] - plain.graph.marks.time[1] == 29.5 * 86400
    assert np.isnan(plain.graph.marks.time[3])
    assert plain.graph.split.tolist() == [1, 1, 3, 1, 2, 0]  # as the table says
    later = fit(open_tables(bank, since="known", split_by="time"))
    assert later.graph.split.tolist() == [1, 1, 1, 0, 2, 3]
    assert any("(drawn by time)" in told for told in sentences(later))
    import_folder(bank, tmp_path / "graph", case="ring", since="known")
    assert read_graph(tmp_path / "graph").marks.kinds == ["case", "time"]


def test_a_time_that_is_none_is_refused_with_its_line(tmp_path):
    bank = write_bank(tmp_path / "north", accounts=RINGS.replace("2024-02-01", "1.2.2024"))
    with pytest.raises(InputError, match=r"accounts\.csv, line 3: expected a number, a date such"):
        fit(open_tables(bank, since="known"))
    with pytest.raises(InputError, match="as case"):
        fit(open_tables(bank, case="nothing"))
