"""A workspace with a past, in which some things go wrong, and the daemon that follows it.

The daemon follows a second workspace, whose names are made to harm: markup, control characters,
text from right to left, and 5,000 characters without a place to break.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
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
from monitor.sandbox.world.records.objects import Flow, Plan, Recipe
from monitor.web.settings import ServerSettings
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually

ERROR = "The dataset of the recipe has a column that cannot be read: customer_id"
HOSTILE_NAMES = (
    "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">",
    "}}{{ 7 * 7 }}{% raw %}'\"></table></main><h1>owned</h1><!--",
    "\x1b[2J\x07\x00\u200b\u2028control\x9b characters\r\nSet-Cookie: owned=1",
    "\u202e\u2066\u05e2\u05d1\u05e8\u05d9\u05ea \u0627\u0644\u0639\u0631\u0628\u064a\u0629 gnp.exe",
    "W" * 5_000,
    "\u05d0\u0627\N{FAMILY}" * 1_700,
)
_FLOWS = 300
_PAST = timedelta(hours=4)  # a week takes the daemon half a minute to read
_KEPT_SECONDS = 16
_POLL = PollSettings(
    active_seconds=1,
    idle_seconds=1,
    wake_gap_seconds=0.2,
    reconcile_seconds=30,
    names_seconds=60,
    schedules_seconds=60,
    detail_wait_seconds=0.2,
    recovery_seconds=1,
)


@dataclass
class LivingWorkspace:
    """What runs. ``ids`` are those that the paths of pages need, by name.

    ``hostile_ids`` are the same of the workspace whose names are made to harm.
    """

    sandbox: Sandbox
    face: Face
    settings: Configuration
    ids: dict[str, str] = field(default_factory=dict)
    hostile_ids: dict[str, str] = field(default_factory=dict)

    def start(self, outcome: Outcome, *, number: int = 0) -> str:
        """Start a job group of a recipe that runs alone, and return its id."""
        return start(self.sandbox, outcome, number=number)

    async def shows(self, run_id: str, status: str) -> bool:
        """Return whether the daemon knows the job group in this status."""
        rows = (await self.face.json("/api/v1/runs?limit=1000"))["data"]
        return any((row["id"], row["status"]) == (run_id, status) for row in rows)

    async def knows(self, *run_ids: str) -> bool:
        """Return whether the daemon knows all of these runs."""
        rows = (await self.face.json("/api/v1/runs?limit=1000"))["data"]
        return {row["id"] for row in rows}.issuperset(run_ids)

    def url(self, template: str, ids: Mapping[str, str] | None = None) -> str:
        """Return the address of a page whose names in braces are filled in."""
        return self.face.url + template.format_map(self.ids if ids is None else ids)


def start(sandbox: Sandbox, outcome: Outcome, *, number: int = 0) -> str:
    """Start a job group of the recipe with that number, and return its id."""
    recipe = recipes(sandbox)[number]
    order = Order(flow_id=recipe.flow_id, outcome=outcome, work_seconds=60, queue_seconds=1)
    if outcome is Outcome.FAILED:
        order = dataclasses.replace(order, error_message=ERROR)
    sandbox.engine.order(order)
    return str(sandbox.engine.start_job_group(recipe, by=recipe.creator_id).id)


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
        replace(fixture.workspace_configuration(sandbox, url, name=name), poll=_POLL)
        for name, (sandbox, url) in workspaces.items()
    )
    server = ServerSettings(listen=f"127.0.0.1:{port}")
    return replace(fixture.configuration(folder, *followed), server=server)


def hostile_workspace() -> Sandbox:
    """Return a workspace whose flows, recipes and plans have names that are made to harm."""
    sandbox = workspace_of(flows=len(HOSTILE_NAMES), past=None)
    world = sandbox.world
    for records in (world.flows.live(), world.recipes.live(), world.plans.live()):
        for record, name in zip(records, itertools.cycle(HOSTILE_NAMES), strict=False):
            assert isinstance(record, (Flow, Recipe, Plan))
            record.name = name
    return sandbox


@contextlib.asynccontextmanager
async def living_workspace(folder: Path) -> AsyncIterator[LivingWorkspace]:
    """Yield workspaces whose failed runs have their alerts, and in which other runs go on."""
    sandbox, hostile = workspace_of(), hostile_workspace()
    async with fixture.started(sandbox) as url, fixture.started(hostile) as hostile_url:
        settings = settings_of(folder, {"acme": (sandbox, url), "hostile": (hostile, hostile_url)})
        async with fixture.daemon(settings) as face:
            await eventually(lambda: face.is_following("acme", "hostile"), why="not followed")
            living = LivingWorkspace(sandbox, face, settings)
            living.ids = await _begin(living, sandbox, "acme")
            living.hostile_ids = await _begin(living, hostile, "hostile")
            await _go_away(living, sandbox, hostile)
            await _leave_audit_lines(face)
            yield living


async def _go_away(living: LivingWorkspace, *sandboxes: Sandbox) -> None:
    """Let the workspaces not answer until that is kept, and name the instant of the outage."""

    async def lasts(*, is_over: bool) -> bool:
        rows = (await living.face.json("/api/v1/outages"))["data"]
        known = [
            row
            for row in rows
            # Kept is what lasts longer than the time after which reachability is stored.
            if not row["is_partial"]
            and row["is_over"] == is_over
            and row["seconds"] > _KEPT_SECONDS
        ]
        begins = {row["workspace"]: row["since"] for row in known}
        for name, ids in (("acme", living.ids), ("hostile", living.hostile_ids)):
            ids["outage"] = begins.get(name, "")
        return len(begins) == len(sandboxes)

    for sandbox in sandboxes:
        sandbox.world.options.status_503 = 1.0
    await eventually(lambda: lasts(is_over=False), why="the outages are not seen")
    for sandbox in sandboxes:
        sandbox.world.options.status_503 = 0.0
    await eventually(lambda: lasts(is_over=True), why="the outages are not over")


async def _leave_audit_lines(face: Face) -> None:
    """Ask for what there is not, in words that are made to harm; the audit shows them."""
    for words in HOSTILE_NAMES:
        refused = await face.post(
            "/api/v1/acknowledgements",
            fingerprint="0" * 16,
            starts_at="2026-11-21T10:00:00Z",
            author=words[:500],
            comment=words,
        )
        assert refused["status"] in (400, 404)


async def _begin(living: LivingWorkspace, sandbox: Sandbox, workspace: str) -> dict[str, str]:
    """Let runs fail and others go on, and return the ids once the daemon knows of all of it."""
    count = min(len(HOSTILE_NAMES), len(recipes(sandbox)) - 1)
    failed = [start(sandbox, Outcome.FAILED, number=number) for number in range(count)]
    active = start(sandbox, Outcome.HANG, number=count)
    # Nothing ends any more: a success would resolve an alert.
    sandbox.engine.order(Order(count=1_000_000, outcome=Outcome.HANG))
    flow, plan = next(sandbox.world.flows.live()), next(sandbox.world.plans.live())
    flow_run = str(sandbox.engine.start_flow_run(flow, by=flow.creator_id).id)
    plan_run = str(sandbox.engine.start_plan_run(plan, by=plan.creator_id).id)
    await eventually(lambda: living.knows(flow_run, plan_run), why="no flow or plan runs")
    for run_id in failed:
        await eventually(lambda: living.shows(run_id, "failed"), why="nothing failed")  # noqa: B023 - waited for here
    await eventually(lambda: living.shows(active, "running"), why="nothing runs")
    alerts: list[str] = []

    async def are_alerted() -> bool:
        rows = (await living.face.json("/api/v1/alerts"))["data"]
        alerts[:] = [
            row["fingerprint"]
            for row in rows
            if (row["workspace"], row["rule"]) == (workspace, "run_failed")
        ]
        return len(alerts) >= len(failed)

    await eventually(are_alerted, why="too few alerts fire")
    return {
        "workspace": workspace,
        "kind": "job_group",
        "failed": failed[0],
        "active": active,
        "flow": str(recipes(sandbox)[0].flow_id),
        "long": str(recipes(sandbox)[count - 2].flow_id),
        "plan": str(plan.id),
        "flow_run": flow_run,
        "plan_run": plan_run,
        "fingerprint": alerts[0],
    }
