"""``server.toml`` and ``silo.toml``: what each party's program is told.

Paths in a file are relative to that file, so a folder can be carried to its machine as it is.
"""

import re
import tomllib
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic import ValidationInfo as Info

from feddep.deployment.protocol.names import silo_name
from feddep.errors import InputError

_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<plain>[^\[\]:]+)):(?P<port>\d{1,5})")


def host_name(host: str) -> str:
    """The host, if it is an IP address or a DNS name; a :class:`ValueError` otherwise."""
    if is_ip(host):
        return host
    labels = host.split(".")
    numeric = labels[-1].isdigit()  # 10.0.0.256 is nobody's name
    if len(host) > 253 or numeric or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("an IP address or a DNS name, without scheme and port")
    return host


def is_ip(host: str) -> bool:
    """Whether a host is given as an address and not as a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    return host == "localhost" or (is_ip(host) and ip_address(host).is_loopback)


def host_and_port(host: str, port: int) -> str:
    """``host:port``; an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """The inverse of :func:`host_and_port`; a :class:`ValueError` if it has no such form."""
    match = _ADDRESS.fullmatch(address)
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise ValueError('"host:port", for example "fl.example.org:8000"')
    return host_name(match["six"] or match["plain"]), int(match["port"])


def _address(address: str) -> str:
    split_address(address)
    return address


def _path(value: object, info: Info) -> object:
    """A path of the file, seen from the file's folder."""
    if isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value:
        raise ValueError("a path")
    folder: Path = (info.context or {}).get("folder", Path())
    return (folder / Path(value).expanduser()).resolve()


_FilePath = Annotated[Path, BeforeValidator(_path)]


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a file of this kind.

        Raises:
            InputError: the file cannot be read, a key is missing or unknown, or a value does not
                fit; it names file and key.
        """
        return cls._made_from(_toml(path), path)

    @classmethod
    def _made_from(cls, values: dict[str, Any], path: Path) -> Self:
        try:
            return cls.model_validate(values, context={"folder": path.resolve().parent})
        except ValidationError as error:
            raise InputError(f"{path}: {_first_fault(error, cls)}") from None


class ServerConfig(_Config):
    """What ``feddep server`` is told.

    Attributes:
        host: where it listens: ``127.0.0.1`` behind the reverse proxy, as it should be.
        port: the port there.
        certificate: the server's certificate (PEM).
        key: the certificate's private key.
        ca: the certificate of the authority that signed it, which the silos have too.
        silos: folder with every silo's public key, ``NAME.pub``.
        state: folder for the database and the runs.
    """

    host: Annotated[str, AfterValidator(host_name)]
    port: Annotated[int, Field(ge=1, le=65535)]
    certificate: _FilePath
    key: _FilePath
    ca: _FilePath
    silos: _FilePath
    state: _FilePath


class SiloConfig(_Config):
    """What ``feddep silo`` is told.

    Attributes:
        name: the silo's name, as the server knows it.
        server: ``host:port`` of the server.
        ca: the certificate of the authority that signed the server's.
        key: the silo's private key (EC P-384, OpenSSH format).
        data: the silo's graph folder.
        state: folder for what it must remember: memory between rounds, ledger, secret.
        consent: the file that says what may leave.
        secret: the silo's random draws come from a secret of its own in ``state``. Otherwise they
            come from the run's seed, which the server knows: right only for reproducing a run.
    """

    name: Annotated[str, AfterValidator(silo_name)]
    server: Annotated[str, AfterValidator(_address)]
    ca: _FilePath
    key: _FilePath
    data: _FilePath
    state: _FilePath
    consent: _FilePath
    secret: bool = True

    @property
    def host(self) -> str:
        """The server's host."""
        return split_address(self.server)[0]

    @property
    def port(self) -> int:
        """The server's port."""
        return split_address(self.server)[1]


def read_config(path: Path) -> ServerConfig | SiloConfig:
    """Reads either file; only a silo's has the key ``server``."""
    values = _toml(path)
    kind: type[ServerConfig | SiloConfig] = SiloConfig if "server" in values else ServerConfig
    return kind._made_from(values, path)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; `feddep deploy init` writes such files"
        ) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from None


def _first_fault(error: ValidationError, kind: type[_Config]) -> str:
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"the key {key!r} is missing; add it"
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}; known: {', '.join(kind.model_fields)}"
    expected = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return f"{key}: expected {expected} (got {first['input']!r})"
