"""Runs a plan: its nodes run along the edges, flows as flow runs, requests as requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from monitor.sandbox.running.destinations import FlowOverrides, RunOverrides, parameters_of_node
from monitor.sandbox.running.flows import FlowRuns, NothingToRunError
from monitor.sandbox.running.states import RunContext, summed_up
from monitor.sandbox.world.records.objects import HttpTask, Plan, PlanNode, PlanSnapshot
from monitor.sandbox.world.records.runs import (
    FlowRun,
    NativeStatus,
    PlanSnapshotRun,
    PlanTaskRun,
    RanFrom,
    Run,
)

# Sends the request of an HTTP node; True where the answer was 2xx.
HttpSender = Callable[[HttpTask, PlanSnapshotRun], Awaitable[bool]]


@dataclass(slots=True, kw_only=True)
class _Progress:
    """What is still to come in one plan run."""

    plan_run: PlanSnapshotRun
    snapshot: PlanSnapshot
    by: int
    remaining: dict[int, PlanNode]
    parameters: Mapping[int, Mapping[str, Any]]  # node id -> values by override key
    results: dict[int, NativeStatus] = field(default_factory=dict)  # node id -> its end
    active: dict[int, PlanTaskRun] = field(default_factory=dict)  # node id -> its task run


class PlanRuns:
    """Makes plan runs and leads them along their edges."""

    def __init__(self, context: RunContext, flow_runs: FlowRuns) -> None:
        self.http_sender: HttpSender | None = None  # None: every request succeeds unsent
        self._context = context
        self._world, self._states, self._tasks = context.world, context.states, context.tasks
        self._flow_runs = flow_runs
        self._progress: dict[int, _Progress] = {}
        self._node_of: dict[int, tuple[int, int]] = {}  # flow run id -> plan run id, node id
        self._states.ended.append(self._on_ended)

    def start(
        self,
        plan: Plan,
        *,
        by: int,
        ran_from: RanFrom = RanFrom.API,
        schedule_history_id: int | None = None,
        parameters: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> PlanSnapshotRun:
        """Take a snapshot of a plan where it has changed, and run it.

        ``parameters`` are values by node id and override key; they win over the plan's own.

        Raises:
            NothingToRunError: the plan has no node, or a flow of it is deleted.
        """
        snapshot = self._snapshot(plan, by)
        for node in snapshot.nodes:
            if node.flow_id is not None and self._world.flows.get(node.flow_id) is None:
                raise NothingToRunError(f"plan {plan.id} has lost flow {node.flow_id}")
        newest = self._world.plan_runs.newest()
        previous = next(
            (run for run in newest if run.plan_id == plan.id and run.deleted_at is None), None
        )
        plan_run = self._world.create(
            PlanSnapshotRun,
            by=by,
            plan_id=plan.id,
            snapshot_id=snapshot.id,
            ran_from=ran_from,
            schedule_history_id=schedule_history_id,
            previous_run_id=previous.id if previous else None,
        )
        plan_run.submitted_at = plan_run.created_at
        if previous is not None:
            previous.next_run_id = plan_run.id
        self._states.create(plan_run)
        self._progress[plan_run.id] = progress = _Progress(
            plan_run=plan_run,
            snapshot=snapshot,
            by=by,
            remaining={node.id: node for node in snapshot.nodes},
            parameters={
                node.id: {
                    **parameters_of_node(self._world, node.id),
                    **(parameters or {}).get(node.id, {}),
                }
                for node in snapshot.nodes
            },
        )
        self._tasks.begin(f"plan-run-{plan_run.id}", lambda: self._begin(progress))
        return plan_run

    def cancel(self, plan_run: PlanSnapshotRun, *, by: int | None = None) -> None:
        """End an active plan run as ``Canceled``, with what it runs unless that fails."""
        if not self._states.is_active(plan_run):
            return
        if by is not None:
            plan_run.updater_id = by
        keep_working = self._world.options.cancels_fail
        progress = self._progress[plan_run.id]
        plan_run.failed_to_cancel_some_jobs = keep_working and bool(progress.active)
        flow_run_ids = [item.flow_run_id for item in progress.active.values()]
        for task_run in progress.active.values():
            self._end_task_run(task_run, NativeStatus.CANCELED)
        # The plan run is over first, so that the ends of its flow runs start nothing.
        self._states.end(plan_run, NativeStatus.CANCELED)
        for flow_run_id in flow_run_ids:
            flow_run = None if flow_run_id is None else self._world.flow_runs.get(flow_run_id)
            if flow_run is not None:
                self._flow_runs.stop(flow_run, keep_working=keep_working)

    def _snapshot(self, plan: Plan, by: int) -> PlanSnapshot:
        nodes = self._world.nodes_of(plan.id)
        if not nodes:
            raise NothingToRunError(f"plan {plan.id} has no node to run")
        edges = self._world.edges_of(plan.id)
        latest = next(reversed(self._world.snapshots_of(plan.id)), None)
        if latest is not None and not self._world.options.snapshot_every_plan_run:
            parts = [plan, *nodes, *edges]
            same = {node.id for node in latest.nodes} == {node.id for node in nodes}
            if same and all(part.updated_at <= latest.created_at for part in parts):
                return latest
        return self._world.create(
            PlanSnapshot,
            by=by,
            original_plan_id=plan.id,
            name=plan.name,
            nodes=tuple(replace(node) for node in nodes),
            edges=tuple(replace(edge) for edge in edges),
        )

    async def _begin(self, progress: _Progress) -> None:
        await self._context.hand_over("plan_run", progress.plan_run.id, "begin")
        self._states.begin(progress.plan_run)
        self._continue(progress)

    def _continue(self, progress: _Progress) -> None:
        """Begin every node whose edges are satisfied; end the plan run when none is left."""
        if not self._states.is_active(progress.plan_run):
            return
        ready = self._take_ready(progress)
        for node in ready:
            progress.active[node.id] = self._task_run(progress, node)
        for node in ready:
            self._run_node(progress, node, progress.active[node.id])
        if not progress.active:
            self._end(progress)

    @staticmethod
    def _take_ready(progress: _Progress) -> list[PlanNode]:
        """Remove and return the nodes to begin now.

        A node begins when all that lead to it have ended and every edge's rule is satisfied; one
        with an edge that is not, or whose way to it was not taken, never runs.
        """
        ready = []
        for node in list(progress.remaining.values()):
            edges = [edge for edge in progress.snapshot.edges if edge.out_plan_node_id == node.id]
            if all(
                edge.in_plan_node_id in progress.results
                and _satisfies(progress.results[edge.in_plan_node_id], edge.status_rule)
                for edge in edges
            ):
                ready.append(progress.remaining.pop(node.id))
        return ready

    def _task_run(self, progress: _Progress, node: PlanNode) -> PlanTaskRun:
        task_run = self._world.create(
            PlanTaskRun,
            by=progress.by,
            plan_run_id=progress.plan_run.id,
            plan_node_id=node.id,
            status=NativeStatus.IN_PROGRESS,
        )
        task_run.started_at = task_run.created_at
        return task_run

    def _run_node(self, progress: _Progress, node: PlanNode, task_run: PlanTaskRun) -> None:
        if node.task_type != "flow":
            # A task of a kind that is not done here ends well, as a request without address does.
            self._run_http_node(progress, node, node.http_task or HttpTask())
            return
        flow = None if node.flow_id is None else self._world.flows.get(node.flow_id)
        if flow is None:
            self._on_node_ended(progress, node.id, NativeStatus.FAILED)
            return
        try:
            flow_run = self._flow_runs.start(
                flow,
                by=progress.by,
                ran_from=progress.plan_run.ran_from,
                recipe_ids=node.flow_node_ids or None,
                plan_run_id=progress.plan_run.id,
                fires_webhooks=node.webhooks_enabled,
                overrides=FlowOverrides(
                    everywhere=RunOverrides(parameters=progress.parameters[node.id])
                ),
            )
        except NothingToRunError:
            self._on_node_ended(progress, node.id, NativeStatus.FAILED)
            return
        task_run.flow_run_id = flow_run.id
        self._node_of[flow_run.id] = (progress.plan_run.id, node.id)

    def _run_http_node(self, progress: _Progress, node: PlanNode, http_task: HttpTask) -> None:
        sender = self.http_sender

        async def send() -> None:
            await self._context.hand_over("plan_run", progress.plan_run.id, node.id)
            is_sent = True
            if sender is not None and http_task.url:
                is_sent = await sender(http_task, progress.plan_run)
            status = NativeStatus.COMPLETE if is_sent else NativeStatus.FAILED
            self._on_node_ended(progress, node.id, status)

        self._tasks.begin(f"plan-request-{progress.plan_run.id}-{node.id}", send)

    def _on_ended(self, run: Run) -> None:
        if isinstance(run, PlanSnapshotRun):
            self._progress.pop(run.id, None)
        elif isinstance(run, FlowRun) and run.id in self._node_of:
            plan_run_id, node_id = self._node_of.pop(run.id)
            progress = self._progress.get(plan_run_id)
            if progress is not None:
                status = NativeStatus.CANCELED if run.deleted_at is not None else run.status
                name = f"plan-node-end-{plan_run_id}-{node_id}"
                self._tasks.begin(name, lambda: self._on_flow_ended(progress, node_id, status))

    async def _on_flow_ended(self, progress: _Progress, node_id: int, status: NativeStatus) -> None:
        await self._context.hand_over("plan_run", progress.plan_run.id, node_id)
        self._on_node_ended(progress, node_id, status)

    def _on_node_ended(self, progress: _Progress, node_id: int, status: NativeStatus) -> None:
        if not self._states.is_active(progress.plan_run):
            return
        self._end_task_run(progress.active.pop(node_id), status)
        progress.results[node_id] = status
        self._continue(progress)

    def _end_task_run(self, task_run: PlanTaskRun, status: NativeStatus) -> None:
        task_run.status = status
        task_run.finished_at = task_run.updated_at = self._world.now()

    def _end(self, progress: _Progress) -> None:
        self._states.end(progress.plan_run, summed_up(progress.results.values()))


def _satisfies(status: NativeStatus, rule: str) -> bool:
    if rule == "always":
        return True
    # A node that was canceled has not succeeded; nothing public says more.
    return (status is NativeStatus.COMPLETE) is (rule == "success")
