"""Judges the reasons of failures: the error of the part that failed, wherever it is readable."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from tests.worlds.alert_judge import RULE
from tests.worlds.allowances import POLL, REPORT_SECONDS
from tests.worlds.final_faces import FinalFaces
from tests.worlds.findings import Finding, Kind
from tests.worlds.received import runs_of
from tests.worlds.script import NEVER, End, FlowRun, JobGroup, RunKind, Times, World
from tests.worlds.truth import Run, TrueEnd, group_allowance

_UNREADABLE = (Times.NO_JOBS, Times.NONE)


def reason_findings(
    world: World, ends: Sequence[TrueEnd], faces: FinalFaces, *, until: float
) -> Iterator[Finding]:
    """Yield failed runs and active alerts that lack the error of what failed in them.

    ``ends`` are those of each run itself.
    """
    failures = {end.run: end for end in ends if end.end is End.FAILED}
    due = {run for run, end in failures.items() if end.due_at < until}
    for run in due:
        error = faces.runs.get(run, {}).get("error")
        errors = _errors(world, run, failures[run].parts)
        if run in faces.runs and errors is not None and error not in errors:
            text = f"{run[0]} {run[1]} has the error {error!r}, not one of {sorted(errors)}"
            yield Finding(seed=world.seed, kind=Kind.NO_REASON, text=text)
    for alert in faces.alerts:
        if alert["name"] == RULE and alert["state"] == "firing":
            about = [failures[run] for run in runs_of(alert["evidence"]) if run in failures]
            yield from _of_alert(world, alert["facts"].get("error"), about, due)


def link_findings(world: World, faces: FinalFaces) -> Iterator[Finding]:
    """Yield failed flow runs that are not linked to the plan run that has named them.

    A plan run that is not known at all, as where its list is refused, is judged by its events. One
    that names the flow run only while nothing can be read any more links nothing.
    """
    unknown = {
        plan_run.id
        for plan_run in world.plan_runs
        if plan_run.end is End.FAILED and (RunKind.PLAN_RUN, plan_run.id) not in faces.runs
    }
    for run in world.flow_runs:
        shown = faces.runs.get((RunKind.FLOW_RUN, run.id))
        groups = [world.group(group) for group in run.job_groups]
        if run.plan_run is None or shown is None or _are_named_late(world, groups):
            continue
        if run.plan_run in unknown or _is_named_unreadably(world, run):
            continue
        if shown["plan_run"] != str(run.plan_run):
            text = f"flow_run {run.id} of plan_run {run.plan_run} has {shown['plan_run']}"
            yield Finding(seed=world.seed, kind=Kind.NO_LINK, text=text)


def _is_named_unreadably(world: World, run: FlowRun) -> bool:
    named_from = next(
        plan_run.children_named_from[run.id]
        for plan_run in world.plan_runs
        if plan_run.id == run.plan_run
    )
    return any(
        withdrawal.with_objects
        and withdrawal.span.end == NEVER
        and withdrawal.span.begin < named_from + REPORT_SECONDS
        for withdrawal in world.withdrawals
    )


def _of_alert(
    world: World, error: object, about: Sequence[TrueEnd], due: Collection[Run]
) -> Iterator[Finding]:
    errors = {end.run: _errors(world, end.run, end.parts) for end in about}
    owed = [texts for run, texts in errors.items() if run in due]
    is_owed = bool(owed) and None not in owed
    # What need not be known, or not yet, may be known, and nothing else.
    is_wrong = error is not None and bool(about)
    true = {
        group.error for end in about for group in _failed_groups(world, {end.run, *end.parts})
    } - {None}
    if (is_owed or is_wrong) and error not in true:
        kind, run_id = about[-1].run
        known = sorted(map(str, true))
        text = f"{RULE} by {kind} {run_id} has the error {error!r}, not one of {known}"
        yield Finding(seed=world.seed, kind=Kind.NO_REASON, text=text)


def _errors(world: World, run: Run, parts: Iterable[Run]) -> set[str] | None:
    """Return the errors of what failed in a run; None where some need not be known."""
    failed = list(_failed_groups(world, {run, *parts}))
    if any(group.times in _UNREADABLE or group.deleted_at < NEVER for group in failed):
        return None
    if any(_is_refused_soon(world, group) for group in failed):
        return None
    if run[0] is not RunKind.JOB_GROUP and _are_named_late(world, failed):
        return None
    return {group.error for group in failed if group.error is not None}


def _is_refused_soon(world: World, group: JobGroup) -> bool:
    """True where its job records are refused before they must have been read."""
    by = group.end_shown_from + group_allowance(group)
    return any(
        withdrawal.with_objects
        and withdrawal.span.begin < by
        and group.end_shown_from < withdrawal.span.end
        for withdrawal in world.withdrawals
    )


def _are_named_late(world: World, groups: Iterable[JobGroup]) -> bool:
    """True where a plan names some of them when their end, and the wait for links, are over."""
    return any(_is_named_late(world, group) for group in groups)


def _is_named_late(world: World, group: JobGroup) -> bool:
    named = [
        named_from
        for plan_run in world.plan_runs
        for child, named_from in plan_run.children_named_from.items()
        if child in (group.flow_run, group.id) and plan_run.id == _plan_run_of(world, group)
    ]
    limit = group.end_shown_from + POLL.link_wait_seconds
    return any(named_from > limit for named_from in named)


def _plan_run_of(world: World, group: JobGroup) -> int | None:
    around = (run.plan_run for run in world.flow_runs if run.id == group.flow_run)
    return group.plan_run or next(around, None)


def _failed_groups(world: World, runs: set[Run]) -> Iterator[JobGroup]:
    for group in world.job_groups:
        if (RunKind.JOB_GROUP, group.id) in runs and group.end is End.FAILED:
            yield group
