"""When a report is due, one event says so: over restarts, takeovers, and clocks that change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.alerting.reports.settings import ReportSettings
from monitor.app.hosted.report_clock import ReportClock
from monitor.bus.contract import Change, EventBus, StateEntry
from monitor.bus.shards import CLUSTER
from monitor.bus.sqlite import SqliteBus
from monitor.model.alerts import BRIDGE
from monitor.model.events import EventType, WorkspaceEvent
from tests.app.eventually import eventually
from tests.bus.dump_scenario import carried, file_url
from tests.bus.postgres_backend import TestDaemon, new_database
from tests.clocks import FastClock, ManualClock
from tests.postgres_server import PostgresServer

MORNING = ReportSettings(name="last-night", at="0 7 * * *")
EVENING = datetime(2026, 11, 20, 22, tzinfo=UTC)
HOUR = 3_600.0


class Life:
    """One life of the task that records, over a store that outlives it."""

    def __init__(self, bus: EventBus, clock: ManualClock, *reports: ReportSettings) -> None:
        self.bus = bus
        self.reports = reports
        self.task = ReportClock(bus=bus, clock=clock, reports=lambda: self.reports)

    async def due(self) -> list[str]:
        """Return what the log says was due, after the task has looked once more."""
        await self.task.record_due()
        return await recorded(self.bus)


async def recorded(bus: EventBus) -> list[str]:
    """Return name and time of each report that was recorded as due, oldest first."""
    events = [row.event for row in await bus.events(after=0, limit=1_000)]
    return [
        f"{event.what} {event.after}"
        for event in events
        if isinstance(event, WorkspaceEvent) and event.type is EventType.REPORT_DUE
    ]


@asynccontextmanager
async def store(folder: Path, clock: ManualClock) -> AsyncIterator[SqliteBus]:
    bus = await SqliteBus.open(folder / "state.db", clock=clock, registry=CollectorRegistry())
    try:
        yield bus
    finally:
        await bus.close()


async def test_it_is_recorded_once_at_its_time(tmp_path: Path) -> None:
    """Not before, not again, and with an id that only the time makes."""
    clock = ManualClock(EVENING)
    async with store(tmp_path, clock) as bus:
        life = Life(bus, clock, MORNING)
        assert await life.due() == []
        await clock.advance(9 * HOUR - 1)
        assert await life.due() == []
        await clock.advance(1)
        assert await life.due() == ["report:last-night 2026-11-21T07:00:00Z"]
        await clock.advance(HOUR)
        assert len(await life.due()) == 1
        (row,) = await bus.events(after=0, limit=10)

    minutes = int(datetime(2026, 11, 21, 7, tzinfo=UTC).timestamp()) // 60
    assert row.event.id == f"bridge:report:last-night:{minutes}"
    assert row.event.workspace == BRIDGE


async def test_the_task_wakes_by_itself(tmp_path: Path) -> None:
    """At the time, although it sleeps, and again when it is due the next time."""
    clock = FastClock(speed=100.0, start=EVENING)
    async with store(tmp_path, clock) as bus:
        often = ReportSettings(name="often", at="* * * * *")
        running = asyncio.create_task(Life(bus, clock, often).task.run())

        async def is_twice_due() -> bool:
            return len(await recorded(bus)) == 2

        try:
            await eventually(is_twice_due, why="no event comes")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(("away_hours", "count"), [(9, 1), (30, 1), (9 + 24 * 5, 1)])
async def test_of_what_was_missed_only_the_newest_is_recorded(
    tmp_path: Path, away_hours: int, count: int
) -> None:
    """Over a stop of some hours or some days; a further restart records nothing again."""
    clock = ManualClock(EVENING)
    async with store(tmp_path, clock) as bus:
        assert await Life(bus, clock, MORNING).due() == []
    await clock.advance(away_hours * HOUR)
    for _ in range(2):
        async with store(tmp_path, clock) as bus:
            found = await Life(bus, clock, MORNING).due()
            assert len(found) == count
    newest = max(
        at for day in range(7) if (at := EVENING + timedelta(days=day, hours=9)) <= clock.now()
    )
    assert found == [f"report:last-night {newest:%Y-%m-%dT%H:%M:%SZ}"]


async def test_what_was_missed_a_day_ago_stays_away(tmp_path: Path) -> None:
    """It is of no use any more: the next one comes at its time."""
    clock = ManualClock(EVENING)
    monday = ReportSettings(name="week", at="0 7 * * 1", period="week")  # type: ignore[arg-type]
    async with store(tmp_path, clock) as bus:
        await Life(bus, clock, monday).due()
    await clock.advance((3 * 24 + 10) * HOUR)  # Tuesday, 08:00
    async with store(tmp_path, clock) as bus:
        assert await Life(bus, clock, monday).due() == []


async def test_a_new_report_has_missed_nothing(tmp_path: Path) -> None:
    """One that is configured at noon does not send that of the morning; nor does one renamed."""
    clock = ManualClock(EVENING + timedelta(hours=14))
    async with store(tmp_path, clock) as bus:
        life = Life(bus, clock, MORNING)
        assert await life.due() == []
        await clock.advance(20 * HOUR)
        assert len(await life.due()) == 1
        life.reports = ()
        await life.due()
        assert await bus.state_entries(BRIDGE, "reports") == {}
        life.reports = (MORNING,)
        await clock.advance(HOUR)
        assert len(await life.due()) == 1


async def test_a_clock_that_is_set_back_repeats_nothing(tmp_path: Path) -> None:
    """The time comes twice, its event once; and the next day's comes."""
    clock = ManualClock(EVENING)
    async with store(tmp_path, clock) as bus:
        life = Life(bus, clock, MORNING)
        await life.due()
        await clock.advance(9 * HOUR + 60)
        await life.due()
        clock.set_wall(clock.now() - timedelta(minutes=10))
        await life.due()
        await clock.advance(12 * 60)
        assert len(await life.due()) == 1
        await clock.advance(24 * HOUR)
        assert len(await life.due()) == 2


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        # The hour from 02:00 comes twice, or is skipped.
        (datetime(2026, 10, 24, 12, tzinfo=UTC), ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
        (datetime(2026, 3, 28, 12, tzinfo=UTC), ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
    ],
)
async def test_each_night_has_one_report_also_where_clocks_change(
    tmp_path: Path, day: datetime, expected: list[str]
) -> None:
    """02:30 in Berlin: in autumn the first of both; in spring, past `check`, after the gap."""
    clock = ManualClock(day)
    report = ReportSettings(name="n", at="30 2 * * *", time_zone="Europe/Berlin")
    async with store(tmp_path, clock) as bus:
        life = Life(bus, clock, report)
        for _ in range(40 * 4):
            await life.due()
            await clock.advance(HOUR / 4)
        found = await life.due()

    assert found == [f"report:n {at}" for at in expected]


async def test_a_damaged_memory_records_nothing_old(tmp_path: Path) -> None:
    """What cannot be understood counts as a report that is new."""
    clock = ManualClock(EVENING + timedelta(hours=10))
    async with store(tmp_path, clock) as bus:
        entry = StateEntry(workspace=BRIDGE, topic="reports", key="last-night", value=b"{")
        await bus.commit(Change(state_entries=(entry,)), timeout_seconds=5)
        life = Life(bus, clock, MORNING)
        assert await life.due() == []
        await clock.advance(24 * HOUR)
        assert len(await life.due()) == 1


async def test_a_takeover_records_it_once(postgres: PostgresServer) -> None:
    """Another daemon takes the shard between the time and its event, or after the event."""
    clock = ManualClock(EVENING)
    url = postgres.url(await new_database(postgres))
    async with TestDaemon(url) as first, TestDaemon(url, name="other") as second:
        assert await Life(await first.open(), clock, MORNING).due() == []
        await clock.advance(9 * HOUR)
        taken = await second.open()
        assert len(await Life(taken, clock, MORNING).due()) == 1
        back = await first.open()
        assert len(await Life(back, clock, MORNING).due()) == 1


async def test_a_carried_store_neither_skips_nor_repeats_a_report(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    """What came due between export and start is recorded, and not again after the way back."""
    clock = ManualClock(EVENING)
    url = postgres.url(await postgres.create_database())
    async with store(tmp_path, clock) as bus:
        assert await Life(bus, clock, MORNING).due() == []
    await carried(file_url(tmp_path / "state.db"), url, tmp_path / "to.dump")
    await clock.advance(9.5 * HOUR)
    async with TestDaemon(url) as daemon:
        due = await Life(await daemon.open(CLUSTER), clock, MORNING).due()
    assert due == ["report:last-night 2026-11-21T07:00:00Z"]
    back = tmp_path / "back"
    back.mkdir()
    await carried(url, file_url(back / "state.db"), tmp_path / "back.dump")
    async with store(back, clock) as bus:
        assert await Life(bus, clock, MORNING).due() == due
