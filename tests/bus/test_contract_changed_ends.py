"""Ends that the workspace changes, as stores keep them over restarts: the last word, once each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from random import Random

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus
from monitor.model.events import STATUS_EVENTS, EventType, RunEvent
from monitor.model.observations import Observation
from monitor.model.runs import (
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    Source,
    Status,
    status_of,
)
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from monitor.tracking.settings import TrackingSettings
from tests.bus.conftest import OpenBus
from tests.clocks import ManualClock

FLOW = Pipeline(kind=PipelineKind.FLOW, id="11", name="Daily sales")
WORDS = ("Complete", "Failed", "Canceled")
ENDS = frozenset(event for status, event in STATUS_EVENTS.items() if status.is_terminal)
RUNS = 20


class Record:
    """What the workspace says of one run, one write after another."""

    def __init__(self, number: int, random: Random, clock: ManualClock) -> None:
        self.key = RunKey("acme", RunKind.JOB_GROUP, str(number))
        self._random, self._clock = random, clock
        self._created_at = clock.now()
        ends = [random.choice(WORDS) for _ in range(random.randint(1, 4))]
        self._words = ["InProgress", *ends]
        self._shown = 1  # of its writes

    @property
    def last(self) -> Status | None:
        return status_of(self._words[-1])

    def changes(self) -> int:
        ends = self._words[1:]
        return sum(before != after for before, after in pairwise(ends))

    def read(self, *, is_last: bool = False) -> Observation:
        """Return a read, a callback or job records of it; they may lag, and callbacks may lie."""
        self._shown = min(len(self._words), self._shown + self._random.randint(0, 1))
        number = len(self._words) if is_last else self._random.randint(1, self._shown)
        at = self._clock.now()
        row = Observation(
            key=self.key,
            source=Source.POLL,
            observed_at=at,
            requested_at=at,
            native_status=self._words[number - 1],
            created_at=self._created_at,
            updated_at=self._created_at + timedelta(seconds=number),
            pipeline=FLOW,
        )
        kind = 0.0 if is_last else self._random.random()
        if kind > 0.8:
            word = self._random.choice(WORDS)
            return Observation(
                key=self.key, source=Source.CALLBACK, observed_at=at, native_status=word
            )
        if kind > 0.6:
            return msgspec.structs.replace(
                row, source=Source.DETAIL, native_status=None, is_detail_final=True
            )
        return row


def observer_of(bus: EventBus, clock: ManualClock) -> tuple[Observer, LiveState]:
    live_state = LiveState(["acme"])
    observer = Observer(
        bus=bus,
        live_state=live_state,
        clock=clock,
        registry=CollectorRegistry(),
        settings=TrackingSettings(),
    )
    return observer, live_state


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 20))]
)
async def test_any_interleaving_over_restarts_keeps_the_last_word(
    open_bus: OpenBus, clock: ManualClock, seed: int
) -> None:
    """Polls, callbacks, records and restarts in any order: each change is published once.

    A batch that was observed before a restart is observed again after it.
    """
    random = Random(seed)  # noqa: S311 - chooses what a test does
    bus = await open_bus()
    observer, live_state = observer_of(bus, clock)
    await observer.open("acme")
    records = [Record(number, random, clock) for number in range(RUNS)]
    for record in records:
        await observer.observe([msgspec.structs.replace(record.read(), source=Source.POLL)])
    for _ in range(30):
        await clock.advance(1)
        batch = [record.read() for record in random.sample(records, 8)]
        await observer.observe(batch)
        if random.random() < 0.2:
            await bus.close()
            bus = await open_bus()
            observer, live_state = observer_of(bus, clock)
            await observer.open("acme")
            await observer.observe(batch)
    await clock.advance(1)
    await observer.observe([record.read(is_last=True) for record in records])

    recorded = [row.event for row in await bus.events(after=0, limit=10_000)]
    events = [event for event in recorded if isinstance(event, RunEvent)]
    assert max(Counter(event.id for event in events).values()) == 1
    stored = await bus.runs([record.key for record in records])
    for record in records:
        run = stored[record.key]
        assert run.status is record.last
        assert run.corrections <= record.changes()
        assert is_one_history(
            [event for event in events if event.run.key == record.key], run.status
        )
    (health,) = live_state.view.pipeline_health()
    assert {end.run_id: end.status for end in health.ends} == {
        record.key.id: record.last for record in records
    }
    assert any(run.corrections > 1 for run in stored.values())


def is_one_history(events: Sequence[RunEvent], end: Status) -> bool:
    """True where each end follows from the one before it, and the last one is this."""
    ends = [event for event in events if event.type in ENDS]
    corrections = [event for event in events if event.type is EventType.RUN_CORRECTED]
    pairs = list(pairwise(ends))
    return (
        ends[-1].run.status is end
        and len(corrections) == len(pairs)
        and all(after.before is before.run.status for before, after in pairs)
        and all(
            correction.before is before.run.status and correction.run == after.run
            for correction, (before, after) in zip(corrections, pairs, strict=True)
        )
    )
