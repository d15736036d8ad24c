"""Events as CloudEvents 1.0 in structured JSON: one typed shape, bytes and schema alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Annotated, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct

from monitor.model.alert_texts import texts_of
from monitor.model.alerts import Acknowledgement, Alert, AlertState, Severity
from monitor.model.errors import OutputRefusedError
from monitor.model.events import (
    POSITION_DIGITS,
    AlertEvent,
    Event,
    EventType,
    RunEvent,
    WorkspaceEvent,
)
from monitor.model.public_shapes import AlertShape, RunShape, filled
from monitor.model.runs import PipelineKind, RunState, Source, Status

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
CONTENT_TYPE = "application/cloudevents+json"
PAYLOAD_BYTES_LIMIT = 64 * 1024
UNKNOWN_PIPELINE = "unknown"
TRIMMED = " … [trimmed]"  # ends every text that was cut
_LEVELS_KEPT = 4_096  # escaped ids of pipelines
_NAME_CHARACTERS = 1_000  # of names, owners and native words; longer ones are cut
_SEVERITIES: dict[EventType, str] = {
    EventType.RUN_FAILED: "ERROR",
    EventType.RUN_CANCELED: "WARN",
    EventType.RUN_LOST: "WARN",
    EventType.RUN_CORRECTED: "WARN",
}
# Neither a resolved nor a silenced or acknowledged alert counts as an error.
_QUIET = {EventType.ALERT_RESOLVED, EventType.ALERT_SILENCED, EventType.ALERT_ACKNOWLEDGED}
_ALERT_SEVERITIES = {Severity.CRITICAL: "ERROR", Severity.WARNING: "WARN", Severity.INFO: "INFO"}
_encoder = msgspec.json.Encoder()


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


class AcknowledgementData(Acknowledgement, frozen=True, kw_only=True, gc=False):
    """Who knows of an alert. Reminders go out again from ``until`` on; null: not while it fires."""

    at: Instant
    until: Instant | None


class AlertData(AlertShape, frozen=True, kw_only=True, gc=False, rename=ALERTMANAGER_NAMES):
    """What events and retained documents have of an alert."""

    status: AlertState
    starts_at: Instant
    ends_at: Instant | None
    acknowledged: AcknowledgementData | None


class AlertEventData(AlertData, frozen=True, kw_only=True, gc=False):
    """One alert as of this transition.

    ``status``, ``labels``, ``annotations``, ``startsAt``, ``endsAt`` and ``fingerprint`` have
    Alertmanager's names, all else is in snake_case as in the data of other events. ``evidence``
    are ids of events, ``evidence_count`` counts them all; ``number`` counts reminders, silences
    and acknowledgements from 1, else 0.
    """

    number: int


A = TypeVar("A", bound=AlertData)
M = TypeVar("M")


def alert_data(shape: type[A], alert: Alert, at: datetime, **others: int | str | None) -> A:
    """Return what is published of an alert, its texts as they read by instants."""
    texts, by = texts_of(alert, at, is_kept=True), alert.acknowledged
    acknowledged = None if by is None else filled(AcknowledgementData, by)
    return filled(
        shape,
        alert,
        status=alert.state,
        annotations=texts,
        acknowledged=acknowledged,
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

CLOUD_EVENT_SHAPES = (RunMessage, AlertMessage, WorkspaceMessage)


def message_of(event: Event, *, position: int, epoch: int = 0) -> Message:
    """Return the event as its message; ``position`` is its place in the log, in that epoch."""
    sequence = f"{epoch:05d}{position:0{POSITION_DIGITS}d}"
    if isinstance(event, RunEvent):
        return _run_message(event, sequence)
    if isinstance(event, AlertEvent):
        return _alert_message(event, sequence)
    return _workspace_message(event, sequence)


def encode(message: Message) -> bytes:
    """Return the message as JSON of at most `PAYLOAD_BYTES_LIMIT`, its texts cut if need be.

    Raises:
        OutputRefusedError: it is too large even without its error or the alert's texts.
    """
    payload = encode_readable(message)
    if len(payload) > PAYLOAD_BYTES_LIMIT:
        raise OutputRefusedError(f"{len(payload)} bytes are more than a message may hold")
    return payload


def encode_readable(message: Message) -> bytes:
    """Return the same bytes as `encode`, and also those of a message that it refuses."""
    payload = _encoder.encode(message)
    while len(payload) > PAYLOAD_BYTES_LIMIT:
        shorter = _with_shorter_text(message)
        if shorter is None:
            break
        message = shorter
        payload = _encoder.encode(message)
    return payload


def type_name(what: str) -> str:
    """Return the name of a type of message, such as ``dataprep.run.failed.v1``."""
    return f"dataprep.{what}.v1"


def pipeline_id_of(run: RunState) -> str:
    """Return the id of the run's pipeline, or the word for an unknown one."""
    return run.pipeline.id if run.pipeline is not None else UNKNOWN_PIPELINE


def _message(
    shape: Callable[..., M], event: Event, sequence: str, *, source: str, **others: object
) -> M:
    """Return the event in its envelope."""
    name = type_name(event.type)
    return shape(
        specversion="1.0",
        id=event.id,
        source=f"/dataprep/{source}",
        type=name,
        time=event.occurred_at or msgspec.UNSET,
        recordedtime=event.recorded_at,
        sequence=sequence,
        severitytext=_severity(event),
        dataschema=schema_name(name),
        **others,
    )


def _run_message(event: RunEvent, sequence: str) -> RunMessage:
    run = event.run
    path = "/".join(_level(text) for text in (run.key.workspace, run.key.kind, pipeline_id_of(run)))
    return _message(
        RunMessage,
        event,
        sequence,
        source=path,
        subject=f"run/{run.key.id}",
        partitionkey=path,
        data=filled(
            RunEventData,
            event,
            pipeline=_pipeline_data(run),
            run=_run_data(run),
            parents=filled(ParentsData, run.parents),
        ),
    )


def _workspace_message(event: WorkspaceEvent, sequence: str) -> WorkspaceMessage:
    return _message(
        WorkspaceMessage,
        event,
        sequence,
        source=_level(event.workspace),
        subject=event.what,
        partitionkey=_level(event.workspace),
        data=filled(
            WorkspaceEventData, event, before=_clipped(event.before), after=_clipped(event.after)
        ),
    )


def _alert_message(event: AlertEvent, sequence: str) -> AlertMessage:
    alert = event.alert
    path = f"{_level(alert.workspace)}/alert/{_level(alert.name)}"
    return _message(
        AlertMessage,
        event,
        sequence,
        source=path,
        subject=f"alert/{alert.fingerprint}",
        partitionkey=f"{path}/{alert.fingerprint}",
        # By instants: the same event is the same message, however late it is sent or read.
        data=alert_data(AlertEventData, alert, event.recorded_at, number=event.number),
    )


def _severity(event: Event) -> str:
    if not isinstance(event, AlertEvent):
        return _SEVERITIES.get(event.type, "INFO")
    return "INFO" if event.type in _QUIET else _ALERT_SEVERITIES[event.alert.severity]


def _pipeline_data(run: RunState) -> PipelineData:
    if run.pipeline is None:
        return PipelineData(kind=None, id=UNKNOWN_PIPELINE, name=None)
    return filled(PipelineData, run.pipeline, name=_clipped(run.pipeline.name))


def _run_data(run: RunState) -> RunData:
    return filled(
        RunData,
        run,
        id=run.key.id,
        kind=run.key.kind,
        approximate=tuple(field.removesuffix("_at") for field in run.approximate),
        unconfirmed=run.unconfirmed_end is not None,
        native_status=_clipped(run.native_status),
        owner=_clipped(run.owner),
        # Half an address leads nowhere.
        url=run.url if run.url is None or len(run.url) <= _NAME_CHARACTERS else None,
    )


def _with_shorter_text(message: Message) -> Message | None:
    """Return the message with its longest text halved; None where there is nothing to cut.

    Halving, because escapes make the bytes of a text unforeseeable.
    """
    if isinstance(message, RunMessage):
        if (error := _halved(message.data.run.error)) is None:
            return None
        run = msgspec.structs.replace(message.data.run, error=error)
        return msgspec.structs.replace(message, data=msgspec.structs.replace(message.data, run=run))
    if isinstance(message, AlertMessage):
        data = message.data
        fact, annotation = _longest(data.facts), _longest(data.annotations)
        # Labels stay whole: by them an alert is known.
        where, name = ("facts", fact[1]) if fact >= annotation else ("annotations", annotation[1])
        texts = getattr(data, where)
        if (text := _halved(texts.get(name))) is None:
            return None
        data = msgspec.structs.replace(data, **{where: {**texts, name: text}})
        return msgspec.structs.replace(message, data=data)
    return None


def _longest(texts: Mapping[str, object]) -> tuple[int, str]:
    return max(((len(v), k) for k, v in texts.items() if isinstance(v, str)), default=(0, ""))


def _halved(text: str | None) -> str | None:
    kept = "" if text is None else text.removesuffix(TRIMMED)
    return kept[: len(kept) // 2] + TRIMMED if kept else None


def _clipped(text: str | None) -> str | None:
    if text is None or len(text) <= _NAME_CHARACTERS:
        return text
    return text[:_NAME_CHARACTERS] + TRIMMED


@lru_cache(_LEVELS_KEPT)
def _level(text: str) -> str:
    # What is legal in a path stays as it is; ids are numbers or UUIDs, so usually everything.
    return quote(text, safe="")


def schema_name(name: str) -> str:
    return f"urn:dataprep-monitor:schema:{name}"
