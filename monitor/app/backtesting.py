"""Lets a private engine judge recorded events, as if time passed once more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from monitor.alerting.backtest import NOT_RECORDED
from monitor.alerting.engine import Engine
from monitor.alerting.settings.engine import AlertingSettings
from monitor.bus.contract import Change, EventBus, Recorded, Retention
from monitor.bus.settings import StorageSettings
from monitor.bus.sqlite.store import SqliteBus
from monitor.model.alerts import AlertState
from monitor.model.events import AlertEvent, Event, RunEvent
from monitor.model.knowledge import ActiveRun, Reachability, WorkspaceStanding
from monitor.model.runs import RunKey, RunKind, RunState
from monitor.tracking.knowledge import Knowledge
from monitor.tracking.standings import Standings

# Events that lie so close together are judged together; the less where rules count seconds.
_LEAST_ROUND_SECONDS, _MOST_ROUND_SECONDS = 2.0, 30.0
_LOOK_SECONDS = 60.0  # between two looks while no event comes
_IDLE_LOOK_SECONDS = 600.0  # while nothing runs and nothing is pending either
_SCHEDULES_READ = timedelta(minutes=5)  # between two readings, each of which is judged
_AFTERWARDS = timedelta(hours=1)
# What became known later than this is taken as what it is: a straggler, not an outage.
_LATEST = timedelta(hours=6)
_PAGE = 1_000
_COMMIT_SECONDS = 60.0


class RecordedClock:
    """Stands at the moment that is judged again."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._now = start

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start).total_seconds()

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002 - a Clock; nobody waits here
        await asyncio.sleep(0)

    def move(self, at: datetime) -> None:
        self._now = max(self._now, at)


def known_until(recorded: Sequence[tuple[datetime, datetime]]) -> list[datetime]:
    """Return for each event until when everything was known when it was recorded.

    ``recorded`` are recording and occurrence, in the order of the log. Whatever happened before
    an instant and was noticed later, as in an outage, was not known then.
    """
    known: list[datetime] = []
    earliest: datetime | None = None
    for recorded_at, occurred_at in reversed(recorded):
        if recorded_at - occurred_at <= _LATEST:
            earliest = occurred_at if earliest is None else min(earliest, occurred_at)
        known.append(recorded_at if earliest is None else min(recorded_at, earliest))
    return known[::-1]


class Backtest:
    """A store, a present and an engine of their own. Open it by `opened`, close it at the end."""

    def __init__(
        self,
        bus: SqliteBus,
        knowledge: Knowledge,
        engine: Engine,
        clock: RecordedClock,
        *,
        round_seconds: float,
    ) -> None:
        self._bus = bus
        self._knowledge = knowledge
        self._standings = Standings(knowledge)
        self._engine = engine
        self._clock = clock
        self._round_seconds = round_seconds
        self._runs: dict[RunKey, RunState] = {}

    @classmethod
    async def opened(
        cls,
        settings: AlertingSettings,
        *,
        workspaces: Sequence[WorkspaceStanding],
        folder: Path,
        start: datetime,
    ) -> Backtest:
        """Return one that stands at ``start`` and knows the workspaces as they are today."""
        clock, registry = RecordedClock(start), CollectorRegistry()
        knowledge = Knowledge([one.workspace for one in workspaces])
        for one in workspaces:
            knowledge.workspaces[one.workspace] = msgspec.structs.replace(
                one, reachability=Reachability.REACHABLE, since=start, known_at=start
            )
        bus = await SqliteBus.open(
            StorageSettings(url=f"sqlite://{folder}/backtest.db"), clock=clock, registry=registry
        )
        engine = Engine(
            bus=bus,
            view=knowledge.view,
            clock=clock,
            settings=judged_again(settings),
            retention=Retention(),
            guard=_unguarded,
        )
        await engine.restore()
        return cls(bus, knowledge, engine, clock, round_seconds=_round_seconds(settings))

    async def close(self) -> None:
        await self._bus.close()

    async def judge(self, recorded: Sequence[Recorded], until: Sequence[datetime]) -> None:
        """Let the events happen again; alerts that were told then are left out."""
        for first, last in _together(recorded, self._round_seconds):
            some = [one.event for one in recorded[first:last]]
            await self._pass(some[0].recorded_at, until[first])
            self._clock.move(some[-1].recorded_at)
            await self._happen([one for one in some if not isinstance(one, AlertEvent)])
            self._confirm(until[last - 1])
            await self._step()

    async def end(self) -> None:
        """Let an hour pass in which nothing more happens, or what is open would not be told."""
        at = self._clock.now() + _AFTERWARDS
        await self._pass(at, at)

    async def told(self) -> list[Event]:
        """Return the alert events that the rules would have told."""
        return [one.event async for one in _all_of(self._bus) if isinstance(one.event, AlertEvent)]

    async def _pass(self, to: datetime, until: datetime) -> None:
        """Look again and again until that instant."""
        while (at := self._clock.now() + self._until_next_look()) < to:
            self._clock.move(at)
            self._confirm(min(at, until))
            await self._step()

    def _until_next_look(self) -> timedelta:
        alerts = self._engine.picture().alerts
        is_busy = self._knowledge.active or any(one.state is AlertState.PENDING for one in alerts)
        return timedelta(seconds=_LOOK_SECONDS if is_busy else _IDLE_LOOK_SECONDS)

    async def _step(self) -> None:
        while await self._engine.take_some():
            pass
        await self._engine.look()

    async def _happen(self, events: Sequence[Event]) -> None:
        runs = {one.run.key: one.run for one in events if isinstance(one, RunEvent)}
        change = Change(runs=tuple(runs.values()), events=tuple(events))
        await self._bus.commit(change, timeout_seconds=_COMMIT_SECONDS)
        self._standings.learn(runs.values(), self._runs)
        for one in events:
            if isinstance(one, RunEvent):
                self._learn(one)

    def _learn(self, event: RunEvent) -> None:
        run, key = event.run, event.run.key
        if run.pipeline is not None:
            pipeline = run.pipeline
            self._knowledge.name_pipeline(key.workspace, pipeline.kind, pipeline.id, pipeline.name)
        if run.status.is_terminal:
            self._knowledge.active.pop(key, None)
            self._runs.pop(key, None)
            return
        self._runs[key] = run
        self._knowledge.active[key] = ActiveRun(
            run=run, confirmed_at=event.recorded_at, confirmed_by=event.observed_by
        )

    def _confirm(self, at: datetime) -> None:
        now = self._clock.now()
        for name in self._knowledge.workspaces:
            for kind in RunKind:
                self._knowledge.confirm(name, kind, now, complete_at=at)
            read_at = self._knowledge.workspaces[name].schedules_read_at
            if read_at is None or at - read_at >= _SCHEDULES_READ:
                read_at = at
            self._knowledge.update_workspace(name, known_at=now, schedules_read_at=read_at)


def judged_again(settings: AlertingSettings) -> AlertingSettings:
    """Return what of the settings can be judged by a log: no silence, no rule about the present."""
    rules = tuple(one for one in settings.rules if one.rule not in NOT_RECORDED)
    return msgspec.structs.replace(settings, rules=rules, silences=())


def _round_seconds(settings: AlertingSettings) -> float:
    waits = [one.for_seconds for one in settings.rules if one.for_seconds > 0]
    shortest = min(waits, default=4 * _MOST_ROUND_SECONDS)
    return max(_LEAST_ROUND_SECONDS, min(_MOST_ROUND_SECONDS, shortest / 4))


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


async def _all_of(bus: EventBus) -> AsyncIterator[Recorded]:
    after = 0
    while page := await bus.events(after=after, limit=_PAGE):
        for one in page:
            yield one
        after = page[-1].position


def _unguarded(
    name: str,  # noqa: ARG001 - a Guard
    call: Callable[[], Any],
    on_failure: Callable[[str], None],  # noqa: ARG001
) -> Any:
    """Let a rule that raises end the test: whoever tries it wants to know."""
    return call()
