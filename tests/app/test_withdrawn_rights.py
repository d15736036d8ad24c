"""A daemon whose token loses the right to list what it follows, and gets it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.config import Configuration
from monitor.sandbox.sandbox import Sandbox
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.clocks import FastClock


def watching(folder: Path, workspace: Sandbox, url: str) -> Configuration:
    rule = msgspec.structs.replace(default_rule(RuleKind.WORKSPACE_UNREACHABLE), for_seconds=1.0)
    return msgspec.structs.replace(
        fixture.configuration(folder, fixture.workspace_configuration(workspace, url)),
        alerting=AlertingSettings(
            rules=(rule,), with_defaults=False, evaluation_interval_seconds=0.2
        ),
    )


async def alerts(face: Face) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = (await face.json("/api/v1/alerts?state=firing"))["data"]
    return data


@pytest.mark.parametrize(
    ("operation_id", "capability"),
    [
        ("listJobLibrary", "list_changes"),
        ("listPlanSnapshotRuns", "list_plan_runs"),
        ("listSchedules", "read_schedules"),
    ],
)
async def test_withdrawn_rights_fire_until_they_are_back(
    tmp_path: Path, operation_id: str, capability: str
) -> None:
    """A workspace that can no longer be followed is never fine, also not after a restart."""
    clock = FastClock()
    workspace = fixture.sandbox(clock=clock)
    async with fixture.started(workspace) as url:
        settings = watching(tmp_path, workspace, url)

        async def fires(face: Face) -> bool:
            firing = await alerts(face)
            reasons = [str(alert["facts"]["reason"]) for alert in firing]
            ability = capability.replace("_", " ")
            return len(reasons) == 1 and "refused since" in reasons[0] and ability in reasons[0]

        async def is_over(face: Face) -> bool:
            return not await alerts(face)

        async with fixture.daemon(settings, clock=clock) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            await eventually(
                lambda: face.shows("dataprep_capability", 1, capability=capability), why="missing"
            )
            workspace.world.options.lose[operation_id] = 0.0
            await eventually(lambda: fires(face), why="the refusal is not published")
            assert await face.shows("dataprep_capability", 0, capability=capability)
            assert not (await face.readiness()).checks["polls"]["ok"]
            refused = "dataprep_capability_refused_timestamp_seconds"
            since = await face.metric(refused, capability=capability)
            assert since is not None
        async with fixture.daemon(settings, clock=clock) as face:
            await eventually(lambda: fires(face), why="the restart has forgotten the refusal")
            await eventually(
                lambda: face.shows(refused, since, capability=capability), why="another start"
            )
            del workspace.world.options.lose[operation_id]
            await eventually(lambda: is_over(face), why="it does not end")
            rows = (await face.json("/api/v1/events?limit=1000"))["data"]
            types = [event["type"] for event in rows]
            assert [name for name in types if name.startswith("dataprep.alert.")] == [
                "dataprep.alert.fired.v1",
                "dataprep.alert.resolved.v1",
            ]
