"""What a workspace does so that each rule about runs begins to hold, and what ends it.

Thresholds are a second, so that the scenarios play on wall time. Each has a recipe, and so a
pipeline, of its own, and its rule evaluates nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Struct

from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.world.records.objects import Recipe

_QUEUE_SECONDS = 4.0  # on the clock


class RunScenario(Struct, frozen=True, kw_only=True):
    """One rule, and how to make it hold and hold no more."""

    rule: RuleKind
    begin: Callable[[Sandbox, Recipe], None]
    finish: Callable[[Sandbox, Recipe], None]
    threshold: float = 0.0

    def settings(self, recipe: Recipe) -> RuleSettings:
        """Return the rule as it watches the scenario's own flow."""
        return msgspec.structs.replace(
            default_rule(self.rule),
            threshold=self.threshold,
            match=Match(pipeline=(str(recipe.flow_id),)),
        )


def _start(workspace: Sandbox, recipe: Recipe, outcome: Outcome, queue_seconds: float) -> None:
    order = Order(
        flow_id=recipe.flow_id, outcome=outcome, queue_seconds=queue_seconds, work_seconds=1
    )
    workspace.engine.order(order)
    workspace.engine.start_job_group(recipe, by=recipe.creator_id)


def _ends(outcome: Outcome, *, times: int = 1) -> Callable[[Sandbox, Recipe], None]:
    def play(workspace: Sandbox, recipe: Recipe) -> None:
        for _ in range(times):
            _start(workspace, recipe, outcome, queue_seconds=1)

    return play


def _waits(workspace: Sandbox, recipe: Recipe) -> None:
    queue_seconds = _QUEUE_SECONDS * workspace.settings.work.speed
    _start(workspace, recipe, Outcome.COMPLETE, queue_seconds=queue_seconds)


def _nothing(workspace: Sandbox, recipe: Recipe) -> None:
    """It passes by itself."""
    del workspace, recipe


def _is_canceled(workspace: Sandbox, recipe: Recipe) -> None:
    for job_group in workspace.world.job_groups:
        if job_group.recipe_id == recipe.id and not job_group.status.is_over:
            workspace.engine.cancel_job_group(job_group)


RUN_SCENARIOS = (
    RunScenario(
        rule=RuleKind.RUN_FAILED, begin=_ends(Outcome.FAILED), finish=_ends(Outcome.COMPLETE)
    ),
    RunScenario(
        rule=RuleKind.FAILING_REPEATEDLY,
        threshold=3,
        begin=_ends(Outcome.FAILED, times=4),
        finish=_ends(Outcome.COMPLETE),
    ),
    RunScenario(
        rule=RuleKind.CANCELED, begin=_ends(Outcome.CANCELED), finish=_ends(Outcome.COMPLETE)
    ),
    RunScenario(
        rule=RuleKind.SUCCESS_DOUBTED,
        begin=_ends(Outcome.DOUBTFUL),
        finish=_ends(Outcome.COMPLETE),
    ),
    RunScenario(
        rule=RuleKind.RUN_OVERDUE, threshold=1, begin=_ends(Outcome.HANG), finish=_is_canceled
    ),
    RunScenario(
        rule=RuleKind.RUN_STUCK, threshold=1, begin=_ends(Outcome.HANG), finish=_is_canceled
    ),
    RunScenario(rule=RuleKind.QUEUE_SLOW, threshold=1, begin=_waits, finish=_nothing),
)
