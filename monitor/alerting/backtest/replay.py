"""Lets a private engine judge recorded events, as if time passed once more."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from monitor.alerting.backtest.comparison import NOT_RECORDED
from monitor.alerting.backtest.recorded_store import RecordedStore
from monitor.alerting.engine.engine import Engine
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Recorded, Retention
from monitor.model.events import AlertEvent, Event, RunEvent
from monitor.model.live_state import ActiveRun, Reachability, WorkspaceStatus
from monitor.model.runs import RunKey, RunKind, RunState
from monitor.tracking.live_state import LiveState
from monitor.tracking.pipeline_health import PipelineHealthTracker

# Events that lie so close together are judged together; the less where rules count seconds.
_LEAST_SECONDS, _MOST_SECONDS = 2.0, 30.0
_AGAIN = timedelta(seconds=60)  # between two looks at what is due but cannot be judged yet
# What became known later than this is taken as what it is: a straggler, not an outage.
_LATEST_SECONDS = 6 * 3_600.0


class RecordedClock:
    """Stands at the moment that is judged again."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._now = start

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start).total_seconds()

    async def sleep(self, seconds: float) -> None:
        """Return at once: nobody else waits for a turn."""

    def move(self, at: datetime) -> None:
        self._now = max(self._now, at)


class RecordingTimes:
    """When each event of a log was recorded and when it happened, a million of them in 16 MB."""

    def __init__(self) -> None:
        self._recorded = array("d")
        self._occurred = array("d")

    def __len__(self) -> int:
        return len(self._recorded)

    def add(self, recorded_at: datetime, occurred_at: datetime) -> None:
        """Add the next event in the order of the log."""
        self._recorded.append(recorded_at.timestamp())
        self._occurred.append(occurred_at.timestamp())

    def known_until(self) -> KnownUntil:
        """Return for each event until when everything was known when it was recorded.

        Whatever happened before an instant and was noticed later, as in an outage, was not known
        then.
        """
        known = array("d", self._recorded)
        earliest = float("inf")
        for place in range(len(known) - 1, -1, -1):
            if self._recorded[place] - self._occurred[place] <= _LATEST_SECONDS:
                earliest = min(earliest, self._occurred[place])
            known[place] = min(known[place], earliest)
        return KnownUntil(known)


class KnownUntil:
    """An instant for each event, by its place in the log."""

    def __init__(self, stamps: array[float]) -> None:
        self._stamps = stamps

    def of(self, first: int, count: int) -> list[datetime]:
        """Return those of ``count`` events from place ``first`` on."""
        return [datetime.fromtimestamp(stamp, UTC) for stamp in self._stamps[first : first + count]]


class Backtest:
    """A past, a present and an engine of their own. Made by `opened`.

    The engine is asked which moments are worth a look, and the others are passed over. With
    ``every_look`` it looks in each round, as a daemon does: the same, much slower.
    """

    def __init__(
        self,
        past: RecordedStore,
        live_state: LiveState,
        engine: Engine,
        clock: RecordedClock,
        *,
        settings: AlertingSettings,
        every_look: bool,
    ) -> None:
        self._past = past
        self._live_state = live_state
        self._pipeline_health = PipelineHealthTracker(live_state)
        self._engine = engine
        self._clock = clock
        self._together_seconds = _together_seconds(settings)
        self._round = timedelta(seconds=settings.evaluation_interval_seconds)
        self._every_look = every_look
        self._runs: dict[RunKey, RunState] = {}

    @classmethod
    async def opened(
        cls,
        settings: AlertingSettings,
        *,
        workspaces: Sequence[WorkspaceStatus],
        start: datetime,
        past: RecordedStore,
        every_look: bool = False,
    ) -> Backtest:
        """Return one that stands at ``start`` and knows the workspaces as they are today.

        What the rules would have told is what the engine adds to ``past``.
        """
        clock = RecordedClock(start)
        live_state = LiveState([workspace.workspace for workspace in workspaces])
        for workspace in workspaces:
            live_state.workspaces[workspace.workspace] = msgspec.structs.replace(
                workspace, reachability=Reachability.REACHABLE, since=start, known_at=start
            )
        engine = Engine(
            bus=past,
            view=live_state.view,
            clock=clock,
            settings=judged_again(settings),
            retention=Retention(),
            guard=_unguarded,
            by_events=not every_look,
        )
        await engine.restore()
        return cls(
            past,
            live_state,
            engine,
            clock,
            settings=settings,
            every_look=every_look,
        )

    async def judge(self, recorded: Sequence[Recorded], until: Sequence[datetime]) -> None:
        """Let the events happen again; alerts that were told then are left out."""
        for first, last in _together(recorded, self._together_seconds):
            some = [other_recorded.event for other_recorded in recorded[first:last]]
            await self._pass(some[0].recorded_at, until[first])
            self._clock.move(some[-1].recorded_at)
            await self._happen([event for event in some if not isinstance(event, AlertEvent)])
            self._confirm(until[last - 1])
            await self._step()
        await asyncio.sleep(0)  # so that it can be stopped

    async def end(self, at: datetime) -> None:
        """Let time go by until the log was read, up to which it tells all that happened."""
        await self._pass(at, at)

    async def _pass(self, to: datetime, until: datetime) -> None:
        """Let time go by, with a look in each round in which something may be due."""
        while (at := self._next_look(until)) is not None and at < to:
            self._clock.move(at)
            self._confirm(min(at, until))
            await self._step()

    def _next_look(self, until: datetime) -> datetime | None:
        """Return the next moment to look at; None where nothing is due until something happens."""
        now = self._clock.now()
        if self._every_look:
            return now + self._round
        next_timers = self._engine.next_timers()
        times = [] if next_timers.ours is None else [next_timers.ours]
        if next_timers.theirs is not None and next_timers.theirs <= until:
            times.append(next_timers.theirs)
        if not times:
            return None
        if min(times) <= now:
            return now + _AGAIN
        return now - (now - min(times)) // self._round * self._round  # the round behind it

    async def _step(self) -> None:
        while await self._engine.take_some():
            pass
        await self._engine.evaluate()

    async def _happen(self, events: Sequence[Event]) -> None:
        await self._past.happen(events)
        runs = {event.run.key: event.run for event in events if isinstance(event, RunEvent)}
        self._pipeline_health.learn(runs.values(), self._runs)
        for event in events:
            if isinstance(event, RunEvent):
                self._learn(event)

    def _learn(self, event: RunEvent) -> None:
        run, key = event.run, event.run.key
        if run.pipeline is not None:
            pipeline = run.pipeline
            self._live_state.name_pipeline(key.workspace, pipeline.kind, pipeline.id, pipeline.name)
        if run.status.is_terminal:
            self._live_state.active.pop(key, None)
            self._runs.pop(key, None)
            return
        self._runs[key] = run
        self._live_state.active[key] = ActiveRun(
            run=run, confirmed_at=event.recorded_at, confirmed_by=event.observed_by
        )

    def _confirm(self, at: datetime) -> None:
        now = self._clock.now()
        for name in self._live_state.workspaces:
            for kind in RunKind:
                self._live_state.confirm(name, kind, now, complete_at=at)
            # As if schedules were read at all times: they are judged as they stand today.
            self._live_state.update_workspace(name, known_at=now, schedules_read_at=at)


def judged_again(settings: AlertingSettings) -> AlertingSettings:
    """Return what of the settings can be judged by a log: no silence, no rule about the present."""
    rules = tuple(rule for rule in settings.rules if rule.rule not in NOT_RECORDED)
    return msgspec.structs.replace(settings, rules=rules, silences=())


def _together_seconds(settings: AlertingSettings) -> float:
    waits = [rule.for_seconds for rule in settings.rules if rule.for_seconds > 0]
    shortest = min(waits, default=4 * _MOST_SECONDS)
    return max(_LEAST_SECONDS, min(_MOST_SECONDS, shortest / 4))


def _together(recorded: Sequence[Recorded], seconds: float) -> Iterator[tuple[int, int]]:
    """Yield from where to where events were recorded together."""
    first = 0
    for index in range(1, len(recorded) + 1):
        begun = recorded[first].event.recorded_at
        if (
            index == len(recorded)
            or (recorded[index].event.recorded_at - begun).total_seconds() > seconds
        ):
            yield first, index
            first = index


def _unguarded(
    name: str,  # noqa: ARG001 - a Guard
    call: Callable[[], Any],
    on_failure: Callable[[str], None],  # noqa: ARG001
) -> Any:
    """Let a rule that raises end the test: whoever tries it wants to know."""
    return call()
