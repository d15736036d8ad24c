"""A live state as large as it may become, and a count of what each step of the event loop runs."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterator
from datetime import datetime
from types import FrameType
from typing import Any

from monitor.model.alerts import Alert, AlertingSnapshot, AlertState, Severity, fingerprint
from monitor.model.live_state import ActiveRun, PipelineHealth, Reachability
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, RunState, Source, Status
from monitor.tracking.live_state import LiveState

PIPELINES = 10_000
ACTIVE_RUNS = 2_000
ALERTS = 5_000
# So many lines of Python run in 1 ms on the developers' machine, and a step may take 2.
LINES_IN_A_STEP = 20_000


class LongestStep:
    """The longest step of the event loop so far."""

    def __init__(self) -> None:
        self.lines = 0
        self.name = ""
        self.steps = 0


@contextlib.contextmanager
def counting_steps() -> Iterator[LongestStep]:
    """Count the lines that each step of the loop runs, instead of its time, which others share.

    Only of this thread, and of steps that begin inside.
    """
    longest = LongestStep()
    handles: Any = asyncio.events.Handle  # whose members are private
    run, thread, lines = handles._run, threading.get_ident(), 0

    def count(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    def counted(handle: Any) -> None:
        nonlocal lines
        if threading.get_ident() != thread:
            run(handle)
            return
        lines = 0
        before = sys.gettrace()
        sys.settrace(count)
        try:
            run(handle)
        finally:
            sys.settrace(before)
        longest.steps += 1
        if lines > longest.lines:
            task = getattr(handle._callback, "__self__", None)
            longest.lines = lines
            longest.name = task.get_name() if isinstance(task, asyncio.Task) else repr(handle)

    handles._run = counted
    try:
        yield longest
    finally:
        handles._run = run


def fill(live_state: LiveState, workspace: str, *, now: datetime) -> None:
    """Let the workspace have all the pipelines and active runs."""
    live_state.update_workspace(
        workspace, reachability=Reachability.REACHABLE, since=now, known_at=now
    )
    for kind in RunKind:
        live_state.confirm(workspace, kind, now)
    for number in range(PIPELINES):
        flow = flow_of(number)
        live_state.name_pipeline(workspace, flow.kind, flow.id, flow.name)
        health = PipelineHealth(
            workspace=workspace,
            run_kind=RunKind.JOB_GROUP,
            pipeline=flow,
            recipe_id=f"r{number}",
            last_started_at=now,
            last_finished_at=now,
            last_success_at=now,
            last_status=Status.SUCCEEDED,
            last_duration_seconds=60.0,
            last_run_id=str(number),
        )
        live_state.pipeline_health[workspace, RunKind.JOB_GROUP, flow.id, f"r{number}"] = health
    for number in range(ACTIVE_RUNS):
        run = RunState(
            key=RunKey(workspace, RunKind.JOB_GROUP, f"a{number}"),
            status=Status.RUNNING,
            created_at=now,
            started_at=now,
            pipeline=flow_of(5 * number),
            confirmed_at=now,
            confirmed_by=Source.POLL,
        )
        live_state.active[run.key] = ActiveRun(run=run, confirmed_at=now, confirmed_by=Source.POLL)


def flow_of(number: int) -> Pipeline:
    return Pipeline(kind=PipelineKind.FLOW, id=str(number), name=f"flow {number}")


def firing(workspace: str, *, now: datetime) -> AlertingSnapshot:
    """Return the snapshot in which so many pipelines fail."""
    return AlertingSnapshot(
        alerts=tuple(_alert(workspace, number, now) for number in range(ALERTS)),
        rules=(("run_failed", Severity.CRITICAL),),
    )


def _alert(workspace: str, number: int, now: datetime) -> Alert:
    flow = flow_of(number)
    return Alert(
        fingerprint=fingerprint("run_failed", {"workspace": workspace, "pipeline_id": flow.id}),
        name="run_failed",
        rule="run_failed",
        severity=Severity.CRITICAL,
        state=AlertState.FIRING,
        labels={"alertname": "run_failed", "workspace": workspace, "pipeline": f"flow {number}"},
        templates={"summary": f"flow {number} failed"},
        starts_at=now,
        workspace=workspace,
        kind=RunKind.JOB_GROUP,
        pipeline=flow,
        evidence=(f"{workspace}:job_group:{number}:failed",),
        evidence_count=1,
        is_notified=True,
    )
