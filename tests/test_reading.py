"""Small files that ask for much: refused before anything is allocated, in words of our own."""

import io
import json
import os
import socket
import zipfile
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from feddep.deployment.operations.certificates import load_private_openssh, loaded
from feddep.deployment.operations.config import read_config
from feddep.deployment.protocol.consent import Consent
from feddep.deployment.protocol.disclosure_log import DisclosureLog, verify
from feddep.deployment.protocol.memory import Carried, RunMemory
from feddep.deployment.protocol.registry import read_registry
from feddep.deployment.protocol.request_log import PlaceLog
from feddep.errors import DataError, FeddepError, InputError
from feddep.federation.messages import unpack
from feddep.graph.files import format_of
from feddep.graph.folder import read_features, read_graph, write_graph
from feddep.graph.shard import read_shards, shard_settings, write_shards
from feddep.reading import plain_bytes, plain_text
from feddep.runs.files import read_record
from feddep.runs.weight_files import read_arrays
from feddep.scenario.presets import read_choice
from feddep.scenario.spec import read_settings
from feddep.sweeps.declaration import read_declaration
from feddep.sweeps.rows import read_rows
from feddep.tables.agreeing import read_schema
from feddep.tables.encoder import Encoder
from feddep.tables.settings import TableSettings
from feddep.tables.sources import open_table
from graph.small_graphs import halves, kite, rewrite

DEEP = 100_000


def test_a_manifest_with_a_billion_billion_clients(tmp_path: Path):
    write_shards(halves(), tmp_path / "shards")
    file = tmp_path / "shards" / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "clients": 10**18}))
    for read in (read_shards, shard_settings):
        with pytest.raises(DataError, match="clients: Input should be less than or equal"):
            read(tmp_path / "shards")


def test_one_long_id_does_not_make_every_id_long(tmp_path: Path):
    write_graph(kite(node_ids=["a", "b", "c", "d", "e"]), tmp_path / "kite")
    nodes = (
        "id,label,split\n"
        + f"{'x' * 70_000},0,train\n"
        + "".join(f"n{number},0,\n" for number in range(9000))
    )
    rewrite(tmp_path / "kite", "nodes.csv", nodes)
    with pytest.raises(DataError, match=r"nodes\.csv, line 2: expected a line of at most 2000"):
        read_graph(tmp_path / "kite")


def test_many_short_ids_beside_one_that_is_just_allowed(tmp_path: Path):
    write_graph(kite(node_ids=["a", "b", "c", "d", "e"]), tmp_path / "kite")
    rows = "".join(f"{number:x},,\n" for number in range(70_000))
    rewrite(tmp_path / "kite", "nodes.csv", f"id,label,split\n{'x' * 1900},0,\n{rows}")
    with pytest.raises(DataError, match="shorten the longest ids"):
        read_graph(tmp_path / "kite")


def test_an_archive_that_unpacks_to_gigabytes(tmp_path: Path):
    file = tmp_path / "features.npz"
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("data.npy", "w", force_zip64=True) as member,
    ):
        for _ in range(300):
            member.write(bytes(1 << 20))
    assert file.stat().st_size < 1 << 20
    with pytest.raises(DataError, match="unpacks to 314,572,800 bytes"):
        read_features(file)


@pytest.mark.parametrize("shape", [(10**12, 1), (2**62, 4), (-1, 2)])
def test_an_array_that_claims_a_size_it_has_not(tmp_path: Path, shape):
    header = io.BytesIO()
    described = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)
    (tmp_path / "features.npy").write_bytes(header.getvalue() + bytes(8))
    with pytest.raises(DataError, match=r"features\.npy"):
        read_features(tmp_path / "features.npy")


def test_a_sweep_of_a_billion_cells(tmp_path: Path):
    file = tmp_path / "sweep.toml"
    numbers = ", ".join(map(str, range(1000)))
    file.write_text(f"[grid]\nseed = [{numbers}]\na = [{numbers}]\nb = [{numbers}]\n")
    with pytest.raises(InputError, match="1,000,000,000 runs, where at most 100,000"):
        read_declaration(file)


@pytest.mark.parametrize(
    "read", [read_settings, read_choice, read_declaration, Consent.read, read_config]
)
def test_settings_nested_too_deeply(tmp_path: Path, read):
    file = tmp_path / "own.toml"
    file.write_text(f"a = {'[' * DEEP}{']' * DEEP}\n")
    with pytest.raises(InputError, match=r"own\.toml"):
        read(file)


def test_json_nested_too_deeply(tmp_path: Path):
    deep = "[" * DEEP
    (tmp_path / "manifest.json").write_text(deep)
    (tmp_path / "record.json").write_text(deep)
    assert format_of(tmp_path) is None
    with pytest.raises(DataError, match="manifest"):
        read_graph(tmp_path)
    with pytest.raises(DataError, match="nested too deeply"):
        read_record(tmp_path)
    with pytest.raises(DataError, match="nested too deeply"):
        unpack(len(deep).to_bytes(8, "little") + deep.encode())


# What is no file


@pytest.fixture(params=["pipe", "socket", "device", "folder"])
def no_file(request, tmp_path: Path) -> Path:
    path = tmp_path / "manifest.json"
    if request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "socket":
        server = socket.socket(socket.AF_UNIX)
        request.addfinalizer(server.close)
        server.bind(str(path))
    elif request.param == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    return path


def test_pipes_sockets_and_devices_are_neither_waited_for_nor_read(no_file: Path):
    with pytest.raises(OSError):
        plain_bytes(no_file)
    assert format_of(no_file.parent) is None
    with pytest.raises(DataError, match="cannot be read"):
        read_graph(no_file.parent)


def test_a_pipe_in_the_place_of_a_part_of_a_graph(tmp_path: Path):
    write_graph(kite(), tmp_path / "kite")
    (tmp_path / "kite" / "nodes.csv").unlink()
    os.mkfifo(tmp_path / "kite" / "nodes.csv")
    with pytest.raises(DataError, match="missing"):
        read_graph(tmp_path / "kite")


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("nodes.csv", open_table),
        ("tables.toml", TableSettings.read),
        ("schema.json", read_schema),
        ("encoder.json", Encoder.read),
        ("features.npy", read_features),
        ("model.safetensors", read_arrays),
        ("registry.json", read_registry),
        ("disclosures.jsonl", verify),
        ("disclosures.jsonl", lambda path: DisclosureLog(path).refuse(run="run", reason="no")),
        ("requests.jsonl", PlaceLog),
        ("rows.jsonl", lambda path: list(read_rows(path))),
        ("bank.key", lambda path: loaded(path, load_private_openssh)),
    ],
)
def test_nobody_waits_for_a_pipe(tmp_path: Path, name: str, read):
    os.mkfifo(tmp_path / name)
    with pytest.raises(FeddepError, match="not a plain file"):
        read(tmp_path / name)


@pytest.mark.parametrize("cells", ["1,2", "1,2,3,4"])
def test_a_table_of_another_width(tmp_path: Path, cells: str):
    write_graph(kite(), tmp_path / "kite")
    rewrite(tmp_path / "kite", "nodes.csv", f"id,label,split\n{cells}\n")
    with pytest.raises(DataError, match=r"nodes\.csv, line 2: expected 3 cells"):
        read_graph(tmp_path / "kite")


def test_a_parquet_file_whose_text_is_none(tmp_path: Path):
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")]
    )
    pq.write_table(pa.table({"id": text}), tmp_path / "nodes.parquet")
    with pytest.raises(InputError, match=r"nodes\.parquet is damaged"):
        list(open_table(tmp_path / "nodes.parquet").batches(["id"]))


@pytest.mark.parametrize("content", [b"[", b"[1]", b"\xff"])
def test_what_a_silo_agreed_to_is_damaged(content: bytes):
    with pytest.raises(DataError, match="damaged"):
        RunMemory(Carried({"agreement.json": content})).agreement  # noqa: B018


@pytest.mark.parametrize("scores", [True, {"global": 3}])
def test_a_row_of_a_sweep_whose_scores_are_none(tmp_path: Path, scores):
    row = {"settings": {}, "record": {"scores": scores}}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    with pytest.raises(DataError, match="line 1"):
        list(read_rows(tmp_path / "rows.jsonl"))


def test_settings_from_a_command_are_taken(tmp_path: Path):
    """As ``feddep run --spec <(command)`` has them."""
    pipe = tmp_path / "spec"
    os.mkfifo(pipe)
    writer = Thread(target=lambda: pipe.write_text("seed = 7\n"))
    writer.start()
    assert read_settings(pipe) == {"seed": 7}
    writer.join()


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path):
    file = tmp_path / "large"
    with file.open("wb") as opened:
        opened.truncate(1 << 40)  # a hole
    with pytest.raises(OSError, match="larger than 268,435,456 bytes"):
        plain_text(file)
