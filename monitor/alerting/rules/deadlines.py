"""Deadlines of one flow or plan: not decided yet, met, or missed. Pure.

A deadline is met as soon as a success is known that counts and ended by then. It is missed once
everything until then is known, and shows no such success. An end that is bounded counts from its
latest instant: by then it is certain. Events report successes; those that no event brought here,
as of a run whose pipeline became known late, are taken from the health of the pipeline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.alerting.rules.contract import (
    PIPELINE_REMOVED,
    DeadlineMet,
    EventInput,
    FlowOrPlanFacts,
    Ok,
    RuleAnswer,
    StateInput,
    Unknown,
)
from monitor.alerting.rules.deadline_settings import Counts, daily_deadline
from monitor.alerting.rules.rule_settings import RuleSettings
from monitor.model.ends import RunEnd
from monitor.model.events import EventType
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import RunKind, RunState, Status
from monitor.schedules.daily_deadlines import DailyDeadline, Deadline

EVENT_TYPES = (
    EventType.RUN_SUCCEEDED,
    EventType.RUN_CONFIRMED,
    EventType.RUN_DETAILED,
    EventType.RUN_CORRECTED,
)
_AT_ONCE = 50  # deadlines in one evaluation; more of them wait for the next
_ROOM = 20  # successes, before those that decide nothing are dropped
_KEPT_OF_EACH = 5  # successes of one deadline, the earliest: some may be corrected
_KEPT = 200


class CountedSuccess(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A success. ``counts_at`` is its start or its end, whichever the rule compares."""

    run: str  # kind:id
    counts_at: datetime
    ended_at: datetime
    event: str = ""

    def counts_for(self, deadline: Deadline) -> bool:
        """True also where it is too late."""
        return self.counts_at >= deadline.opens_at

    def meets(self, deadline: Deadline) -> bool:
        return self.counts_for(deadline) and self.ended_at <= deadline.at


class AwaitedDeadlines(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of the deadlines of one flow or plan. Instants are the workspace's.

    Each deadline before ``next`` is decided. ``missed`` is the oldest one since which nothing
    that counts has succeeded. ``met`` is the newest one, while it is the last that was decided:
    the workspace may still correct the run that met it.
    """

    terms: str  # of the rule, by which all this was decided
    next: Deadline | None
    missed: Deadline | None = None
    missed_in_a_row: int = 0
    met: Deadline | None = None
    met_by: str = ""
    successes: tuple[CountedSuccess, ...] = ()  # by their ends, the earliest first
    reported_until: datetime | None = None  # none until then is reported as met any more
    counted_until: datetime | None = None  # none until then is counted as missed any more
    met_count: int = 0
    missed_count: int = 0

    @property
    def opens_at(self) -> datetime | None:
        """No success before this decides anything any more."""
        oldest = self.missed or self.met or self.next
        return None if oldest is None else oldest.opens_at


class DecidedDeadlines(Struct, frozen=True, kw_only=True):
    """What an evaluation has decided. ``has_more``: call again.

    ``ended``: what was missed, ``was_missed``, has this success now; in the same evaluation it may
    have been missed and be over.
    """

    memory: AwaitedDeadlines
    met: tuple[DeadlineMet, ...] = ()
    ended: CountedSuccess | None = None
    was_missed: Deadline | None = None
    is_over_when_seen: bool = False
    has_more: bool = False


def deadline_of(rule: RuleSettings) -> DailyDeadline:
    """Return when the deadline of the rule is."""
    return daily_deadline(
        rule.deadline or "",
        rule.counts_from,
        rule.deadline_timezone,
        rule.deadline_days,
        rule.days_off,
    )


def terms_of(rule: RuleSettings) -> str:
    """Return what a decision depends on, in words that change with it."""
    days_off = ",".join((rule.holidays or "", *rule.holiday_dates))
    times = f"{rule.deadline} {rule.deadline_timezone} {rule.deadline_days}"
    return f"{times} {rule.counts} {rule.counts_from} {days_off}"


def not_judged(
    state: StateInput[FlowOrPlanFacts], memory: AwaitedDeadlines | None
) -> RuleAnswer[AwaitedDeadlines]:
    """Return the answer before all runs are read, and of what is gone or has no deadline."""
    if memory is None:
        return RuleAnswer(None)
    if state.as_of is None:
        return RuleAnswer(Unknown("runs were not yet read completely"), memory)
    return RuleAnswer(Ok(at=state.as_of, reason=PIPELINE_REMOVED))


def first_awaited(
    facts: FlowOrPlanFacts,
    rule: RuleSettings,
    *,
    as_of: datetime,
    before: AwaitedDeadlines | None,
) -> AwaitedDeadlines:
    """Return what is awaited from now on; ``before``: by other terms, or None.

    A window that is open already counts if it is known that no success fell into it before.
    """
    daily = deadline_of(rule)
    first = daily.after(as_of)
    is_known = any(health.last_success_at is not None for health in facts.pipeline_health)
    if first is not None and first.opens_at < as_of and not is_known:
        first = daily.after(first.at)
    reported_until = None if first is None else first.opens_at
    if before is not None and before.reported_until is not None:
        # The same day is not reported again, though its deadline is another one now.
        reported_until = max(reported_until or before.reported_until, before.reported_until)
    return AwaitedDeadlines(
        terms=terms_of(rule),
        next=first,
        reported_until=reported_until,
        counted_until=None if before is None else before.counted_until,
        met_count=0 if before is None else before.met_count,
        missed_count=0 if before is None else before.missed_count,
    )


def with_event(
    memory: AwaitedDeadlines, event_input: EventInput, rule: RuleSettings
) -> AwaitedDeadlines:
    """Keep the success that an event reports, drop one that it takes back."""
    run, end = event_input.event.run, event_input.end
    if event_input.event.type is EventType.RUN_CORRECTED or run.status is not Status.SUCCEEDED:
        return _without_run(memory, _name(run.key.kind, run.key.id))
    # What only a callback has reported counts when the workspace confirms it.
    if end is None or run.unconfirmed_end is not None or _is_part(run):
        return memory
    success = _success(run.key.kind, end, rule, event=event_input.event.id)
    return _with_success(memory, success, deadline_of(rule))


def known_successes(
    memory: AwaitedDeadlines, facts: FlowOrPlanFacts, rule: RuleSettings
) -> list[CountedSuccess]:
    """Return the successes that events and the health of the pipeline show, by their ends."""
    by_run = {success.run: success for success in _of_health(facts.pipeline_health, rule)}
    by_run |= {success.run: success for success in memory.successes}
    return sorted(by_run.values(), key=_order)


def decided(
    memory: AwaitedDeadlines,
    successes: Sequence[CountedSuccess],
    daily: DailyDeadline,
    *,
    known_until: datetime,
) -> DecidedDeadlines:
    """Decide what can be decided, in order of time, up to where the result changes."""
    memory, met = _met_after_all(memory, successes, daily)
    if memory.missed is not None:
        late = _first(successes, memory.missed)
        if late is not None:
            return _ended(memory, memory.missed, late, daily, met)
    for _ in range(_AT_ONCE):
        if (due := memory.next) is None:
            break
        success = next((known for known in successes if known.meets(due)), None)
        if success is not None:
            memory = _with_met(memory, due, success, daily, met)
        elif known_until < due.at:
            break
        else:
            memory = _with_missed(memory, due, daily)
            if (late := _first(successes, due)) is not None:
                ended = _ended(memory, due, late, daily, met)
                return msgspec.structs.replace(ended, is_over_when_seen=True)
    has_more = memory.next is not None and memory.next.at <= known_until
    kept = _still_needed(memory)
    return DecidedDeadlines(memory=kept, met=tuple(met), has_more=has_more)


def _met_after_all(
    memory: AwaitedDeadlines, successes: Sequence[CountedSuccess], daily: DailyDeadline
) -> tuple[AwaitedDeadlines, list[DeadlineMet]]:
    """Report deadlines that were decided as missed, and that a success meets which is known now."""
    met: list[DeadlineMet] = []
    until = memory.reported_until
    if until is None or all(success.ended_at < until for success in successes):
        return memory, met
    due = daily.after(until)
    for _ in range(_AT_ONCE):
        if due is None or not _is_decided(memory, due):
            break
        success = next((known for known in successes if known.meets(due)), None)
        if success is not None:
            memory, reported = _reported(memory, due, success)
            met += reported
        due = daily.after(due.at)
    return memory, met


def _is_decided(memory: AwaitedDeadlines, due: Deadline) -> bool:
    return memory.next is not None and due.at < memory.next.at


def _ended(
    memory: AwaitedDeadlines,
    missed: Deadline,
    success: CountedSuccess,
    daily: DailyDeadline,
    met: Sequence[DeadlineMet],
) -> DecidedDeadlines:
    """Let a success end what was missed; it may have ended in time and be known only now.

    What was missed in a row after that success, which says nothing of it, is decided again.
    """
    due = daily.after(missed.at)
    while due is not None and _is_decided(memory, due):
        if success.ended_at <= due.at or not success.counts_for(due):
            memory = msgspec.structs.replace(memory, next=due)
        due = daily.after(due.at)
    memory = msgspec.structs.replace(memory, missed=None, missed_in_a_row=0)
    return DecidedDeadlines(
        memory=memory, met=tuple(met), ended=success, was_missed=missed, has_more=True
    )


def _with_met(
    memory: AwaitedDeadlines,
    due: Deadline,
    success: CountedSuccess,
    daily: DailyDeadline,
    met: list[DeadlineMet],
) -> AwaitedDeadlines:
    memory, reported = _reported(memory, due, success)
    met += reported
    return msgspec.structs.replace(memory, met=due, met_by=success.run, next=daily.after(due.at))


def _with_missed(memory: AwaitedDeadlines, due: Deadline, daily: DailyDeadline) -> AwaitedDeadlines:
    counted_until = memory.counted_until
    is_counted = counted_until is not None and due.at <= counted_until
    return msgspec.structs.replace(
        memory,
        missed=memory.missed or due,
        missed_in_a_row=memory.missed_in_a_row + 1,
        missed_count=memory.missed_count + (not is_counted),
        counted_until=counted_until if is_counted else due.at,
        met=None,
        met_by="",
        next=daily.after(due.at),
    )


def _reported(
    memory: AwaitedDeadlines, deadline: Deadline, success: CountedSuccess
) -> tuple[AwaitedDeadlines, tuple[DeadlineMet, ...]]:
    """Report a deadline as met, once, however often a run that met it is corrected."""
    if memory.reported_until is not None and deadline.at <= memory.reported_until:
        return memory, ()
    memory = msgspec.structs.replace(
        memory, reported_until=deadline.at, met_count=memory.met_count + 1
    )
    met = DeadlineMet(day=deadline.day, at=deadline.at, ended_at=success.ended_at)
    return memory, (met,)


def _first(successes: Iterable[CountedSuccess], deadline: Deadline) -> CountedSuccess | None:
    return next((success for success in successes if success.counts_for(deadline)), None)


def _with_success(
    memory: AwaitedDeadlines, success: CountedSuccess, daily: DailyDeadline
) -> AwaitedDeadlines:
    is_of_next = memory.next is not None and success.counts_for(memory.next)
    if memory.missed is None and not is_of_next and not _meets_decided(memory, success, daily):
        # It decides nothing any more, save that it may be of a run that is known.
        return _in_place(memory, success)
    others = [known for known in memory.successes if known.run != success.run]
    successes = sorted((*others, success), key=_order)
    if len(successes) > _ROOM:
        successes = list(_deciding(successes, daily))[-_KEPT:]
    return msgspec.structs.replace(memory, successes=tuple(successes))


def _meets_decided(memory: AwaitedDeadlines, success: CountedSuccess, daily: DailyDeadline) -> bool:
    """True of what meets a deadline after all that was missed, and is over."""
    if memory.reported_until is None or success.ended_at < memory.reported_until:
        return False
    due = daily.after(success.ended_at - timedelta.resolution)
    return due is not None and _is_decided(memory, due) and success.meets(due)


def _in_place(memory: AwaitedDeadlines, success: CountedSuccess) -> AwaitedDeadlines:
    """Take over better times of a success; the same object where it is not a known one."""
    if all(known.run != success.run for known in memory.successes):
        return memory
    known = [success if known.run == success.run else known for known in memory.successes]
    return msgspec.structs.replace(memory, successes=tuple(sorted(known, key=_order)))


def _deciding(
    successes: Iterable[CountedSuccess], daily: DailyDeadline
) -> Iterator[CountedSuccess]:
    """Yield the earliest successes before each deadline, of those that count for it and others."""
    seen: Counter[tuple[Deadline | None, bool]] = Counter()
    for success in successes:
        due = daily.after(success.ended_at - timedelta.resolution)
        group = due, due is not None and success.counts_for(due)
        seen[group] += 1
        if seen[group] <= _KEPT_OF_EACH:
            yield success


def _still_needed(memory: AwaitedDeadlines) -> AwaitedDeadlines:
    opens_at = memory.opens_at
    known = memory.successes
    kept = tuple(each for each in known if opens_at is not None and each.counts_at >= opens_at)
    return memory if len(kept) == len(known) else msgspec.structs.replace(memory, successes=kept)


def _without_run(memory: AwaitedDeadlines, run: str) -> AwaitedDeadlines:
    """Drop a run; the deadline that it has met is to be decided again."""
    kept = tuple(known for known in memory.successes if known.run != run)
    if len(kept) < len(memory.successes):
        memory = msgspec.structs.replace(memory, successes=kept)
    if memory.met is not None and memory.met_by == run:
        return msgspec.structs.replace(memory, next=memory.met, met=None, met_by="")
    return memory


def _of_health(
    pipeline_health: Iterable[PipelineHealth], rule: RuleSettings
) -> Iterator[CountedSuccess]:
    for health in pipeline_health:
        for end in health.ends:
            is_part = health.run_kind is RunKind.JOB_GROUP and end.flow_run is not None
            if end.status is Status.SUCCEEDED and not is_part:
                yield _success(health.run_kind, end, rule)


def _is_part(run: RunState) -> bool:
    """True of a job group inside a flow run: that one shows when the whole flow is done."""
    return run.key.kind is RunKind.JOB_GROUP and run.parents.flow_run is not None


def _success(kind: RunKind, end: RunEnd, rule: RuleSettings, *, event: str = "") -> CountedSuccess:
    started_at = end.began_at or end.earliest
    return CountedSuccess(
        run=_name(kind, end.run_id),
        counts_at=started_at if rule.counts is Counts.STARTED else end.latest,
        ended_at=end.latest,
        event=event,
    )


def _name(kind: RunKind, run_id: str) -> str:
    return f"{kind}:{run_id}"


def _order(success: CountedSuccess) -> tuple[datetime, str]:
    return success.ended_at, success.run
