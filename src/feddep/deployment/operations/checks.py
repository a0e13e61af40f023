"""What ``feddep doctor`` finds, and the checks that concern every machine of a federation."""

import os
import platform
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path

from feddep.deployment.operations.certificates import load_certificate
from feddep.errors import InputError

ROOM = 10**9  # bytes
SOON = timedelta(days=30)
RENEW = "renew it (`feddep deploy renew FOLDER`)"
ADD = "`feddep deploy add FOLDER NAME`"


@dataclass(frozen=True)
class Check:
    """One finding.

    Attributes:
        name: what was checked.
        ok: whether the check passed; None if that could not be determined.
        found: what was found.
        remedy: what to do about it. On a check that passed, it is a warning.
    """

    name: str
    ok: bool | None
    found: str
    remedy: str = ""


def versions() -> list[Check]:
    """Checks Python and the packages whose versions matter against feddep's requirements."""
    asked = _requirements()
    python = version_check("python", platform.python_version(), asked.get("python", ""))
    return [
        python,
        *(package_check(name, asked.get(name, "")) for name in ("feddep", "flwr", "torch")),
    ]


def _requirements() -> dict[str, str]:
    """The version ranges that feddep's own metadata states; none if it is not installed."""
    try:
        about = metadata.metadata("feddep")
    except metadata.PackageNotFoundError:
        return {}
    asked = {"python": about["Requires-Python"]}
    for line in about.get_all("Requires-Dist") or ():
        match = re.match(r"([\w-]+)\s*([^;\s]*)", line)
        if match:
            asked.setdefault(match[1].lower(), match[2])
    return asked


def package_check(name: str, asked: str) -> Check:
    """Checks the version of an installed package."""
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(f"{name} version", False, "not installed", "pip install 'feddep[flower]'")
    return version_check(name, found, asked)


def version_check(name: str, found: str, asked: str) -> Check:
    """Checks a version against a range such as ``>=1.40,<2``."""
    fits = all(_fits(found, term) for term in asked.split(",") if term)
    if fits:
        return Check(f"{name} version", True, found)
    remedy = f"install {name}{asked}; `pip install 'feddep[flower]'` chooses a version that fits"
    return Check(f"{name} version", False, f"{found}, expected {asked}", remedy)


def _fits(version: str, term: str) -> bool:
    """Whether a version meets one term of a range; terms that feddep does not use are ignored."""
    ours, bound = _numbers(version), _numbers(term)
    if term.startswith("=="):
        return ours == bound
    if term.startswith(">="):
        return ours >= bound
    return ours < bound if term.startswith("<") else True


def _numbers(version: str) -> list[int]:
    """``2.13.0+cpu`` as ``[2, 13]``: local parts and trailing zeros do not affect the order."""
    numbers = [int(part) for part in re.findall(r"\d+", version.partition("+")[0])]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers


def expiry(name: str, path: Path, remedy: str) -> Check:
    """Checks how long a certificate is still valid."""
    try:
        certificate = load_certificate(path)
    except InputError as error:
        return Check(name, False, str(error), "copy the file from the kit again")
    now, until = datetime.now(UTC), certificate.not_valid_after_utc
    if now < certificate.not_valid_before_utc:
        found = f"valid only from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        return Check(name, False, found, "set this machine's clock (NTP)")
    if now >= until:
        return Check(name, False, f"expired on {until:%Y-%m-%d}", remedy)
    left = f"{(until - now).days} days left, until {until:%Y-%m-%d}"
    return Check(name, True, left, remedy if until - now < SOON else "")


def secrecy(paths: Sequence[Path]) -> Check:
    """Checks that only their owner can read keys and state."""
    if os.name != "posix":
        return Check("secret files", None, "this system has no file modes to check")
    present = [path for path in paths if path.exists()]
    open_to_others = [path for path in present if path.stat().st_mode & 0o077]
    if not open_to_others:
        return Check("secret files", True, "readable by their owner only")
    found = ", ".join(f"{path} has mode {path.stat().st_mode & 0o777:o}" for path in open_to_others)
    remedy = (
        f"chmod go= {' '.join(map(str, open_to_others))}; if others had access, replace the key"
    )
    return Check("secret files", False, found, remedy)


def disk(state: Path) -> Check:
    """Checks that the state folder can be written and that the disk has room."""
    place = next((path for path in (state, *state.parents) if path.exists()), state)
    if not os.access(place, os.W_OK):
        remedy = f"let the user that runs feddep write to {state}"
        return Check("disk", False, f"{place} is not writable", remedy)
    free = shutil.disk_usage(place).free
    found = f"{free / 1e9:.1f} GB free in {place}"
    if free < ROOM:
        remedy = f"free at least {ROOM / 1e9:g} GB, or set another state folder"
        return Check("disk", False, found, remedy)
    return Check("disk", True, found)
