"""Retention while a clock is set, on both stores: nothing leaves before its time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.app.hosted.retention import RetentionTask
from monitor.bus.contract import Change, EventBus, Retention, Start
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import ShardDefinition, ShardStore
from monitor.bus.sqlite.sole_shard import SqliteStore
from monitor.bus.trusted_time import JudgedTime
from monitor.model.clock import WatchedClock
from monitor.model.runs import Status
from monitor.web.audit.audit_log import AuditLog, as_it_is
from tests.bus.examples import SOON, callback, event, run
from tests.bus.postgres_stores import StoreHost
from tests.clocks import ManualClock
from tests.postgres_server import PostgresServer

_DAY = 86_400.0
STEPS = (1, 3_600, 40 * 86_400)
KEPT = Retention(events_seconds=1_800.0, runs_seconds=1_800.0, callbacks_seconds=1_800.0)


class Kept:
    """A store with a shard, and the retention of a daemon on it."""

    def __init__(self, store: ShardStore, bus: EventBus, clock: ManualClock) -> None:
        self.store = store
        self.bus = bus
        self.clock = clock
        self._watched = WatchedClock(clock)
        self._watched.on_step(self._clock_was_set)
        self.start()

    def start(self, retention: Retention = KEPT) -> None:
        """Begin as a daemon does that starts."""
        self.registry = CollectorRegistry()
        self.retention = RetentionTask(
            clock=self.clock,
            settings=StorageSettings(retention=retention),
            registry=self.registry,
            forget_audit=AuditLog(self.store.entries, clock=self.clock, redact=as_it_is).forget,
            elapsed=self.clock.monotonic,
        )

    def _clock_was_set(self, step: timedelta) -> None:
        self.retention.clock_was_set(step)  # of the present life

    async def fill(self, number: int) -> None:
        """Store an event, a run that has ended and a waiting callback, all of now."""
        now = self._watched.now()
        ended = run(number, Status.FAILED, created_at=now)
        change = Change(runs=(ended,), events=(event(number, recorded_at=now),))
        await self.bus.commit(change, timeout_seconds=SOON)
        waiting = callback(number, received_at=now)
        await self.bus.receive(waiting, inbox_bound=10, timeout_seconds=SOON)

    async def apply(self) -> tuple[int, int, int]:
        """Return how many events, runs and callbacks were removed."""
        (pruned,) = (await self.retention.apply(self.store)).values()
        return pruned.events, pruned.runs, len(pruned.callbacks)

    def set_by(self, seconds: float) -> None:
        self.clock.set_wall(self.clock.now() + timedelta(seconds=seconds))

    @property
    def behind_seconds(self) -> float:
        value = self.registry.get_sample_value("dataprep_monitor_retention_behind_seconds")
        assert value is not None
        return value


async def _on_file(folder: Path) -> Kept:
    settings, clock = StorageSettings(url=f"sqlite://{folder}/state.db"), ManualClock()
    store = await SqliteStore.open(settings, clock=clock, registry=CollectorRegistry())
    return Kept(store, store.bus, clock)


@pytest.fixture(params=["sqlite", "postgres"])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Kept]:
    if request.param == "sqlite":
        on_file = await _on_file(tmp_path)
        yield on_file
        await on_file.store.close()
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    name = await server.create_database()
    host = await StoreHost.open(server.url(name), "north")
    await host.store.define([ShardDefinition(name="sales", workspaces=(), digest="d")])
    await host.has("sales")
    yield Kept(host.store, host.buses["sales"], ManualClock(datetime.now(UTC)))
    await host.close()
    await server.drop_database(name)


@pytest.mark.parametrize("step", [*STEPS, *(-step for step in STEPS)])
async def test_a_clock_that_is_set_and_set_right_deletes_nothing(kept: Kept, step: int) -> None:
    """Events, ended runs and waiting callbacks of before, of meanwhile and of after stay."""
    await kept.fill(1)
    assert await kept.apply() == (0, 0, 0)
    kept.set_by(step)
    await kept.fill(2)
    assert await kept.apply() == (0, 0, 0)
    await kept.clock.advance(100)
    assert await kept.apply() == (0, 0, 0)
    kept.set_by(-step)
    await kept.fill(3)
    await kept.clock.advance(100)
    assert await kept.apply() == (0, 0, 0)
    assert [recorded.position for recorded in await kept.bus.events(after=0, limit=9)] == [1, 2, 3]


@pytest.mark.parametrize("step", [3_601, -3_601, 40 * _DAY, -40 * _DAY])
async def test_a_clock_that_is_right_again_when_ages_are_judged_deletes_nothing(
    kept: Kept, step: float
) -> None:
    """Rows stored in between have times that are far off, and stay for a day at least."""
    assert await kept.apply() == (0, 0, 0)
    kept.set_by(step)
    await kept.fill(1)
    kept.set_by(-step)
    await kept.fill(2)
    await kept.clock.advance(60)
    assert await kept.apply() == (0, 0, 0)
    assert kept.behind_seconds == pytest.approx(max(0.0, -step), abs=60)
    assert kept.retention.trouble is not None


async def test_a_daemon_that_starts_with_a_wrong_clock_deletes_nothing(kept: Kept) -> None:
    """The store knows until when ages were judged, or at least when its newest event was stored."""
    for is_judged in (False, True):
        await kept.fill(int(is_judged))
        if is_judged:
            assert await kept.apply() == (0, 0, 0)
        kept.set_by(-40 * _DAY)
        kept.start()
        assert await kept.apply() == (0, 0, 0)
        kept.set_by(40 * _DAY)
        assert await kept.apply() == (0, 0, 0)
        assert kept.behind_seconds == pytest.approx(40 * _DAY, abs=60)
        kept.start()


async def test_a_step_ahead_makes_old_what_it_has_outlasted(tmp_path: Path) -> None:
    """Until then ages go by the time without it; notifications name it for an hour."""
    kept = await _on_file(tmp_path)
    kept.start(
        Retention(events_seconds=5 * _DAY, runs_seconds=5 * _DAY, callbacks_seconds=5 * _DAY)
    )
    await kept.fill(1)
    assert await kept.apply() == (0, 0, 0)
    kept.set_by(40 * _DAY)
    assert await kept.apply() == (0, 0, 0)
    trouble = kept.retention.trouble
    assert trouble is not None
    assert "was set 40 d ahead" in trouble.reason
    assert kept.behind_seconds == pytest.approx(40 * _DAY)
    await kept.clock.advance(_DAY - 1)
    assert await kept.apply() == (0, 0, 0)
    assert kept.retention.trouble is None
    await kept.clock.advance(1)
    assert await kept.apply() == (0, 0, 0)
    await kept.clock.advance(_DAY)
    assert await kept.apply() == (1, 1, 1)
    assert kept.behind_seconds == pytest.approx(0, abs=0.001)
    await kept.store.close()


async def test_where_the_judgement_left_off_is_stored(kept: Kept) -> None:
    """The next daemon reads it as it was; before, that ages count from the newest event."""
    await kept.fill(1)
    stored = (await kept.store.times()).judged
    assert stored is not None
    assert (
        stored.at
        == stored.next_at
        == (await kept.bus.events(after=0, limit=1))[0].event.recorded_at
    )
    at = datetime(2026, 11, 3, 4, 5, 6, 7, UTC)
    judged = JudgedTime(at=at, next_at=at + timedelta(days=3), waits_seconds=1234.5)
    await kept.store.keep_judged(judged)
    assert (await kept.store.times()).judged == judged


async def test_ages_count_on_a_machine_that_is_off_every_night(tmp_path: Path) -> None:
    """Half a day on and half a day off: what is old leaves within two days of running."""
    kept, removed = await _on_file(tmp_path), []
    await kept.fill(1)
    two_days = Retention(events_seconds=2 * _DAY, runs_seconds=2 * _DAY, callbacks_seconds=2 * _DAY)
    for _ in range(6):
        kept.start(two_days)
        for _ in range(12):
            await kept.clock.advance(3_600)
            removed += [pruned for pruned in [await kept.apply()] if any(pruned)]
        kept.set_by(_DAY / 2)
    assert removed == [(1, 1, 1)]
    await kept.store.close()


async def test_bounds_of_numbers_hold_whatever_the_clock_shows(tmp_path: Path) -> None:
    """The hard cap removes what a consumer still needs; without reaching it all stays."""
    kept = await _on_file(tmp_path)
    await kept.bus.subscribe("slow", start=Start.OLDEST)
    for number in range(5):
        await kept.fill(number)
    await kept.apply()
    kept.set_by(40 * _DAY)
    assert await kept.apply() == (0, 0, 0)
    kept.start(Retention(events_count=2, events_hard_cap=3))
    assert await kept.apply() == (2, 0, 0)
    await kept.store.close()


async def test_the_audit_has_a_retention_of_its_own(kept: Kept) -> None:
    """Lines stay for longer than events, and go when their own time is over."""
    kept.start(msgspec.structs.replace(KEPT, audit_seconds=2 * _DAY))
    for days in (3, 1, 0):
        clock = ManualClock(kept.clock.now() - timedelta(days=days))
        audit = AuditLog(kept.store.entries, clock=clock, redact=as_it_is)
        await audit.store(audit.line(f"{days} days ago", person="ann", source="local"))
    await kept.apply()
    left = await audit.lines(before=None, since=None, limit=9)
    assert [line.what for line in left] == ["0 days ago", "1 days ago"]
