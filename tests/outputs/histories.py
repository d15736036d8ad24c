"""Builders of runs and their events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from monitor.bus.contract import Change
from monitor.model.events import (
    STATUS_EVENTS,
    Event,
    EventType,
    RunEvent,
    WorkspaceEvent,
    run_event_id,
    workspace_event_id,
)
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, RunState, Source, Status

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
FLOW = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")


def run_state(run_id: str = "1", status: Status = Status.RUNNING, **more: Any) -> RunState:
    """Return a run of workspace ``w``; ``more`` overrides any field."""
    state = RunState(
        key=RunKey("w", RunKind.FLOW_RUN, run_id),
        status=status,
        native_status=str(status),
        created_at=NOON,
        started_at=NOON + timedelta(seconds=5),
        finished_at=NOON + timedelta(seconds=65) if status.is_terminal else None,
        pipeline=FLOW,
        confirmed_at=NOON,
        confirmed_by=Source.POLL,
    )
    return msgspec.structs.replace(state, **more)


def run_event(run_id: str = "1", status: Status = Status.RUNNING, **more: Any) -> RunEvent:
    """Return the event of a run's transition to ``status``; ``more`` overrides its fields."""
    state = run_state(run_id, status, **more)
    event_type = STATUS_EVENTS[status]
    return RunEvent(
        id=run_event_id(state.key, event_type),
        type=event_type,
        run=state,
        before=None,
        occurred_at=NOON,
        recorded_at=NOON + timedelta(seconds=1),
        observed_by=Source.POLL,
    )


def detailed_event(run_id: str = "1") -> RunEvent:
    """Return the event that a job group's job records were read."""
    event = run_event(run_id, Status.SUCCEEDED)
    return msgspec.structs.replace(
        event,
        id=run_event_id(event.run.key, EventType.RUN_DETAILED),
        type=EventType.RUN_DETAILED,
    )


def workspace_event(what: str = "edition", number: int = 1) -> WorkspaceEvent:
    """Return the event that ``what`` of workspace ``w`` changed."""
    return WorkspaceEvent(
        id=workspace_event_id("w", what, number),
        type=EventType.WORKSPACE_CHANGED,
        workspace="w",
        what=what,
        number=number,
        before=None,
        after="RL",
        occurred_at=None,
        recorded_at=NOON,
    )


def change(*events: Event) -> Change:
    """Return the change that commits these events."""
    return Change(events=events)
