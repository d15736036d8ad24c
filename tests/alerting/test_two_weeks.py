"""Two weeks of schedules around each change of the clocks, in five time zones."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.alerting.engine.engine import Engine
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Change, Retention
from monitor.bus.sqlite import SqliteBus
from monitor.model.alerts import AlertState
from monitor.model.events import AlertEvent, EventType, RunEvent, run_event_id
from monitor.model.runs import Parents, RunKey, RunKind, RunState, Source, Status, Trigger
from monitor.tracking.live_state import LiveState
from tests.alerting.engine_scenario import guard
from tests.alerting.scheduled_world import MINUTE, ScheduledFlow, flows_of
from tests.clocks import ManualClock
from tests.schedules.minutes import NIGHTS

WEEK, HOUR = timedelta(days=7), timedelta(hours=1)
ZONES = NIGHTS[:9]  # two changes of four zones, and one zone without any
MOST_LOOKS = 20
SETTINGS = AlertingSettings(rules=(default_rule(RuleKind.SCHEDULE_MISSED),), flap_count=1_000)


def polls_around(change: datetime) -> list[datetime]:
    """Return instants of polls: every half hour near the change, else every hour and a half."""
    polls, now = [], change - WEEK + 26 * MINUTE
    while now < change + WEEK:
        polls.append(now)
        now += HOUR / 2 if abs(now - change) < timedelta(days=1.5) else 1.5 * HOUR
    return polls


class Fortnight:
    """A daemon that polls a workspace and judges what it finds, and that is not always there."""

    def __init__(
        self, bus: SqliteBus, clock: ManualClock, flows: list[ScheduledFlow], zone: str
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._flows = flows
        self._zone = zone
        self._coming = sorted(
            (started_at, number, flow)
            for number, flow in enumerate(flows)
            for started_at in flow.starts.values()
            if started_at is not None
        )
        self._runs = 0
        self.live_state = LiveState(["acme"])
        self.engine: Engine | None = None

    async def evaluate(self) -> None:
        """Let the engine evaluate until nothing more changes at this time."""
        if self.engine is None:
            self.live_state = LiveState(["acme"])
            self.engine = Engine(
                bus=self._bus,
                view=self.live_state.view,
                clock=self._clock,
                settings=SETTINGS,
                retention=Retention(),
                guard=guard,
            )
            await self.engine.restore()
        for _ in range(MOST_LOOKS):
            before = self.engine.snapshot().transitions
            await self.engine.evaluate()
            if self.engine.snapshot().transitions == before:
                return
        pytest.fail(f"no end of news at {self._clock.now()}")

    async def poll(self, *, runs: bool = True, schedules: bool = True) -> None:
        """Read what can be read, and evaluate."""
        if self.engine is None:
            await self.evaluate()
        if runs:
            await self._find_runs(self._clock.now())
        if schedules:
            self._read_schedules(self._clock.now())
        await self.evaluate()

    async def _find_runs(self, now: datetime) -> None:
        """Find what has started since the poll before."""
        started = [self._started(at, flow) for at, _, flow in self._coming if at <= now]
        del self._coming[: len(started)]
        if started:
            events = tuple(event for pair in started for event in pair)
            runs = tuple(event.run for event in events)
            await self._bus.commit(Change(runs=runs, events=events), timeout_seconds=10)
        for kind in RunKind:
            self.live_state.confirm("acme", kind, now, complete_at=now)

    def _read_schedules(self, now: datetime) -> None:
        for pipeline in (flow.pipeline for flow in self._flows):
            self.live_state.name_pipeline("acme", pipeline.kind, pipeline.id, pipeline.name)
        status = self.live_state.workspaces["acme"]
        self.live_state.update_workspace(
            "acme",
            schedules=tuple(flow.schedule(now, self._zone) for flow in self._flows),
            schedules_read_at=now,
            schedules_read_before=status.schedules_read_at,
        )

    def _started(self, started_at: datetime, flow: ScheduledFlow) -> tuple[RunEvent, RunEvent]:
        """Return two events of one run: the second must not count again."""
        self._runs += 1
        run = RunState(
            key=RunKey("acme", RunKind.JOB_GROUP, str(self._runs)),
            status=Status.PENDING,
            created_at=started_at,
            pipeline=flow.pipeline,
            parents=Parents(flow_run=f"{self._runs}"),
            trigger=Trigger.SCHEDULE,
            confirmed_at=started_at,
            confirmed_by=Source.POLL,
        )
        return _event(run, EventType.RUN_QUEUED), _event(run, EventType.RUN_STARTED)

    async def told(self) -> list[AlertEvent]:
        found: list[AlertEvent] = []
        position = 0
        while rows := await self._bus.events(after=position, limit=1_000):
            position = rows[-1].position
            found += [row.event for row in rows if isinstance(row.event, AlertEvent)]
        return found


def _event(run: RunState, event_type: EventType) -> RunEvent:
    return RunEvent(
        id=run_event_id(run.key, event_type),
        type=event_type,
        run=run,
        before=None,
        occurred_at=run.created_at,
        recorded_at=run.confirmed_at,
        observed_by=Source.POLL,
    )


@pytest.mark.parametrize(("zone", "change"), ZONES, ids=[f"{n} {at:%Y-%m-%d}" for n, at in ZONES])
async def test_two_weeks_of_schedules(tmp_path: Path, zone: str, change: datetime) -> None:
    """Each skipped or late start fires once and until it is over; nothing else does.

    The daemon is away for an hour over the change of the clocks. In the night before the workspace
    does not answer for an hour; in the two after it, one of its two lists does not.
    """
    polls = polls_around(change)
    away = [poll for poll in polls if abs(poll - change) <= HOUR / 2]
    outages = {
        poll: night
        for night in (-1, 1, 2)
        for poll in polls
        if abs(poll - change - timedelta(days=night)) <= HOUR
    }
    done = [poll for poll in polls if poll not in away and poll not in outages]
    flows = flows_of(zone, polls[0], polls[-1], polls=done, seed=len(zone))
    clock = ManualClock(polls[0] - MINUTE)
    bus = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    try:
        daemon = Fortnight(bus, clock, flows, zone)
        for now in polls:
            await clock.advance((now - clock.now()).total_seconds())
            if now in away:
                daemon.engine = None
            else:
                night = outages.get(now, 0)
                await daemon.poll(runs=night in (0, 2), schedules=night in (0, 1))
        await _compare(daemon, flows, done)
    finally:
        await bus.close()


async def _compare(daemon: Fortnight, flows: list[ScheduledFlow], polls: list[datetime]) -> None:
    assert daemon.engine is not None
    told = await daemon.told()
    picture = daemon.engine.snapshot()
    assert not [alert for alert in picture.alerts if alert.state is not AlertState.RESOLVED]
    total = 0
    for flow in flows:
        missed = flow.missed(polls)
        identity = ("acme", RunKind.FLOW_RUN, flow.pipeline.id)
        assert picture.missed.get(identity, 0) == len(missed), flow.pipeline
        own = [event for event in told if event.alert.pipeline == flow.pipeline]
        fired = [event.alert.starts_at for event in own if event.type is EventType.ALERT_FIRED]
        ended = {
            event.alert.starts_at: event.alert.ends_at
            for event in own
            if event.type is EventType.ALERT_RESOLVED
        }
        assert set(fired) <= set(missed), flow.pipeline
        assert len(fired) == len(set(fired)) == len(ended)
        for at in missed:
            assert any(
                begin <= at and (end := ended[begin]) is not None and at <= end for begin in fired
            ), f"{flow.pipeline} at {at} is part of no alert"
        total += len(missed)
    assert total >= 10  # else the weeks show nothing
