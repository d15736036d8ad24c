"""Builds the polls of one workspace and hands each what it needs of the others."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.polling.audit import Audit
from monitor.polling.bare_rows import BareRows
from monitor.polling.beyond.slow_polls import SlowPoll, slow_polls
from monitor.polling.by_id import ById
from monitor.polling.changes import Changes
from monitor.polling.details import Details
from monitor.polling.flow_runs import FlowRuns
from monitor.polling.following import Following
from monitor.polling.intake import Intake
from monitor.polling.inventory import Inventory
from monitor.polling.names import Recipes
from monitor.polling.plan_runs import PlanRuns
from monitor.polling.plans import Plans
from monitor.polling.progress import Progress
from monitor.polling.schedules import Schedules
from monitor.polling.wanted import Wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The polls of one workspace. Nothing in them survives but what the store holds."""

    recipes: Recipes
    plans: Plans
    details: Details
    flow_runs: FlowRuns
    wanted: Wanted
    intake: Intake
    changes: Changes
    plan_runs: PlanRuns
    by_id: ById
    audit: Audit
    progress: Progress
    inventory: Inventory
    schedules: Schedules
    beyond: tuple[SlowPoll, ...]

    async def load(self) -> None:
        """Read from the store what an earlier run of the monitor left there."""
        for part in (
            self.recipes,
            self.plans,
            self.wanted,
            self.changes.watermark,
            self.plan_runs.watermark,
            self.inventory,
            self.flow_runs,
        ):
            await part.load()


def build(following: Following) -> Parts:
    """Build every poll; which of them run is decided by what the workspace offers."""
    recipes, plans = Recipes(following), Plans(following)
    details, flow_runs = Details(following), FlowRuns(following)
    wanted = Wanted(following)
    intake = Intake(
        following,
        recipes=recipes,
        bare_rows=BareRows(following, recipes),
        details=details,
        flow_runs=flow_runs,
        wanted=wanted,
    )
    plan_runs = PlanRuns(following, plans=plans, wanted=wanted)
    by_id = ById(following, intake=intake, flow_runs=flow_runs, plan_runs=plan_runs)
    return Parts(
        recipes=recipes,
        plans=plans,
        details=details,
        flow_runs=flow_runs,
        wanted=wanted,
        intake=intake,
        changes=Changes(following, intake=intake, flow_runs=flow_runs, wanted=wanted),
        plan_runs=plan_runs,
        by_id=by_id,
        audit=Audit(following, intake=intake, plan_runs=plan_runs, by_id=by_id, wanted=wanted),
        progress=Progress(following),
        inventory=Inventory(following, plans=plans),
        schedules=Schedules(following),
        beyond=slow_polls(following),
    )
