"""Writes and checks the lists of exact dependencies, with hashes, and looks for known holes.

    python requirements/lock.py write     resolve anew what pyproject.toml asks for
    python requirements/lock.py check     do they fit pyproject.toml, and does the index list them?
    python requirements/lock.py audit     has a locked version a known vulnerability?

Packages come from where pip's environment variables say (``PIP_INDEX_URL``,
``PIP_EXTRA_INDEX_URL``, ``PIP_FIND_LINKS``); none of these is written down.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOCKS = {"deployment": ("flower",), "development": ("dev", "flower-sim")}
"""Each list, and the extras of feddep that it is for."""

HEAD = """\
# Exact versions and SHA-256 of all that feddep{extras} needs,
# on Linux with an x86-64 processor and Python 3.11.
# `make lock` writes this file, `make lock-check` checks it.
#
#   pip install --require-hashes -r requirements/{name}.txt
#   pip install --no-deps --no-build-isolation .
#
# torch is its build for processors, which is 0.2 GB instead of 3: let pip find it.
"""
_ENVIRONMENT = {"PIP_INDEX_URL": "--index-url", "PIP_EXTRA_INDEX_URL": "--extra-index-url"}
_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)((?:\s*\\\n\s+--hash=sha256:[0-9a-f]{64})+)", re.M)
_NOTHING = """\
NOTHING WAS CHECKED: no database of vulnerabilities can be reached from here. Run this where PyPI's
or OSV's can be, or download OSV's archive for PyPI (all.zip) and pass it with --database."""
_AUDITOR = Path(sys.executable).with_name("pip-audit")

Lock = Mapping[str, tuple[str, frozenset[str]]]


def main() -> None:
    """Does what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=["write", "check", "audit"])
    parser.add_argument("--database", type=Path, help="OSV's archive for PyPI, all.zip")
    options = parser.parse_args()
    if options.what == "audit":
        sys.exit(audit(options.database))
    problems = [p for name in LOCKS for p in (write if options.what == "write" else check)(name)]
    print("\n".join(problems) or "the locks are right", file=sys.stderr if problems else sys.stdout)
    sys.exit(1 if problems else 0)


def read(name: str) -> Lock:
    """A lock: each package with its version and the hashes of its files."""
    return _entries((HERE / f"{name}.txt").read_text())


def _entries(text: str) -> Lock:
    return {
        package: (version, frozenset(re.findall("[0-9a-f]{64}", hashes)))
        for package, version, hashes in _ENTRY.findall(text)
    }


def write(name: str) -> Iterator[str]:
    """Writes a lock anew. Nothing is wrong afterwards."""
    found = _resolved(name, upgrade=True)
    extras = f"[{','.join(LOCKS[name])}]"
    rows = [HEAD.format(name=name, extras=extras).strip()]
    for package, (version, hashes) in sorted(found.items()):
        rows.append(f"{package}=={version} \\")
        rows.append(" \\\n".join(f"    --hash=sha256:{value}" for value in sorted(hashes)))
    (HERE / f"{name}.txt").write_text("\n".join(rows) + "\n")
    yield from ()


def check(name: str) -> Iterator[str]:
    """What is wrong with a lock: versions that are not asked for, files that are not listed."""
    locked, found = read(name), _resolved(name, upgrade=False)
    for package in sorted(locked.keys() | found.keys()):
        own, right = locked.get(package), found.get(package)
        if own is None or right is None or own[0] != right[0]:
            versions = [entry[0] if entry else "nothing" for entry in (own, right)]
            yield f"{name}: {package} is locked at {versions[0]}, and {versions[1]} is asked for"
        elif strange := own[1] - right[1]:
            yield f"{name}: the index does not list {len(strange)} of the files of {package}"


def _resolved(name: str, *, upgrade: bool) -> dict[str, tuple[str, frozenset[str]]]:
    """What is asked for, resolved; versions of the lock are kept unless that is no longer right."""
    extras = [part for extra in LOCKS[name] for part in ("--extra", extra)]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "lock.txt"
        if not upgrade:
            kept = {p: v for p, (v, _) in read(name).items() if p != "torch"}  # it has two names
            pins = (f"{package}=={version}\n" for package, version in kept.items())
            out.write_text("".join(pins))
        pip = ["pip", "compile", "pyproject.toml", *extras, "--output-file", str(out)]
        # The library itself is installed from the checkout, with what the extras ask for.
        _uv(*pip, "--no-emit-package", "feddep", *_links())
        found = dict(_entries(out.read_text()))
        version = found["torch"][0]
        if "+" not in version:
            sys.exit("expected a build of torch for processors; set PIP_FIND_LINKS to where it is")
        # Elsewhere the same release has no such mark, and other files.
        plain = version.partition("+")[0]
        asked = Path(folder) / "torch.in"
        asked.write_text(f"torch=={plain}\n")
        listed = Path(folder) / "torch.txt"
        _uv("pip", "compile", str(asked), "--no-deps", "--output-file", str(listed))
        others = _entries(listed.read_text())["torch"][1]
        found["torch"] = plain, found["torch"][1] | others
    return found


def _uv(*arguments: str) -> None:
    """Runs uv, which comes with Flower; pip resolves for the machine it is on only."""
    target = ["--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28"]
    places = [part for name, option in _ENVIRONMENT.items() if (value := os.environ.get(name))
              for place in value.split() for part in (option, place)]  # fmt: skip
    plain = ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--quiet"]
    uv = Path(sys.executable).with_name("uv")
    done = subprocess.run(
        [str(uv), *arguments, *target, *places, *plain],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stderr.strip())


def _links() -> list[str]:
    """Folders and pages that pip looks at besides its index."""
    places = os.environ.get("PIP_FIND_LINKS", "").split()
    return [part for place in places for part in ("--find-links", place)]


def audit(database: Path | None) -> int:
    """Says which locked versions are known to be vulnerable: 0 none, 1 some, 3 nobody knows."""
    if database is not None:
        return _told(_in_archive(database))
    if not _AUDITOR.exists():
        sys.exit("pip-audit is not installed here; `make audit-dependencies` installs it")
    for service in ("pypi", "osv"):
        found = _asked(service)
        if found is not None:
            return _told(found)
    print(_NOTHING, file=sys.stderr)
    return 3


def _told(found: list[str]) -> int:
    versions = {f"{p}=={v}" for name in LOCKS for p, (v, _) in read(name).items()}
    print("\n".join(sorted(found)) or f"no known vulnerability in {len(versions)} packages")
    return 1 if found else 0


def _asked(service: str) -> list[str] | None:
    """What a service on the network knows; None if it does not answer for every package."""
    found: list[str] = []
    for name in LOCKS:
        command = [str(_AUDITOR), "--requirement", str(HERE / f"{name}.txt")]
        options = ["--require-hashes", "--disable-pip", "--format", "json", "--service", service]
        done = subprocess.run(
            [*command, *options],
            capture_output=True,
            text=True,
            check=False,
        )
        try:
            rows = json.loads(done.stdout)["dependencies"]
        except (ValueError, LookupError, TypeError):
            return None
        if any("skip_reason" in row for row in rows):
            return None
        found += [
            f"{row['name']} {row['version']}: {hole['id']}" for row in rows for hole in row["vulns"]
        ]
    return [*dict.fromkeys(found)]


def _in_archive(database: Path) -> list[str]:
    """What an archive of OSV's knows."""
    locked = {(p, version) for name in LOCKS for p, (version, _) in read(name).items()}
    found = []
    with zipfile.ZipFile(database) as archive:
        for entry in archive.namelist():
            about = json.loads(archive.read(entry))
            for affected in about.get("affected", ()):
                package = re.sub(
                    r"[-_.]+", "-", affected.get("package", {}).get("name", "")
                ).lower()
                found += [
                    f"{package} {version}: {about['id']}"
                    for version in affected.get("versions", ())
                    if (package, version) in locked and not about.get("withdrawn")
                ]
    return [*dict.fromkeys(found)]


if __name__ == "__main__":
    main()
