"""The settings of the store: its place, the time of a write, and retention."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote

from msgspec import Meta, Struct

from monitor.bus.contract import Retention
from monitor.bus.postgres_address import PostgresAddress, is_postgres, postgres_address
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret
from monitor.model.settings import StartSetting, problems_of

__all__ = ["Retention", "StorageSettings", "store_path"]

_DEFAULT_URL = "sqlite:///var/lib/dataprep-monitor/state.db"
_SCHEME = "sqlite://"
# A URL does not count these as part of a path; a path that has them is written with %3F, %23.
_NO_PATH = re.compile(r"[?#]")
_DAEMON = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"


def store_path(url: str) -> Path:
    """Return the file that a ``sqlite:///`` URL names.

    Raises:
        ConfigurationError: another scheme, or no absolute path.
    """
    path = unquote(url.removeprefix(_SCHEME))
    if not (url.startswith(_SCHEME + "/") and path.strip("/") and path.isprintable()) or (
        _NO_PATH.search(url) is not None
    ):
        problem = f"storage.url is {url!r}; it must be sqlite:// followed by an absolute path"
        raise ConfigurationError(problem)
    return Path("/" + path.lstrip("/"))  # other tools' URLs have four slashes


def _url(url: str) -> str | None:
    if is_postgres(url):
        return problems_of([url], postgres_address)
    try:
        store_path(url)
    except (ConfigurationError, ValueError):
        return (
            f'must be sqlite:// and an absolute path, such as "{_DEFAULT_URL}", or a database, '
            'such as "postgresql://monitor@db1,db2/dataprep_monitor"'
        )
    return None


def _daemon(name: str) -> str | None:
    if re.fullmatch(_DAEMON, name) is not None:
        return None
    return "use 1 to 100 of letters, digits, ., _ and -, beginning with a letter or digit"


class StorageSettings(Struct, frozen=True, kw_only=True):
    """The store: run states, events and consumer positions.

    A file for one daemon, or a PostgreSQL database that any number of daemons share.
    """

    url: Annotated[
        str,
        StartSetting(
            "sqlite:// and an absolute path. The daemon needs write access to the folder. "
            "Default: dataprep-monitor/state.db in $XDG_STATE_HOME or, without that, in "
            "~/.local/state; for a user without a home /var/lib/dataprep-monitor/state.db. "
            "Or postgresql://USER@HOST:PORT,HOST:PORT/DATABASE, whose primary is found; "
            "after a ? sslmode, sslrootcert, sslcert, sslkey, passfile and application_name, as "
            "libpq has them.",
            _DEFAULT_URL,
            _url,
        ),
    ] = _DEFAULT_URL
    password: Annotated[
        Secret | None,
        StartSetting(
            "Password of the database's user; read again where it stands when the database refuses "
            "it. Without it, the passfile of the URL or of libpq.",
            "database-password",
        ),
    ] = None
    daemon: Annotated[
        str | None,
        StartSetting(
            "Name of this daemon among those that share the database; each needs its own. "
            "Default: the host name.",
            "monitor-1",
            _daemon,
        ),
    ] = None
    lease_seconds: Annotated[
        float,
        Meta(ge=3, le=600),
        StartSetting(
            "A daemon that has not reached the database for so long is gone, and others take its "
            "shards over. The same in every daemon; a file has no use for it."
        ),
    ] = 9.0
    commit_timeout_seconds: Annotated[
        float, Meta(ge=0.1, le=600), StartSetting("Timeout of a write to the store.")
    ] = 10.0
    # How long a read may take before it is interrupted.
    read_timeout_seconds: float = 30.0
    # A transaction that has begun is awaited this much longer than its caller's timeout; then the
    # disk counts as hung and the daemon ends, because a half-dead store must not count as alive.
    stall_seconds: Annotated[
        float,
        Meta(ge=1, le=3_600),
        StartSetting(
            "Additional time for a write that has begun; then the daemon exits with an error."
        ),
    ] = 30.0
    queue_bound: Annotated[
        int,
        Meta(ge=100, le=10_000_000),
        StartSetting("Maximum number of queued writes; further writes are refused at once."),
    ] = 10_000
    # How often retention is applied.
    prune_seconds: float = 60.0
    retention: Retention = Retention()

    @property
    def postgres(self) -> PostgresAddress | None:
        """The database that the URL names; None where it names a file."""
        return postgres_address(self.url) if is_postgres(self.url) else None

    @property
    def daemon_id(self) -> str:
        """The name of this daemon among those that share the store."""
        return self.daemon or socket.gethostname()

    def problems(self) -> list[str]:
        """Return one sentence ``key: problem`` for what does not fit together."""
        address = self.postgres
        if self.password is None or address is None or address.password_file is None:
            return []
        return ["password: the URL names a passfile already; give only one of them"]
