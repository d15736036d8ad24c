"""A backtest looks only when it must, at a past in memory, and tells what looking always tells."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from monitor.alerting.backtest.recorded_store import RecordedPast, RecordedStore
from monitor.alerting.backtest.replay import Backtest, RecordingTimes
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Change, Recorded
from monitor.bus.sqlite import SqliteBus
from monitor.model.events import AlertEvent, Event, EventType, RunEvent, run_event_id
from monitor.model.runs import RunKey, RunKind, Status, Trigger
from tests.alerting.histories import ALERTING, BEGIN, RUNS, WORKSPACE, Ran, recorded, workspace
from tests.clocks import ManualClock

_AFTERWARDS = timedelta(hours=1)


class StoredPast:
    """The store of a daemon, in which events happen as a daemon records them."""

    def __init__(self, bus: SqliteBus) -> None:
        self._bus = bus

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def happen(self, events: Sequence[Event]) -> None:
        runs = {event.run.key: event.run for event in events if isinstance(event, RunEvent)}
        change = Change(runs=tuple(runs.values()), events=tuple(events))
        await self._bus.commit(change, timeout_seconds=10)

    async def told(self) -> list[AlertEvent]:
        rows: list[Recorded] = []
        while page := await self._bus.events(after=rows[-1].position if rows else 0, limit=1_000):
            rows += page
        return [row.event for row in rows if isinstance(row.event, AlertEvent)]


async def _stored(folder: str) -> tuple[SqliteBus, StoredPast]:
    bus = await SqliteBus.open(
        Path(folder) / "state.db", clock=ManualClock(BEGIN), registry=CollectorRegistry()
    )
    return bus, StoredPast(bus)


async def _judge(
    log: Sequence[Recorded], rules: AlertingSettings, past: RecordedStore, *, every_look: bool
) -> None:
    noticed = RecordingTimes()
    for other_recorded in log:
        event = other_recorded.event
        happened_at = event.occurred_at if isinstance(event, RunEvent) else None
        noticed.add(event.recorded_at, happened_at or event.recorded_at)
    test = await Backtest.opened(
        rules, workspaces=[workspace()], start=BEGIN, past=past, every_look=every_look
    )
    await test.judge(log, noticed.known_until().of(0, len(log)))
    await test.end(log[-1].event.recorded_at + _AFTERWARDS)


def _moment(event: AlertEvent) -> tuple[datetime, str]:
    """Order by the round: what one round tells is in no order that matters."""
    return event.recorded_at, event.id


@given(runs=RUNS, rules=ALERTING)
@settings(max_examples=10, deadline=None)
def test_a_look_that_is_left_out_would_have_told_nothing(
    runs: list[Ran], rules: AlertingSettings
) -> None:
    """With few looks and in memory, with all looks and a real store: the same to the last field."""

    async def both() -> tuple[list[AlertEvent], list[AlertEvent]]:
        log, few = recorded(runs), list[AlertEvent]()
        await _judge(log, rules, RecordedPast(few.append), every_look=False)
        with TemporaryDirectory() as folder:
            bus, past = await _stored(folder)
            try:
                await _judge(log, rules, past, every_look=True)
                return few, await past.told()
            finally:
                await bus.close()

    few, all_of_them = asyncio.run(both())
    assert sorted(few, key=_moment) == sorted(all_of_them, key=_moment)


@given(runs=RUNS, sizes=st.lists(st.integers(1, 9), min_size=1))
@settings(max_examples=10, deadline=None)
def test_a_past_in_memory_answers_as_a_store_does(runs: list[Ran], sizes: list[int]) -> None:
    """The runs, what is inside them and their bad ends are those that a store would know."""

    async def answers(past: RecordedStore, keys: Collection[RunKey], ids: Collection[str]) -> Any:
        inside = {key: {child.key: child for child in await past.children(key)} for key in keys}
        return await past.runs(keys), inside, await past.events_by_id(ids)

    async def compare() -> None:
        log = [other_recorded.event for other_recorded in recorded(runs)]
        held = RecordedPast(lambda _: None)
        keys = {event.run.key for event in log if isinstance(event, RunEvent)}
        # Only bad ends are ever asked for, and only lately.
        bad = [event for event in log if event.type in ("run.failed", "run.canceled")]
        with TemporaryDirectory() as folder:
            bus, stored = await _stored(folder)
            try:
                while log:
                    some, log = log[: sizes[0]], log[sizes[0] :]
                    sizes.append(sizes.pop(0))
                    since = some[-1].recorded_at - timedelta(hours=1)
                    ids = {item.id for item in bad if item.recorded_at >= since}
                    for past in (held, stored):
                        await past.happen(some)
                    assert await answers(held, keys, ids) == await answers(stored, keys, ids)
            finally:
                await bus.close()

    asyncio.run(compare())


async def test_what_is_over_for_long_is_forgotten() -> None:
    """Of a past of any length only the newest runs and bad ends are held."""
    past = RecordedPast(lambda _: None)
    short = Ran(
        flow=1,
        created=0,
        waits=0,
        lasts=1,
        ends=Status.FAILED,
        inside=(RunKind.JOB_GROUP,),
        trigger=Trigger.MANUAL,
        noticed=2,
        is_linked_late=False,
    )
    days = [msgspec.structs.replace(short, created=5 * number) for number in range(25_000)]
    for other_recorded in recorded(days):
        await past.happen([other_recorded.event])
    assert len(past) < 12_000
    newest, oldest = (RunKey(WORKSPACE, RunKind.JOB_GROUP, text) for text in ("24999", "0"))
    assert set(await past.runs([newest, oldest])) == {newest}
    ids = {run_event_id(key, EventType.RUN_FAILED) for key in (newest, oldest)}
    assert list(await past.events_by_id(ids)) == [run_event_id(newest, EventType.RUN_FAILED)]
