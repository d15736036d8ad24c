"""Events: durable, ordered, emitted once.

An event's id is a function of what happened, never of who noticed it or when.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from monitor.model.alerts import Alert
from monitor.model.runs import RunKey, RunKind, RunState, Source, Status

# Of the ``sequence`` of a message, which begins with the epoch of the log.
POSITION_DIGITS = 15


class EventType(StrEnum):
    """The types of events.

    ``run.detailed`` carries what became known of a run after its end, once: the job records of a
    job group; reason and time of a flow run or plan run. ``run.confirmed``: the workspace reports
    the end that only a callback had reported, or job records show it where nothing else can be
    read. ``run.corrected``: it reports another one than a callback or the parts of the run had
    shown, or than it had reported itself, or the part that explained the end has not failed after
    all; the ordinary event of the end follows in the same commit. ``deadline.met``: a success has
    met a deadline of the configuration, so what depends on it may begin. ``report.due``: it is time
    for a report, which is computed by who shows or sends it.
    """

    RUN_QUEUED = "run.queued"
    RUN_STARTED = "run.started"
    RUN_SUCCEEDED = "run.succeeded"
    RUN_FAILED = "run.failed"
    RUN_CANCELED = "run.canceled"
    RUN_LOST = "run.lost"
    RUN_DETAILED = "run.detailed"
    RUN_CONFIRMED = "run.confirmed"
    RUN_CORRECTED = "run.corrected"
    WORKSPACE_CHANGED = "workspace.changed"
    DEADLINE_MET = "deadline.met"
    REPORT_DUE = "report.due"
    ALERT_FIRED = "alert.fired"
    ALERT_REMINDED = "alert.reminded"
    ALERT_ACKNOWLEDGED = "alert.acknowledged"
    ALERT_RESOLVED = "alert.resolved"
    ALERT_SILENCED = "alert.silenced"
    ALERT_FLAPPING = "alert.flapping"


STATUS_EVENTS: dict[Status, EventType] = {
    Status.PENDING: EventType.RUN_QUEUED,
    Status.RUNNING: EventType.RUN_STARTED,
    Status.SUCCEEDED: EventType.RUN_SUCCEEDED,
    Status.FAILED: EventType.RUN_FAILED,
    Status.CANCELED: EventType.RUN_CANCELED,
    Status.LOST: EventType.RUN_LOST,
}


class RunEvent(Struct, frozen=True, kw_only=True, gc=False, tag="run", tag_field="form"):
    """A run made a transition. ``run`` is what was known of it, as of this transition.

    ``occurred_at`` is the workspace's time of the transition, None where it reported none;
    ``recorded_at`` is ours. ``before`` is the status that the run was last known to have.
    """

    id: str
    type: EventType
    run: RunState
    before: Status | None
    occurred_at: datetime | None
    recorded_at: datetime
    observed_by: Source

    @property
    def workspace(self) -> str:
        return self.run.key.workspace

    @property
    def subject(self) -> str:
        """Events of one subject are delivered in order."""
        return str(self.run.key)


class WorkspaceEvent(
    Struct, frozen=True, kw_only=True, gc=False, tag="workspace", tag_field="form"
):
    """A workspace itself changed: its edition, a capability, its configuration here.

    Or a deadline was met: ``number`` is its day as 20261124 and ``after`` its instant.
    Or a report is due, of no workspace: ``after`` is when, ``number`` the same in minutes.
    """

    id: str
    type: EventType
    workspace: str
    what: str  # "edition", "capability:list_changes", "deadline:RULE:KIND/ID", "report:NAME"
    number: int  # counts the changes of this ``what``, or of its kind, from 1
    before: str | None
    after: str | None
    occurred_at: datetime | None
    recorded_at: datetime

    @property
    def subject(self) -> str:
        return f"{self.workspace}:{self.what}"


class AlertEvent(Struct, frozen=True, kw_only=True, gc=False, tag="alert", tag_field="form"):
    """An alert made a transition. ``alert`` is the alert as of this transition.

    ``number`` counts those transitions that an alert can make more than once, from 1; else 0.
    ``occurred_at`` is an instant on the clock of the alert's subject, ``recorded_at`` is ours.
    """

    id: str
    type: EventType
    alert: Alert
    occurred_at: datetime | None
    recorded_at: datetime
    number: int = 0

    @property
    def workspace(self) -> str:
        return self.alert.workspace

    @property
    def subject(self) -> str:
        return f"alert:{self.alert.fingerprint}"


Event = RunEvent | WorkspaceEvent | AlertEvent
REPORT = "report"  # begins the ``what`` of an event that one is due; its name follows
_WORDS_OF_A_RUN = 3  # workspace, kind, id
_BEFORE_ENDS = (EventType.RUN_QUEUED, EventType.RUN_STARTED, EventType.RUN_CONFIRMED)


def run_event_id(key: RunKey, event_type: EventType, *, correction: int = 0) -> str:
    """Return ``workspace:kind:run:transition``, the same whichever source showed the transition.

    ``correction`` is `RunState.corrections`: what follows from the n-th ends in ``:n``.
    """
    number = f":{correction}" if correction else ""
    return f"{key}:{event_type.removeprefix('run.')}{number}"


def run_of_event_id(event_id: str) -> RunKey | None:
    """Return the run that the id of an event names; None where it is none of a run."""
    name, _, last = event_id.rpartition(":")
    if last.isdecimal():
        name = name.rpartition(":")[0]
    words = name.split(":", 2)
    if len(words) < _WORDS_OF_A_RUN or words[1] not in tuple(RunKind):
        return None
    return RunKey(workspace=words[0], kind=RunKind(words[1]), id=words[2])


def end_event_id(run: RunState) -> str:
    """Return the id of the event that has reported the end of the run as it is known now."""
    return run_event_id(run.key, STATUS_EVENTS[run.status], correction=run.corrections)


def run_event_ids(
    key: RunKey, event_types: Collection[EventType], *, corrections: int
) -> tuple[str, ...]:
    """Return the ids that events of these types can have after so many corrections."""
    return tuple(
        run_event_id(key, event_type, correction=number)
        for number in range(corrections + 1)
        for event_type in event_types
        if number == 0 or event_type not in _BEFORE_ENDS
    )


def workspace_event_id(workspace: str, what: str, number: int) -> str:
    """Return ``workspace:what:number`` for the ``number``-th change of ``what``."""
    return f"{workspace}:{what}:{number}"
