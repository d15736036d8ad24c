"""``doctor`` shows whose schedules are watched, and which of them have no time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from monitor.catalogue.capabilities import Capability
from monitor.catalogue.operations import Edition
from monitor.cli.doctor_checks.schedules import check_schedules
from monitor.model.checks import CheckLine, CheckOutcome
from monitor.workspace.client import WorkspaceClient
from tests.cli.doctor_scenario import EditionWorkspace, workspace_at
from tests.clocks import ManualClock
from tests.polling.tiny_workspace import OVERLOADED

BOTH = frozenset({Capability.READ_SCHEDULES, Capability.KNOW_THE_PERSON})


@pytest.fixture
async def workspace() -> AsyncIterator[EditionWorkspace]:
    made = EditionWorkspace(ManualClock())
    made.become(Edition.RL)
    await made.start()
    yield made
    await made.stop()


def put(workspace: EditionWorkspace, number: int, timed: Any, *, is_enabled: bool = True) -> None:
    """Write a schedule with one trigger."""
    trigger = timed if "fileWatcher" in timed else {"timeBased": {**timed, "timezone": "UTC"}}
    workspace.tables["schedules"][number] = {
        "id": number,
        "name": f"s{number}",
        "enabled": is_enabled,
        "triggers": [trigger],
        "tasks": [],
    }


async def report(
    workspace: EditionWorkspace, capabilities: frozenset[Capability] = BOTH
) -> list[CheckLine]:
    settings = workspace_at(workspace.url).workspace
    async with WorkspaceClient(
        settings, clock=workspace.clock, registry=CollectorRegistry()
    ) as client:
        return await check_schedules(client, "schedules", capabilities)


async def test_watched_pipelines_are_counted_and_have_an_owner(workspace: EditionWorkspace) -> None:
    """The person is named where the edition reports, and still where it does not answer."""
    put(workspace, 1, {"hourly": {"minuteOfHour": 30}})
    put(workspace, 2, {"hourly": {"minuteOfHour": 30}}, is_enabled=False)
    (line,) = await report(workspace)
    assert line.found == (
        "2 visible, 1 of them disabled; all of ada@example.com, those of others are not watched"
    )
    (line,) = await report(workspace, frozenset({Capability.READ_SCHEDULES}))
    assert "all of the token's owner" in line.found
    workspace.refuse("getCurrentPerson", OVERLOADED)
    (line,) = await report(workspace)
    assert line.outcome is CheckOutcome.OK
    assert "all of the token's owner" in line.found


async def test_an_unreadable_expression_is_reported_with_its_problem(
    workspace: EditionWorkspace,
) -> None:
    """Nothing is expected of it, so nothing would be missed; a disabled one does no harm."""
    put(workspace, 1, {"cron": {"expression": "0 0 25 * * ?"}})
    put(workspace, 2, {"cron": {"expression": "never"}}, is_enabled=False)
    _, line = await report(workspace)
    assert line.outcome is CheckOutcome.WARNING
    assert line.found.startswith("'s1' is not watched: cron hour '25': expected 0 to 23")
    assert "with expect" in str(line.hint)


async def test_very_many_are_named_by_the_first_three(workspace: EditionWorkspace) -> None:
    """A sentence stays one that can be read."""
    for number in range(1, 8):
        put(workspace, number, {"cron": {"expression": "bad"}})
    _, line = await report(workspace)
    assert line.found.count("is not watched") == 3
    assert line.found.endswith("; and 4 more")


async def test_watchers_of_files_name_no_time(workspace: EditionWorkspace) -> None:
    """They are well, and cannot be missed."""
    put(workspace, 1, {"fileWatcher": {"path": "/in", "interval": 1_000}})
    _, line = await report(workspace)
    assert line.outcome is CheckOutcome.OK
    assert line.found == "'s1' wait for data: they have no time to watch"


async def test_no_schedule_at_all_is_a_warning(workspace: EditionWorkspace) -> None:
    """Those of others are hidden, and perhaps they are the ones that matter."""
    (line,) = await report(workspace)
    assert line.outcome is CheckOutcome.WARNING
    assert line.found == "none is visible: the API shows only those of ada@example.com"
    (line,) = await report(workspace, frozenset())
    assert line.found == "not offered: expected starts are unknown"
