"""Names of topics, and MQTT settings that cannot work."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from monitor.app.hosted.report_clock import report_due
from monitor.model.errors import ConfigurationError
from monitor.model.runs import Pipeline, PipelineKind, RunKind
from monitor.model.secrets import Secret
from monitor.outputs.mqtt.settings import MqttSettings
from monitor.outputs.mqtt.topics import Topics, level
from tests.config.settings_tables import file, problems
from tests.outputs.histories import detailed_event, run_event, workspace_event

TOPICS = Topics(prefix="dataprep/v1", instance="monitor")


def test_events_go_to_their_pipeline_or_workspace() -> None:
    """A run's topic ends with its transition; a workspace's with the part that changed."""
    assert TOPICS.event(run_event()) == "dataprep/v1/w/flow_run/7/event/started"
    assert TOPICS.event(run_event(pipeline=None)) == "dataprep/v1/w/flow_run/unknown/event/started"
    assert TOPICS.event(workspace_event("capability:list_plans")) == (
        "dataprep/v1/w/event/capability"
    )
    assert TOPICS.event(detailed_event()) == "dataprep/v1/w/flow_run/7/event/detailed"


def test_a_report_is_announced_by_the_instance() -> None:
    """It is of no workspace, so its topic stands with what the monitor says of itself."""
    at = datetime(2026, 11, 28, 7, tzinfo=UTC)
    event = report_due("last-night", at, recorded_at=at)
    assert TOPICS.event(event) == "dataprep/v1/bridge/monitor/event/report"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("123", "123"),
        ("a/b", "a%2Fb"),
        ("+", "%2B"),
        ("#", "%23"),
        ("%2F", "%252F"),
        ("\x00", "%00"),
        ("", "%"),
        ("ü", "ü"),
    ],
)
def test_an_id_is_one_topic_level(text: str, expected: str) -> None:
    """No id can reach into other topics or make one that a broker refuses."""
    assert level(text) == expected


def test_two_ids_never_share_a_level() -> None:
    """The escape is escaped itself."""
    assert level("a/b") != level("a%2Fb")


def test_a_hostile_pipeline_id_stays_in_its_level() -> None:
    """A topic has as many levels as the contract defines."""
    pipeline = Pipeline(kind=PipelineKind.FLOW, id="../#/+")
    topic = TOPICS.event(run_event(pipeline=pipeline))
    assert topic == "dataprep/v1/w/flow_run/..%2F%23%2F%2B/event/started"


def test_the_workspace_of_a_topic_is_found() -> None:
    """The bridge and foreign prefixes belong to no workspace."""
    assert TOPICS.workspace_of(TOPICS.workspace_state("w")) == "w"
    assert TOPICS.workspace_of(TOPICS.pipeline_state("w", RunKind.PLAN_RUN, "1")) == "w"
    assert TOPICS.workspace_of("dataprep/v1/bridge/other/state") is None
    assert TOPICS.workspace_of("older/w/state") is None


@pytest.mark.parametrize(
    ("url", "broker"),
    [
        ("mqtt://example.org", "example.org:1883"),
        ("mqtts://example.org", "example.org:8883"),
        ("mqtt://[::1]:1999/", "[::1]:1999"),
    ],
)
def test_a_url_names_the_broker(url: str, broker: str) -> None:
    """The port follows from the scheme where none is given."""
    assert str(MqttSettings(url=url).broker) == broker


@pytest.mark.parametrize(
    "url",
    ["http://h", "mqtt://", "mqtt://h:99999", "mqtt://u:hunter2@h", "mqtt://h/path", "mqtt://[h"],
)
def test_a_url_that_cannot_work_is_a_problem_that_does_not_repeat_it(url: str) -> None:
    """Text that may contain credentials is not repeated."""
    settings = MqttSettings(url=url)
    with pytest.raises(ConfigurationError) as caught:
        _ = settings.broker
    assert "hunter2" not in str(caught.value)
    (problem,) = problems(file(mqtt={"url": url}))
    assert problem.endswith(f": {caught.value.problems[0]}")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"prefix": "a/+/b"}, "prefix"),
        ({"prefix": "/a"}, "prefix"),
        ({"prefix": ""}, "prefix"),
        ({"instance": "a/b"}, "instance"),
        ({"instance": "#"}, "instance"),
        ({"key_file": "key.pem"}, "key_file"),
        ({"password_env": "MQTT_PASSWORD"}, "username"),
        ({"keepalive_seconds": 0}, "keepalive_seconds"),
    ],
)
def test_every_problem_names_its_key(changes: dict[str, Any], key: str) -> None:
    """`check` can name the line to correct."""
    (problem,) = problems(file(mqtt=changes))
    assert problem.startswith(f"mqtt.{key}: ")


def test_the_settings_hide_their_password() -> None:
    """No `repr` of the settings shows it."""
    assert "hunter2" not in repr(MqttSettings(username="u", password=Secret("hunter2")))
