"""One JSON Schema for each type of CloudEvent, made from the shapes."""

from __future__ import annotations

from typing import Any

import msgspec

from monitor.model.events import INTERNAL_EVENTS, STATUS_EVENTS, EventType
from monitor.outputs.cloudevent_shapes import AlertMessage, Message, RunMessage, WorkspaceMessage
from monitor.outputs.cloudevents import schema_name, type_name

_ALERT_TYPES = (
    EventType.ALERT_FIRED,
    EventType.ALERT_REMINDED,
    EventType.ALERT_RESOLVED,
    EventType.ALERT_SILENCED,
    EventType.ALERT_FLAPPING,
)
_RUN_TYPES = (*STATUS_EVENTS.values(), EventType.RUN_CORRECTED, *sorted(INTERNAL_EVENTS))


def json_schemas() -> dict[str, dict[str, Any]]:
    """Return one JSON Schema for each type of message, by the attribute ``type``."""
    shapes: dict[EventType, type[Message]] = dict.fromkeys(_RUN_TYPES, RunMessage)
    shapes[EventType.WORKSPACE_CHANGED] = WorkspaceMessage
    shapes.update(dict.fromkeys(_ALERT_TYPES, AlertMessage))
    return {
        type_name(event_type): _json_schema(type_name(event_type), shape)
        for event_type, shape in shapes.items()
    }


def _json_schema(name: str, shape: type[Message]) -> dict[str, Any]:
    (reference,), components = msgspec.json.schema_components(
        [shape], ref_template="#/$defs/{name}"
    )
    root_run = reference["$ref"].removeprefix("#/$defs/")
    schema: dict[str, Any] = dict(components.pop(root_run))
    schema["properties"] = {
        **schema["properties"],
        "specversion": {"const": "1.0"},
        "type": {"const": name},
        "dataschema": {"const": schema_name(name)},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": schema_name(name),
        **schema,
        "$defs": components,
    }
