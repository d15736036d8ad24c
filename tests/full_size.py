"""A live state as large as it may become, and a count of what each step of the event loop runs."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
from collections.abc import Iterator
from datetime import datetime
from types import FrameType
from typing import Any

from monitor.model.alerts import Alert, AlertingSnapshot, AlertState, Severity, fingerprint
from monitor.model.live_state import ActiveRun, Reachability
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, RunState, Source, Status
from monitor.tracking.live_state import LiveState
from tests.pipeline_healths import end_at, health_after, show

PIPELINES = 10_000
ACTIVE_RUNS = 2_000
ALERTS = 5_000
# So many lines of Python run in 1 ms on the developers' machine, and a step may take 2.
LINES_IN_A_STEP = 20_000
# The garbage collector searches so many containers in 2 ms.
CONTAINERS_IN_A_STEP = 2_000
# So many objects end in 2 ms, when what holds them goes out of use.
FREED_IN_A_STEP = 20_000


class LongestStep:
    """The longest step of the event loop so far; what one has left and freed at most."""

    def __init__(self) -> None:
        self.lines = 0
        self.name = ""
        self.containers = 0
        self.hoarder = ""
        self.freed = 0
        self.freeing = ""
        self.steps = 0

    def assert_short(self) -> None:
        assert self.lines <= LINES_IN_A_STEP, f"{self.name}: {self.lines} lines in one step"
        assert self.containers <= CONTAINERS_IN_A_STEP, (
            f"{self.hoarder}: {self.containers} containers left by one step"
        )


@contextlib.contextmanager
def counting_steps() -> Iterator[LongestStep]:
    """Count the lines that each step of the loop runs, instead of its time, which others share.

    Only of this thread, and of steps that begin inside. Beside the lines it counts the objects that
    a step frees, and those that it leaves to the garbage collector, which is off meanwhile.
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
        containers, blocks = gc.get_count()[0], sys.getallocatedblocks()
        sys.settrace(count)
        try:
            run(handle)
        finally:
            sys.settrace(before)
        containers = gc.get_count()[0] - containers
        freed = blocks - sys.getallocatedblocks()
        longest.steps += 1
        if lines > longest.lines:
            longest.lines, longest.name = lines, _name_of(handle)
        if containers > longest.containers:
            longest.containers, longest.hoarder = containers, _name_of(handle)
        if freed > longest.freed:
            longest.freed, longest.freeing = freed, _name_of(handle)

    was_enabled = gc.isenabled()
    gc.disable()
    handles._run = counted
    try:
        yield longest
    finally:
        handles._run = run
        if was_enabled:
            gc.enable()


def _name_of(handle: Any) -> str:
    task = getattr(handle._callback, "__self__", None)
    return task.get_name() if isinstance(task, asyncio.Task) else repr(handle)


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
        end, recipe_id = end_at(now, run_id=str(number), seconds=60.0), f"r{number}"
        show(
            live_state,
            health_after(end, workspace=workspace, pipeline=flow, recipe_id=recipe_id),
        )
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
