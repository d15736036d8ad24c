"""What a new configuration changes in a running daemon, and what it leaves when it is refused."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.app.daemon import Addresses, Daemon
from monitor.app.store_opening import OpenStore
from monitor.app.store_opening import open_store as open_any
from monitor.bus.settings import StorageSettings
from monitor.bus.sqlite.sole_shard import SqliteStore
from monitor.cli.service_manager import ServiceManager
from monitor.cli.sighup import SighupReload
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.logs import Redactor
from monitor.model.clock import Clock, SystemClock
from monitor.model.errors import BusUnavailableError, ConfigurationError
from monitor.model.secrets import Secret
from monitor.outputs.webhook.settings import WebhookSettings
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import WorkspaceSettings
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.refusing_store import RefusingStore

WEBHOOK_KEY = "whsec_" + "a" * 32  # 24 bytes


def consumers(folder: Path) -> set[str]:
    with sqlite3.connect(folder / "state.db") as db:
        return {name for (name,) in db.execute("SELECT name FROM consumer")}


async def during(
    settings: Configuration,
    act: Callable[[Daemon, Addresses], Awaitable[None]],
    *,
    open_store: OpenStore = open_any,
) -> Daemon:
    """Run a daemon, act once when it has started, and stop it."""
    daemon = Daemon(
        settings, clock=SystemClock(), registry=CollectorRegistry(), open_store=open_store
    )
    stop = asyncio.Event()
    started: list[Addresses] = []

    async def once() -> None:
        try:
            await act(daemon, started[0])
        finally:
            stop.set()
        await asyncio.Event().wait()

    await daemon.run(stop, on_started=started.append, beside={"the test": once})
    return daemon


async def test_every_consumer_has_its_position_before_anything_can_happen(tmp_path: Path) -> None:
    """When the daemon has started, no consumer can begin after an event of this life."""
    at_start: set[str] = set()
    settings = fixture.configuration(
        tmp_path, fixture.unreachable("acme"), broker_url="mqtt://127.0.0.1:9"
    )
    stop = asyncio.Event()

    def record(_: Addresses) -> None:
        at_start.update(consumers(tmp_path))
        stop.set()

    daemon = Daemon(settings, clock=SystemClock(), registry=CollectorRegistry())
    async with asyncio.timeout(60):
        await daemon.run(stop, on_started=record)

    assert at_start == {"metrics", "alerting", "mqtt", "misses/acme"}


async def test_a_reload_adds_and_removes_positions_in_the_log(tmp_path: Path) -> None:
    """A workspace that comes has its consumer at once, and one that goes loses its own."""
    settings = fixture.configuration(
        tmp_path, fixture.unreachable("here"), fixture.unreachable("gone")
    )
    expected = fixture.configuration(
        tmp_path, fixture.unreachable("here"), fixture.unreachable("new")
    )
    observed: list[set[str]] = []
    waiting: list[str] = []

    async def act(daemon: Daemon, _: Addresses) -> None:
        changed = msgspec.structs.replace(
            expected, server=ServerSettings(listen="127.0.0.1:0", allow_anonymous=True)
        )
        waiting.extend(await daemon.reload(changed))
        observed.append(consumers(tmp_path))
        observed.append({workspace.workspace for workspace in daemon.view.workspaces()})

    await during(settings, act)

    assert observed == [{"metrics", "alerting", "misses/here", "misses/new"}, {"here", "new"}]
    assert waiting == ["server.allow_anonymous"]


async def test_a_key_that_waits_for_a_restart_is_named_until_it_is_taken_back(
    tmp_path: Path,
) -> None:
    """Every reload compares with what the daemon started with, not with the reload before."""
    settings = fixture.configuration(tmp_path, fixture.unreachable("here"))
    changed = msgspec.structs.replace(
        settings, server=ServerSettings(listen="127.0.0.1:0", allow_anonymous=True)
    )
    waiting: list[list[str]] = []

    async def act(daemon: Daemon, _: Addresses) -> None:
        waiting.extend([await daemon.reload(after) for after in (changed, changed, settings)])

    await during(settings, act)

    assert waiting == [["server.allow_anonymous"], ["server.allow_anonymous"], []]


async def test_a_reload_that_cannot_be_done_keeps_what_was_followed(tmp_path: Path) -> None:
    """A certificate file that is none is refused before anything is given up."""
    settings = fixture.configuration(tmp_path, fixture.unreachable("here"))
    junk = tmp_path / "authorities.pem"
    junk.write_text("none")
    tls = msgspec.structs.replace(
        fixture.unreachable("here"),
        workspace=WorkspaceSettings(
            name="here", url="https://127.0.0.1:9", token=Secret("t"), ca_file=str(junk)
        ),
    )
    answers: list[str] = []

    async def act(daemon: Daemon, _: Addresses) -> None:
        with pytest.raises(ConfigurationError):
            await daemon.reload(fixture.configuration(tmp_path, tls, fixture.unreachable("new")))
        answers.extend(task.get_name() for task in asyncio.all_tasks())
        answers.extend(workspace.workspace for workspace in daemon.view.workspaces())

    await during(settings, act)

    assert "poller here" in answers
    assert "new" not in answers


def shown(daemon: Daemon) -> set[str]:
    """Return the workspaces of the live state."""
    return {workspace.workspace for workspace in daemon.view.workspaces()}


def pollers() -> dict[str, asyncio.Task[Any]]:
    """Return the task that supervises the poller of each workspace; its run is a task below it."""
    return {
        task.get_name().removeprefix("poller "): task
        for task in asyncio.all_tasks()
        if task.get_name().startswith("poller ")
        and getattr(task.get_coro(), "__name__", "") == "supervise"
    }


@pytest.mark.parametrize("stays_away", [False, True], ids=["refuses one step", "stays away"])
async def test_a_reload_is_done_whole_or_not_at_all(tmp_path: Path, *, stays_away: bool) -> None:
    """Whichever step the store refuses, exactly what was before goes on, or what is new.

    The same reload again succeeds, and leaves the consumers that it would have left at once.
    """
    before = fixture.configuration(
        tmp_path, fixture.unreachable("kept"), fixture.unreachable("gone"), _without("changed")
    )
    names_before, names_after = {"kept", "gone", "changed"}, {"kept", "changed", "new", "newer"}
    after = msgspec.structs.replace(
        fixture.configuration(tmp_path, *map(fixture.unreachable, sorted(names_after))),
        outputs={
            "webhook": WebhookSettings(url="http://127.0.0.1:9/hook", secret=Secret(WEBHOOK_KEY))
        },
    )
    consumers_before = {"metrics", "alerting", "misses/kept", "misses/gone"}
    misses_after = {f"misses/{name}" for name in names_after}
    consumers_after = {"metrics", "alerting", "webhook", *misses_after}
    stores: list[RefusingStore] = []
    refused: list[int] = []

    async def opened(
        settings: StorageSettings, *, clock: Clock, registry: CollectorRegistry, **_: object
    ) -> SqliteStore:
        stores.append(await RefusingStore.opened(settings, clock=clock, registry=registry))
        return SqliteStore(stores[0], clock=SystemClock())

    async def act(daemon: Daemon, _: Addresses) -> None:
        (store,) = stores
        for step in range(100):
            former = pollers()
            store.refuse(step, stays_away=stays_away)
            try:
                await daemon.reload(after)
                has_refused = store.has_refused
            except BusUnavailableError:
                has_refused = True
                refused.append(step)
                assert (shown(daemon), pollers()) == (names_before, former)
                # What the undoing could not drop, because the store stayed away, goes next time.
                assert stays_away or consumers(tmp_path) == consumers_before
                store.refuse(None, stays_away=False)
                await daemon.reload(after)
            store.refuse(None, stays_away=False)
            assert (shown(daemon), set(pollers())) == (names_after, names_after)
            assert consumers(tmp_path) == consumers_after
            await daemon.reload(before)
            assert (shown(daemon), set(pollers())) == (names_before, names_before)
            assert consumers(tmp_path) == consumers_before
            if not has_refused:
                return
        pytest.fail("a reload has no end of steps")

    async with asyncio.timeout(60):
        await during(before, act, open_store=opened)

    # The consumer of the new output and when it began, four reads for each of two new workspaces,
    # one of the last status and one of the listed names for each of three, three new consumers,
    # and dropping the former with when it began.
    assert refused == list(range(21))


async def test_another_name_of_the_daemon_reaches_what_is_named_by_it(tmp_path: Path) -> None:
    """Webhook tasks carry the name, so each workspace is followed again under the new one."""
    settings = fixture.configuration(
        tmp_path, fixture.unreachable("here"), broker_url="mqtt://127.0.0.1:9"
    )
    mqtt = msgspec.structs.replace(settings.outputs["mqtt"], instance="other")
    observed: list[bool] = []

    async def act(daemon: Daemon, _: Addresses) -> None:
        former = pollers()["here"]
        await daemon.reload(settings)
        observed.append(pollers()["here"] is former)
        await daemon.reload(msgspec.structs.replace(settings, outputs={"mqtt": mqtt}))
        observed.append(pollers()["here"] is former)

    await during(settings, act)

    assert observed == [True, False]


async def test_a_reload_is_repeated_until_the_store_answers(tmp_path: Path) -> None:
    """SIGHUP while the store refuses: the former workspace stays, the new one comes by itself."""
    settings = fixture.configuration(tmp_path, fixture.unreachable("here"))
    path = tmp_path / "monitor.toml"
    (tmp_path / "token").write_text("t")
    path.write_text(
        '[[workspaces]]\nname = "new"\nurl = "http://127.0.0.1:9"\ntoken_file = "token"\n'
    )
    stores: list[RefusingStore] = []
    followed: list[Configuration] = []

    async def opened(
        settings: StorageSettings, *, clock: Clock, registry: CollectorRegistry, **_: object
    ) -> SqliteStore:
        stores.append(await RefusingStore.opened(settings, clock=clock, registry=registry))
        return SqliteStore(stores[0], clock=SystemClock())

    async def act(daemon: Daemon, _: Addresses) -> None:
        clock = SystemClock()
        sighup = SighupReload(
            daemon,
            path,
            configuration=settings,
            manager=ServiceManager(None, clock=clock),
            redactor=Redactor(),
            clock=clock,
            on_reloaded=followed.append,
        )
        async with asyncio.TaskGroup() as group:
            reloads = group.create_task(sighup.run(), name="reloads")
            stores[0].refuse_to_all("keep_only")
            sighup.request()
            await eventually(lambda: stores[0].refusals > 1, why="no reload was tried")
            assert (shown(daemon), set(pollers())) == ({"here"}, {"here"})
            stores[0].refuse_to_all()
            await eventually(lambda: shown(daemon) == {"new"}, why="the reload was not repeated")
            await eventually(lambda: len(followed) == 1, why="only the last one came into force")
            reloads.cancel()

    async with asyncio.timeout(60):
        await during(settings, act, open_store=opened)


def _without(name: str) -> WorkspaceConfiguration:
    """Return a workspace without callbacks, so that it has no consumer of its own."""
    return msgspec.structs.replace(fixture.unreachable(name), callbacks=None)
