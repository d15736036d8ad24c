"""Checks whether a database can be the store and keeps what it acknowledges; names its users."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from monitor.app.hosted.shard_definitions import shard_definitions
from monitor.bus.postgres import refuse_missing_extra
from monitor.bus.postgres_address import PostgresAddress
from monitor.bus.settings import StorageSettings
from monitor.config import Configuration
from monitor.model.checks import CheckLine, failed, ok, warning
from monitor.model.errors import BusSchemaError, BusUnavailableError, ConfigurationError
from monitor.model.outside import is_loopback
from monitor.model.words import listed

STORE = "store"
COMMITS = "store commits"
UNREACHABLE = "see whether host and port are right, the server runs, and no firewall is between"
_CONNECT_SECONDS = 5.0
_KEY = "storage.url: "
_SKEW_SECONDS = 2.0
_STANDBY = "a standby"
_NAMED = 3  # shards in a sentence

if TYPE_CHECKING:
    from monitor.bus.postgres.examination import DatabaseExamination


async def check_database(configuration: Configuration, address: PostgresAddress) -> list[CheckLine]:
    """Connect, and look at everything that a daemon needs. Changes nothing."""
    settings = configuration.storage
    try:
        refuse_missing_extra()
        from monitor.bus.postgres.examination import (  # noqa: PLC0415 - needs the extra
            examine_database,
        )

        found = await examine_database(
            address,
            settings.password,
            shard_definitions(configuration),
            daemon_id=settings.daemon_id,
            timeout_seconds=_CONNECT_SECONDS,
        )
    except (BusUnavailableError, BusSchemaError, ConfigurationError) as exc:
        return [_unusable(exc)]
    lines = [_use_line(address, found), *_host_lines(address, found), *_tls_lines(address, found)]
    lines += [_commit_line(address, found), _clock_line(found), _daemon_line(settings, found)]
    return [*lines, *_conflict_lines(found)]


def _unusable(exc: BusUnavailableError | BusSchemaError | ConfigurationError) -> CheckLine:
    reason, _, hint = str(exc).removeprefix(_KEY).rpartition("; ")
    if isinstance(exc, BusUnavailableError):
        return failed(STORE, str(exc).removeprefix(_KEY), UNREACHABLE)
    return failed(STORE, reason or hint, hint if reason else "correct storage.url")


def _use_line(address: PostgresAddress, found: DatabaseExamination) -> CheckLine:
    if found.is_read_only:
        hint = "ALTER ROLE ... RESET default_transaction_read_only"
        return failed(STORE, f"{address} may only be read by this user", hint)
    schema = f"schema {found.schema}"
    if found.schema == 0:
        schema = "empty, and the user may make the tables"
    elif found.schema < found.newest_schema:
        schema += f", which the next start brings to {found.newest_schema}"
    transport = found.tls or ("a socket" if found.is_local else "no TLS")
    return ok(STORE, f"{address}: PostgreSQL {found.server}, {schema}, {transport}")


def _host_lines(address: PostgresAddress, found: DatabaseExamination) -> Iterator[CheckLine]:
    if not found.others:
        return
    primary = ", ".join(str(host) for host in address.hosts if str(host) not in found.others)
    others = ", ".join(f"{host}: {reason}" for host, reason in found.others.items())
    hosts = f"{primary} is the primary; {others}"
    if set(found.others.values()) == {_STANDBY}:
        yield ok("store hosts", hosts)
    else:
        yield warning("store hosts", hosts, UNREACHABLE)


def _tls_lines(address: PostgresAddress, found: DatabaseExamination) -> Iterator[CheckLine]:
    hosts = [server.host for server in address.hosts]
    is_near = all(host.startswith("/") or is_loopback(host) for host in hosts)
    if found.tls is None and not is_near:
        yield warning(
            "store TLS",
            "what is stored crosses the network in the clear",
            "add ?sslmode=verify-full to storage.url, and TLS to the server",
        )


def _commit_line(address: PostgresAddress, found: DatabaseExamination) -> CheckLine:
    waits = bool(found.synchronous_standbys)
    to_role = f"ALTER ROLE {address.user or '...'} SET synchronous_commit = on"
    doubts = (
        (
            not found.is_durable,
            "fsync = off: a crash of the server may destroy the database",
            "set fsync = on at the server",
        ),
        (
            found.synchronous_commit == "off",
            "synchronous_commit = off: a crash of the server loses what was acknowledged",
            to_role,
        ),
        (
            waits and found.synchronous_commit == "local",
            "synchronous_commit = local: a fail-over loses what was acknowledged",
            to_role,
        ),
        (
            waits and not found.standbys,
            "no standby follows the primary, and every commit waits for one",
            "start a standby that synchronous_standby_names names",
        ),
        (
            not waits and bool(found.standbys or found.others),
            "all standbys are asynchronous: a fail-over may lose what was acknowledged",
            "set synchronous_standby_names at the server",
        ),
    )
    for is_so, doubt, hint in doubts:
        if is_so:
            return warning(COMMITS, doubt, hint)
    if waits:
        return ok(COMMITS, "on the disks of the primary and of a synchronous standby")
    return ok(COMMITS, "on the disk of the primary, which has no standby")


def _clock_line(found: DatabaseExamination) -> CheckLine:
    skew_seconds = abs(found.skew_seconds)
    if skew_seconds <= _SKEW_SECONDS:
        return ok("store clock", "the server's clock and ours agree")
    word = "ahead of" if found.skew_seconds > 0 else "behind"
    return warning(
        "store clock",
        f"the server's clock is {skew_seconds:.1f} s {word} ours",
        "synchronise both; events carry our time, leases the server's",
    )


def _conflict_lines(found: DatabaseExamination) -> Iterator[CheckLine]:
    for conflict in found.conflicts:
        reason, _, hint = conflict.partition("; ")
        yield failed("store workspaces", reason, hint)
    if found.set_otherwise and not found.conflicts:
        others = ", ".join(
            f"{daemon} of shard{'s'[: len(shards) > 1]} {listed(shards, most=_NAMED)}"
            for daemon, shards in found.set_otherwise.items()
        )
        yield warning(
            "store workspaces",
            f"other settings have {others}",
            "a daemon takes over only what it has the same settings for: give all the same file",
        )


def _daemon_line(settings: StorageSettings, found: DatabaseExamination) -> CheckLine:
    subject, here = "store daemons", socket.gethostname()
    for daemon in found.daemons:
        if daemon.id == settings.daemon_id and daemon.host != here:
            return failed(
                subject,
                f"{daemon.id} is the name of a daemon on {daemon.host}, which is alive",
                "give this one a name of its own in storage.daemon",
            )
    alive = ", ".join(
        f"{daemon.id} on {daemon.host} ({daemon.version})" for daemon in found.daemons
    )
    if other := [d.id for d in found.daemons if d.lease_seconds != settings.lease_seconds]:
        return warning(
            subject,
            f"alive: {alive}; lease_seconds of {', '.join(other)} is another one",
            "set the same storage.lease_seconds in every daemon",
        )
    return ok(subject, f"alive: {alive}" if alive else "none is alive")
