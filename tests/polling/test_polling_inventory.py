"""What is read besides runs: counts, connections, tokens, usage and schedules."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.catalogue.capabilities import Capability
from monitor.catalogue.operations import Edition
from monitor.model.errors import TryLaterError
from monitor.model.inventory import Figures
from monitor.polling.inventory.connections import Connections
from monitor.polling.inventory.objects import Objects
from monitor.polling.inventory.tokens import Tokens
from monitor.polling.inventory.usage import Usage
from monitor.polling.poll_loop.poll import Poll
from monitor.polling.settings import InventorySettings, PollSettings
from tests.clocks import ManualClock
from tests.polling.conftest import NAME, Scenario, until
from tests.polling.tiny_workspace import FORBIDDEN, NO_ROUTE, OVERLOADED, Row, TinyWorkspace

COUNTS = {
    "connections": 4,
    "datasetLibrary": {"all": 9, "imported": 5, "recipes": 4},
    "flows": 3,
    "folders": 0,
    "outputObjects": 7,
    "plans": 2,
    "publications": {"files": 1, "tables": 2},
    "schedules": 1,
    "sqlScripts": 0,
    "userDefinedFunctions": 6,
    "wrangledDatasets": 5,
    "writeSettings": 8,
}


@pytest.fixture
async def reading(scenario: Scenario, workspace: TinyWorkspace) -> Scenario:
    """A scenario in which everything besides runs is read."""
    await scenario.close()
    scenario.inventory = InventorySettings(connections=True)
    await scenario.open()
    await scenario.begin()
    for path, count in COUNTS.items():
        workspace.documents[f"{path}/count"] = {"count": count}
    return scenario


def values_of(figures: Figures | None) -> dict[str, float]:
    assert figures is not None
    return figures.values


def connect(workspace: TinyWorkspace, **results: str) -> None:
    """Let the workspace have connections, each with the result of its status."""
    rows: list[Row] = [
        {"id": int(connection_name[1:]), "name": connection_name} for connection_name in results
    ]
    workspace.documents["connections"] = {"data": rows}
    for connection_name, result in results.items():
        workspace.documents[f"connections/{connection_name[1:]}/status"] = {"result": result}


async def test_every_type_is_counted_once(reading: Scenario, workspace: TinyWorkspace) -> None:
    """A count is a number, or the whole or the sum of its parts; everybody's objects count."""
    queries: dict[str, dict[str, str]] = {}
    workspace.before_answer = lambda path, query: queries.update({path: dict(query)})
    await Objects(reading.context).poll()

    assert values_of(reading.context.live_state.workspaces[NAME].inventory.objects) == {
        "connection": 4,
        "dataset": 9,
        "flow": 3,
        "folder": 0,
        "output_object": 7,
        "plan": 2,
        "publication": 3,
        "recipe": 5,
        "schedule": 1,
        "sql_script": 0,
        "write_setting": 8,
    }  # RL does not count user-defined functions
    assert len(queries) == 11
    assert queries["flows/count"] == {"flowsFilter": "all"}
    assert queries["plans/count"] == {"ownershipFilter": "all"}
    assert queries["datasetLibrary/count"]["datasetsFilter"] == "all"


async def test_one_count_that_fails_costs_no_other(
    reading: Scenario, workspace: TinyWorkspace
) -> None:
    """A refused count is absent and not requested again; a passing failure fails the poll."""
    workspace.faults = {"plans/count": FORBIDDEN, "flows/count": OVERLOADED}
    objects = Objects(reading.context)
    for _ in range(2):
        with pytest.raises(TryLaterError):
            await objects.poll()
    found = values_of(reading.context.live_state.workspaces[NAME].inventory.objects)

    assert len(found) == 9
    assert not {"plan", "flow"} & found.keys()
    assert workspace.count("plans/count") == 1


async def test_a_connection_that_goes_down_is_published_once(
    reading: Scenario, workspace: TinyWorkspace
) -> None:
    """Up and down are known of each; only a change of one that was known makes an event."""
    connections = Connections(reading.context, at_once=10)
    connect(workspace, c7="SUCCESS", c8="SUCCESS")
    await connections.poll()
    connect(workspace, c7="FAILURE", c8="success", c9="FAILURE")
    for _ in range(2):
        await connections.poll()
    status = reading.live_state.workspaces[NAME].inventory.connections

    assert {connection.name: connection.is_up for connection in status} == {
        "c7": False,
        "c8": True,
        "c9": False,
    }
    assert await reading.changes() == [("connection:7", "up", "down")]


async def test_a_connection_without_a_result_is_left_out(
    reading: Scenario, workspace: TinyWorkspace
) -> None:
    """Forbidden, deleted meanwhile or failing for now: not shown, and no change when it is back.

    One that the workspace refuses to open is down.
    """
    connections = Connections(reading.context, at_once=10)
    connect(workspace, c1="SUCCESS", c2="SUCCESS", c3="SUCCESS", c4="SUCCESS", c5="SUCCESS")
    await connections.poll()
    workspace.faults = {
        "connections/1/status": FORBIDDEN,
        "connections/2/status": (404, "DataNotFoundException"),
        "connections/3/status": OVERLOADED,
        "connections/4/status": (400, "DataServiceInvalidRequest"),
    }
    with pytest.raises(TryLaterError):
        await connections.poll()
    status = reading.live_state.workspaces[NAME].inventory.connections
    workspace.faults.clear()
    await connections.poll()

    assert {connection.name: connection.is_up for connection in status} == {
        "c4": False,
        "c5": True,
    }
    assert await reading.changes() == [
        ("connection:4", "up", "down"),
        ("connection:4", "down", "up"),
    ]


async def test_very_many_connections_cost_a_bounded_number_of_requests(
    reading: Scenario, workspace: TinyWorkspace
) -> None:
    """The lowest ids, as numbers, are read; the others are left out, not reported as gone."""
    connect(workspace, c9="SUCCESS", c10="SUCCESS", c100="SUCCESS")
    await Connections(reading.context, at_once=2).poll()

    assert [
        connection.id for connection in reading.live_state.workspaces[NAME].inventory.connections
    ] == ["9", "10"]
    assert workspace.count("connections/.*/status") == 2


async def test_tokens_that_expire_are_known(reading: Scenario, workspace: TinyWorkspace) -> None:
    """One that never expires has no time, so it has no figure."""
    workspace.documents["apiAccessTokens"] = {
        "data": [
            {"tokenId": "a-b", "expiredAt": "2026-12-01T00:00:00.000Z"},
            {"tokenId": "endless", "expiredAt": None},
        ]
    }
    await Tokens(reading.context).poll()

    expiry = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    assert values_of(reading.live_state.workspaces[NAME].inventory.tokens) == {"a-b": expiry}


@pytest.mark.parametrize(
    "body",
    [
        {"jobs": 3, "computeSeconds": 12.5, "projectId": 4, "from": "x", "data": [{"jobs": 99}]},
        {"data": [{"jobs": 1, "computeSeconds": 12}, {"jobs": 2, "computeSeconds": 0.5, "id": 1}]},
        [{"jobs": 3, "engine": "photon"}, {"computeSeconds": 12.5, "isOver": True}],
    ],
)
async def test_usage_of_this_month_is_known_as_served(
    reading: Scenario, workspace: TinyWorkspace, body: Row
) -> None:
    """Numbers of the answer, or sums over its rows; an id is no measure."""
    path = "usages/jobMetrics/compute/from/2026-11-01/to/2026-11-21"
    workspace.documents[path] = body
    reading.client.requester.edition = Edition.PL
    await Usage(reading.context).poll()

    found = values_of(reading.live_state.workspaces[NAME].inventory.usage)
    assert found == {"jobs": 3, "computeSeconds": 12.5}


async def test_a_schedule_that_is_disabled_is_published_with_its_reason(
    reading: Scenario, workspace: TinyWorkspace
) -> None:
    """A new schedule is no change; switching one off and on is one each."""
    row: Row = {"id": 5, "name": "nightly", "enabled": True, "status": ""}
    for change in (
        {},
        {"enabled": False, "disableReason": "owner left"},
        {"enabled": True, "disableReason": None},
    ):
        workspace.tables["schedules"][5] = {**row, **change}
        await reading.poll("schedules")
        workspace.tables["schedules"][6] = {**row, "id": 6}
    await reading.restart()
    await reading.poll("schedules")

    assert await reading.changes() == [
        ("schedule:5", "enabled", "disabled: owner left"),
        ("schedule:5", "disabled: owner left", "enabled"),
    ]


def inventory_polls(scenario: Scenario) -> dict[str, Poll]:
    names = ("objects", "connections", "tokens", "configuration", "usage", "profiles")
    return {name: scenario.declared[name] for name in names}


@pytest.mark.parametrize("switch", ["objects", "connections", "tokens", "usage", "profiles"])
async def test_each_is_switched_off_by_itself(scenario: Scenario, switch: str) -> None:
    """A switch turns off one poll and leaves the others."""
    await scenario.close()
    scenario.inventory = InventorySettings(**{"connections": True, switch: False})
    await scenario.open()
    names = {name for name, poll in inventory_polls(scenario).items() if poll.is_on}
    every = {"objects", "connections", "tokens", "configuration", "usage", "profiles"}

    assert names == every - {switch}


async def test_connections_are_opened_only_when_switched_on(scenario: Scenario) -> None:
    """Testing a connection may wake its target, so it is off by default."""
    await scenario.close()
    scenario.inventory = InventorySettings()
    await scenario.open()

    polls = {name: poll.is_on for name, poll in inventory_polls(scenario).items()}
    assert polls.pop("connections") is False
    assert all(polls.values())


@pytest.mark.parametrize(
    ("edition", "names"),
    [
        (Edition.PC, set()),
        (Edition.LE, {"objects"}),
        (Edition.PL, {"objects", "connections", "configuration", "usage", "profiles"}),
        (Edition.RL, {"objects", "connections", "configuration", "tokens", "profiles"}),
    ],
)
async def test_only_what_the_edition_serves_is_read(
    unbegun: Scenario, edition: Edition, names: set[str]
) -> None:
    """Each edition has its own of them; nothing else is ever sent."""
    await unbegun.close()
    unbegun.inventory = InventorySettings(connections=True)
    await unbegun.open()
    await unbegun.begin(edition)
    able = {
        name
        for name, poll in inventory_polls(unbegun).items()
        if poll.needs is not None and unbegun.context.can(poll.needs)
    }

    assert able == names


async def test_a_running_poller_reads_slowly_and_forgets_what_is_lost(
    clock: ManualClock, workspace: TinyWorkspace, tmp_path: Path, settings: PollSettings
) -> None:
    """Each is read once an interval; what the workspace no longer serves is not shown."""
    scenario = Scenario(
        clock=clock,
        folder=tmp_path,
        url=workspace.url,
        settings=settings,
        inventory=InventorySettings(interval_seconds=900),
    )
    await scenario.open()
    for path, count in COUNTS.items():
        workspace.documents[f"{path}/count"] = {"count": count}
    running = asyncio.create_task(scenario.poller().run())
    try:
        await until(lambda: scenario.live_state.workspaces[NAME].inventory.objects is not None)
        first = workspace.count("flows/count")
        workspace.faults["outputObjects/count"] = NO_ROUTE
        for _ in range(100):
            await clock.advance(20)
        second = workspace.count("flows/count")
        await until(lambda: not scenario.context.can(Capability.COUNT_OBJECTS))
        for _ in range(100):
            await clock.advance(10)
        await until(lambda: scenario.live_state.workspaces[NAME].inventory.objects is None)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await scenario.close()

    assert first == 1
    assert 2 <= second <= 4


async def test_rows_of_a_poll_that_was_switched_off_are_not_shown_any_more(
    reading: Scenario, workspace: TinyWorkspace
) -> None:
    """A reload that turns a poll off drops what it had read."""
    await Objects(reading.context).poll()
    assert reading.live_state.workspaces[NAME].inventory.objects is not None
    reading.inventory = None
    running = asyncio.create_task(reading.poller().run())
    try:
        await until(lambda: reading.live_state.workspaces[NAME].inventory.objects is None)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert workspace.count("flows/count") == 1


async def test_runs_are_read_before_all_this(
    clock: ManualClock, workspace: TinyWorkspace, tmp_path: Path, settings: PollSettings
) -> None:
    """With twelve requests a minute the counts wait, the list of changes does not."""
    scenario = Scenario(
        clock=clock,
        folder=tmp_path,
        url=workspace.url,
        settings=settings,
        requests_per_minute=12,
        inventory=InventorySettings(),
    )
    await scenario.open()
    for path, count in COUNTS.items():
        workspace.documents[f"{path}/count"] = {"count": count}
    await scenario.begin()
    await clock.advance(60)
    counting = asyncio.create_task(Objects(scenario.context).poll())
    try:
        await until(lambda: workspace.count(".*/count") == 1)
        began = clock.monotonic()
        await scenario.polls.changes.poll()
        assert clock.monotonic() == began
        assert workspace.count(".*/count") == 1
        while not counting.done():
            await clock.advance(1)
            await asyncio.wait([counting], timeout=0.01)
        await counting
    finally:
        counting.cancel()
        await scenario.close()

    assert workspace.count(".*/count") == 11
    assert clock.monotonic() - began >= 10 * 60 / 12
