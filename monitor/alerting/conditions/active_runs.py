"""Rules about runs that have not ended: run_overdue, queue_slow, run_stuck.

Each run is judged by itself, the alert is about their pipeline: it begins with the first run that
is late, and is over when none is. Judged as of the last complete poll, what job records show as
of their last reading: while nobody looks, nothing becomes late.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from monitor.alerting.conditions.parts import told_at
from monitor.alerting.conditions.run_signs import Sign, newest_sign
from monitor.alerting.facts import PipelineFacts
from monitor.alerting.settings.defaults import threshold_of
from monitor.alerting.settings.rules import RuleKind, RuleSettings
from monitor.alerting.verdicts import (
    About,
    AnyCondition,
    Condition,
    Heard,
    Judged,
    Looked,
    Right,
    Unclear,
    Verdict,
    Wrong,
)
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


class Late(Struct, frozen=True, kw_only=True, omit_defaults=True):
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


_Judge = Callable[[RunState, datetime, Looked[PipelineFacts], Late, RuleSettings], _Found | None]


def _look(
    looked: Looked[PipelineFacts], memory: Late | None, rule: RuleSettings, judge: _Judge
) -> Judged[Late]:
    as_of = looked.as_of
    if as_of is None:
        return Judged(verdict=Unclear(why="nothing was read completely yet"), memory=memory)
    held = memory or Late()
    active = {_name(one.run.key): one.run for one in looked.facts.active}
    told = {
        name: judge(run, as_of, looked, held, rule)
        for name, run in active.items()
        if name not in held.over
    }
    found = {name: one for name, one in told.items() if one is not None}
    late = {name: one.due for name, one in found.items() if one.due and one.as_of >= one.due}
    unclear = {
        name: held.since[name]
        for name, one in found.items()
        if one.due is None and name in held.since
    }
    kept = Late(
        since={**unclear, **late},
        over=tuple(name for name in held.over if name in active),
        signs={name: one.sign for name, one in found.items() if one.sign is not None},
    )
    # What was looked at some time ago, or with delay, is late only as much later.
    times = [
        one.due + (as_of - one.as_of)
        for name, one in found.items()
        if one.due is not None and name not in late
    ]
    return Judged(
        verdict=_verdict(found, late, held, looked, is_unclear=bool(unclear)),
        memory=None if kept == Late() else kept,
        again_at=min(times, default=None),
    )


def _verdict(
    found: Mapping[str, _Found],
    late: Mapping[str, datetime],
    held: Late,
    looked: Looked[PipelineFacts],
    *,
    is_unclear: bool,
) -> Verdict | None:
    if late:
        first = min(late, key=lambda name: (late[name], name))
        worst = found[first]
        return Wrong(
            since=late[first],
            as_of=max(found[name].as_of for name in late),
            evidence=tuple(
                run_event_id(found[name].run.key, found[name].evidence)
                for name in sorted(late, key=lambda name: (late[name], name))
            ),
            run=_outermost(worst.run, looked.subject.kind),
            facts=dict(worst.facts),
        )
    if is_unclear:
        return Unclear(why="no job records were read lately")
    # Of runs that no event told the end of, such as those that only left this subject.
    return Right(at=looked.as_of) if held.since and looked.as_of else None


def _hear_over(heard: Heard[PipelineFacts], memory: Late | None, _: RuleSettings) -> Judged[Late]:
    """A late run is late no more by what the event tells."""
    event = heard.event
    if memory is None or not isinstance(event, RunEvent):
        return Judged(verdict=None, memory=memory)
    name = _name(event.run.key)
    if name not in memory.since:
        return Judged(verdict=None, memory=memory)
    left = {one: since for one, since in memory.since.items() if one != name}
    kept = Late(
        since=left,
        over=(*memory.over, name),
        signs={one: sign for one, sign in memory.signs.items() if one != name},
    )
    right = None if left else Right(at=told_at(event), evidence=(event.id,))
    return Judged(verdict=right, memory=kept)


def _name(key: RunKey) -> str:
    return f"{key.kind}:{key.id}"


def _outermost(run: RunState, kind: RunKind | None) -> RunKey:
    """Return the run of the subject's kind that this one is, or is a part of."""
    parents = {RunKind.PLAN_RUN: run.parents.plan_run, RunKind.FLOW_RUN: run.parents.flow_run}
    parent = None if kind is None or kind is run.key.kind else parents.get(kind)
    if kind is None or parent is None:
        return run.key
    return RunKey(workspace=run.key.workspace, kind=kind, id=parent)


def look_overdue(
    looked: Looked[PipelineFacts], memory: Late | None, rule: RuleSettings
) -> Judged[Late]:
    return _look(looked, memory, rule, _overdue)


def _overdue(
    run: RunState,
    as_of: datetime,
    looked: Looked[PipelineFacts],
    held: Late,
    rule: RuleSettings,
) -> _Found | None:
    # Job groups and flow runs report no start of their own; their creation is the nearest stamp.
    begun_at = run.started_at or run.created_at
    is_outermost = run.key.kind is looked.subject.kind
    if run.status is not Status.RUNNING or not is_outermost or begun_at is None:
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


def _shows_work(run: RunState, looked: Looked[PipelineFacts]) -> bool:
    """False for a flow run none of whose parts is active: it may be over, which is read by id."""
    return run.key.kind is not RunKind.FLOW_RUN or any(
        one.run.parents.flow_run == run.key.id for one in looked.facts.active
    )


def look_queue(
    looked: Looked[PipelineFacts], memory: Late | None, rule: RuleSettings
) -> Judged[Late]:
    return _look(looked, memory, rule, _waiting_too_long)


def _waiting_too_long(
    run: RunState,
    as_of: datetime,
    _: Looked[PipelineFacts],
    __: Late,
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


def look_stuck(
    looked: Looked[PipelineFacts], memory: Late | None, rule: RuleSettings
) -> Judged[Late]:
    return _look(looked, memory, rule, _stuck)


def _stuck(
    run: RunState,
    as_of: datetime,
    _: Looked[PipelineFacts],
    held: Late,
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


RUN_OVERDUE = Condition(
    rule=RuleKind.RUN_OVERDUE,
    about=About.PIPELINE,
    memory=Late,
    hears=_ENDS,
    hear=_hear_over,
    look=look_overdue,
    template_fields=("run", "running_seconds", "limit_seconds"),
)

QUEUE_SLOW = Condition(
    rule=RuleKind.QUEUE_SLOW,
    about=About.PIPELINE,
    memory=Late,
    hears=(EventType.RUN_STARTED, *_ENDS),
    hear=_hear_over,
    look=look_queue,
    template_fields=("run", "waiting_seconds"),
)

RUN_STUCK = Condition(
    rule=RuleKind.RUN_STUCK,
    about=About.PIPELINE,
    memory=Late,
    hears=_ENDS,
    hear=_hear_over,
    look=look_stuck,
    template_fields=("run", "stuck_seconds", "percent_complete"),
)

CONDITIONS: tuple[AnyCondition, ...] = (RUN_OVERDUE, RUN_STUCK, QUEUE_SLOW)
