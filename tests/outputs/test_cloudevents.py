"""Content and size limit of messages about runs and workspaces."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types

from monitor.model.errors import OutputRefusedError
from monitor.model.events import EventType, RunEvent, WorkspaceEvent
from monitor.model.runs import Parents, Status
from monitor.outputs.cloudevents import PAYLOAD_BYTES_LIMIT, TRIMMED, encode, message_of, type_name
from monitor.outputs.mqtt.topics import Topics
from monitor.outputs.payload_schemas import payload_schemas
from tests.outputs.histories import run_event, workspace_event


def decoded(event: RunEvent | WorkspaceEvent, *, position: int = 42) -> dict[str, Any]:
    """Return the message as a subscriber decodes it."""
    message: dict[str, Any] = json.loads(encode(message_of(event, position=position)))
    return message


def test_a_failed_run_is_published_with_all_attributes() -> None:
    """The envelope and the data are exactly those of the contract."""
    event = run_event(
        "9",
        Status.FAILED,
        native_status="Failed",
        approximate=("started_at",),
        error="no such file",
        owner="ada",
        url="https://example.org/jobs/9",
        parents=Parents(plan_run="3"),
    )
    assert decoded(event) == {
        "specversion": "1.0",
        "id": "w:flow_run:9:failed",
        "source": "/dataprep/w/flow_run/7",
        "type": "dataprep.run.failed.v1",
        "subject": "run/9",
        "time": "2026-11-21T12:00:00Z",
        "recordedtime": "2026-11-21T12:00:01Z",
        "partitionkey": "w/flow_run/7",
        "sequence": "00000000000000000042",
        "severitytext": "ERROR",
        "datacontenttype": "application/json",
        "dataschema": "urn:dataprep-monitor:schema:dataprep.run.failed.v1",
        "data": {
            "workspace": "w",
            "pipeline": {"kind": "flow", "id": "7", "name": "orders"},
            "run": {
                "id": "9",
                "kind": "flow_run",
                "status": "failed",
                "unconfirmed": False,
                "native_status": "Failed",
                "created": "2026-11-21T12:00:00Z",
                "started": "2026-11-21T12:00:05Z",
                "finished": "2026-11-21T12:01:05Z",
                "approximate": ["started"],
                "implausible": [],
                "duration_seconds": 60.0,
                "trigger": "unknown",
                "owner": "ada",
                "error": "no such file",
                "url": "https://example.org/jobs/9",
            },
            "parents": {"flow_run": None, "plan_run": "3"},
            "before": None,
            "observed_by": "poll",
        },
    }


def test_an_end_that_only_a_callback_reported_says_so() -> None:
    """The status is the end that it named; ``unconfirmed`` is not set on what corrects it."""
    claimed = run_event(status=Status.SUCCEEDED, unconfirmed_end=Status.SUCCEEDED)
    assert decoded(claimed)["data"]["run"]["unconfirmed"] is True

    corrected = msgspec.structs.replace(
        run_event(status=Status.FAILED), type=EventType.RUN_CORRECTED, before=Status.SUCCEEDED
    )
    message = decoded(corrected)
    assert message["type"] == "dataprep.run.corrected.v1"
    assert (message["severitytext"], message["data"]["before"]) == ("WARN", "succeeded")
    assert message["data"]["run"]["unconfirmed"] is False
    topic = Topics(prefix="dataprep/v1", instance="monitor").event(corrected)
    assert topic == "dataprep/v1/w/flow_run/7/event/corrected"


def test_an_unreported_time_is_absent() -> None:
    """Without the workspace's time the attribute is absent and the run's times are null."""
    event = run_event(created_at=None, started_at=None)
    event = msgspec.structs.replace(event, occurred_at=None)
    message = decoded(event)
    assert "time" not in message
    assert message["data"]["run"]["started"] is None
    assert message["data"]["run"]["duration_seconds"] is None


def test_a_run_without_a_pipeline_has_the_pipeline_unknown() -> None:
    """The source and the data name the pipeline ``unknown``."""
    message = decoded(run_event(pipeline=None))
    assert message["source"] == "/dataprep/w/flow_run/unknown"
    assert message["data"]["pipeline"] == {"kind": None, "id": "unknown", "name": None}


def test_a_workspace_event_names_what_changed() -> None:
    """The subject is the part that changed; the number counts its changes."""
    message = decoded(workspace_event("capability:list_changes", 3))
    assert message["id"] == "w:capability:list_changes:3"
    assert message["type"] == "dataprep.workspace.changed.v1"
    assert message["subject"] == "capability:list_changes"
    assert message["data"]["after"] == "RL"


def test_a_deadline_that_is_met_is_an_event_of_its_workspace() -> None:
    """It has the form of a workspace's changes, a type of its own and a schema."""
    event = workspace_event("deadline:orders_by_seven:flow/11", 20261124)
    event = msgspec.structs.replace(event, type=EventType.DEADLINE_MET)
    topic = Topics(prefix="dataprep/v1", instance="monitor").event(event)
    assert topic == "dataprep/v1/w/event/deadline"
    message = decoded(event)
    assert message["type"] == "dataprep.deadline.met.v1"
    assert message["id"] == "w:deadline:orders_by_seven:flow/11:20261124"
    assert message["data"]["number"] == 20261124
    assert message["type"] in payload_schemas()


@pytest.mark.parametrize("text", ["x" * 200_000, "\x01" * 60_000, "\N{SNOWMAN}" * 60_000])
def test_a_long_error_is_cut_and_marked(text: str) -> None:
    """A message stays within its limit, whatever its escapes cost, and is marked as cut."""
    payload = encode(message_of(run_event(status=Status.FAILED, error=text), position=1))
    assert len(payload) <= PAYLOAD_BYTES_LIMIT
    assert json.loads(payload)["data"]["run"]["error"].endswith(TRIMMED)


def test_a_message_that_cannot_be_made_small_is_refused() -> None:
    """A message that is too large without its error text is refused, not mutilated."""
    event = run_event("9" * PAYLOAD_BYTES_LIMIT)
    with pytest.raises(OutputRefusedError, match="bytes are more"):
        encode(message_of(event, position=1))


def test_long_names_are_cut_and_long_addresses_left_out() -> None:
    """Names and addresses from the workspace do not fill a message's limit."""
    event = run_event(owner="o" * 5_000, url="https://example.org/" + "u" * 5_000)
    run = decoded(event)["data"]["run"]
    assert run["owner"].endswith(TRIMMED)
    assert run["url"] is None


def test_every_type_has_a_schema_that_names_what_is_sent() -> None:
    """Each type's schema requires what its messages hold and knows no other type."""
    schemas = payload_schemas()
    assert {name for name, found in schemas.items() if not found.topics} == {
        type_name(event_type) for event_type in EventType
    }
    message = decoded(run_event(status=Status.FAILED))
    schema = schemas["dataprep.run.failed.v1"].schema
    assert schema["properties"]["type"] == {"const": "dataprep.run.failed.v1"}
    assert set(message) == set(schema["properties"])
    assert set(schema["required"]) <= set(message)
    data = schema["$defs"]["RunEventData"]
    assert set(data["properties"]) == set(message["data"])
    assert set(schema["$defs"]["RunData"]["required"]) == set(message["data"]["run"])


@pytest.mark.parametrize("event_type", [each for each in EventType if each.startswith("run.")])
def test_a_schema_allows_nothing_that_it_does_not_list(event_type: EventType) -> None:
    """Every type of run event fits its schema; with another key, anywhere, it does not."""
    event = msgspec.structs.replace(run_event(status=Status.FAILED), type=event_type)
    message = decoded(event)
    validator = Draft202012Validator(payload_schemas()[message["type"]].schema)
    validator.validate(message)
    for place in (message, message["data"], *map(message["data"].get, ("run", "pipeline"))):
        place["surplus"] = 1
        assert not validator.is_valid(message)
        del place["surplus"]
    assert validator.is_valid(message)


def test_all_keys_of_payloads_are_in_snake_case() -> None:
    """But for those that Alertmanager and CloudEvents name."""
    names: set[str] = set()
    for found in payload_schemas().values():
        for schema in (found.schema, *found.schema["$defs"].values()):
            names |= set(schema.get("properties", ()))
    assert {name for name in names if name.lower() != name} == {"startsAt", "endsAt"}
