"""The shapes of the CloudEvents that go out: what bytes and JSON Schemas are made from."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from monitor.model.alert_texts import texts_of
from monitor.model.alerts import Alert, AlertState
from monitor.model.public_shapes import AlertShape, RunShape
from monitor.model.runs import PipelineKind, Source, Status
from monitor.model.shapes import filled

Instant: TypeAlias = Annotated[datetime, Meta(tz=True)]  # so that schemas say that it is one
# Of an alert, what Alertmanager names has its names; all other names are in snake_case.
ALERTMANAGER_NAMES = {"starts_at": "startsAt", "ends_at": "endsAt"}
# What is published of a run names its instants without the suffix.
INSTANT_NAMES = {
    "created_at": "created",
    "started_at": "started",
    "finished_at": "finished",
    "heartbeat_at": "heartbeat",
    "last_success_at": "last_success",
    "expected_start_at": "next_expected_start",
}


class PipelineData(Struct, frozen=True, kw_only=True, gc=False):
    """The flow or plan that ran; ``id`` is ``unknown`` where it was not reported."""

    kind: PipelineKind | None
    id: str
    name: str | None


class RunData(RunShape, frozen=True, kw_only=True, gc=False, rename=INSTANT_NAMES):
    """One run as of this transition.

    A time that the workspace did not report is null; ``approximate`` names those that it reported
    only indirectly. ``native_status`` is the workspace's own word. ``unconfirmed``: only a callback
    has reported this end so far. ``implausible`` names what was reported and cannot be true.
    """

    status: Status
    created_at: Instant | None
    started_at: Instant | None
    finished_at: Instant | None
    unconfirmed: bool


class ParentsData(Struct, frozen=True, kw_only=True, gc=False):
    """Ids of the runs that this run is a part of, as far as the workspace reports."""

    flow_run: str | None
    plan_run: str | None


class RunEventData(Struct, frozen=True, kw_only=True, gc=False):
    """The data of a run's event. ``before`` is the status that the run was last known to have.

    ``observed_by`` is ``parts`` for the end of a flow run that was derived from its job groups.
    """

    workspace: str
    pipeline: PipelineData
    run: RunData
    parents: ParentsData
    before: Status | None
    observed_by: Source


class WorkspaceEventData(Struct, frozen=True, kw_only=True, gc=False):
    """What changed about a workspace: ``what`` went from ``before`` to ``after``."""

    workspace: str
    what: str
    number: int
    before: str | None
    after: str | None


class AlertData(AlertShape, frozen=True, kw_only=True, gc=False, rename=ALERTMANAGER_NAMES):
    """What events and retained documents have of an alert."""

    status: AlertState
    starts_at: Instant
    ends_at: Instant | None


class AlertEventData(AlertData, frozen=True, kw_only=True, gc=False):
    """One alert as of this transition.

    ``status``, ``labels``, ``annotations``, ``startsAt``, ``endsAt`` and ``fingerprint`` have
    Alertmanager's names, all else is in snake_case as in the data of other events. ``evidence``
    are ids of events, ``evidence_count`` counts them all; ``number`` counts reminders and silences
    from 1, else 0.
    """

    number: int


A = TypeVar("A", bound=AlertData)


def alert_data(shape: type[A], alert: Alert, at: datetime, **others: int | str | None) -> A:
    """Return what is published of an alert, its texts as they read by instants."""
    return filled(
        shape,
        alert,
        status=alert.state,
        annotations=texts_of(alert, at, is_kept=True),
        **others,
    )


class Envelope(Struct, frozen=True, kw_only=True, gc=False):
    """The attributes that all events share. ``time`` is the workspace's, absent if unknown."""

    specversion: str
    id: str
    source: str
    type: str
    subject: str
    time: Instant | msgspec.UnsetType = msgspec.UNSET
    recordedtime: Instant
    partitionkey: str
    sequence: Annotated[
        str,
        Meta(
            description="Place in the log, of equal length, so that it sorts as text: of two "
            "events of one partitionkey the later one has the greater, also over takeovers. A "
            "message that is sent again keeps it or has a greater one: where the database had "
            "lost it, and where store import has split or joined logs. Deduplicate by id."
        ),
    ]
    severitytext: str
    datacontenttype: str = "application/json"
    dataschema: str


class RunMessage(Envelope, frozen=True, kw_only=True, gc=False):
    """An event of a run, ready to be sent."""

    data: RunEventData


class WorkspaceMessage(Envelope, frozen=True, kw_only=True, gc=False):
    """An event of a workspace, ready to be sent."""

    data: WorkspaceEventData


class AlertMessage(Envelope, frozen=True, kw_only=True, gc=False):
    """An event of an alert, ready to be sent."""

    data: AlertEventData


Message = RunMessage | WorkspaceMessage | AlertMessage
