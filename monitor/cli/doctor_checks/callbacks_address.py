"""Checks whether the address of the callbacks is free, or used by our own daemon."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ssl
import tempfile
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import aiohttp
import msgspec
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.app.assembly import callback_settings
from monitor.bus.contract import EventBus
from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks import callback_signature
from monitor.callbacks.bodies import TEST_FIELD
from monitor.callbacks.listener import SECRET_HEADER, STORE_HEADER, CallbackListener
from monitor.callbacks.settings import CallbackSettings, ListenerSettings
from monitor.cli.doctor_checks.addresses import (
    another_store,
    listen_once,
    taken,
    unusable,
)
from monitor.config import Configuration
from monitor.listening.tls import client_of, leaf_of
from monitor.model.checks import Check, CheckLine, failed, is_failed, ok
from monitor.model.clock import Clock
from monitor.model.errors import AddressError, BusError, ConfigurationError

CALLBACKS = "callbacks address"
_SECTION = "callbacks"
_ASK_SECONDS = 5.0
_ACCEPTED = 204


class Listening(Struct, frozen=True, kw_only=True):
    """The state of the callbacks address while the other checks run.

    ``bus`` is a store that lasts as long as the checks; None where none could be created.
    """

    lines: Sequence[CheckLine]
    is_answering: bool = False
    bus: EventBus | None = None


@contextlib.asynccontextmanager
async def callback_address(
    configuration: Configuration, *, clock: Clock
) -> AsyncIterator[Listening]:
    """Check who listens on the address; where it is free, listen there during the checks."""
    settings = configuration.callbacks
    if settings is None:
        yield Listening(lines=[ok(CALLBACKS, "off: there is no section [callbacks]")])
        return
    with tempfile.TemporaryDirectory(prefix="dataprep-monitor-doctor-") as folder:
        try:
            bus = await SqliteBus.open(
                Path(folder) / "state.db", clock=clock, registry=CollectorRegistry()
            )
        except BusError as exc:
            line = failed(CALLBACKS, f"could not be tried: {exc}", "make room for temporary files")
            yield Listening(lines=[line])
            return
        listener = _listener(settings, configuration, bus, clock)
        try:
            yield await _listen(listener, settings, configuration, bus, clock)
        finally:
            await listener.stop()
            await bus.close()


async def callback_lines(configuration: Configuration, *, clock: Clock) -> Sequence[CheckLine]:
    """Return who listens on the address, or why no listener can; nothing where it is free."""
    settings = configuration.callbacks
    if settings is None:
        return []
    try:
        await listen_once(settings.host, settings.port)
    except OSError as exc:
        return await _unavailable(settings, configuration, exc, clock=clock)
    return []


def _listener(
    settings: ListenerSettings, configuration: Configuration, bus: EventBus, clock: Clock
) -> CallbackListener:
    # Without room in the inbox a real callback is refused and repeated, so it is not lost.
    full = {
        name: msgspec.structs.replace(workspace, inbox_bound=0)
        for name, workspace in callback_settings(configuration.workspaces).items()
    }
    return CallbackListener(
        settings=settings,
        workspaces=full,
        receive=bus.receive,
        clock=clock,
        registry=CollectorRegistry(),
    )


async def _listen(
    listener: CallbackListener,
    settings: ListenerSettings,
    configuration: Configuration,
    bus: EventBus,
    clock: Clock,
) -> Listening:
    try:
        await listener.start()
    except AddressError as exc:
        cause = exc.__cause__ or exc
        lines = await _unavailable(settings, configuration, cause, clock=clock)
        return Listening(lines=lines, is_answering=not is_failed(lines), bus=bus)
    except ConfigurationError:  # its certificate: another check reports that
        return Listening(lines=[], bus=bus)
    if settings.port == 0:
        found = (
            f"{settings.listen} takes a free port at each start, so no public_url can lead there"
        )
        return Listening(lines=[ok(CALLBACKS, found)], bus=bus)
    found = f"{settings.listen} is free: no daemon runs there, so doctor listened itself"
    return Listening(lines=[ok(CALLBACKS, found)], is_answering=True, bus=bus)


async def _unavailable(
    settings: ListenerSettings, configuration: Configuration, cause: BaseException, *, clock: Clock
) -> Sequence[CheckLine]:
    if isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE:
        asking = partial(_ask_holder, settings, configuration, clock=clock)
        return await Check(CALLBACKS, asking).lines()
    return [unusable(CALLBACKS, _SECTION, settings.listen, cause)]


async def _ask_holder(
    settings: ListenerSettings, configuration: Configuration, *, clock: Clock
) -> list[CheckLine]:
    """Send the program that listens a test callback of each workspace, with its secret."""
    address = settings.listen
    if settings.tls is not None and settings.tls.client_ca_file is not None:
        found = f"{address} is in use, and answers clients with a certificate only: not asked"
        return [ok(CALLBACKS, found)]
    timeout = aiohttp.ClientTimeout(total=_ASK_SECONDS)
    tls = await _trust(settings)
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False) as session:
        for name, workspace in callback_settings(configuration.workspaces).items():
            body = msgspec.json.encode({TEST_FIELD: name})
            try:
                async with session.post(
                    f"{settings.scheme}://{settings.reachable}/hooks/{name}",
                    data=body,
                    headers=_headers(workspace, body, clock=clock),
                    allow_redirects=False,
                    ssl=tls,
                ) as response:
                    status, claimed = response.status, response.headers.get(STORE_HEADER)
            except (aiohttp.ClientError, TimeoutError) as exc:
                holder = f"another program: it does not answer ({type(exc).__name__})"
                return [taken(CALLBACKS, _SECTION, address, holder)]
            if status != _ACCEPTED:
                return [_refusing(address, name, status)]
            stranger = another_store(
                CALLBACKS, _SECTION, address, configuration.storage, claimed=claimed
            )
            if stranger is not None:
                return [stranger]
    return [ok(CALLBACKS, f"{address} is held by our own daemon, which accepts our callbacks")]


async def _trust(settings: ListenerSettings) -> ssl.SSLContext | bool:
    """Return what trusts the listener of these settings, and none other, where it has TLS.

    Raises:
        ConfigurationError: its certificate cannot be read.
    """
    if settings.tls is None:
        return True
    return client_of(await asyncio.to_thread(leaf_of, settings.tls, section="callbacks.tls"))


def _refusing(address: str, workspace: str, status: int) -> CheckLine:
    return failed(
        CALLBACKS,
        f"{address} answers a test callback of {workspace} with {status}: it is held by another "
        "program, or by a daemon with other secrets",
        "free the port, change callbacks.listen, or restart the daemon with this configuration",
    )


def _headers(settings: CallbackSettings, body: bytes, *, clock: Clock) -> dict[str, str]:
    headers = {"Content-Type": "application/json"}
    if settings.secret is not None:
        headers[SECRET_HEADER] = settings.secret.reveal()
    if settings.signing_secret is not None:
        verifier = callback_signature.Verifier(settings.signing_secret)
        headers[callback_signature.HEADER] = verifier.sign(body, now=clock.now())
    return headers
