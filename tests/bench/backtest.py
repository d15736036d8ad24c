"""What it costs to try rules on the past of 300 flows, in processor time of this process.

Each flow runs six times a day, as a flow run with a job group inside, so a run brings four events;
half of the flows have schedules. A few runs fail, do not come or take too long. The default rules
evaluate some days of that as ``alerts backtest`` does.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import Struct

from monitor import logs
from monitor.alerting.backtest.replay import Replay
from monitor.alerting.backtest.replay_store import MemoryStore
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Recorded
from monitor.model.events import STATUS_EVENTS, AlertEvent, RunEvent, run_event_id
from monitor.model.live_state import ScheduleKnown, WorkspaceStatus
from monitor.model.runs import (
    Parents,
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
    Trigger,
)
from monitor.model.triggers import CronTrigger
from monitor.tracking.pipeline_health import PipelineHealthTracker
from tests.bench.figures import Figure, table

TITLE = "Rules on the past of 300 flows"
_BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
_WORKSPACE = "acme"
_EACH = timedelta(hours=4)
_NOTICED = timedelta(seconds=3)


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 3
    flows: int = 300
    days: int = 2


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the cost of one replayed event."""
    sizes = sizes or Sizes()
    logs.configure(level="error")
    log = _log(sizes)
    costs = tuple([await _cost(log, sizes) for _ in range(sizes.repetitions)])
    # 50,000 events, a quiet month, in less than a minute.
    return [Figure(name="event judged again", values=costs, unit="ms", target=1.2)]


async def _cost(log: list[Recorded], sizes: Sizes) -> float:
    """Return milliseconds for one event."""
    alerts: list[AlertEvent] = []
    replay = Replay(
        AlertingSettings(),
        workspaces=[_workspace(sizes)],
        start=_BEGAN,
        store=MemoryStore(alerts.append),
        known_until=lambda _, now: now - _NOTICED,
        health_tracker=PipelineHealthTracker,
    )
    await replay.begin()
    began = time.process_time()
    await replay.replay(log)
    seconds = time.process_time() - began
    if not alerts:
        raise RuntimeError(f"{len(log)} events, and no alert fired")
    return 1e3 * seconds / len(log)


def _log(sizes: Sizes) -> list[Recorded]:
    chance = random.Random(20261121)  # noqa: S311 - the same history each time
    events = [event for flow in range(sizes.flows) for event in _of_flow(flow, sizes, chance)]
    events.sort(key=lambda event: (event.recorded_at, event.id))
    return [Recorded(position, event) for position, event in enumerate(events, 1)]


def _of_flow(flow: int, sizes: Sizes, chance: random.Random) -> Iterator[RunEvent]:
    for number in range(int(timedelta(days=sizes.days) / _EACH)):
        if chance.random() < 0.01:
            continue  # it did not come
        lasts = (2 + flow % 10) * (10 if chance.random() < 0.01 else 1)
        begun = _BEGAN + number * _EACH + timedelta(minutes=flow % 60, seconds=chance.random())
        ends = Status.FAILED if chance.random() < 0.03 else Status.SUCCEEDED
        run_id = f"{flow}-{number}"
        for kind in (RunKind.FLOW_RUN, RunKind.JOB_GROUP):
            inside = timedelta(seconds=2 if kind is RunKind.JOB_GROUP else 0)
            run = RunState(
                key=RunKey(_WORKSPACE, kind, run_id),
                status=Status.RUNNING,
                created_at=begun + inside,
                started_at=begun + inside,
                pipeline=_pipeline(flow),
                parents=Parents(flow_run=run_id) if inside else Parents(),
                trigger=Trigger.SCHEDULE if flow % 2 else Trigger.MANUAL,
                confirmed_at=begun + _NOTICED,
                confirmed_by=Source.POLL,
            )
            yield _event(run, begun + inside)
            ended = begun + timedelta(minutes=lasts) - inside
            yield _event(msgspec.structs.replace(run, status=ends, finished_at=ended), ended)


def _event(run: RunState, at: datetime) -> RunEvent:
    kind = STATUS_EVENTS[run.status]
    return RunEvent(
        id=run_event_id(run.key, kind),
        type=kind,
        run=run,
        before=None,
        occurred_at=at,
        recorded_at=at + _NOTICED,
        observed_by=Source.POLL,
    )


def _pipeline(flow: int) -> Pipeline:
    return Pipeline(kind=PipelineKind.FLOW, id=str(flow), name=f"orders {flow}")


def _workspace(sizes: Sizes) -> WorkspaceStatus:
    schedules = tuple(
        ScheduleKnown(
            id=str(flow),
            name=f"every four hours {flow}",
            is_enabled=True,
            triggers=(CronTrigger(expression=f"0 {flow % 60} 0/4 * * ?", timezone="UTC"),),
            pipelines=(_pipeline(flow),),
        )
        for flow in range(1, sizes.flows, 2)
    )
    return WorkspaceStatus(
        workspace=_WORKSPACE,
        capabilities=frozenset({"follow_flow_runs"}),
        followed_since=_BEGAN,
        schedules=schedules,
    )


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))
