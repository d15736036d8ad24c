"""The list of all polls of a workspace, and what they share.

A new poll is a file with a class that has ``declared``, and one line in `declared_polls`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monitor.model.runs import PipelineKind, RunKind
from monitor.polling.details.details import Details
from monitor.polling.details.job_records import JobRecords
from monitor.polling.discovery.capability_discovery import CapabilityDiscovery
from monitor.polling.flow_runs.flow_runs import FlowRuns
from monitor.polling.history.history import History
from monitor.polling.history.old_failures import OldFailures
from monitor.polling.inventory.configuration import ConfigurationWatch
from monitor.polling.inventory.connections import Connections
from monitor.polling.inventory.names import PipelineNames
from monitor.polling.inventory.objects import Objects
from monitor.polling.inventory.profiles import Profiles
from monitor.polling.inventory.recipe_list import RecipeList
from monitor.polling.inventory.schedules import Schedules
from monitor.polling.inventory.tokens import Tokens
from monitor.polling.inventory.usage import Usage
from monitor.polling.job_groups.enrichment import Enrichment, RecipeNames
from monitor.polling.job_groups.job_groups import Changes, JobGroups
from monitor.polling.job_groups.progress import Progress, RecordedEnds
from monitor.polling.links.plan_children import PlanChildren
from monitor.polling.links.plan_links import PlanLinks
from monitor.polling.links.plans import Plans
from monitor.polling.lists.expected_rows import ExpectedRows
from monitor.polling.lists.list_check import ListChecks
from monitor.polling.lists.refetch_queue import RefetchQueue
from monitor.polling.lists.token_owner import TokenOwner
from monitor.polling.plan_runs.plan_runs import PlanRuns, UnlabelledPlanRuns
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import ChangeInterval, Poll
from monitor.polling.reasons import Reasons
from monitor.polling.reconciliation.by_id import ById
from monitor.polling.reconciliation.reconciliation import Reconciliation
from monitor.polling.settings import InventorySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspacePolls:
    """What the polls of one workspace share. It survives only as far as the store holds it."""

    context: PollContext
    change_interval: ChangeInterval
    recipes: RecipeNames
    plans: Plans
    details: Details
    flow_runs: FlowRuns
    refetch_queue: RefetchQueue
    job_groups: JobGroups
    changes: Changes
    plan_runs: PlanRuns
    plan_children: PlanChildren
    reasons: Reasons
    unlabelled: UnlabelledPlanRuns
    by_id: ById
    written: Mapping[RunKind, ExpectedRows]
    pipeline_names: PipelineNames
    schedules: Schedules
    history: History

    async def load(self) -> None:
        """Read from the store what an earlier run of the monitor left there."""
        for part in (
            self.recipes,
            self.plans,
            self.refetch_queue,
            self.changes.list,
            self.plan_runs.list,
            self.pipeline_names,
            self.schedules,
            self.flow_runs,
            self.reasons,
            self.unlabelled,
            self.history,
        ):
            await part.load()


def declared_polls(
    polls: WorkspacePolls, capability_discovery: CapabilityDiscovery
) -> tuple[Poll, ...]:
    """Return every poll in the order in which they start."""
    context = polls.context
    inventory = context.inventory or InventorySettings()
    return (
        *polls.changes.declared(polls.change_interval),
        *polls.plan_runs.declared(polls.change_interval),
        *polls.plan_children.declared(),
        *polls.reasons.declared(),
        *polls.unlabelled.declared(),
        *polls.by_id.declared(polls.change_interval),
        *Progress(
            context,
            polls.details.records,
            recorded_ends=RecordedEnds(context, polls.job_groups),
        ).declared(polls.change_interval),
        *polls.flow_runs.declared(polls.job_groups.handle),
        *polls.refetch_queue.declared(polls.by_id.read_queued),
        *Reconciliation(
            context,
            job_groups=polls.job_groups,
            plan_runs=polls.plan_runs,
            by_id=polls.by_id,
            written=polls.written,
            watermarks={
                RunKind.JOB_GROUP: polls.changes.watermark,
                RunKind.PLAN_RUN: polls.plan_runs.watermark,
            },
            refetch_queue=polls.refetch_queue,
            unshared=polls.pipeline_names.unshared,
        ).declared(),
        *polls.details.declared(),
        *OldFailures(
            context,
            records=polls.details.records,
            plan_children=polls.plan_children,
            reasons=polls.reasons,
        ).declared(),
        *polls.history.declared(),
        *polls.pipeline_names.declared(),
        *RecipeList(context, polls.recipes).declared(),
        *polls.schedules.declared(),
        *capability_discovery.declared(),
        *Objects(context).declared(),
        *Connections(context, at_once=inventory.connections_at_once).declared(),
        *Tokens(context).declared(),
        *ConfigurationWatch(context, most=inventory.settings).declared(),
        *Usage(context).declared(),
        *Profiles(
            context, at_once=inventory.profiles_at_once, outputs=inventory.outputs
        ).declared(),
    )


def build(context: PollContext) -> WorkspacePolls:
    """Build what the polls share and hand each what it needs of the others."""
    recipes, plans, owner = RecipeNames(context), Plans(context), TokenOwner(context)
    details, links, checks = Details(context, JobRecords(context)), PlanLinks(), ListChecks(context)
    written = {kind: ExpectedRows(context, checks, kind) for kind in checks.of_runs}
    plan_children = PlanChildren(context, plans=plans, links=links)
    reasons = Reasons(context, details=details, plan_children=plan_children, links=links)
    flow_runs = FlowRuns(context, links=links, reasons=reasons)
    unlabelled, refetch_queue = UnlabelledPlanRuns(context, plans=plans), RefetchQueue(context)
    job_groups = JobGroups(
        context,
        recipes=recipes,
        enrichment=Enrichment(context, recipes),
        details=details,
        plan_children=plan_children,
        links=links,
        written=written[RunKind.JOB_GROUP],
        refetch_queue=refetch_queue,
        notice_flow_runs=flow_runs.notice,
    )
    plan_runs = PlanRuns(
        context,
        plans=plans,
        plan_children=plan_children,
        reasons=reasons,
        read_job_groups=job_groups.read_ended,
        unlabelled=unlabelled,
        written=written[RunKind.PLAN_RUN],
        refetch_queue=refetch_queue,
    )
    changes = Changes(
        context,
        job_groups=job_groups,
        confirm_flow_runs=flow_runs.confirm,
        written=written[RunKind.JOB_GROUP],
        refetch_queue=refetch_queue,
    )
    by_id = ById(
        context, job_groups=job_groups, flow_runs=flow_runs, plan_runs=plan_runs, checks=checks
    )
    return WorkspacePolls(
        context=context,
        change_interval=ChangeInterval(context, plan_runs=plan_children.unknown_plan_run),
        recipes=recipes,
        plans=plans,
        details=details,
        flow_runs=flow_runs,
        refetch_queue=refetch_queue,
        job_groups=job_groups,
        changes=changes,
        plan_runs=plan_runs,
        plan_children=plan_children,
        reasons=reasons,
        unlabelled=unlabelled,
        by_id=by_id,
        written=written,
        pipeline_names=_names(context, changes, plan_runs, plans=plans, checks=checks, owner=owner),
        schedules=Schedules(context, checks=checks, owner=owner),
        history=History(context, changes=changes, plan_runs=plan_runs, flow_runs=flow_runs),
    )


def _names(
    context: PollContext,
    changes: Changes,
    plan_runs: PlanRuns,
    *,
    plans: Plans,
    checks: ListChecks,
    owner: TokenOwner,
) -> PipelineNames:
    watermarks = {
        PipelineKind.FLOW: changes.watermark,
        PipelineKind.PLAN: plan_runs.list.watermark,
    }
    return PipelineNames(context, plans=plans, checks=checks, owner=owner, watermarks=watermarks)
