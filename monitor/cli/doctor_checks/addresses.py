"""Whether the address of the server is free, or in use by our own daemon."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

from msgspec import Struct

from monitor.bus.sqlite.identity import store_id
from monitor.cli.admin import AdminClient
from monitor.cli.doctor_checks.lines import CheckLine, bounded, failed, ok, warning
from monitor.config.checks import joined_address
from monitor.model.errors import MonitorError
from monitor.web.settings import ServerSettings

SERVER = "server address"
_SECTION = "server"


class Serving(Struct, frozen=True, kw_only=True):
    """The state of the address of page, metrics and admin API."""

    lines: list[CheckLine]
    has_daemon: bool  # ours runs there, on the store of this configuration
    is_free: bool


async def server_address(settings: ServerSettings, store: Path) -> Serving:
    """Check whether the address is free, or held by the daemon of this store."""
    lines = await bounded(SERVER, _check_server(settings, store))
    return Serving(
        lines=lines,
        has_daemon=lines == [_used_by_daemon(settings)],
        is_free=lines == [_free(settings)],
    )


def _free(settings: ServerSettings) -> CheckLine:
    address = joined_address(settings.host, settings.port)
    return ok(SERVER, f"{address} is free: no daemon runs there")


def _used_by_daemon(settings: ServerSettings) -> CheckLine:
    address = joined_address(settings.host, settings.port)
    return ok(SERVER, f"{address} is held by our own daemon, which is alive")


async def _check_server(settings: ServerSettings, store: Path) -> list[CheckLine]:
    address = joined_address(settings.host, settings.port)
    if settings.port == 0:
        return [ok(SERVER, f"{address} takes a free port at each start")]
    try:
        await _listen_once(settings.host, settings.port)
    except OSError as exc:
        if exc.errno != errno.EADDRINUSE:
            return [unusable(SERVER, _SECTION, address, exc)]
    else:
        return [_free(settings)]
    try:
        # Without credentials: the program there may be anybody's.
        async with AdminClient(ServerSettings(host=settings.host, port=settings.port)) as client:
            alive = await client.get("/healthz")
    except MonitorError as exc:
        return [taken(SERVER, _SECTION, address, f"another program: {exc}")]
    if not isinstance(alive, dict) or "alive" not in alive:
        reason = "another program: its /healthz is not a monitor's"
        return [taken(SERVER, _SECTION, address, reason)]
    line = another_store(SERVER, _SECTION, address, store, claimed=alive.get("store"))
    return [line or _used_by_daemon(settings)]


def another_store(
    subject: str, section: str, address: str, store: Path, *, claimed: object
) -> CheckLine | None:
    """Return the line of a monitor that holds another store than ours; None: it holds ours."""
    try:
        ours = store_id(store)
    except OSError as exc:
        return warning(
            subject,
            f"{address} is held by a monitor; whether it is ours cannot be seen, because "
            f"{store} is hidden from this user: {exc.strerror}",
            "run doctor as the user that runs the daemon",
        )
    if ours is not None and claimed == ours:
        return None
    if not isinstance(claimed, str):
        return taken(subject, section, address, "another program, which names no store")
    return taken(subject, section, address, f"another monitor, whose store is not {store}")


async def _listen_once(host: str, port: int) -> None:
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)
    server.close()
    await server.wait_closed()


def taken(subject: str, section: str, address: str, holder: str) -> CheckLine:
    return failed(
        subject,
        f"{address} is held by {holder}",
        f"free the port, change {section}.listen, or restart the daemon with this configuration",
    )


def unusable(subject: str, section: str, address: str, exc: BaseException) -> CheckLine:
    reason = exc.strerror if isinstance(exc, OSError) else str(exc)
    return failed(
        subject,
        f"{address} cannot be listened on: {reason}",
        f"name an address of this machine and a free port in {section}.listen",
    )
