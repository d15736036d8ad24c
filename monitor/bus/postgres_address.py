"""The address of a PostgreSQL store, and how to connect there, by a URL. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from monitor.model.errors import ConfigurationError
from monitor.model.outside import is_host, is_plain

POSTGRES_SCHEMES = ("postgresql://", "postgres://")  # libpq knows both
DEFAULT_PORT = 5432

_EXAMPLE = '"postgresql://monitor@db1,db2/dataprep_monitor"'
_LARGEST_PORT = 65_535
_LONGEST_NAME_BYTES = 63  # PostgreSQL cuts off a longer one
_HOST = re.compile(r"(?P<host>\[[^\[\]]+\]|[^\[\]:]*)(?::(?P<port>[^:]*))?")
_PASSWORDS = frozenset({"password", "sslpassword"})
_WRITABLE = frozenset({"any", "primary", "read-write"})


class TlsMode(StrEnum):
    """How far TLS is asked for, in libpq's words."""

    DISABLE = "disable"
    ALLOW = "allow"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


class ServerAddress(Struct, frozen=True):
    """Where one server listens; a ``host`` that begins with / is the folder of its socket."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PostgresAddress(Struct, frozen=True, kw_only=True):
    """The servers of one database, in the order in which they are tried; one is the primary.

    Its text names servers and database, and neither user nor files.
    """

    hosts: tuple[ServerAddress, ...]
    database: str
    user: str | None = None  # None: that of the operating system
    tls: TlsMode = TlsMode.PREFER
    authorities_file: str | None = None  # sslrootcert; None: those of the operating system
    certificate_file: str | None = None  # sslcert
    key_file: str | None = None  # sslkey
    password_file: str | None = None  # passfile, as libpq reads it
    application_name: str | None = None

    def __str__(self) -> str:
        return f"{','.join(map(str, self.hosts))}/{self.database}"


def is_postgres(url: str) -> bool:
    """True for a URL that names a PostgreSQL database, whether or not it can be used."""
    return url.startswith(POSTGRES_SCHEMES)


def postgres_address(url: str) -> PostgresAddress:
    """Return the address that a ``postgresql://`` URL names, as libpq reads it.

    Raises:
        ConfigurationError: with one sentence for each problem. None repeats a value of the URL
            that may be a secret.
    """
    if not is_postgres(url) or not is_plain(url):
        raise ConfigurationError(f"must be a URL such as {_EXAMPLE}")
    if "#" in url:
        raise ConfigurationError("nothing may follow a #; write one in a name as %23")
    rest, _, query = url.partition("://")[2].partition("?")
    credentials, at, place = rest.rpartition("@")  # a password may hold a slash
    servers, _, path = place.partition("/")
    problems: list[str] = []
    user = _user(credentials, problems) if at else None
    hosts = tuple(_servers(servers, problems))
    database = _database(path, problems)
    parameters = _parameters(query, problems)
    if problems:
        raise ConfigurationError(problems)
    return PostgresAddress(hosts=hosts, database=database, user=user, **parameters)


def _user(credentials: str, problems: list[str]) -> str | None:
    if ":" in credentials:
        problems.append("holds a password; use password_file")
        return None
    return _name(unquote(credentials), "user", problems)


def _database(path: str, problems: list[str]) -> str:
    if not path:
        problems.append(f"names no database; end it with one, such as {_EXAMPLE}")
        return ""
    if "/" in path:
        problems.append("must end with the name of one database; write / in it as %2F")
        return ""
    return _name(unquote(path), "database", problems)


def _name(name: str, what: str, problems: list[str]) -> str:
    if not name or not name.isprintable() or len(name.encode()) > _LONGEST_NAME_BYTES:
        problems.append(f"the {what} must be 1 to {_LONGEST_NAME_BYTES} bytes of printable text")
    return name


def _servers(text: str, problems: list[str]) -> list[ServerAddress]:
    servers: list[ServerAddress] = []
    for part in text.split(","):
        match = _HOST.fullmatch(part)
        host = "" if match is None else unquote(match["host"]).strip("[]")
        if match is None or not (host.startswith("/") or is_host(host)):
            problems.append(
                "each host must be a name, an IP address ([::1] for IPv6) or %2Ffolder of a "
                "socket, with or without :PORT, and a comma between two"
            )
            break
        port = _port(match["port"])
        if port is None:
            problems.append(f"a port must be a number from 1 to {_LARGEST_PORT}")
            break
        servers.append(ServerAddress(host, port))
    if len(set(servers)) < len(servers):
        problems.append("names one server twice; remove it")
    return servers


def _port(text: str | None) -> int | None:
    if text is None:
        return DEFAULT_PORT
    if re.fullmatch("[0-9]{1,5}", text) is None or not 0 < int(text) <= _LARGEST_PORT:
        return None
    return int(text)


def _parameters(query: str, problems: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    given: set[str] = set()
    for part in filter(None, query.split("&")):
        name, value = map(unquote, part.partition("=")[::2])
        if name in given:
            problems.append(f"gives {name} twice; remove one")
        elif name in _PASSWORDS:
            problems.append(f"holds {name}; use password_file")
        elif name == "target_session_attrs":
            if value not in _WRITABLE:
                problems.append(f"{name} must be read-write: the monitor writes to the primary")
        elif name not in _READERS:
            known = ", ".join(sorted({*_READERS, "target_session_attrs"}))
            problems.append(f"has a parameter that is not known here; known are {known}")
        else:
            field, read = _READERS[name]
            values[field] = read(name, value, problems)
        given.add(name)
    if "key_file" in values and "certificate_file" not in values:
        problems.append("has sslkey and no sslcert that it could belong to")
    return values


def _tls(name: str, value: str, problems: list[str]) -> TlsMode:
    if value not in set(TlsMode):
        problems.append(f"{name} must be one of {', '.join(TlsMode)}")
        return TlsMode.PREFER
    return TlsMode(value)


def _file(name: str, value: str, problems: list[str]) -> str | None:
    if name == "sslrootcert" and value == "system":
        return None
    if not value.startswith("/") or not value.isprintable():
        problems.append(f"{name} must be the absolute path of a file")
    return value


def _application(name: str, value: str, problems: list[str]) -> str:
    if not (value.isascii() and value.isprintable() and 0 < len(value) <= _LONGEST_NAME_BYTES):
        problems.append(f"{name} must be 1 to {_LONGEST_NAME_BYTES} printable ASCII characters")
    return value


_Reader = Callable[[str, str, list[str]], object]

_READERS: dict[str, tuple[str, _Reader]] = {
    "application_name": ("application_name", _application),
    "passfile": ("password_file", _file),
    "sslcert": ("certificate_file", _file),
    "sslkey": ("key_file", _file),
    "sslmode": ("tls", _tls),
    "sslrootcert": ("authorities_file", _file),
}
