"""Whether our own addresses are free, or in use by our own daemon."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus
from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks.bodies import TEST_FIELD
from monitor.callbacks.listener import SECRET_HEADER, CallbackListener
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.cli.admin import AdminClient, reachable_host
from monitor.cli.doctor_checks.lines import CheckLine, bounded, failed, ok
from monitor.config import Configuration
from monitor.config.checks import joined_address
from monitor.model.clock import Clock
from monitor.model.errors import BusError, ConfigurationError, MonitorError
from monitor.web.settings import ServerSettings

SERVER, CALLBACKS = "server address", "callbacks address"
_ASK_SECONDS = 5.0
_ACCEPTED = 204


class Listening(Struct, frozen=True, kw_only=True):
    """The state of the callbacks address while the other checks run.

    ``bus`` is a store that lasts as long as the checks; None where none could be created.
    """

    lines: list[CheckLine]
    is_answering: bool = False
    bus: EventBus | None = None


class Serving(Struct, frozen=True, kw_only=True):
    """The state of the address of page, metrics and admin API."""

    lines: list[CheckLine]
    has_daemon: bool  # ours runs there, and answers


async def server_address(settings: ServerSettings) -> Serving:
    """Check whether the address is free, or our daemon's."""
    lines = await bounded(SERVER, _check_server(settings))
    return Serving(lines=lines, has_daemon=lines == [_used_by_daemon(settings)])


def _used_by_daemon(settings: ServerSettings) -> CheckLine:
    address = joined_address(settings.host, settings.port)
    return ok(SERVER, f"{address} is held by our own daemon, which is alive")


async def _check_server(settings: ServerSettings) -> list[CheckLine]:
    address = joined_address(settings.host, settings.port)
    if settings.port == 0:
        return [ok(SERVER, f"{address} takes a free port at each start")]
    try:
        await _listen_once(settings.host, settings.port)
    except OSError as exc:
        if exc.errno != errno.EADDRINUSE:
            return [_unusable(SERVER, "server", address, exc)]
    else:
        return [ok(SERVER, f"{address} is free: no daemon runs there")]
    try:
        async with AdminClient(settings) as client:
            alive = await client.get("/healthz")
    except MonitorError as exc:
        return [_taken(SERVER, "server", address, str(exc))]
    if not isinstance(alive, dict) or "alive" not in alive:
        return [_taken(SERVER, "server", address, "its /healthz is not a monitor's")]
    return [_used_by_daemon(settings)]


@contextlib.asynccontextmanager
async def callback_address(
    configuration: Configuration, *, clock: Clock
) -> AsyncIterator[Listening]:
    """Check who listens on the address; if nobody does, listen there during the checks."""
    settings = configuration.callbacks
    if settings is None:
        yield Listening(lines=[ok(CALLBACKS, "off: there is no section [callbacks]")])
        return
    workspaces = {
        workspace.name: workspace.callbacks
        for workspace in configuration.workspaces
        if workspace.callbacks
    }
    with tempfile.TemporaryDirectory(prefix="dataprep-monitor-doctor-") as folder:
        try:
            bus = await SqliteBus.open(
                Path(folder) / "state.db", clock=clock, registry=CollectorRegistry()
            )
        except BusError as exc:
            line = failed(CALLBACKS, f"could not be tried: {exc}", "make room for temporary files")
            yield Listening(lines=[line])
            return
        listener = _listener(settings, workspaces, bus, clock)
        try:
            yield await _listen(listener, settings, workspaces, bus)
        finally:
            await listener.stop()
            await bus.close()


def _listener(
    settings: ListenerSettings,
    workspaces: Mapping[str, CallbackSettings],
    bus: EventBus,
    clock: Clock,
) -> CallbackListener:
    # Without room in the inbox a real callback is refused and repeated, so it is not lost.
    full = {
        name: msgspec.structs.replace(workspace, inbox_bound=0)
        for name, workspace in workspaces.items()
    }
    return CallbackListener(
        settings=settings,
        workspaces=full,
        bus=bus,
        clock=clock,
        registry=CollectorRegistry(),
        on_stored=lambda _: None,
    )


async def _listen(
    listener: CallbackListener,
    settings: ListenerSettings,
    workspaces: Mapping[str, CallbackSettings],
    bus: EventBus,
) -> Listening:
    address = joined_address(settings.host, settings.port)
    try:
        await listener.start()
    except ConfigurationError as exc:
        cause = exc.__cause__
        if isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE:
            lines = await bounded(CALLBACKS, _ask_holder(settings, workspaces))
        else:
            lines = [_unusable(CALLBACKS, "callbacks", address, cause or exc)]
        is_ours = all(line.hint is None for line in lines)
        return Listening(lines=lines, is_answering=is_ours, bus=bus)
    if settings.port == 0:
        found = f"{address} takes a free port at each start, so no public_url can lead there"
        return Listening(lines=[ok(CALLBACKS, found)], bus=bus)
    found = f"{address} is free: no daemon runs there, so doctor listened itself"
    return Listening(lines=[ok(CALLBACKS, found)], is_answering=True, bus=bus)


async def _ask_holder(
    settings: ListenerSettings, workspaces: Mapping[str, CallbackSettings]
) -> list[CheckLine]:
    """Send the program that listens a test callback of each workspace, with its secret."""
    address = joined_address(settings.host, settings.port)
    reachable = joined_address(reachable_host(settings.host), settings.port)
    timeout = aiohttp.ClientTimeout(total=_ASK_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
        for name, workspace in workspaces.items():
            if workspace.secret is None:
                continue
            try:
                async with session.post(
                    f"http://{reachable}/hooks/{name}",
                    json={TEST_FIELD: name},
                    headers={SECRET_HEADER: workspace.secret.reveal()},
                    allow_redirects=False,
                ) as response:
                    status = response.status
            except (aiohttp.ClientError, TimeoutError) as exc:
                reason = f"it does not answer ({type(exc).__name__})"
                return [_taken(CALLBACKS, "callbacks", address, reason)]
            if status != _ACCEPTED:
                reason = f"it answers a test callback of {name} with {status}"
                return [_taken(CALLBACKS, "callbacks", address, reason)]
    return [ok(CALLBACKS, f"{address} is held by our own daemon, which accepts our callbacks")]


async def _listen_once(host: str, port: int) -> None:
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port)
    server.close()
    await server.wait_closed()


def _taken(subject: str, section: str, address: str, reason: str) -> CheckLine:
    return failed(
        subject,
        f"{address} is held by another program: {reason}",
        f"free the port, change {section}.listen, or restart the daemon with this configuration",
    )


def _unusable(subject: str, section: str, address: str, exc: BaseException) -> CheckLine:
    reason = exc.strerror if isinstance(exc, OSError) else str(exc)
    return failed(
        subject,
        f"{address} cannot be listened on: {reason}",
        f"name an address of this machine and a free port in {section}.listen",
    )
