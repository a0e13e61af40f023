"""Sixty tables as they come: one line with the file, the line and what to do; nothing is written.

Each case is what is wrong with a silo's two files, and a part of what is said about it.
"""

import gzip
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calls import Feddep

NODES = "id,age,kind,label\n" + "".join(f"n{i},{20 + i},{'xy'[i % 2]},{i % 2}\n" for i in range(10))
EDGES = "source,target\nn0,n1\nn1,n2\nn2,n3\n"


def rows(header: str, *lines: str) -> str:
    return "\n".join([header, *lines]) + "\n"


def parquet(columns: dict[str, object]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


IDS = [f"n{i}" for i in range(4)]
GOOD = {"id": IDS, "age": [1.0, 2.0, 3.0, 4.0], "label": ["a", "b", "a", "b"]}

BAD_NODES: dict[str, tuple[str | bytes, str]] = {
    "an empty file": ("", "is empty; expected a first line with the names"),
    "blank lines": ("\n\n  \n", "is empty"),
    "a header alone": ("id,age,label\n", "a header but no rows"),
    "no column of ids": ("name,age\nn0,1\n", "expected a column 'id'"),
    "no features": ("id,label\nn0,a\nn1,b\n", "no column that can be a feature"),
    "two columns of one name": ("id,age,age\nn0,1,2\n", "'age' stands there twice"),
    "a cell too many": (NODES + "n11,1,x,0,9\n", "line 12: expected 4 cells, as in line 1 (got 5)"),
    "a cell too few": (NODES + "n11,1\n", "line 12: expected 4 cells"),
    "an id that repeats": (NODES + "n3,1,x,0\n", "line 12: expected an id that no other row has"),
    "an empty id": (NODES + ",1,x,0\n", "line 12: expected an id"),
    "an open quote": (NODES + 'n11,"1,x,0\n', "a quote is opened and never closed"),
    "a comma without quotes": (NODES + "n11,1,Smith, J.,0\n", "a cell with ',' in it needs quotes"),
    "UTF-16": (NODES.encode("utf-16"), "is in UTF-16; save it as CSV in UTF-8"),
    "UTF-16 without a mark": (NODES.encode("utf-16-le"), "save the table as CSV in UTF-8"),
    "Latin-1 in a cell": (NODES.encode() + "n11,1,\u00fc,0\n".encode("latin-1"), "line 12 is not"),
    "Latin-1 in the header": ("id,gr\u00f6\u00dfe\n1,2\n".encode("latin-1"), "line 1 is not in"),
    "a zero byte": (NODES.encode() + b"n11,1,x\0y,0\n", "line 12 holds a zero byte"),
    "zero bytes alone": (b"\0" * 64, "is not a CSV file"),
    "an Excel file": (b"PK\x03\x04" + b"\0" * 64, "an Excel or zip file"),
    "an old Excel file": (b"\xd0\xcf\x11\xe0" + b"\0" * 64, "an old Excel file"),
    "a database": (b"SQLite format 3\0", "an SQLite database"),
    "a PDF": (b"%PDF-1.7 ...", "a PDF; export"),
    "JSON": ('[{"id": 1}]', "is JSON; save it as CSV or Parquet"),
    "gzip cut off": (gzip.compress(NODES.encode() * 500)[:100], "is damaged or cut off"),
    "gzip damaged": (gzip.compress(NODES.encode())[:-4] + b"abcd", "is damaged or cut off"),
    "gzip of nothing": (gzip.compress(b""), "is empty"),
    "Parquet cut off": (parquet(GOOD)[:60], "is damaged or not a whole Parquet file"),
    "Parquet of lists": (
        parquet(GOOD | {"age": [[1], [2], [3], [4]]}),
        "a cell must be one number",
    ),
    "Parquet of records": (parquet(GOOD | {"age": [{"x": 1}] * 4}), "a cell must be one number"),
    "Parquet of bytes": (parquet(GOOD | {"age": [b"\1"] * 4}), "a cell must be one number"),
    "Parquet without rows": (parquet({"id": [], "age": []}), "a header but no rows"),
    "Parquet with a missing id": (parquet(GOOD | {"id": ["n0", None, "n2", "n3"]}), "row 2: exp"),
    "Parquet with an id twice": (parquet(GOOD | {"id": ["n0", "n1", "n1", "n3"]}), "row 3: exp"),
    "an infinite number": (NODES + "n11,inf,x,0\n", "line 12: expected a number as 'age'"),
    "a number beyond single precision": (NODES + "n11,1e39,x,0\n", "finite and below 3e38"),
    "another split": (rows("id,age,split", "n0,1,train", "n1,2,maybe"), "line 3: expected train"),
    "labels that are amounts": (
        rows("id,age,label", *(f"n{i},{i},{i}.5" for i in range(1200))),
        "expected at most 1000 classes",
    ),
    "features that are all names": (
        rows("id,name", *(f"n{i},name {i}" for i in range(80))),
        "no column that can be a feature",
    ),
    "a line of a megabyte": ("id," + "x" * (1 << 20) + "\nn0,1\n", "is not a CSV file"),
    "an id of many lines": ('id,age\n"n\n0",1\nn1,2\n', "a node id must be one line"),
}

BAD_EDGES: dict[str, tuple[str | bytes, str]] = {
    "an empty file": ("", "is empty"),
    "no source": ("a,b\nn0,n1\n", "expected a column 'source'"),
    "no target": ("source,b\nn0,n1\n", "expected a column 'target'"),
    "an empty end": (EDGES + "n0,\n", "line 5: expected an id as 'target'"),
    "an empty begin": (EDGES + ",n1\n", "line 5: expected an id as 'source'"),
    "nobody's ids": ("source,target\np1,p2\np2,p3\n", "none of 2 rows names an id of"),
    "a cell too many": (EDGES + "n0,n1,9\n", "line 5: expected 2 cells, as in line 1 (got 3)"),
    "an open quote": (EDGES + '"n0,n1\n', "a quote is opened and never closed"),
    "two columns of one name": ("source,target,target\nn0,n1,n2\n", "'target' stands there twice"),
    "one silo named of two": ("source,target,source_bank\nn0,n1,a\n", "name both columns or neith"),
    "an empty silo": (
        "source,target,source_bank,target_bank\nn0,n1,a,a\nn1,n2,a,\n",
        "line 3: expected the name of a silo",
    ),
    "UTF-16": (EDGES.encode("utf-16"), "is in UTF-16"),
    "Latin-1": (EDGES.encode() + "n\u00fc,n1\n".encode("latin-1"), "line 5 is not in UTF-8"),
    "a zero byte": (EDGES.encode() + b"n0\0,n1\n", "line 5 holds a zero byte"),
    "an Excel file": (b"PK\x03\x04" + b"\0" * 64, "an Excel or zip file"),
    "JSON": ('{"source": []}', "is JSON"),
    "gzip cut off": (gzip.compress(EDGES.encode() * 500)[:60], "is damaged or cut off"),
    "Parquet cut off": (parquet({"source": IDS, "target": IDS})[:40], "is damaged or not a whole"),
    "Parquet of lists": (
        parquet({"source": [[i] for i in IDS], "target": IDS}),
        "one number or te",
    ),
}

BAD_AMOUNTS: dict[str, tuple[str | bytes, str]] = {
    "an amount in words": ("source,target,amount\nn0,n1,lots\n", "line 2: expected a number as"),
    "a negative amount": ("source,target,amount\nn0,n1,1\nn1,n2,-3\n", "line 3: expected a weight"),
    "an infinite amount": ("source,target,amount\nn0,n1,inf\n", "finite and below 3e38"),
}


def refused(feddep: Feddep, nodes: str | bytes, edges: str | bytes, *flags: str) -> str:
    """What `feddep import` says of a folder that it refuses without a trace."""
    folder = Path("bank")
    folder.mkdir()
    for name, content in (("nodes.csv", nodes), ("edges.csv", edges)):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    done = feddep("import", folder, "--out", "graph", *flags)
    assert done.code == 2, done.out
    assert done.err.count("\n") == 1, done.err
    assert "Traceback" not in done.err
    assert sorted(path.name for path in Path().iterdir()) == ["bank"]
    return done.err


@pytest.mark.parametrize("case", BAD_NODES)
def test_tables_of_nodes(feddep: Feddep, case: str):
    content, told = BAD_NODES[case]
    said = refused(feddep, content, EDGES)
    assert told in said
    assert "nodes.csv" in said or case == "an id of many lines"


@pytest.mark.parametrize("case", BAD_EDGES)
def test_tables_of_edges(feddep: Feddep, case: str):
    content, told = BAD_EDGES[case]
    said = refused(feddep, NODES, content)
    assert told in said
    assert "edges.csv" in said


@pytest.mark.parametrize("case", BAD_AMOUNTS)
def test_amounts(feddep: Feddep, case: str):
    content, told = BAD_AMOUNTS[case]
    said = refused(feddep, NODES, content, "--flows")
    assert told in said
    assert "edges.csv" in said


def test_there_are_sixty_of_them():
    assert len(BAD_NODES) + len(BAD_EDGES) + len(BAD_AMOUNTS) >= 60


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace(",", ";").encode(),
        lambda text: text.replace(",", "\t").encode(),
        lambda text: text.replace(",", "|").encode(),
        lambda text: gzip.compress(text.encode()),
        lambda text: text.replace("n1", " n1 ").encode(),
        lambda text: ("\n" + text + "\n\n").encode(),
        lambda text: text.rstrip("\n").encode(),
    ],
    ids=[
        "mark",
        "CRLF",
        "semicolon",
        "tab",
        "bar",
        "gzip",
        "blanks",
        "blank lines",
        "no last newline",
    ],
)
def test_habits_of_programs_are_understood(feddep: Feddep, change):
    Path("bank").mkdir()
    Path("bank/nodes.csv").write_bytes(change(NODES))
    Path("bank/edges.csv").write_bytes(change(EDGES))
    done = feddep("check", "bank")
    assert done.code == 0, done.err
    assert "10 nodes, 3 rows of edges" in done.out
    assert "3 links between two nodes" in done.out
