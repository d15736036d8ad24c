"""Finds active runs that are late; shared by run_overdue, queue_slow and run_stuck.

Each run is evaluated by itself, the alert is about their pipeline: it starts with the first run
that is late, and ends when none is. Evaluated as of the last complete poll, what job records show
as of the last time they were read: while nothing is read, nothing becomes late.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct

from monitor.alerting.rules.contract import (
    OUTAGES,
    EvaluationResult,
    EventInput,
    Facts,
    Firing,
    Ok,
    PipelineFacts,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    Unknown,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.model.events import STATUS_EVENTS, EventType, run_event_id
from monitor.model.runs import RunKey, RunKind, RunState

END_EVENTS = tuple(event for status, event in STATUS_EVENTS.items() if status.is_terminal)


class JobProgress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What job records showed, and the newest instant at which they are known to have moved.

    Of a flow run or plan run: when it was last around an active run.
    """

    at: datetime
    percent: float | None = None
    heartbeat_at: datetime | None = None
    jobs: str = ""


class LateRuns(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The late runs of one subject, by ``kind:id``, and since when each is late.

    ``over`` are those whose end an event reported: live state may still show them as active.
    """

    since: dict[str, datetime] = {}
    over: tuple[str, ...] = ()
    progress: dict[str, JobProgress] = {}  # only run_stuck keeps it


class DueRun(Struct, frozen=True, kw_only=True):
    """An active run that is late from ``due`` on, as it was at ``as_of``.

    Without ``due`` this cannot be decided at present, and what was late still counts as late.
    """

    as_of: datetime
    due: datetime | None
    facts: Facts = {}
    progress: JobProgress | None = None


class ActiveRunInput(Struct, frozen=True, kw_only=True):
    """One active run of a subject as of ``as_of``, and what is remembered of it."""

    run: RunState
    as_of: datetime
    facts: PipelineFacts
    is_root: bool  # False: it is a part of a run of the subject
    late_since: datetime | None
    progress: JobProgress | None


LateRunCheck = Callable[[ActiveRunInput, RuleSettings], DueRun | None]  # None: it does not apply


def late_run_rule(
    rule: RuleKind,
    check: LateRunCheck,
    *,
    event_types: tuple[EventType, ...] = END_EVENTS,
    **definition: Any,
) -> RuleDefinition[LateRuns, PipelineFacts]:
    """Return a rule that checks each active run, with what is its own of the definition."""
    return RuleDefinition(
        rule=rule,
        subject_kind=SubjectKind.PIPELINE,
        memory=LateRuns,
        event_types=event_types,
        on_event=on_end_event,
        needs_memory=True,
        evaluate=partial(_evaluate, check=check),
        inhibited_by=OUTAGES,
        **definition,
    )


def _evaluate(
    state: StateInput[PipelineFacts],
    memory: LateRuns | None,
    rule: RuleSettings,
    check: LateRunCheck,
) -> RuleAnswer[LateRuns]:
    as_of = state.as_of
    if as_of is None:
        return RuleAnswer(Unknown("nothing was read completely yet"), memory)
    before = memory or LateRuns()
    active = {_name(active.run.key): active.run for active in state.facts.active}
    due: dict[str, DueRun] = {}
    for name, run in active.items():
        run_input = ActiveRunInput(
            run=run,
            as_of=as_of,
            facts=state.facts,
            is_root=run.key.kind is state.subject.kind,
            late_since=before.since.get(name),
            progress=before.progress.get(name),
        )
        if name not in before.over and (due_run := check(run_input, rule)) is not None:
            due[name] = due_run
    late = {name: run.due for name, run in due.items() if run.due and run.as_of >= run.due}
    undecided = {
        name: before.since[name]
        for name, run in due.items()
        if run.due is None and name in before.since
    }
    after = LateRuns(
        since={**undecided, **late},
        over=tuple(name for name in before.over if name in active),
        progress={name: run.progress for name, run in due.items() if run.progress is not None},
    )
    # What was read some time ago, or with delay, is late only as much later.
    times = [
        run.due + (as_of - run.as_of)
        for name, run in due.items()
        if run.due is not None and name not in late
    ]
    if late:
        names = sorted(late, key=lambda name: (late[name], name))
        result: EvaluationResult | None = Firing(
            since=late[names[0]],
            as_of=max(due[name].as_of for name in late),
            evidence=tuple(
                run_event_id(active[name].key, STATUS_EVENTS[active[name].status]) for name in names
            ),
            run=_root_run(active[names[0]], state.subject.kind),
            facts=due[names[0]].facts,
        )
    elif undecided:
        result = Unknown("no job records were read lately")
    else:
        # For runs whose end no event reported, such as those that only left this subject.
        result = Ok(at=as_of) if before.since else None
    return RuleAnswer(
        result, None if after == LateRuns() else after, again_at=min(times, default=None)
    )


def on_end_event(
    event_input: EventInput, memory: LateRuns | None, _: RuleSettings
) -> RuleAnswer[LateRuns]:
    """Remove a late run that the event reports as ended, or as started.

    An end that only a callback reported ends nothing: anyone with the secret could hide a run.
    """
    run = event_input.event.run
    ended = _name(run.key)
    if memory is None or ended not in memory.since or run.unconfirmed_end is not None:
        return RuleAnswer(None, memory)
    after = LateRuns(
        since={name: since for name, since in memory.since.items() if name != ended},
        over=(*memory.over, ended),
        progress={name: kept for name, kept in memory.progress.items() if name != ended},
    )
    result = None if after.since else Ok(at=event_input.at, evidence=(event_input.event.id,))
    return RuleAnswer(result, after)


def _name(key: RunKey) -> str:
    return f"{key.kind}:{key.id}"


def _root_run(run: RunState, kind: RunKind | None) -> RunKey:
    """Return the run of the subject's kind that this one is, or is a part of."""
    parents = {RunKind.PLAN_RUN: run.parents.plan_run, RunKind.FLOW_RUN: run.parents.flow_run}
    if kind is None or kind is run.key.kind or (parent := parents.get(kind)) is None:
        return run.key
    return RunKey(workspace=run.key.workspace, kind=kind, id=parent)
