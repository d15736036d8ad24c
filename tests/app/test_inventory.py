"""What a whole daemon reports of a workspace's inventory, and of operations that disappear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from monitor.catalogue.operations import Edition
from monitor.config import WorkspaceConfiguration
from monitor.polling.settings import InventorySettings
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.objects import Flow, Schedule
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.clocks import FastClock

QUICK = InventorySettings(interval_seconds=0.5, connections=True)
SECRET = "qzjx-password-of-the-mail-server"


def quick(workspace: Sandbox, url: str) -> WorkspaceConfiguration:
    """Return settings under which everything is read often."""
    settings = fixture.workspace_configuration(workspace, url, inventory=QUICK)
    poll = msgspec.structs.replace(
        settings.poll, reconcile_seconds=1.0, names_seconds=1.0, schedules_seconds=1.0
    )
    return msgspec.structs.replace(settings, poll=poll)


async def call(workspace: Sandbox, url: str, method: str, path: str, body: object = None) -> Any:
    """Do something in the workspace as its owner does."""
    headers = {"Authorization": f"Bearer {workspace.token}"}
    async with (
        aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=10)) as session,
        session.request(method, f"{url}/v4/{path}", json=body) as answer,
    ):
        assert answer.status < 300, await answer.text()
        return await answer.json()


async def changes(face: Face) -> dict[str, list[tuple[str | None, str | None]]]:
    """Return what changed of the workspace itself, with old and new values."""
    received: dict[str, list[tuple[str | None, str | None]]] = {}
    for event in (await face.json("/api/v1/events?limit=1000"))["data"]:
        data = event["data"]
        if "what" in data:
            received.setdefault(data["what"], []).append((data["before"], data["after"]))
    return received


async def shown(face: Face, name: str, **labels: str) -> None:
    """Wait until a metric has a value that is not 0."""

    async def is_shown() -> bool:
        return bool(await face.metric(name, **labels))

    await eventually(is_shown, why=f"no {name}")


async def test_a_workspace_is_reported_beyond_its_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Counts, connections, tokens, schedules, settings and quality, as they are and change."""
    clock = FastClock()
    workspace = fixture.sandbox(clock=clock)
    async with (
        fixture.started(workspace) as url,
        fixture.daemon(fixture.configuration(tmp_path, quick(workspace, url)), clock=clock) as face,
    ):
        flows = len(list(workspace.world.shelf(Flow).live()))
        await eventually(
            lambda: face.shows("dataprep_objects", flows, type="flow"), why="flows not counted"
        )
        await shown(face, "dataprep_objects", type="connection")
        await shown(face, "dataprep_connection_up", workspace="acme")
        up = await face.total("dataprep_connection_up", workspace="acme")
        assert up == await face.total("dataprep_objects", type="connection") > 0
        workspace.world.options.connections_down = 1.0

        token = await call(workspace, url, "POST", "apiAccessTokens", {"lifetimeSeconds": 86_400})
        token_id = token["tokenInfo"]["tokenId"]
        await shown(face, "dataprep_token_expiry_timestamp_seconds", token_id=token_id)

        schedule = next(
            schedule
            for schedule in workspace.world.shelf(Schedule).live()
            if schedule.enabled and schedule.creator_id == 11
        )
        settings = [
            {"key": "jobs.profilingByDefault", "value": True},
            {"key": "mail.password", "value": SECRET},
        ]
        await call(workspace, url, "POST", f"schedules/{schedule.id}/disable", {})
        await call(
            workspace, url, "PATCH", "workspaces/current/configuration", {"configuration": settings}
        )

        async def is_notified() -> bool:
            return (
                await face.total("dataprep_connection_up") == 0
                and {
                    f"schedule:{schedule.id}",
                    "configuration:jobs.profilingByDefault",
                    "configuration:mail.password",
                }
                <= (await changes(face)).keys()
            )

        await eventually(is_notified, why="the changes are not published")
        received = await changes(face)
        assert await face.total("dataprep_connection_up", workspace="acme") == 0
        assert [change for change in received if change.startswith("connection:")]
        assert received["configuration:jobs.profilingByDefault"] == [("false", "true")]
        assert received["configuration:mail.password"][0][1] == "***"
        assert str(received[f"schedule:{schedule.id}"][0][1]).startswith("disabled")
        assert await face.metric("dataprep_schedule_enabled", schedule=schedule.name) == 0
        pages = [await face.text(path) for path in ("/", "/metrics", "/api/v1/events?limit=1000")]
        assert SECRET not in "".join([*pages, caplog.text])


async def test_the_quality_of_outputs_is_shown_after_their_runs(tmp_path: Path) -> None:
    """Of each profiled output the shares of its values make one whole."""
    clock = FastClock()
    workspace = fixture.sandbox(cancel_ratio=0.0, clock=clock)
    async with (
        fixture.started(workspace) as url,
        fixture.daemon(fixture.configuration(tmp_path, quick(workspace, url)), clock=clock) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        workspace.open_for_work()
        name = "dataprep_output_values_ratio"
        await shown(face, name, quality="valid")
        workspace.freeze()
        valid, whole = await face.total(name, quality="valid"), await face.total(name)

        assert whole == pytest.approx(round(whole))
        assert 0 < valid < whole


async def test_usage_is_shown_where_the_edition_has_it(tmp_path: Path) -> None:
    """Professional reports its measures; they grow with the runs."""
    clock = FastClock()
    workspace = fixture.sandbox(Edition.PL, clock=clock)
    async with (
        fixture.started(workspace) as url,
        fixture.daemon(fixture.configuration(tmp_path, quick(workspace, url)), clock=clock) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        workspace.open_for_work()
        await shown(face, "dataprep_usage", measure="computeSeconds")
        assert await face.metric("dataprep_token_expiry_timestamp_seconds") is None
        assert await face.metric("dataprep_capability", capability="read_tokens") == 0


async def test_a_renewed_workspace_is_followed_as_far_as_it_goes(tmp_path: Path) -> None:
    """Capabilities, and what rested on them, go from page and metrics, and come back.

    What was offered is refused, which is no edition: only the operator knows that it is meant so.
    """
    clock = FastClock()
    workspace = fixture.sandbox(clock=clock)
    async with (
        fixture.started(workspace) as url,
        fixture.daemon(fixture.configuration(tmp_path, quick(workspace, url)), clock=clock) as face,
    ):
        await shown(face, "dataprep_objects", type="flow")
        workspace.world.options.renewal = 0.0
        listing = {"workspace": "acme", "capability": "list_changes"}
        await eventually(
            lambda: face.shows("dataprep_capability", 0, **listing), why="the loss is not shown"
        )

        async def is_forgotten() -> bool:
            recorded = "capability:list_changes" in await changes(face)
            return recorded and await face.metric("dataprep_objects") is None

        await eventually(is_forgotten, why="what was lost is still shown")
        received = await changes(face)
        assert "edition" not in received
        assert received["capability:list_changes"] == [("available", "refused")]
        assert await face.metric("dataprep_capability", capability="list_flows") == 1
        assert await face.metric("dataprep_workspace_up", workspace="acme") == 1

        workspace.world.options.renewal = None
        await eventually(
            lambda: face.shows("dataprep_capability", 1, **listing), why="it does not come back"
        )
        await shown(face, "dataprep_objects", type="flow")
        assert (await changes(face))["capability:list_changes"][1:] == [("refused", "available")]
