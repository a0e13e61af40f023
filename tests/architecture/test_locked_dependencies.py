"""The lists of exact dependencies: they fit what is asked for, and say of what they do not know."""

import importlib.util
import json
import re
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def lock() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lock", ROOT / "requirements" / "lock.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asked(*extras: str) -> list[Requirement]:
    """What feddep asks for itself, with extras and what they stand for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    rows = [*project["dependencies"], *(r for e in extras for r in _of(project, e))]
    return [own for row in rows if (own := Requirement(row)).name != "feddep"]


def _of(project: dict, extra: str) -> list[str]:
    rows = project["optional-dependencies"][extra]
    own = [asked for row in rows if (asked := Requirement(row)).name == "feddep"]
    inner = sorted(extra for asked in own for extra in asked.extras)  # one order in every process
    return [*rows, *(row for name in inner for row in _of(project, name))]


def everything() -> list[Requirement]:
    found = asked("pyg", "flower", "flower-sim", "dev")
    for file in (ROOT / "pyproject.toml", ROOT / "study" / "pyproject.toml"):
        content = tomllib.loads(file.read_text())
        found += map(Requirement, content["build-system"]["requires"])
        if file.parent != ROOT:
            found += map(Requirement, content["project"]["dependencies"])
    return found


@pytest.mark.parametrize("own", everything(), ids=str)
def test_every_dependency_has_an_upper_bound(own):
    bounded = {"<", "<=", "==", "~="} & {term.operator for term in own.specifier}
    assert bounded or str(own) == "flwr[simulation]", "bounded by the extra [flower]"


@pytest.mark.parametrize("name", ["deployment", "development"])
def test_what_is_locked_is_what_is_asked_for(lock, name):
    locked = lock.read(name)
    for own in asked(*lock.LOCKS[name]):
        key = re.sub(r"[-_.]+", "-", own.name).lower()
        version, hashes = locked[key]
        assert own.specifier.contains(version, prereleases=True), own
        assert hashes


@pytest.mark.parametrize("name", ["deployment", "development"])
def test_nothing_but_versions_and_hashes_is_written_down(name):
    lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
    entry = re.compile(r"([a-z0-9-]+==[0-9a-z.]+ \\|    --hash=sha256:[0-9a-f]{64}( \\)?)")
    rows = [line for line in lines if not line.startswith("#")]
    assert rows
    assert [line for line in rows if not entry.fullmatch(line)] == []


def archive(folder: Path, *holes: dict) -> Path:
    file = folder / "all.zip"
    with zipfile.ZipFile(file, "w") as found:
        for number, hole in enumerate(holes):
            found.writestr(f"{number}.json", json.dumps(hole))
    return file


def hole(name: str, *versions: str, **more: str) -> dict:
    return {"id": "X-1", "affected": [{"package": {"name": name}, "versions": versions}], **more}


def test_a_known_hole_in_a_locked_version_is_found(lock, tmp_path, capsys):
    version = lock.read("deployment")["typing-extensions"][0]
    holes = [
        hole("Typing_Extensions", "0.1", version),
        hole("flwr", "0.1"),
        hole("numpy", lock.read("deployment")["numpy"][0], withdrawn="2026-01-01"),
    ]
    assert lock.audit(archive(tmp_path, *holes)) == 1
    assert capsys.readouterr().out == f"typing-extensions {version}: X-1\n"
    assert lock.audit(archive(tmp_path, hole("flwr", "0.1"))) == 0


def told(rows: object):
    return lambda command, **_: SimpleNamespace(stdout=json.dumps(rows), returncode=0)


def test_a_service_that_knows_nothing_is_no_all_clear(lock, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lock, "_AUDITOR", Path(sys.executable))
    skipped = {"dependencies": [{"name": "flwr", "skip_reason": "not found"}]}
    for answer in (skipped, [], {}):
        monkeypatch.setattr(lock.subprocess, "run", told(answer))
        assert lock.audit(None) == 3
        assert "NOTHING WAS CHECKED" in capsys.readouterr().err
    known = {"dependencies": [{"name": "flwr", "version": "1", "vulns": [{"id": "X-2"}]}]}
    monkeypatch.setattr(lock.subprocess, "run", told(known))
    assert lock.audit(None) == 1
    assert capsys.readouterr().out == "flwr 1: X-2\n"
