"""Outputs that come, change and go while the daemon runs: nothing is lost, and order is kept."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import sqlite3
import ssl
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor.app.daemon import Addresses, Daemon
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import SOLE
from monitor.bus.sqlite.sole_shard import SqliteStore
from monitor.config import Configuration
from monitor.model.clock import Clock, SystemClock
from monitor.model.errors import ConfigurationError
from monitor.model.secrets import Secret
from monitor.outputs.file.settings import FileSettings
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.outputs.webhook.settings import WebhookSettings
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.mqtt_subscriber import Subscriber
from tests.app.refusing_store import RefusingStore
from tests.certificates import Certificates
from tests.outputs.histories import change, run_event
from tests.outputs.receiving import DEAF, PostReceiver
from tests.servers import Mosquitto

KEY = Secret(f"whsec_{base64.b64encode(bytes(range(32))).decode()}")


class Running(Struct, frozen=True):
    """A daemon that runs, and what it stores in."""

    daemon: Daemon
    store: RefusingStore
    face: Face
    registry: CollectorRegistry
    folder: Path

    async def emit(self, *numbers: int) -> list[str]:
        """Append the start of these runs to the log, and return the ids."""
        events = [run_event(str(number)) for number in numbers]
        await self.store.commit(change(*events), timeout_seconds=5)
        return [event.id for event in events]

    def notifications(self, output: str, outcome: str) -> float:
        labels = {"output": output, "outcome": outcome}
        name = "dataprep_monitor_notifications_total"
        return self.registry.get_sample_value(name, labels) or 0.0

    def consumers(self) -> set[str]:
        """Return the consumers of the store that are outputs."""
        with sqlite3.connect(self.folder / "state.db") as db:
            names = {name for (name,) in db.execute("SELECT name FROM consumer")}
        return names - {"metrics", "alerting"}


@contextlib.asynccontextmanager
async def running(settings: Configuration, folder: Path) -> AsyncIterator[Running]:
    """Run a daemon beside the test."""
    registry, stop = CollectorRegistry(), asyncio.Event()
    stores: list[RefusingStore] = []
    started: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()

    async def opened(
        settings: StorageSettings, *, clock: Clock, registry: CollectorRegistry, **_: object
    ) -> SqliteStore:
        stores.append(await RefusingStore.opened(settings, clock=clock, registry=registry))
        return SqliteStore(stores[0], clock=SystemClock())

    daemon = Daemon(settings, clock=SystemClock(), registry=registry, open_store=opened)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(daemon.run(stop, on_started=started.set_result), name="daemon")
        try:
            face = Face((await started).server_port)
            yield Running(daemon, stores[0], face, registry, folder)
        finally:
            stop.set()


def configured(folder: Path, broker_url: str | None = None, **outputs: Any) -> Configuration:
    """Return settings without a workspace."""
    return fixture.configuration(folder, broker_url=broker_url, **outputs)


def webhook(receiver: PostReceiver, **more: Any) -> WebhookSettings:
    url = f"{receiver.url}/hook"
    return WebhookSettings(url=url, secret=KEY, events=("run.*",), **more)


def ids_of(receiver: PostReceiver) -> list[str]:
    """Return the ids of the events that a receiver accepted, in their order."""
    return [request.json()["id"] for request in receiver.accepted]


async def test_another_broker_gets_what_comes_after_the_former_one(tmp_path: Path) -> None:
    """Each event is published once, in order; the former broker reads stopped, its series end."""
    async with (
        Mosquitto(tmp_path) as former,
        Mosquitto(tmp_path) as later,
        Subscriber(former.port, name="former") as at_former,
        Subscriber(later.port, name="later") as at_later,
        running(configured(tmp_path, former.url), tmp_path) as run,
    ):

        def connected(broker: Mosquitto) -> float | None:
            labels = {"broker": f"127.0.0.1:{broker.port}"}
            values = (
                registry.get_sample_value("dataprep_monitor_mqtt_connected", labels)
                for registry in run.daemon.registries
            )
            return next((value for value in values if value is not None), None)

        await eventually(lambda: connected(former) == 1, why="not connected")
        before = await run.emit(*range(300))
        assert await run.daemon.reload(configured(tmp_path, later.url)) == []
        after = await run.emit(*range(300, 310))

        def ids(subscriber: Subscriber) -> list[str]:
            events = [part for part in list(subscriber.messages) if "/event/" in part.topic]
            return [json.loads(message.payload)["id"] for message in events]

        await eventually(
            lambda: [*ids(at_former), *ids(at_later)] == [*before, *after],
            why=lambda: [*ids(at_former), *ids(at_later)],
        )
        await eventually(
            lambda: at_former.values("bridge/monitor/state", "state") == ["online", "stopped"],
            why=lambda: at_former.values("bridge/monitor/state", "state"),
        )
        assert (connected(former), connected(later)) == (None, 1)
        assert run.consumers() == {"mqtt"}


async def test_a_webhook_is_added_and_removed(tmp_path: Path) -> None:
    """It begins with the newest event each time, and its consumer goes with it."""
    without = configured(tmp_path)
    async with PostReceiver() as receiver, running(without, tmp_path) as run:
        with_it = configured(tmp_path, webhook=webhook(receiver))
        await run.emit(1)
        assert await run.daemon.reload(with_it) == []
        second = await run.emit(2)
        await receiver.until(lambda: ids_of(receiver) == second)
        assert run.consumers() == {"webhook"}
        assert "webhook" in (await run.face.readiness()).checks

        await run.daemon.reload(without)
        assert run.consumers() == set()
        assert "webhook" not in (await run.face.readiness()).checks
        await run.emit(3)

        await run.daemon.reload(with_it)
        fourth = await run.emit(4)
        await receiver.until(lambda: ids_of(receiver) == [*second, *fourth])


async def test_requests_under_way_are_answered_before_other_settings_apply(tmp_path: Path) -> None:
    """Nothing is posted twice, although each answer takes its time, and the order is kept."""
    async with PostReceiver() as receiver:
        receiver.pause_seconds = 0.3
        settings = configured(tmp_path, webhook=webhook(receiver, workers=1))
        async with running(settings, tmp_path) as run:
            ids = await run.emit(1, 2, 3)
            await receiver.until(lambda: len(receiver.requests) == 1)
            await run.daemon.reload(configured(tmp_path, webhook=webhook(receiver, workers=2)))
            ids += await run.emit(4)
            await receiver.until(lambda: len(receiver.accepted) >= len(ids))
    assert ids_of(receiver) == ids


async def test_events_without_an_answer_go_to_the_new_address(tmp_path: Path) -> None:
    """A receiver that hangs holds the reload no longer than its timeout, and loses nothing."""
    async with PostReceiver() as hanging, PostReceiver() as working:
        hanging.status_for = lambda _: DEAF
        settings = configured(tmp_path, webhook=webhook(hanging, timeout_seconds=0.5))
        async with running(settings, tmp_path) as run:
            ids = await run.emit(1, 2, 3)
            await hanging.until(lambda: len(hanging.requests) >= 1)
            await run.daemon.reload(configured(tmp_path, webhook=webhook(working, workers=1)))
            await working.until(lambda: ids_of(working) == ids)


async def test_another_file_goes_on_where_the_former_one_ends(tmp_path: Path) -> None:
    """Each event is in one of the two, in order, and a replay writes both to the present one."""
    former, later = tmp_path / "former", tmp_path / "later"

    def written_to(file: Path) -> list[str]:
        return [json.loads(line)["id"] for line in file.read_text().splitlines()]

    settings = configured(tmp_path, file=FileSettings(path=str(former)))
    async with running(settings, tmp_path) as run:
        before = await run.emit(*range(200))
        await run.daemon.reload(configured(tmp_path, file=FileSettings(path=str(later))))
        after = await run.emit(*range(200, 210))
        await eventually(
            lambda: written_to(former) + written_to(later) == [*before, *after],
            why=lambda: (written_to(former), written_to(later)),
        )
        replayed = await run.face.post(
            "/api/v1/replay", output="file", since="2026-01-01T00:00:00Z"
        )
        assert replayed["reason"] is None
    assert written_to(later)[-210:] == [*before, *after]


async def test_a_renewed_certificate_is_taken_by_a_reload(tmp_path: Path) -> None:
    """The settings still name the same file, which now trusts who signed the receiver's."""
    signed = {name: certificates(tmp_path / name) for name in ("former", "renewed")}
    trusted = tmp_path / "authorities.pem"
    trusted.write_bytes(signed["former"].authority.read_bytes())
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own = signed["renewed"].server
    tls.load_cert_chain(own, signed["renewed"].key_of(own))
    async with PostReceiver(tls=tls) as receiver:
        settings = configured(tmp_path, webhook=webhook(receiver, ca_file=str(trusted)))
        async with running(settings, tmp_path) as run:
            ids = await run.emit(1)
            failed = partial(run.notifications, "webhook", "failed")
            await eventually(lambda: failed() > 0, why="a stranger is trusted")
            trusted.write_bytes(signed["renewed"].authority.read_bytes())
            assert await run.daemon.reload(settings) == []
            await eventually(lambda: ids_of(receiver) == ids, why="not delivered")


def certificates(folder: Path) -> Certificates:
    folder.mkdir()
    return Certificates(folder)


async def test_settings_that_cannot_work_refuse_the_reload_as_a_whole(tmp_path: Path) -> None:
    """An unreadable certificate: broker, consumers and outputs of before go on, no other comes."""
    junk = tmp_path / "authorities.pem"
    junk.write_text("none")
    async with (
        Mosquitto(tmp_path) as broker,
        Subscriber(broker.port) as subscriber,
        PostReceiver() as receiver,
        running(configured(tmp_path, broker.url), tmp_path) as run,
    ):
        await eventually(
            lambda: subscriber.values("monitor/state", "state") == ["online"], why="no greeting"
        )
        mqtt = configured(tmp_path, broker.url.replace("mqtt:", "mqtts:")).outputs["mqtt"]
        broken = msgspec.structs.replace(mqtt, ca_file=str(junk))
        with pytest.raises(ConfigurationError, match=r'mqtt\.ca_file: "/.*TLS files'):
            await run.daemon.reload(configured(tmp_path, mqtt=broken, webhook=webhook(receiver)))
        assert run.consumers() == {"mqtt"}
        ids = set(await run.emit(1, 2))
        await eventually(lambda: set(subscriber.received().events) == ids, why="not published")
        assert subscriber.values("monitor/state", "state") == ["online"]
        assert receiver.requests == []


async def test_a_consumer_that_the_store_keeps_goes_with_the_next_reload(tmp_path: Path) -> None:
    """The output is gone at once, although the store refuses to drop its consumer for now."""
    without = configured(tmp_path)
    async with PostReceiver() as receiver:
        settings = configured(tmp_path, webhook=webhook(receiver))
        async with running(settings, tmp_path) as run:
            # The first one comes before the swap and drops none, the second one after it.
            run.store.refuse(1, stays_away=False)
            await run.daemon.reload(without)
            assert run.store.has_refused
            assert run.consumers() == {"webhook"}
            assert "webhook" not in (await run.face.readiness()).checks
            await run.daemon.reload(without)
            assert run.consumers() == set()


async def test_a_smaller_series_budget_applies_at_once(tmp_path: Path) -> None:
    """Counters of pipelines that have no place any more are summed under ``__other__``."""
    async with running(configured(tmp_path), tmp_path) as run:
        run.daemon._hosting.shards[SOLE].live_state.add_workspace("w")
        await run.emit(1, 2)
        started = "dataprep_runs_started_total"

        async def count(pipeline: str) -> float:
            return await run.face.total(started, workspace="w", pipeline=pipeline)

        async def is_counted() -> bool:
            return await count("orders") == 2

        await eventually(is_counted, why="nothing was counted")
        small = msgspec.structs.replace(
            configured(tmp_path), metrics=MetricsSettings(series_budget=100)
        )
        assert await run.daemon.reload(small) == []

        async def is_merged() -> bool:
            return (await count("orders"), await count("__other__")) == (0, 2)

        await eventually(is_merged, why="the former budget stands")
