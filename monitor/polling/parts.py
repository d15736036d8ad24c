"""Builds the polls of one workspace and hands each what it needs of the others."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.polling.by_id import ById
from monitor.polling.changes import Changes
from monitor.polling.details import Details
from monitor.polling.enrichment import Enrichment
from monitor.polling.flow_runs import FlowRuns
from monitor.polling.following import Following
from monitor.polling.intake import Intake
from monitor.polling.inventory.slow_polls import SlowPoll, slow_polls
from monitor.polling.pipeline_names import PipelineNames
from monitor.polling.plan_children import PlanChildren
from monitor.polling.plan_runs import PlanRuns
from monitor.polling.plans import Plans
from monitor.polling.progress import Progress
from monitor.polling.recipe_names import RecipeNames
from monitor.polling.reconciliation import Reconciliation
from monitor.polling.refetch_queue import RefetchQueue
from monitor.polling.schedules import Schedules


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspacePolls:
    """The polls of one workspace. Nothing in them survives but what the store holds."""

    recipes: RecipeNames
    plans: Plans
    details: Details
    flow_runs: FlowRuns
    refetch_queue: RefetchQueue
    intake: Intake
    changes: Changes
    plan_runs: PlanRuns
    plan_children: PlanChildren
    by_id: ById
    reconciliation: Reconciliation
    progress: Progress
    pipeline_names: PipelineNames
    schedules: Schedules
    inventory: tuple[SlowPoll, ...]

    async def load(self) -> None:
        """Read from the store what an earlier run of the monitor left there."""
        for part in (
            self.recipes,
            self.plans,
            self.refetch_queue,
            self.changes.watermark,
            self.plan_runs.watermark,
            self.pipeline_names,
            self.flow_runs,
        ):
            await part.load()


def build(following: Following) -> WorkspacePolls:
    """Build every poll; which of them run is decided by what the workspace offers."""
    recipes, plans = RecipeNames(following), Plans(following)
    details, flow_runs = Details(following), FlowRuns(following)
    refetch_queue = RefetchQueue(following)
    intake = Intake(
        following,
        recipes=recipes,
        enrichment=Enrichment(following, recipes),
        details=details,
        flow_runs=flow_runs,
        refetch_queue=refetch_queue,
    )
    plan_children = PlanChildren(following)
    plan_runs = PlanRuns(
        following, plans=plans, plan_children=plan_children, refetch_queue=refetch_queue
    )
    by_id = ById(following, intake=intake, flow_runs=flow_runs, plan_runs=plan_runs)
    return WorkspacePolls(
        recipes=recipes,
        plans=plans,
        details=details,
        flow_runs=flow_runs,
        refetch_queue=refetch_queue,
        intake=intake,
        changes=Changes(following, intake=intake, flow_runs=flow_runs, refetch_queue=refetch_queue),
        plan_runs=plan_runs,
        plan_children=plan_children,
        by_id=by_id,
        reconciliation=Reconciliation(
            following, intake=intake, plan_runs=plan_runs, by_id=by_id, refetch_queue=refetch_queue
        ),
        progress=Progress(following),
        pipeline_names=PipelineNames(following, plans=plans),
        schedules=Schedules(following),
        inventory=slow_polls(following),
    )
