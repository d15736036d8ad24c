"""Content and size limit of alert messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types

from monitor.model.alert_texts import LONGEST_TEXT
from monitor.model.alerts import BRIDGE, Severity
from monitor.model.errors import OutputRefusedError
from monitor.model.events import AlertEvent, EventType
from monitor.outputs.cloudevents import PAYLOAD_BYTES_LIMIT, TRIMMED, encode, message_of, type_name
from monitor.outputs.payload_schemas import payload_schemas
from tests.outputs.alert_histories import ENDED, alert, event_of, fired, resolved

ALERT_TYPES = [event_type for event_type in EventType if event_type.startswith("alert.")]


def decoded(event: AlertEvent, *, position: int = 42) -> dict[str, Any]:
    """Return the message as a subscriber decodes it."""
    message: dict[str, Any] = json.loads(encode(message_of(event, position=position)))
    return message


def test_a_resolved_alert_is_published_with_all_attributes() -> None:
    """The envelope is that of every event; the data has Alertmanager's names."""
    key = alert().fingerprint
    assert decoded(resolved()) == {
        "specversion": "1.0",
        "id": f"alert:{key}:20241121T093000000000Z:resolved",
        "source": "/dataprep/w/alert/run_failed",
        "type": "dataprep.alert.resolved.v1",
        "subject": f"alert/{key}",
        "time": "2024-11-21T09:40:00Z",
        "recordedtime": "2024-11-21T09:40:01Z",
        "partitionkey": f"w/alert/run_failed/{key}",
        "sequence": "00000000000000000042",
        "severitytext": "INFO",
        "datacontenttype": "application/json",
        "dataschema": "urn:dataprep-monitor:schema:dataprep.alert.resolved.v1",
        "data": {
            "status": "resolved",
            "name": "run_failed",
            "rule": "run_failed",
            "severity": "critical",
            "labels": alert().labels,
            "annotations": {"summary": "orders 1 failed"},
            "startsAt": "2024-11-21T09:30:00Z",
            "endsAt": "2024-11-21T09:40:00Z",
            "fingerprint": key,
            "evidence": ["w:flow_run:91:failed"],
            "evidence_count": 1,
            "facts": {"error": "no such file"},
            "muted_by": [],
            "preexisting": False,
            "over_when_seen": False,
            "is_flapping": False,
            "acknowledged": None,
            "number": 0,
        },
    }


@pytest.mark.parametrize(
    ("event_type", "severity", "text"),
    [
        (EventType.ALERT_FIRED, Severity.CRITICAL, "ERROR"),
        (EventType.ALERT_REMINDED, Severity.WARNING, "WARN"),
        (EventType.ALERT_FLAPPING, Severity.INFO, "INFO"),
        (EventType.ALERT_SILENCED, Severity.CRITICAL, "INFO"),
        (EventType.ALERT_ACKNOWLEDGED, Severity.CRITICAL, "INFO"),
        (EventType.ALERT_RESOLVED, Severity.CRITICAL, "INFO"),
    ],
)
def test_the_severity_follows_the_state_of_the_alert(
    event_type: EventType, severity: Severity, text: str
) -> None:
    """Neither a resolved nor a silenced or acknowledged alert has the severity of an error."""
    assert decoded(event_of(alert(severity=severity), event_type))["severitytext"] == text


def test_an_alert_about_the_daemon_has_the_bridge_as_its_source() -> None:
    """The reserved name replaces the workspace's name."""
    event = fired(workspace=BRIDGE, kind=None, pipeline=None, run=None)
    assert decoded(event)["source"] == "/dataprep/bridge/alert/run_failed"


@pytest.mark.parametrize("text", ["x" * 200_000, "\x01" * 60_000, "\N{SNOWMAN}" * 60_000])
def test_long_texts_are_cut_and_marked(text: str) -> None:
    """Facts and annotations shrink until the message fits; labels stay whole."""
    summaries = {f"summary{number}": text for number in range(40)}
    event = fired(facts={"error": text, "failing": 2.0}, templates={**summaries, "url": "u"})
    payload = encode(message_of(event, position=1))
    data = json.loads(payload)["data"]
    assert len(payload) <= PAYLOAD_BYTES_LIMIT
    assert data["facts"]["error"].endswith(TRIMMED)
    summary = data["annotations"]["summary0"]
    assert len(summary) <= LONGEST_TEXT
    assert summary.endswith((TRIMMED, "..."))
    assert (data["facts"]["failing"], data["annotations"]["url"]) == (2.0, "u")
    assert data["labels"] == alert().labels


def test_an_alert_that_cannot_be_made_small_is_refused() -> None:
    """A message whose labels are too large is refused, not mutilated."""
    event = fired(labels={"pipeline": "x" * PAYLOAD_BYTES_LIMIT})
    with pytest.raises(OutputRefusedError, match="bytes are more"):
        encode(message_of(event, position=1))


@pytest.mark.parametrize("event_type", ALERT_TYPES)
@pytest.mark.parametrize("more", [{}, {"ends_at": ENDED, "run": None, "facts": {"a": None}}])
def test_every_transition_fits_its_schema(event_type: EventType, more: dict[str, Any]) -> None:
    """A message is valid by the schema of its type only, and all its data is required."""
    schemas = dict(payload_schemas())
    schema = schemas.pop(type_name(event_type)).schema
    message = decoded(event_of(alert(1, **more), event_type, number=1))
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(message)
    data = schema["$defs"]["AlertEventData"]
    assert set(message["data"]) == set(data["properties"]) == set(data["required"])
    others = [Draft202012Validator(other.schema) for other in schemas.values()]
    assert not any(other.is_valid(message) for other in others)
