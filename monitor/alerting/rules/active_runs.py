"""Rules about runs that have not ended: run_overdue, queue_slow, run_stuck.

Each run is judged by itself, the alert is about their pipeline: it begins with the first run that
is late, and is over when none is. Judged as of the last complete poll, what job records show as
of their last reading: while nobody looks, nothing becomes late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.rules.contract import (
    AnyRuleDefinition,
    EventInput,
    Firing,
    Ok,
    RuleAnswer,
    RuleDefinition,
    StateInput,
    SubjectKind,
    Unknown,
    Verdict,
)
from monitor.alerting.rules.defaults import threshold_of
from monitor.alerting.rules.facts import PipelineFacts
from monitor.alerting.rules.parts import told_at
from monitor.alerting.rules.run_signs import Sign, newest_sign
from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.model.events import EventType, RunEvent, run_event_id
from monitor.model.runs import RunKey, RunKind, RunState, Status

_WAITING_FACTOR = 4.0  # a queue is allowed more silence than work
# Lists do not show flow runs: the end of one is known some time after that of its last job group.
_END_READ_WITHIN = timedelta(minutes=2)
_ENDS = (
    EventType.RUN_SUCCEEDED,
    EventType.RUN_FAILED,
    EventType.RUN_CANCELED,
    EventType.RUN_LOST,
)


class LateRuns(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The late runs of one subject, by ``kind:id``, and since when each is late.

    ``over`` are those that were heard to be over: a picture of the present may still show them.
    """

    since: dict[str, datetime] = {}
    over: tuple[str, ...] = ()
    signs: dict[str, Sign] = {}  # of executing job groups; only run_stuck looks for them


class _Found(Struct, frozen=True, kw_only=True):
    """One run that is late from ``due`` on, as it was at ``as_of``.

    Without ``due`` nobody can tell at present, and what was late still counts as late.
    """

    run: RunState
    as_of: datetime
    due: datetime | None
    evidence: EventType = EventType.RUN_STARTED
    facts: Mapping[str, str | float | None] = {}
    sign: Sign | None = None


_Judge = Callable[
    [RunState, datetime, StateInput[PipelineFacts], LateRuns, RuleSettings], _Found | None
]


def _evaluate(
    looked: StateInput[PipelineFacts], memory: LateRuns | None, rule: RuleSettings, judge: _Judge
) -> RuleAnswer[LateRuns]:
    as_of = looked.as_of
    if as_of is None:
        return RuleAnswer(result=Unknown(why="nothing was read completely yet"), memory=memory)
    held = memory or LateRuns()
    active = {_name(other_active.run.key): other_active.run for other_active in looked.facts.active}
    told = {
        name: judge(run, as_of, looked, held, rule)
        for name, run in active.items()
        if name not in held.over
    }
    found = {name: item for name, item in told.items() if item is not None}
    late = {name: item.due for name, item in found.items() if item.due and item.as_of >= item.due}
    unclear = {
        name: held.since[name]
        for name, item in found.items()
        if item.due is None and name in held.since
    }
    kept = LateRuns(
        since={**unclear, **late},
        over=tuple(name for name in held.over if name in active),
        signs={name: item.sign for name, item in found.items() if item.sign is not None},
    )
    # What was looked at some time ago, or with delay, is late only as much later.
    times = [
        item.due + (as_of - item.as_of)
        for name, item in found.items()
        if item.due is not None and name not in late
    ]
    return RuleAnswer(
        result=_result(found, late, held, looked, is_unclear=bool(unclear)),
        memory=None if kept == LateRuns() else kept,
        again_at=min(times, default=None),
    )


def _result(
    found: Mapping[str, _Found],
    late: Mapping[str, datetime],
    held: LateRuns,
    looked: StateInput[PipelineFacts],
    *,
    is_unclear: bool,
) -> Verdict | None:
    if late:
        first = min(late, key=lambda name: (late[name], name))
        worst = found[first]
        return Firing(
            since=late[first],
            as_of=max(found[name].as_of for name in late),
            evidence=tuple(
                run_event_id(found[name].run.key, found[name].evidence)
                for name in sorted(late, key=lambda name: (late[name], name))
            ),
            run=_root_run(worst.run, looked.subject.kind),
            facts=dict(worst.facts),
        )
    if is_unclear:
        return Unknown(why="no job records were read lately")
    # Of runs that no event told the end of, such as those that only left this subject.
    return Ok(at=looked.as_of) if held.since and looked.as_of else None


def _on_end_event(
    heard: EventInput[PipelineFacts], memory: LateRuns | None, _: RuleSettings
) -> RuleAnswer[LateRuns]:
    """A late run is late no more by what the event tells."""
    event = heard.event
    if memory is None or not isinstance(event, RunEvent):
        return RuleAnswer(result=None, memory=memory)
    name = _name(event.run.key)
    if name not in memory.since:
        return RuleAnswer(result=None, memory=memory)
    left = {item: since for item, since in memory.since.items() if item != name}
    kept = LateRuns(
        since=left,
        over=(*memory.over, name),
        signs={other_sign: sign for other_sign, sign in memory.signs.items() if other_sign != name},
    )
    right = None if left else Ok(at=told_at(event), evidence=(event.id,))
    return RuleAnswer(result=right, memory=kept)


def _name(key: RunKey) -> str:
    return f"{key.kind}:{key.id}"


def _root_run(run: RunState, kind: RunKind | None) -> RunKey:
    """Return the run of the subject's kind that this one is, or is a part of."""
    parents = {RunKind.PLAN_RUN: run.parents.plan_run, RunKind.FLOW_RUN: run.parents.flow_run}
    parent = None if kind is None or kind is run.key.kind else parents.get(kind)
    if kind is None or parent is None:
        return run.key
    return RunKey(workspace=run.key.workspace, kind=kind, id=parent)


def evaluate_overdue(
    looked: StateInput[PipelineFacts], memory: LateRuns | None, rule: RuleSettings
) -> RuleAnswer[LateRuns]:
    return _evaluate(looked, memory, rule, _overdue)


def _overdue(
    run: RunState,
    as_of: datetime,
    looked: StateInput[PipelineFacts],
    held: LateRuns,
    rule: RuleSettings,
) -> _Found | None:
    # Job groups and flow runs report no start of their own; their creation is the nearest stamp.
    begun_at = run.started_at or run.created_at
    is_root = run.key.kind is looked.subject.kind
    if run.status is not Status.RUNNING or not is_root or begun_at is None:
        return None
    # Once late, late until the end: the learned limit moves with each run that ends beside it.
    due = held.since.get(_name(run.key))
    is_late = due is not None
    if due is None:
        limit = rule.threshold or looked.facts.limit
        if limit is None:
            return None
        due = begun_at + timedelta(seconds=limit)
    return _Found(
        run=run,
        as_of=as_of if is_late or _shows_work(run, looked) else as_of - _END_READ_WITHIN,
        due=due,
        facts={
            "run": run.key.id,
            "running_seconds": (as_of - begun_at).total_seconds(),
            "limit_seconds": (due - begun_at).total_seconds(),
        },
    )


def _shows_work(run: RunState, looked: StateInput[PipelineFacts]) -> bool:
    """False for a flow run none of whose parts is active: it may be over, which is read by id."""
    return run.key.kind is not RunKind.FLOW_RUN or any(
        active.run.parents.flow_run == run.key.id for active in looked.facts.active
    )


def evaluate_queue(
    looked: StateInput[PipelineFacts], memory: LateRuns | None, rule: RuleSettings
) -> RuleAnswer[LateRuns]:
    return _evaluate(looked, memory, rule, _waiting_too_long)


def _waiting_too_long(
    run: RunState,
    as_of: datetime,
    _: StateInput[PipelineFacts],
    __: LateRuns,
    rule: RuleSettings,
) -> _Found | None:
    if run.status is not Status.PENDING or run.created_at is None:
        return None
    return _Found(
        run=run,
        as_of=as_of,
        due=run.created_at + timedelta(seconds=threshold_of(rule)),
        evidence=EventType.RUN_QUEUED,
        facts={
            "run": run.key.id,
            "waiting_seconds": (as_of - run.created_at).total_seconds(),
        },
    )


def evaluate_stuck(
    looked: StateInput[PipelineFacts], memory: LateRuns | None, rule: RuleSettings
) -> RuleAnswer[LateRuns]:
    return _evaluate(looked, memory, rule, _stuck)


def _stuck(
    run: RunState,
    as_of: datetime,
    _: StateInput[PipelineFacts],
    held: LateRuns,
    rule: RuleSettings,
) -> _Found | None:
    if run.status is Status.PENDING:
        return _stuck_in_queue(run, as_of, rule)
    if run.key.kind is not RunKind.JOB_GROUP:
        return None  # only job groups have job records
    return _stuck_at_work(run, as_of, held.signs.get(_name(run.key)), rule)


def _stuck_in_queue(run: RunState, as_of: datetime, rule: RuleSettings) -> _Found | None:
    if run.created_at is None:
        return None
    return _Found(
        run=run,
        as_of=as_of,
        due=run.created_at + timedelta(seconds=_WAITING_FACTOR * threshold_of(rule)),
        evidence=EventType.RUN_QUEUED,
        facts={
            "run": run.key.id,
            "stuck_seconds": (as_of - run.created_at).total_seconds(),
            "percent_complete": None,
        },
    )


def _stuck_at_work(
    run: RunState, as_of: datetime, held: Sign | None, rule: RuleSettings
) -> _Found | None:
    sign = newest_sign(held, run.jobs)
    if sign is None:
        return None
    read_at = run.jobs.read_at if run.jobs is not None else None
    if read_at is None:
        # Since a restart: what job records said stands in the store, when they did does not.
        return _Found(run=run, as_of=as_of, due=None, sign=sign)
    return _Found(
        run=run,
        as_of=read_at,
        due=sign.at + timedelta(seconds=threshold_of(rule)),
        facts={
            "run": run.key.id,
            "stuck_seconds": (read_at - sign.at).total_seconds(),
            "percent_complete": sign.percent,
        },
        sign=sign,
    )


RUN_OVERDUE = RuleDefinition(
    rule=RuleKind.RUN_OVERDUE,
    subject_kind=SubjectKind.PIPELINE,
    memory=LateRuns,
    event_types=_ENDS,
    on_event=_on_end_event,
    evaluate=evaluate_overdue,
    template_fields=("run", "running_seconds", "limit_seconds"),
)

QUEUE_SLOW = RuleDefinition(
    rule=RuleKind.QUEUE_SLOW,
    subject_kind=SubjectKind.PIPELINE,
    memory=LateRuns,
    event_types=(EventType.RUN_STARTED, *_ENDS),
    on_event=_on_end_event,
    evaluate=evaluate_queue,
    template_fields=("run", "waiting_seconds"),
)

RUN_STUCK = RuleDefinition(
    rule=RuleKind.RUN_STUCK,
    subject_kind=SubjectKind.PIPELINE,
    memory=LateRuns,
    event_types=_ENDS,
    on_event=_on_end_event,
    evaluate=evaluate_stuck,
    template_fields=("run", "stuck_seconds", "percent_complete"),
)

RULE_DEFINITIONS: tuple[AnyRuleDefinition, ...] = (RUN_OVERDUE, RUN_STUCK, QUEUE_SLOW)
