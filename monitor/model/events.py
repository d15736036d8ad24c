"""Events: durable, ordered, emitted once.

An event's id is a function of what happened, never of who noticed it or when.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from monitor.model.alerts import Alert
from monitor.model.runs import RunKey, RunState, Source, Status

# Of the ``sequence`` of a message, which begins with the epoch of the log.
POSITION_DIGITS = 15


class EventType(StrEnum):
    """The types of events.

    ``run.detailed`` carries what became known of a run after its end, once: the job records of a
    job group; reason and time of a flow run or plan run. ``run.confirmed``: the workspace reports
    the end that only a callback had reported. ``run.corrected``: it reports another one than a
    callback or the parts of the run had shown; its ordinary event follows in the same commit.
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
    ALERT_FIRED = "alert.fired"
    ALERT_REMINDED = "alert.reminded"
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
    """A workspace itself changed: its edition, a capability, its configuration here."""

    id: str
    type: EventType
    workspace: str
    what: str  # "edition", "capability:list_changes", "configuration:KEY", "schedule:ID"
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


def run_event_id(key: RunKey, event_type: EventType) -> str:
    """Return ``workspace:kind:run:transition``, the same whichever source showed the transition."""
    return f"{key}:{event_type.removeprefix('run.')}"


def workspace_event_id(workspace: str, what: str, number: int) -> str:
    """Return ``workspace:what:number`` for the ``number``-th change of ``what``."""
    return f"{workspace}:{what}:{number}"
