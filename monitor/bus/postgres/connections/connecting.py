"""Connections to the primary: found among several hosts, checked, and bounded in every wait.

Time-outs on both sides lie below the expiry of a lease. A backend whose daemon has vanished, is
stopped or is cut off gives up its transaction, and with it the locks on shards, before others may
take these over.
"""

from __future__ import annotations

import asyncio
import ssl
import stat
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import asyncpg
from asyncpg import exceptions as server_errors

from monitor.bus.postgres.connections.connection_failures import SERVER_ERRORS, reason_of
from monitor.bus.postgres_address import PostgresAddress, ServerAddress, TlsMode
from monitor.model.errors import (
    BusSchemaError,
    BusUnavailableError,
    ConfigurationError,
    MonitorError,
)
from monitor.model.secrets import Secret

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

OLDEST_SERVER = 13
_VERIFYING = frozenset({TlsMode.VERIFY_CA, TlsMode.VERIFY_FULL})
# A host that does not answer is not waited for: the next one is tried beside it.
_STAGGER_SECONDS = 0.5
# The password, user, database or certificate will not do on the next attempt either.
_CONFIGURATION_ERRORS = (
    server_errors.InvalidAuthorizationSpecificationError,  # and InvalidPasswordError
    server_errors.InvalidCatalogNameError,
    server_errors.InsufficientPrivilegeError,
    asyncpg.ClientConfigurationError,
    ssl.SSLCertVerificationError,
)
# After these the server may take a connection the other way, with TLS or without.
_OTHER_WAY = (
    server_errors.InvalidAuthorizationSpecificationError,
    ssl.SSLError,
    ConnectionError,
)
_SERVER = (
    "SELECT pg_is_in_recovery() AS is_standby, pg_backend_pid() AS backend,"
    " current_setting('server_version_num')::int AS version,"
    " current_setting('server_version') AS name, current_setting('server_encoding') AS encoding"
)
_NO_TLS = (
    "storage.url: {place} has no TLS, and sslmode={mode} asks for it; set ssl = on at the server, "
    "or sslmode=prefer in the URL"
)
_POOLER = (
    "storage.url: between the monitor and {place} is a pooler (such as PgBouncer); a lease needs a "
    "session of its own: name the server itself"
)


class _Attempt(NamedTuple):
    """How one host answered: with a connection to a primary, or with a reason."""

    host: ServerAddress
    connection: Connection | None = None
    server: asyncpg.Record | None = None
    reason: str = ""
    error: BaseException | None = None


async def connect(
    address: PostgresAddress,
    password: Secret | None,
    *,
    purpose: str,
    timeout_seconds: float,
    lease_seconds: float = 9.0,
    statement_seconds: float | None = None,
) -> Connection:
    """Return a checked connection to the primary of the database.

    ``statement_seconds`` bounds every statement on the server; by default two thirds of the lease.
    An answer that is late nevertheless raises TimeoutError.

    Raises:
        BusUnavailableError: no host is reachable, or none of them is the primary.
        BusSchemaError: the server is too old, or its encoding cannot hold every text.
        ConfigurationError: user, password, database or TLS do not fit, or a pooler is between.
    """
    third = max(1.0, lease_seconds / 3)
    statement_seconds = statement_seconds or 2 * third
    parameters = _parameters(address, password)
    # The last resort where the server hangs. It cancels the statement, and that would show a
    # commit which no synchronous standby has; so the writer drops its connection well before.
    parameters["command_timeout"] = max(statement_seconds, lease_seconds) + 1.0
    parameters["server_settings"] = {
        "application_name": f"{address.application_name or 'dataprep-monitor'} {purpose}"[:63],
        "TimeZone": "UTC",
        "jit": "off",  # every statement is short, and compiling takes longer
        "statement_timeout": _milliseconds(statement_seconds),
        "idle_in_transaction_session_timeout": _milliseconds(third),
        "tcp_user_timeout": _milliseconds(2 * third),
        "tcp_keepalives_idle": f"{third:.0f}",
        "tcp_keepalives_interval": "1",
        "tcp_keepalives_count": "3",
    }
    attempts = await _try_hosts(address, parameters, timeout_seconds=timeout_seconds)
    connection, server = attempts[-1].connection, attempts[-1].server
    if connection is None or server is None:
        raise _failure(address, attempts)
    problem = _problem(server, connection, f"{attempts[-1].host}/{address.database}")
    if problem is not None:
        connection.terminate()
        raise problem
    return connection


def _refuse_passfile(file: str) -> None:
    # libpq's rules, by which asyncpg only warns and goes on without a password.
    try:
        mode = Path(file).stat().st_mode
    except OSError as exc:
        raise ConfigurationError(f"storage.url: passfile {file}: {reason_of(exc)}") from exc
    if not stat.S_ISREG(mode) or mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationError(
            f"storage.url: passfile {file} must be a file that only its owner may read: chmod 600"
        )


def _parameters(address: PostgresAddress, password: Secret | None) -> dict[str, Any]:
    if address.password_file is not None:
        _refuse_passfile(address.password_file)
    return {
        "database": address.database,
        "user": address.user,
        "password": None if password is None else password.reveal(),
        "passfile": address.password_file,
        # Handed in, or asyncpg searches the home directory, which a service may not enter.
        "ssl": _tls_context(address),
        "target_session_attrs": "any",  # which of them is the primary is asked for below
    }


def _tls_context(address: PostgresAddress) -> ssl.SSLContext | bool:
    """Return the context of TLS; False without.

    Raises:
        ConfigurationError: a file cannot be used.
    """
    if address.tls is TlsMode.DISABLE:
        return False
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = address.tls is TlsMode.VERIFY_FULL
    context.verify_mode = ssl.CERT_REQUIRED if address.tls in _VERIFYING else ssl.CERT_NONE
    try:
        if address.tls in _VERIFYING or address.authorities_file is not None:
            _load_authorities(context, address.authorities_file)
            # As libpq: a file of authorities is used whenever it is named and TLS is required.
            if address.tls is TlsMode.REQUIRE:
                context.verify_mode = ssl.CERT_REQUIRED
        if address.certificate_file is not None:
            context.load_cert_chain(address.certificate_file, address.key_file, password="")
    except OSError as exc:
        files = [address.authorities_file, address.certificate_file, address.key_file]
        named = ", ".join(file for file in files if file is not None)
        raise ConfigurationError(
            f"storage.url: the TLS files of {address} cannot be used ({named}): {reason_of(exc)}"
        ) from exc
    return context


def _load_authorities(context: ssl.SSLContext, file: str | None) -> None:
    if file is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cafile=file)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f}"


async def _try_hosts(
    address: PostgresAddress, parameters: dict[str, Any], *, timeout_seconds: float
) -> list[_Attempt]:
    """Return how the hosts answered, a primary last; a slow host does not hold up the next."""
    ended: list[_Attempt] = []
    running: set[asyncio.Task[_Attempt]] = set()
    hosts = list(address.hosts)
    try:
        while (hosts or running) and not (ended and ended[-1].connection):
            if hosts:
                trying = _attempt(hosts.pop(0), address.tls, parameters, timeout_seconds)
                running.add(asyncio.create_task(trying, name="connect to database"))
            limit = _STAGGER_SECONDS if hosts else None  # each attempt has a limit of its own
            done, running = await asyncio.wait(
                running, timeout=limit, return_when=asyncio.FIRST_COMPLETED
            )
            # Two primaries at once: the later one of the two is left below.
            ended += sorted((task.result() for task in done), key=_has_connection)
    finally:
        await _abandon(running)
        for attempt in ended[:-1]:
            if attempt.connection is not None:
                attempt.connection.terminate()
    return ended


def _has_connection(attempt: _Attempt) -> bool:
    return attempt.connection is not None


async def _abandon(running: Collection[asyncio.Task[_Attempt]]) -> None:
    for task in running:
        task.cancel()
    for result in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(result, _Attempt) and result.connection is not None:
            result.connection.terminate()


async def _attempt(
    host: ServerAddress, tls: TlsMode, parameters: dict[str, Any], timeout_seconds: float
) -> _Attempt:
    """Return a connection to the host, if it is a primary; its errors are in the answer."""
    try:
        async with asyncio.timeout(timeout_seconds):
            connection = await _connect_to(host, tls, parameters)
    except SERVER_ERRORS as exc:
        return _Attempt(host, reason=reason_of(exc), error=exc)
    try:
        async with asyncio.timeout(timeout_seconds):
            server = await connection.fetchrow(_SERVER)
    except asyncio.CancelledError:
        connection.terminate()
        raise
    except SERVER_ERRORS as exc:
        connection.terminate()
        return _Attempt(host, reason=reason_of(exc), error=exc)
    if server is None or server["is_standby"]:
        connection.terminate()
        return _Attempt(host, reason="a standby")
    return _Attempt(host, connection, server=server)


async def _connect_to(host: ServerAddress, tls: TlsMode, parameters: dict[str, Any]) -> Connection:
    """Connect, with and without TLS in the order of libpq's ``prefer`` and ``allow``."""
    connect_once = partial(asyncpg.connect, host=host.host, port=host.port, timeout=None)
    if tls not in {TlsMode.PREFER, TlsMode.ALLOW}:
        return await connect_once(**parameters)
    plain = parameters | {"ssl": False}
    first, second = (parameters, plain) if tls is TlsMode.PREFER else (plain, parameters)
    try:
        return await connect_once(**first)
    except _OTHER_WAY as exc:
        if _is_about_tls(exc):
            return await connect_once(**second)
        raise


def _is_about_tls(exc: Exception) -> bool:
    """True where the server may take the connection with, or without, TLS."""
    if isinstance(exc, server_errors.InvalidPasswordError):
        return False
    return not isinstance(exc, ConnectionError) or _has_no_tls(exc)


def _has_no_tls(error: BaseException | None) -> bool:
    return isinstance(error, ConnectionError) and "SSL" in str(error)


def _problem(server: asyncpg.Record, connection: Connection, place: str) -> MonitorError | None:
    if server["backend"] != connection.get_server_pid():
        return ConfigurationError(_POOLER.format(place=place))
    if server["version"] < OLDEST_SERVER * 10_000:
        return BusSchemaError(
            f"storage.url: {place} is PostgreSQL {server['name']}, and the monitor needs "
            f"{OLDEST_SERVER} or newer; upgrade the server, or name another one"
        )
    if server["encoding"] != "UTF8":
        return BusSchemaError(
            f"storage.url: the encoding of {place} is {server['encoding']}, and names of pipelines "
            f"need UTF8: create the database with ENCODING 'UTF8' TEMPLATE template0"
        )
    return None


def _failure(address: PostgresAddress, attempts: Sequence[_Attempt]) -> MonitorError:
    """Return one error for all hosts: one that stays as it is goes before one that may pass."""
    for attempt in attempts:
        place = f"{attempt.host}/{address.database}"
        if _is_refused_by_pooler(attempt.error):
            return ConfigurationError(_POOLER.format(place=place))
        if _has_no_tls(attempt.error):
            return ConfigurationError(_NO_TLS.format(place=place, mode=address.tls))
        if isinstance(attempt.error, _CONFIGURATION_ERRORS):
            return ConfigurationError(f"storage.url: {place}: {attempt.reason}{_hint(attempt)}")
    reasons = "; ".join(f"{attempt.host}: {attempt.reason}" for attempt in attempts)
    what = "no host is the primary" if len(attempts) > 1 else "no connection to the primary"
    return BusUnavailableError(f"{what} of {address}: {reasons}")


def _hint(attempt: _Attempt) -> str:
    if isinstance(attempt.error, server_errors.InvalidPasswordError):
        return "; set storage.password_file, or the passfile of the URL"
    if isinstance(attempt.error, server_errors.InvalidCatalogNameError):
        return "; create it, or name another one"
    if isinstance(attempt.error, ssl.SSLError):
        return "; sslrootcert must name the file of the authority that signed its certificate"
    return ""


def _is_refused_by_pooler(error: BaseException | None) -> bool:
    # PgBouncer and its kind know few of the settings that a connection begins with, and forget a
    # prepared statement with the transaction.
    if isinstance(error, server_errors.ProtocolViolationError):
        return "startup parameter" in str(error)
    return isinstance(error, server_errors.InvalidSQLStatementNameError)
