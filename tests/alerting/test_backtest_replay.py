"""A replay evaluates only when it must, on a store in memory; the alerts stay the same."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from monitor.alerting.backtest.recorded_log import RecordedLog
from monitor.alerting.backtest.replay import Replay
from monitor.alerting.backtest.replay_store import MemoryStore, ReplayStore
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Change, Recorded
from monitor.bus.sqlite import SqliteBus
from monitor.model.events import AlertEvent, Event, EventType, RunEvent, run_event_id
from monitor.model.runs import RunKey, RunKind, Status, Trigger
from monitor.tracking.pipeline_health import PipelineHealthTracker
from tests.alerting.recorded_histories import (
    ALERTING,
    BEGIN,
    RUNS,
    WORKSPACE,
    Ran,
    recorded,
    workspace,
)
from tests.clocks import ManualClock
from tests.examples import examples

_AFTERWARDS = timedelta(hours=1)


class DaemonStore:
    """The store of a daemon, in which events are recorded as a daemon does."""

    def __init__(self, bus: SqliteBus) -> None:
        self._bus = bus

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def record(self, events: Sequence[Event]) -> None:
        runs = {event.run.key: event.run for event in events if isinstance(event, RunEvent)}
        change = Change(runs=tuple(runs.values()), events=tuple(events))
        await self._bus.commit(change, timeout_seconds=10)

    async def alert_events(self) -> list[AlertEvent]:
        rows: list[Recorded] = []
        while page := await self._bus.events(after=rows[-1].position if rows else 0, limit=1_000):
            rows += page
        return [row.event for row in rows if isinstance(row.event, AlertEvent)]


async def _stored(folder: str) -> tuple[SqliteBus, DaemonStore]:
    bus = await SqliteBus.open(
        Path(folder) / "state.db", clock=ManualClock(BEGIN), registry=CollectorRegistry()
    )
    return bus, DaemonStore(bus)


async def _replay(
    log: Sequence[Recorded], rules: AlertingSettings, store: ReplayStore, *, every_interval: bool
) -> None:
    spooled = RecordedLog(BytesIO())
    spooled.append(log)
    replay = Replay(
        rules,
        workspaces=[workspace()],
        start=BEGIN,
        store=store,
        known_until=spooled.known_until.at,
        health_tracker=PipelineHealthTracker,
        every_interval=every_interval,
    )
    await replay.begin()
    for part in spooled.slices():
        await replay.replay(part.events)
    await replay.finish(log[-1].event.recorded_at + _AFTERWARDS)


def _moment(event: AlertEvent) -> tuple[datetime, str]:
    """Order by the evaluation: alerts of one evaluation are in no order that matters."""
    return event.recorded_at, event.id


@given(runs=RUNS, rules=ALERTING)
@settings(max_examples=examples(5))
def test_an_evaluation_that_is_left_out_would_have_fired_nothing(
    runs: list[Ran], rules: AlertingSettings
) -> None:
    """Few evaluations in memory and all of them on a real store: the same to the last field."""

    async def both() -> tuple[list[AlertEvent], list[AlertEvent]]:
        log, few = recorded(runs), list[AlertEvent]()
        await _replay(log, rules, MemoryStore(few.append), every_interval=False)
        with TemporaryDirectory() as folder:
            bus, past = await _stored(folder)
            try:
                await _replay(log, rules, past, every_interval=True)
                return few, await past.alert_events()
            finally:
                await bus.close()

    few, all_of_them = asyncio.run(both())
    assert sorted(few, key=_moment) == sorted(all_of_them, key=_moment)


@given(runs=RUNS, sizes=st.lists(st.integers(1, 9), min_size=1))
@settings(max_examples=examples(5))
def test_a_store_in_memory_answers_as_a_real_one(runs: list[Ran], sizes: list[int]) -> None:
    """Runs, their children, failures and pipelines are those that a real store returns."""

    async def answers(past: ReplayStore, keys: Collection[RunKey], ids: Collection[str]) -> Any:
        inside = {key: {child.key: child for child in await past.children(key)} for key in keys}
        newest = await past.pipeline_runs(
            [(WORKSPACE, kind, str(number)) for kind in RunKind for number in range(4)], limit=3
        )
        return await past.runs(keys), inside, await past.events_by_id(ids), newest

    async def compare() -> None:
        log = [row.event for row in recorded(runs)]
        held = MemoryStore(lambda _: None)
        keys = {event.run.key for event in log if isinstance(event, RunEvent)}
        # Only failures are ever read, and only recent ones.
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
                        await past.record(some)
                    assert await answers(held, keys, ids) == await answers(stored, keys, ids)
            finally:
                await bus.close()

    asyncio.run(compare())


async def test_old_ends_are_forgotten() -> None:
    """Of a log of any length only the newest runs and failures are held."""
    past = MemoryStore(lambda _: None)
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
    for row in recorded(days):
        await past.record([row.event])
    assert len(past) < 12_000
    newest, oldest = (RunKey(WORKSPACE, RunKind.JOB_GROUP, text) for text in ("24999", "0"))
    assert set(await past.runs([newest, oldest])) == {newest}
    ids = {run_event_id(key, EventType.RUN_FAILED) for key in (newest, oldest)}
    assert list(await past.events_by_id(ids)) == [run_event_id(newest, EventType.RUN_FAILED)]
