"""``server.toml``, ``silo.toml`` and ``node.toml``: the configuration of each machine's programs.

Paths in a file are relative to that file, so a folder can be copied to its machine as it is.
"""

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic import ValidationInfo as Info

from feddep.deployment.protocol.names import silo_name
from feddep.errors import InputError
from feddep.reading import plain_text, toml_of

_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")
_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<plain>[^\[\]:]+)):(?P<port>\d{1,5})")


def host_name(host: str) -> str:
    """Returns the host if it is an IP address or a DNS name.

    Raises:
        ValueError: it is neither; the text says what was expected.
    """
    if is_ip(host):
        return host
    labels = host.split(".")
    numeric = labels[-1].isdigit()  # 10.0.0.256 is not a name
    if len(host) > 253 or numeric or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("an IP address or a DNS name, without scheme and port")
    return host


def is_ip(host: str) -> bool:
    """Whether a host is given as an IP address rather than as a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether the host can be reached from this machine only."""
    return host == "localhost" or (is_ip(host) and ip_address(host).is_loopback)


def host_and_port(host: str, port: int) -> str:
    """``host:port``, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """The inverse of :func:`host_and_port`.

    Raises:
        ValueError: the address has another form; the text says what was expected.
    """
    match = _ADDRESS.fullmatch(address)
    if match is None or not 1 <= int(match["port"]) <= 65535:
        raise ValueError('"host:port", for example "fl.example.org:8000"')
    return host_name(match["six"] or match["plain"]), int(match["port"])


def _address(address: str) -> str:
    split_address(address)
    return address


def _path(value: object, info: Info) -> object:
    """Resolves a path relative to the folder of the configuration file."""
    if isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value:
        raise ValueError("a path")
    folder: Path = (info.context or {}).get("folder", Path())
    try:
        return (folder / Path(value).expanduser()).resolve()
    except (OSError, RuntimeError):  # links in a circle, or the home of nobody
        raise ValueError("a path that leads somewhere") from None


_FilePath = Annotated[Path, BeforeValidator(_path)]


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a configuration file.

        Raises:
            InputError: the file cannot be read, a key is missing or unknown, or a value does not
                fit; the message names file and key.
        """
        return cls._made_from(_toml(path), path)

    @classmethod
    def _made_from(cls, values: dict[str, Any], path: Path) -> Self:
        try:
            return cls.model_validate(values, context={"folder": path.resolve().parent})
        except ValidationError as error:
            raise InputError(f"{path}: {_first_fault(error, cls)}") from None


class ServerConfig(_Config):
    """The configuration of ``feddep server``.

    Attributes:
        host: where the server listens: ``127.0.0.1`` in production, behind the reverse proxy.
        port: the port on which it listens.
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


class _Connected(_Config):
    """How a silo reaches the server and says who it is."""

    name: Annotated[str, AfterValidator(silo_name)]
    server: Annotated[str, AfterValidator(_address)]
    ca: _FilePath
    key: _FilePath
    state: _FilePath

    @property
    def host(self) -> str:
        """The server's host."""
        return split_address(self.server)[0]

    @property
    def port(self) -> int:
        """The server's port."""
        return split_address(self.server)[1]


class SiloConfig(_Connected):
    """The configuration of ``feddep silo``.

    Attributes:
        name: the silo's name, as the server knows it.
        server: ``host:port`` of the server.
        ca: the certificate of the authority that signed the server's.
        key: the silo's private key (EC P-384, OpenSSH format).
        data: the silo's graph folder.
        state: folder for what the silo must keep: its memory of runs, disclosure log, secret.
        consent: the file that says what may leave the silo.
        secret: whether the silo's random draws come from a secret of its own, in ``state``.
            Otherwise they come from the run's seed, which the server knows: use that only to
            reproduce a run.
        node_user: the user that runs Flower's programs (``feddep node``), and the only other one
            that the silo talks to. None runs them as the same user.
        socket: where the two meet; needed with ``node_user``.
        link_key: the silo's private key for messages to other silos (X25519, PEM).
        link_keys: the list of all silos' public ones, which the authority signed.
    """

    data: _FilePath
    consent: _FilePath
    secret: bool = True
    node_user: Annotated[str, Field(min_length=1)] | None = None
    socket: _FilePath | None = None
    link_key: _FilePath | None = None
    link_keys: _FilePath | None = None

    @model_validator(mode="after")
    def _has_a_meeting_place(self) -> Self:
        if (self.node_user is None) != (self.socket is None):
            raise ValueError("both node_user and socket, or neither")
        return self


class NodeConfig(_Connected):
    """The configuration of ``feddep node``: Flower's programs of a silo, as a user of their own.

    Attributes:
        name: the silo's name, as the server knows it.
        server: ``host:port`` of the server.
        ca: the certificate of the authority that signed the server's.
        key: the silo's private key (EC P-384, OpenSSH format).
        state: folder for what Flower's programs write.
        socket: where ``feddep silo`` listens.
    """

    socket: _FilePath


AnyConfig = ServerConfig | SiloConfig | NodeConfig


def read_config(path: Path) -> AnyConfig:
    """Reads a ``server.toml``, ``silo.toml`` or ``node.toml``, whichever it is.

    Only a server's has no key ``server``, and only a silo's has ``data`` and ``consent``.
    """
    values = _toml(path)
    kind: type[AnyConfig] = ServerConfig
    if "server" in values:
        kind = SiloConfig if values.keys() & {"data", "consent"} else NodeConfig
    return kind._made_from(values, path)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return toml_of(plain_text(path))
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; `feddep deploy init` writes such files"
        ) from None
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}") from None


def _first_fault(error: ValidationError, kind: type[_Config]) -> str:
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        return f"the key {key!r} is missing; add it"
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}; known: {', '.join(kind.model_fields)}"
    expected = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if not key:
        return f"expected {expected}"
    return f"{key}: expected {expected} (got {first['input']!r})"
