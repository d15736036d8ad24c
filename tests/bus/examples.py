"""Runs, events and callbacks for a store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from monitor.bus.contract import Change, EventBus, StoredCallback
from monitor.model.events import STATUS_EVENTS as EVENT_OF
from monitor.model.events import RunEvent, run_event_id
from monitor.model.runs import Parents, RunKey, RunKind, RunState, Source, Status

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
SOON = 10.0  # seconds; longer than any working store needs


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def key(number: int, kind: RunKind = RunKind.JOB_GROUP, workspace: str = "marketing") -> RunKey:
    return RunKey(workspace, kind, str(number))


def run(
    number: int,
    status: Status = Status.RUNNING,
    *,
    kind: RunKind = RunKind.JOB_GROUP,
    workspace: str = "marketing",
    created_at: datetime | None = None,
    finished_at: datetime | None = None,
    parents: Parents | None = None,
) -> RunState:
    """Return a run that was created ``number`` seconds after `NOW`, or at ``created_at``."""
    created = created_at or at(number)
    return RunState(
        key=key(number, kind, workspace),
        status=status,
        created_at=created,
        finished_at=finished_at or (created if status.is_terminal else None),
        parents=parents or Parents(),
        confirmed_at=NOW,
        confirmed_by=Source.POLL,
    )


def event(number: int, status: Status = Status.RUNNING, *, recorded_at: datetime = NOW) -> RunEvent:
    state = run(number, status)
    return RunEvent(
        id=run_event_id(state.key, EVENT_OF[status]),
        type=EVENT_OF[status],
        run=state,
        before=None,
        occurred_at=state.created_at,
        recorded_at=recorded_at,
        observed_by=Source.POLL,
    )


def events(*numbers: int, recorded_at: datetime = NOW) -> Change:
    """Return a change with one event for each number."""
    return Change(events=tuple(event(number, recorded_at=recorded_at) for number in numbers))


def callback(
    number: int, *, workspace: str = "marketing", received_at: datetime = NOW
) -> StoredCallback:
    return StoredCallback(
        workspace=workspace,
        kind=RunKind.JOB_GROUP,
        run_id=str(number),
        native_status="Complete",
        task_flow_id="7",
        received_at=received_at,
        fingerprint=f"fingerprint-{number}",
    )


async def log_of(bus: EventBus) -> list[tuple[int, str]]:
    """Return positions and run ids of all stored events."""
    stored = await bus.events(after=0, limit=100_000)
    return [(event.position, event.event.id.split(":")[2]) for event in stored]
