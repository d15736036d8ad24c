"""What happens so that each rule about a workspace begins to hold, and what ends it.

Limits are seconds, so that the scenarios play on wall time; those that need the workspace as a
whole play alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.objects import Recipe, Token
from tests.app.daemon_http import Face
from tests.app.eventually import eventually, pause
from tests.outputs.receiving import PostReceiver

EVALUATION_INTERVAL_SECONDS = 0.2
_GOOD_PROFILES = 3
_MISSES = 3
_TASK_SECONDS = 2.2  # clocks tell whole seconds, so a run made earlier is unknown
_SECONDS_APART = 2.0  # likewise: of two ends in one second the later one is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """Where the scenarios play: one recipe is profiled, another runs; a receiver is notified."""

    workspace: Sandbox
    profiled: Recipe
    other: Recipe
    receiver: PostReceiver
    face: Face

    def run(self, recipe: Recipe) -> None:
        """Let a recipe run to its end, which takes less than a second."""
        order = Order(
            recipe_id=recipe.id, outcome=Outcome.COMPLETE, queue_seconds=1, work_seconds=1
        )
        self.workspace.engine.order(order)
        self.workspace.engine.start_job_group(
            recipe, by=recipe.creator_id, profiling=recipe is self.profiled
        )

    async def run_with_profile(self) -> None:
        """Let the recipe run, and return when its profile has been read."""

        async def ratio() -> float | None:
            return await self.face.metric("dataprep_output_values_ratio", quality="valid")

        before = await ratio()
        self.run(self.profiled)

        async def is_read() -> bool:
            return await ratio() not in (before, None)

        await eventually(is_read, why="the profile is not read")
        await pause(2 * EVALUATION_INTERVAL_SECONDS)  # the rule must evaluate each of them


Play = Callable[[Fixture], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceScenario:
    """One rule with limits for a test, and how to make it hold and hold no more."""

    rule: RuleKind
    begin: Play
    finish: Play
    changed: dict[str, Any]
    is_alone: bool = False

    def settings(self) -> RuleSettings:
        return msgspec.structs.replace(default_rule(self.rule), **self.changed)


async def _new_token(fixture: Fixture) -> None:
    world = fixture.workspace.world
    own = next(token for token in world.tokens.live() if token.value == fixture.workspace.token)
    world.create(
        Token,
        by=own.creator_id,
        token_id="soon",
        value="another",
        expires_at=world.now() + timedelta(days=1),
    )


async def _token_deleted(fixture: Fixture) -> None:
    tokens = fixture.workspace.world.tokens
    fixture.workspace.world.delete(
        next(token for token in tokens.live() if token.token_id == "soon")
    )


async def _data_goes_bad(fixture: Fixture) -> None:
    for _ in range(_GOOD_PROFILES):
        await fixture.run_with_profile()
    fixture.workspace.world.options.unfit_values = 0.5
    await pause(_SECONDS_APART)
    await fixture.run_with_profile()


async def _data_is_good_again(fixture: Fixture) -> None:
    fixture.workspace.world.options.unfit_values = 0.0
    await pause(_SECONDS_APART)
    await fixture.run_with_profile()


async def _callbacks_get_lost(fixture: Fixture) -> None:
    await eventually(fixture.face.has_webhook_tasks, why="no tasks")
    await pause(_TASK_SECONDS)
    fixture.workspace.world.options.callback_lost = 1.0
    for _ in range(_MISSES):
        fixture.run(fixture.other)


async def _callbacks_come(fixture: Fixture) -> None:
    fixture.workspace.world.options.callback_lost = 0.0


async def _receiver_refuses(fixture: Fixture) -> None:
    fixture.receiver.status_for = lambda _: 503
    fixture.run(fixture.other)


async def _receiver_accepts(fixture: Fixture) -> None:
    fixture.receiver.status_for = None


async def _refused(fixture: Fixture) -> None:
    fixture.workspace.world.options.retry_after_seconds = 0.2
    fixture.workspace.world.options.status_429 = 1.0


async def _run_vanishes(fixture: Fixture) -> None:
    engine = fixture.workspace.engine
    recipe = fixture.other
    engine.order(Order(recipe_id=recipe.id, outcome=Outcome.HANG, queue_seconds=0, work_seconds=1))
    gone = engine.start_job_group(recipe, by=recipe.creator_id)

    async def is_running() -> bool:
        runs = (await fixture.face.json("/api/v1/runs?limit=500"))["data"]
        return any(run["id"] == str(gone.id) and run["status"] == "running" for run in runs)

    await eventually(is_running, why="the run is not observed")
    engine.delete_run(gone)


async def _run_succeeds(fixture: Fixture) -> None:
    await pause(_SECONDS_APART)
    fixture.run(fixture.other)


def _owner_is_administrator(*, is_admin: bool) -> Play:
    """Without that right, the token's owner sees only the flows and plans that are shared."""

    async def play(fixture: Fixture) -> None:
        world = fixture.workspace.world
        owner = world.person_of(fixture.workspace.token)
        plan = next(world.plans.live())  # where none were left, their list would be doubted
        assert owner is not None
        world.update(plan, shared_with=frozenset({owner.id}))
        world.update(owner, is_admin=is_admin)

    return play


def _fault(name: str, ratio: float) -> Play:
    async def play(fixture: Fixture) -> None:
        setattr(fixture.workspace.world.options, name, ratio)

    return play


WORKSPACE_SCENARIOS = (
    WorkspaceScenario(
        rule=RuleKind.TOKEN_EXPIRING, begin=_new_token, finish=_token_deleted, changed={}
    ),
    WorkspaceScenario(
        rule=RuleKind.QUALITY_DROPPED,
        begin=_data_goes_bad,
        finish=_data_is_good_again,
        changed={"minimum": _GOOD_PROFILES},
    ),
    WorkspaceScenario(
        rule=RuleKind.CALLBACKS_MISSED,
        begin=_callbacks_get_lost,
        finish=_callbacks_come,
        changed={"threshold": _MISSES, "window_seconds": 2.5},
    ),
    WorkspaceScenario(
        rule=RuleKind.MONITOR_DEGRADED,
        begin=_receiver_refuses,
        finish=_receiver_accepts,
        changed={"threshold": 4.0, "for_seconds": 0.0},
    ),
    WorkspaceScenario(
        rule=RuleKind.RUN_LOST,
        begin=_run_vanishes,
        finish=_run_succeeds,
        changed={},
        is_alone=True,
    ),
    WorkspaceScenario(
        rule=RuleKind.PIPELINES_UNSHARED,
        begin=_owner_is_administrator(is_admin=False),
        finish=_owner_is_administrator(is_admin=True),
        changed={"for_seconds": 0.5},
        is_alone=True,
    ),
    WorkspaceScenario(
        rule=RuleKind.BUDGET_EXHAUSTED,
        begin=_refused,
        finish=_fault("status_429", 0.0),
        changed={"for_seconds": 0.5},
        is_alone=True,
    ),
    WorkspaceScenario(
        rule=RuleKind.WORKSPACE_UNREACHABLE,
        begin=_fault("dropped", 1.0),
        finish=_fault("dropped", 0.0),
        changed={"for_seconds": 0.5},
        is_alone=True,
    ),
)
