"""The JSON Schemas of all that is published, events and retained documents, made from the shapes.

They are strict: a message holds what its schema lists and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from monitor.model.events import STATUS_EVENTS, EventType
from monitor.outputs.cloudevents import (
    AlertMessage,
    Message,
    RunMessage,
    WorkspaceMessage,
    schema_name,
    type_name,
)
from monitor.outputs.event_output import DaemonInfo
from monitor.outputs.mqtt.states import AlertStatus, BridgeState, PipelineState, WorkspaceState

_RUN_TYPES = (
    *STATUS_EVENTS.values(),
    EventType.RUN_DETAILED,
    EventType.RUN_CONFIRMED,
    EventType.RUN_CORRECTED,
)
_WORKSPACE_TYPES = (EventType.WORKSPACE_CHANGED, EventType.DEADLINE_MET, EventType.REPORT_DUE)
_ALERT_TYPES = (
    EventType.ALERT_FIRED,
    EventType.ALERT_REMINDED,
    EventType.ALERT_ACKNOWLEDGED,
    EventType.ALERT_RESOLVED,
    EventType.ALERT_SILENCED,
    EventType.ALERT_FLAPPING,
)
# Of each retained document its name, shape and topics after the prefix.
_RETAINED: tuple[tuple[str, type[Struct], tuple[str, ...]], ...] = (
    ("bridge.state", BridgeState, ("bridge/{instance}/state",)),
    ("bridge.info", DaemonInfo, ("bridge/{instance}/info",)),
    ("workspace.state", WorkspaceState, ("{workspace}/state",)),
    ("pipeline.state", PipelineState, ("{workspace}/{kind}/{pipeline_id}/state",)),
    (
        "alert.state",
        AlertStatus,
        (
            "{workspace}/alert/{rule}/{fingerprint}/state",
            "bridge/{instance}/alert/{rule}/{fingerprint}/state",
        ),
    ),
)


class PayloadSchema(Struct, frozen=True, kw_only=True):
    """The schema of one type of message; ``topics`` are those that keep it, without the prefix."""

    schema: dict[str, Any]
    topics: tuple[str, ...] = ()


@functools.cache
def payload_schemas() -> Mapping[str, PayloadSchema]:
    """Return the schema of each type of event and of each retained document, by type."""
    schemas: dict[str, PayloadSchema] = {}
    shapes: dict[EventType, type[Message]] = dict.fromkeys(_RUN_TYPES, RunMessage)
    shapes |= dict.fromkeys(_WORKSPACE_TYPES, WorkspaceMessage)
    shapes.update(dict.fromkeys(_ALERT_TYPES, AlertMessage))
    for event_type, event_shape in shapes.items():
        name = type_name(event_type)
        schema = _json_schema(name, event_shape)
        schema["properties"] |= {
            "specversion": {"const": "1.0"},
            "type": {"const": name},
            "dataschema": {"const": schema_name(name)},
        }
        schemas[name] = PayloadSchema(schema=schema)
    for document, shape, topics in _RETAINED:
        name = type_name(document)
        schemas[name] = PayloadSchema(schema=_json_schema(name, shape), topics=topics)
    return schemas


def _json_schema(name: str, shape: type[Struct]) -> dict[str, Any]:
    (reference,), components = msgspec.json.schema_components(
        [shape], ref_template="#/$defs/{name}"
    )
    schemas = {
        title: {**schema, "additionalProperties": False} if "properties" in schema else schema
        for title, schema in components.items()
    }
    root = schemas.pop(reference["$ref"].removeprefix("#/$defs/"))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": schema_name(name),
        **root,
        "properties": dict(root["properties"]),
        "$defs": schemas,
    }
