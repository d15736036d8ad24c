"""Checks whether the address of the server is free, or in use by our own daemon."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from functools import partial

import aiohttp
import msgspec
from msgspec import Struct

from monitor.bus.settings import StorageSettings
from monitor.bus.store_identity import store_identity, store_place
from monitor.model.checks import Check, CheckLine, failed, ok, warning
from monitor.web.settings import ServerSettings

SERVER = "server address"
_SECTION = "server"
_ASK_SECONDS = 5.0
_ANSWER_BYTES = 4096


class Serving(Struct, frozen=True, kw_only=True):
    """The state of the address of page, metrics and admin API."""

    lines: Sequence[CheckLine]
    has_daemon: bool  # ours runs there, on the store of this configuration
    is_free: bool


async def server_address(settings: ServerSettings, storage: StorageSettings) -> Serving:
    """Check whether the address is free, or held by the daemon of this store."""
    lines = await Check(SERVER, partial(_check_server, settings, storage)).lines()
    return Serving(
        lines=lines,
        has_daemon=lines == [_used_by_daemon(settings)],
        is_free=lines == [_free(settings)],
    )


def _free(settings: ServerSettings) -> CheckLine:
    return ok(SERVER, f"{settings.listen} is free: no daemon runs there")


def _used_by_daemon(settings: ServerSettings) -> CheckLine:
    return ok(SERVER, f"{settings.listen} is held by our own daemon, which is alive")


async def _check_server(settings: ServerSettings, storage: StorageSettings) -> list[CheckLine]:
    address = settings.listen
    if settings.port == 0:
        return [ok(SERVER, f"{address} takes a free port at each start")]
    try:
        await listen_once(settings.host, settings.port)
    except OSError as exc:
        if exc.errno != errno.EADDRINUSE:
            return [unusable(SERVER, _SECTION, address, exc)]
    else:
        return [_free(settings)]
    try:
        alive = await _alive(settings)
    except (aiohttp.ClientError, TimeoutError) as exc:
        holder = f"a program that does not answer /healthz, or hangs ({type(exc).__name__})"
        return [taken(SERVER, _SECTION, address, holder)]
    if not isinstance(alive, dict) or "alive" not in alive:
        holder = "another program: its /healthz is not a monitor's"
        return [taken(SERVER, _SECTION, address, holder)]
    line = another_store(SERVER, _SECTION, address, storage, claimed=alive.get("store"))
    return [line or _used_by_daemon(settings)]


async def _alive(settings: ServerSettings) -> object:
    """Return what /healthz answers; None where that is no JSON.

    Without credentials, and with any certificate: the program there may be anybody's.
    """
    timeout = aiohttp.ClientTimeout(total=_ASK_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
        session.get(
            f"{settings.scheme}://{settings.reachable}/healthz",
            allow_redirects=False,
            ssl=False,
        ) as answer,
    ):
        body = await answer.content.read(_ANSWER_BYTES)
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None


def another_store(
    subject: str, section: str, address: str, storage: StorageSettings, *, claimed: object
) -> CheckLine | None:
    """Return the line of a monitor that holds another store than ours; None: it holds ours."""
    try:
        ours = store_identity(storage)
    except OSError as exc:
        return warning(
            subject,
            f"{address} is held by a monitor; whether it is ours cannot be seen, because "
            f"{store_place(storage)} is hidden from this user: {exc.strerror}",
            "run doctor as the user that runs the daemon",
        )
    if ours is not None and claimed == ours:
        return None
    if not isinstance(claimed, str):
        return taken(subject, section, address, "another program, which names no store")
    place = store_place(storage)
    return taken(subject, section, address, f"another monitor, whose store is not {place}")


async def listen_once(host: str, port: int) -> None:
    """Return when the address was listened on; raises OSError where that is refused."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)
    server.close()
    await server.wait_closed()


def taken(subject: str, section: str, address: str, holder: str) -> CheckLine:
    """Return the line of an address that something else than our own daemon holds."""
    return failed(
        subject, f"{address} is held by {holder}", f"free the port, or change {section}.listen"
    )


def unusable(subject: str, section: str, address: str, exc: BaseException) -> CheckLine:
    reason = exc.strerror if isinstance(exc, OSError) else str(exc)
    return failed(
        subject,
        f"{address} cannot be listened on: {reason}",
        f"name an address of this machine and a free port in {section}.listen",
    )
