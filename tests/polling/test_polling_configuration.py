"""Changes of a workspace's settings: each published once, and no secret anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.model.errors import TryLaterError
from monitor.polling.inventory.configuration import ConfigurationWatch
from tests.examples import examples
from tests.polling.conftest import Scenario
from tests.polling.tiny_workspace import NO_ROUTE, OVERLOADED, TinyWorkspace

PATH = "workspaces/current/configuration"
SCHEMA = "workspaces/current/configuration-schema"


async def read_settings(
    scenario: Scenario, workspace: TinyWorkspace, most: int = 2_000, **values: Any
) -> None:
    """Let the settings be these, and read them as after a start."""
    workspace.documents[PATH] = {name.replace("_", "."): value for name, value in values.items()}
    await ConfigurationWatch(scenario.context, most=most).poll()


async def test_a_change_is_published_with_its_old_and_new_value(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """Also one that came about while the monitor was not there; the initial poll is none."""
    await read_settings(scenario, workspace, region="us", size=1, old=True)
    await scenario.restart()
    await read_settings(scenario, workspace, region="eu", size=1, new={"deep": [2]})
    await read_settings(scenario, workspace, region="eu", size=1, new={"deep": [2]})

    assert await scenario.changes() == [
        ("configuration:new.deep.0", None, "2"),
        ("configuration:old", "true", None),
        ("configuration:region", "us", "eu"),
    ]


async def test_a_secret_that_changes_is_published_without_its_value(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """By its name, or because the workspace calls it secret, also when it did so once only."""
    workspace.documents[SCHEMA] = {"motto": {"type": "string", "secret": True}}
    await read_settings(scenario, workspace, mail_password="qzjx-one", motto="qzjx-two")
    await scenario.restart()
    workspace.faults[SCHEMA] = NO_ROUTE
    await read_settings(scenario, workspace, mail_password="qzjx-three", motto="qzjx-four")
    await read_settings(scenario, workspace, mail_password="", motto="qzjx-four")

    assert await scenario.changes() == [
        ("configuration:mail.password", "***", "***"),
        ("configuration:motto", "***", "***"),
        ("configuration:mail.password", "***", ""),
    ]


async def test_nothing_is_shown_while_secrets_are_not_known(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """A schema that cannot be read for now puts the whole reading off."""
    await read_settings(scenario, workspace, motto="a")
    workspace.faults[SCHEMA] = OVERLOADED
    with pytest.raises(TryLaterError):
        await read_settings(scenario, workspace, motto="qzjx")

    assert await scenario.changes() == []


async def test_very_many_settings_are_compared_in_part(
    scenario: Scenario, workspace: TinyWorkspace
) -> None:
    """The stored part has a bound, and the log reports that there is more."""
    with structlog.testing.capture_logs() as lines:
        for value in ("x", "y"):
            await read_settings(scenario, workspace, most=2, a=value, b=value, c=value)

    assert [what for what, _, _ in await scenario.changes()] == [
        "configuration:a",
        "configuration:b",
    ]
    assert any(line["event"] == "settings left out of the comparison" for line in lines)


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["password", "smtpPasswd", "api.key", "webhookSecret", "x.token.value"]),
    secrets=st.lists(
        st.text(alphabet="qzjxkvw", min_size=10, max_size=20), min_size=2, max_size=4, unique=True
    ),
)
async def test_no_secret_leaves_the_reading(
    scenario: Scenario, workspace: TinyWorkspace, name: str, secrets: list[str]
) -> None:
    """No event, log line, live state or file of the store contains it."""
    with structlog.testing.capture_logs() as lines:
        for secret in secrets:
            workspace.documents[PATH] = {name: secret, "other": len(lines)}
            await ConfigurationWatch(scenario.context, most=100).poll()
    shown = json.dumps(
        [await scenario.changes(), repr(lines), repr(scenario.live_state.workspaces)]
    )
    stored = b"".join(file.read_bytes() for file in _files(scenario.folder))

    assert [secret for secret in secrets if secret in shown or secret.encode() in stored] == []
    assert any("configuration changed" in line["event"] for line in lines)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
