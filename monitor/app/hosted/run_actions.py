"""Actions of users on the runs of one workspace: at most one start for each execution id.

The workspace itself starts one run for an execution id. What was started in this
life is remembered beside that, so that a repeated request is answered as the first one was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial

import structlog

from monitor.app.hosted.tracked_runs import TrackedRuns
from monitor.model.actions import Action, ActionResult, Cancel, Rerun
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.clock import Clock
from monitor.model.errors import (
    ConfigurationError,
    MonitorError,
    NoSuchObjectError,
    TryLaterError,
    UnreadableAnswerError,
    WorkspaceError,
)
from monitor.model.runs import PipelineKind, RunKey, RunKind, RunState, status_of
from monitor.model.words import counted, utc
from monitor.tracking.observer import Observer
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_PRIORITY = Priority.CHANGES  # a person waits for it, and asks rarely
_WAIT_SECONDS = 10.0  # for a turn in the request budget
_REMEMBERED = 1_000
_STARTS = {
    RunKind.FLOW_RUN: "runFlow",
    RunKind.JOB_GROUP: "runJobGroup",
    RunKind.PLAN_RUN: "runPlan",
}
_CANCELS = {
    RunKind.FLOW_RUN: "cancelJobGroup",
    RunKind.JOB_GROUP: "cancelJobGroup",
    RunKind.PLAN_RUN: "cancelPlanSnapshotRun",
}


class _Execution:
    """What one execution id was used for. Who holds the lock sends the request."""

    def __init__(self, key: RunKey) -> None:
        self.key = key
        self.lock = asyncio.Lock()
        self.result: ActionResult | None = None


class RunActions:
    """Runs again and cancels, and lets the new run be followed from its start."""

    def __init__(
        self,
        workspace: str,
        *,
        client: WorkspaceClient,
        observer: Observer,
        tracked_runs: TrackedRuns,
        clock: Clock,
    ) -> None:
        self._workspace = workspace
        self._client = client
        self._observer = observer
        self._tracked_runs = tracked_runs
        self._clock = clock
        self._executions: BoundedMemory[str, _Execution] = BoundedMemory(_REMEMBERED)

    async def act(self, action: Action, *, not_after: datetime) -> ActionResult:
        """Do what a user asks for, unless it comes later than ``not_after``.

        Raises:
            ConfigurationError: nothing was sent; the sentence says why.
            NoSuchObjectError: there is no such run.
            WorkspaceError: the workspace refuses, does not offer it, or cannot be reached.
        """
        if self._clock.now() > not_after:
            # A daemon may have held the request back; a user does not expect it any more.
            raise ConfigurationError(
                f"the request was to be sent until {utc(not_after)}, and came later: nothing was "
                "sent; ask again"
            )
        key = RunKey(self._workspace, action.kind, action.id)
        match action:
            case Rerun(execution_id=execution_id):
                return await self._rerun(key, execution_id)
            case Cancel():
                return await self._cancel(key)

    # --- run again ---

    async def _rerun(self, key: RunKey, execution_id: str) -> ActionResult:
        self._client.run_control.require_available(_STARTS[key.kind])
        execution = self._executions.get(execution_id)
        if execution is None:
            execution = _Execution(key)
            self._executions.put(execution_id, execution)
        if execution.key != key:
            raise ConfigurationError(
                f"execution id {execution_id} was used for {execution.key}: take another one"
            )
        async with execution.lock:
            if execution.result is None:
                execution.result = await self._start(key, execution_id)
            return execution.result

    async def _start(self, key: RunKey, execution_id: str) -> ActionResult:
        known = (await self._observer.known((key,))).get(key)
        if known is None:
            raise NoSuchObjectError(f"{key} is not known here: track it first")
        word = await self._native_status(key)
        status = status_of(word)
        if status is None or not status.is_terminal:
            raise ConfigurationError(
                f"{key} has not ended, the workspace says {word}: cancel it, or wait for its end"
            )
        target, start = self._start_of(known)
        try:
            run_id = await start(
                execution_id=execution_id, priority=_PRIORITY, wait_seconds=_WAIT_SECONDS
            )
        except (TryLaterError, UnreadableAnswerError) as exc:
            # Its kind decides the answer, and its words get what the user may do.
            exc.args = (
                f"{exc}; should it have started, execution id {execution_id} starts no second run",
            )
            raise
        if run_id is None:
            return ActionResult(
                detail=f"execution id {execution_id} was used before: {target} runs already, "
                "and nothing was started now"
            )
        new = RunKey(self._workspace, key.kind, run_id)
        log.info("run started for a user", run=str(new), again=str(key))
        return ActionResult(detail=f"started {new}: {target}{await self._followed(new)}", run=new)

    def _start_of(self, run: RunState) -> tuple[str, Callable[..., Awaitable[str | None]]]:
        """Return what a run has run, in words, and what starts that.

        Raises:
            ConfigurationError: the workspace did not report what it has run.
        """
        control = self._client.run_control
        if run.key.kind is RunKind.JOB_GROUP:
            if run.recipe is not None:
                name = f"recipe {run.recipe.name or run.recipe.id}"
                return name, partial(control.start_recipe, run.recipe.id)
        elif run.pipeline is not None:
            name = f"{run.pipeline.kind} {run.pipeline.name or run.pipeline.id}"
            is_flow = run.pipeline.kind is PipelineKind.FLOW
            start = control.start_flow if is_flow else control.start_plan
            return name, partial(start, run.pipeline.id)
        what = {RunKind.FLOW_RUN: "flow", RunKind.JOB_GROUP: "recipe"}.get(run.key.kind, "plan")
        raise ConfigurationError(f"the workspace does not report which {what} {run.key} has run")

    async def _followed(self, key: RunKey) -> str:
        """Let a run be read now and followed; return what to add where that fails."""
        try:
            await self._tracked_runs.track(key)
        except MonitorError as exc:
            log.warning("run is not followed yet", run=str(key), reason=str(exc))
            return f"; it is not followed yet: {exc}"
        return ""

    # --- cancel ---

    async def _cancel(self, key: RunKey) -> ActionResult:
        self._client.run_control.require_available(_CANCELS[key.kind])
        status = status_of(await self._native_status(key))
        if status is not None and status.is_terminal:
            raise ConfigurationError(f"{key} has ended: {status}")
        if key.kind is RunKind.FLOW_RUN:
            detail = await self._cancel_job_groups(key)
        else:
            detail = await self._cancel_one(key)
        log.info("run canceled for a user", run=str(key))
        return ActionResult(detail=detail + await self._followed(key))

    async def _cancel_one(self, key: RunKey) -> str:
        control, how = self._client.run_control, f"canceled {key}"
        if key.kind is RunKind.PLAN_RUN:
            is_complete = await control.cancel_plan_run(
                key.id, priority=_PRIORITY, wait_seconds=_WAIT_SECONDS
            )
            return how if is_complete else f"{how}; the workspace says that some of its jobs go on"
        await control.cancel_job_group(key.id, priority=_PRIORITY, wait_seconds=_WAIT_SECONDS)
        return how

    async def _cancel_job_groups(self, key: RunKey) -> str:
        """Cancel what a flow run runs now: the API cannot cancel the flow run itself."""
        page = await self._client.runs.flow_run_job_groups(
            key.id, priority=_PRIORITY, wait_seconds=_WAIT_SECONDS
        )
        statuses = {row.id: status_of(row.native_status) for row in page.rows}
        active = [
            row for row, status in statuses.items() if status is None or not status.is_terminal
        ]
        if not active:
            raise ConfigurationError(f"no job group of {key} runs now; try again in a moment")
        failures: list[WorkspaceError] = []
        for job_group_id in active:
            try:
                await self._client.run_control.cancel_job_group(
                    job_group_id, priority=_PRIORITY, wait_seconds=_WAIT_SECONDS
                )
            except WorkspaceError as exc:
                failures.append(exc)
        if len(failures) == len(active):
            raise failures[0]
        done = f"canceled {counted(len(active) - len(failures), 'job group')} of {key}"
        return f"{done}; {len(failures)} not: {failures[0]}" if failures else done

    async def _native_status(self, key: RunKey) -> str | None:
        """Read the workspace's word for where a run is now."""
        runs = self._client.runs
        if key.kind is RunKind.FLOW_RUN:
            return await runs.flow_run_status(
                key.id, priority=_PRIORITY, wait_seconds=_WAIT_SECONDS
            )
        read = runs.plan_run if key.kind is RunKind.PLAN_RUN else runs.job_group
        row = await read(key.id, priority=_PRIORITY, wait_seconds=_WAIT_SECONDS)
        return row.native_status
