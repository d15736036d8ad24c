"""A workspace with a past, in which some things go wrong, and the daemon that follows it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from monitor.config import Configuration
from monitor.model.clock import SystemClock
from monitor.polling.settings import PollSettings
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings
from monitor.sandbox.world.records.objects import Recipe
from monitor.web.settings import ServerSettings
from tests.app import stage
from tests.app.daemon_http import Face
from tests.app.eventually import eventually

ERROR = "The dataset of the recipe has a column that cannot be read: customer_id"
_FLOWS = 300
_PAST = timedelta(hours=4)  # a week takes the daemon half a minute to read
_POLL = PollSettings(
    active_seconds=1,
    idle_seconds=1,
    wake_gap_seconds=0.2,
    reconcile_seconds=30,
    names_seconds=60,
    schedules_seconds=60,
    detail_wait_seconds=0.2,
    connect_wait_cap_seconds=1,
)


@dataclass
class LivingWorkspace:
    """What runs. ``ids`` are those that the paths of pages need, by name."""

    sandbox: Sandbox
    face: Face
    settings: Configuration
    ids: dict[str, str] = field(default_factory=dict)

    def start(self, outcome: Outcome, *, number: int = 0, work_seconds: float = 60) -> str:
        """Start a job group of a recipe that runs alone, and return its id."""
        recipe = recipes(self.sandbox)[number]
        self.sandbox.engine.order(
            Order(
                flow_id=recipe.flow_id,
                outcome=outcome,
                work_seconds=work_seconds,
                queue_seconds=1,
                error_message=ERROR if outcome is Outcome.FAILED else None,
            )
        )
        return str(self.sandbox.engine.start_job_group(recipe, by=recipe.creator_id).id)

    async def shows(self, run_id: str, status: str) -> bool:
        """Return whether the daemon knows the job group in this status."""
        rows = (await self.face.json("/api/v1/runs?limit=1000"))["data"]
        return any((row["id"], row["status"]) == (run_id, status) for row in rows)

    def path(self, template: str) -> str:
        """Return the path of a page whose names in braces are filled in."""
        return template.format_map(self.ids)


def recipes(sandbox: Sandbox) -> list[Recipe]:
    """Return recipes that can run, of one flow each."""
    world = sandbox.world
    by_flow: dict[int, Recipe] = {}
    for recipe in world.recipes.live():
        if world.outputs_of(recipe.id):
            by_flow.setdefault(recipe.flow_id, recipe)
    return list(by_flow.values())


def workspace_of(flows: int = _FLOWS, past: timedelta | None = _PAST) -> Sandbox:
    """Return a workspace that has not started, has a past, and starts nothing by itself."""
    sandbox = Sandbox(
        SandboxSettings(
            flows=flows,
            traffic=None,
            schedules_fire=False,
            work=WorkSettings(speed=60, is_regular=True, failure_factor=0.1, cancel_ratio=0.005),
        ),
        SystemClock(),
    )
    if past:
        sandbox.live_through(sandbox.world.clock.now() - past)
    return sandbox


def settings_of(
    folder: Path, workspaces: Mapping[str, tuple[Sandbox, str]], *, port: int = 0
) -> Configuration:
    """Return settings of a daemon that follows these workspaces, each with its URL."""
    followed = (
        replace(stage.workspace_configuration(sandbox, url, name=name), poll=_POLL)
        for name, (sandbox, url) in workspaces.items()
    )
    server = ServerSettings(listen=f"127.0.0.1:{port}")
    return replace(stage.configuration(folder, *followed), server=server)


@contextlib.asynccontextmanager
async def living_workspace(folder: Path) -> AsyncIterator[LivingWorkspace]:
    """Yield a workspace whose failed run has its alert, and in which another run goes on."""
    sandbox = workspace_of()
    async with stage.started(sandbox) as url:
        settings = settings_of(folder, {"acme": (sandbox, url)})
        async with stage.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme"), why="not followed")
            living = LivingWorkspace(sandbox, face, settings)
            failed = living.start(Outcome.FAILED, number=0)
            active = living.start(Outcome.HANG, number=1)
            living.ids |= {"failed": failed, "active": active, "workspace": "acme"}
            living.ids["flow"] = str(recipes(sandbox)[0].flow_id)
            await eventually(lambda: living.shows(failed, "failed"), why="nothing failed")
            await eventually(lambda: living.shows(active, "running"), why="nothing runs")
            await eventually(lambda: _is_alerted(face), why="no alert fires")
            yield living


async def _is_alerted(face: Face) -> bool:
    alerts = (await face.json("/api/v1/alerts"))["data"]
    return any(alert["rule"] == "run_failed" for alert in alerts)
