"""Events as CloudEvents 1.0 in structured JSON: one typed shape, bytes and schema alike."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote

import msgspec

from monitor.model.alerts import Severity
from monitor.model.errors import OutputRefusedError
from monitor.model.events import (
    POSITION_DIGITS,
    AlertEvent,
    Event,
    EventType,
    RunEvent,
    WorkspaceEvent,
)
from monitor.model.runs import RunState
from monitor.model.shapes import filled
from monitor.outputs.cloudevent_shapes import (
    AlertEventData,
    AlertMessage,
    Message,
    ParentsData,
    PipelineData,
    RunData,
    RunEventData,
    RunMessage,
    WorkspaceEventData,
    WorkspaceMessage,
    alert_data,
)

CONTENT_TYPE = "application/cloudevents+json"
CLOUD_EVENT_SHAPES = (RunMessage, AlertMessage, WorkspaceMessage)
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
_ALERT_SEVERITIES = {
    Severity.CRITICAL: "ERROR",
    Severity.WARNING: "WARN",
    Severity.INFO: "INFO",
}

_encoder = msgspec.json.Encoder()


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


def _run_message(event: RunEvent, sequence: str) -> RunMessage:
    run = event.run
    path = "/".join(_level(text) for text in (run.key.workspace, run.key.kind, pipeline_id_of(run)))
    return RunMessage(
        specversion="1.0",
        id=event.id,
        source=f"/dataprep/{path}",
        type=type_name(event.type),
        subject=f"run/{run.key.id}",
        time=event.occurred_at or msgspec.UNSET,
        recordedtime=event.recorded_at,
        partitionkey=path,
        sequence=sequence,
        severitytext=_SEVERITIES.get(event.type, "INFO"),
        dataschema=schema_name(type_name(event.type)),
        data=RunEventData(
            workspace=run.key.workspace,
            pipeline=_pipeline_data(run),
            run=_run_data(run),
            parents=ParentsData(flow_run=run.parents.flow_run, plan_run=run.parents.plan_run),
            before=event.before,
            observed_by=event.observed_by,
        ),
    )


def _workspace_message(event: WorkspaceEvent, sequence: str) -> WorkspaceMessage:
    return WorkspaceMessage(
        specversion="1.0",
        id=event.id,
        source=f"/dataprep/{_level(event.workspace)}",
        type=type_name(event.type),
        subject=event.what,
        time=event.occurred_at or msgspec.UNSET,
        recordedtime=event.recorded_at,
        partitionkey=_level(event.workspace),
        sequence=sequence,
        severitytext="INFO",
        dataschema=schema_name(type_name(event.type)),
        data=WorkspaceEventData(
            workspace=event.workspace,
            what=event.what,
            number=event.number,
            before=_clipped(event.before),
            after=_clipped(event.after),
        ),
    )


def _alert_message(event: AlertEvent, sequence: str) -> AlertMessage:
    alert = event.alert
    path = f"{_level(alert.workspace)}/alert/{_level(alert.name)}"
    return AlertMessage(
        specversion="1.0",
        id=event.id,
        source=f"/dataprep/{path}",
        type=type_name(event.type),
        subject=f"alert/{alert.fingerprint}",
        time=event.occurred_at or msgspec.UNSET,
        recordedtime=event.recorded_at,
        partitionkey=f"{path}/{alert.fingerprint}",
        sequence=sequence,
        severitytext=_alert_severity(event),
        dataschema=schema_name(type_name(event.type)),
        # By instants: the same event is the same message, however late it is sent or read.
        data=alert_data(AlertEventData, alert, event.recorded_at, number=event.number),
    )


def _alert_severity(event: AlertEvent) -> str:
    # A resolved alert is no error, and nobody wants a silenced one to count as an error.
    is_quiet = event.type in {EventType.ALERT_RESOLVED, EventType.ALERT_SILENCED}
    return "INFO" if is_quiet else _ALERT_SEVERITIES[event.alert.severity]


def _pipeline_data(run: RunState) -> PipelineData:
    if run.pipeline is None:
        return PipelineData(kind=None, id=UNKNOWN_PIPELINE, name=None)
    return PipelineData(
        kind=run.pipeline.kind, id=run.pipeline.id, name=_clipped(run.pipeline.name)
    )


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
