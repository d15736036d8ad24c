"""Of each deadline of a world: who may meet it, who must, and by when it must be decided. Pure.

Written from the requirements, without the daemon's code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from tests.worlds.allowances import RECOVERED_SECONDS, REPORT_SECONDS, due
from tests.worlds.blindness import UNREACHABLE, blindnesses, hidden_spans, unlisted_spans
from tests.worlds.deadline_times import due_between, written
from tests.worlds.impairments import Span
from tests.worlds.script import NEVER, Deadline, End, RunKind, Times, World
from tests.worlds.truth import TrueEnd, group_allowance, own_ends

LATENCY_SECONDS = 15.0  # between what is known and the arrival of what is decided
_STAMP_SECONDS = 0.01  # stamps are cut to milliseconds
_LONGEST = timedelta(hours=26)  # the day after, where clocks are set back


class Attempt(Struct, frozen=True, kw_only=True):
    """A run of the pipeline; its start and its end lie within spans."""

    run: str
    is_success: bool
    began: Span
    ended: Span
    shown_from: float
    known_at: float  # its end
    due_at: float
    is_certain: bool  # False: it may never become known
    is_seen_soon: bool  # the next poll shows its end

    def counted(self, counts: str) -> Span:
        return self.began if counts == "started" else self.ended


class AwaitedDeadline(Struct, frozen=True, kw_only=True):
    """One deadline and the runs of its pipeline."""

    deadline: Deadline
    at: float
    opens: float
    day_at: datetime  # as the daemon names it
    attempts: tuple[Attempt, ...]
    blind: tuple[Span, ...]  # the runs of the pipeline need not become known
    held_back: tuple[Span, ...]  # another alert explains what is missed, which is then not notified
    removed_from: float  # from then on the pipeline may be gone for the daemon

    @property
    def is_awaited(self) -> bool:
        """False where the window was open when the daemon began: no success before is known."""
        return self.opens > 0

    @property
    def successes(self) -> tuple[Attempt, ...]:
        return tuple(attempt for attempt in self.attempts if attempt.is_success)

    def may_count(self, success: Attempt) -> bool:
        counted = success.counted(self.deadline.counts)
        # An end without a time of the workspace has that of its read, which may be late.
        is_read = counted is success.ended and counted.end > counted.begin
        late = LATENCY_SECONDS if is_read else 0.0
        return counted.end + late >= self.opens - _STAMP_SECONDS

    def must_count(self, success: Attempt) -> bool:
        begin = success.counted(self.deadline.counts).begin
        return success.is_certain and begin >= self.opens + _STAMP_SECONDS

    def may_meet(self, success: Attempt) -> bool:
        return self.may_count(success) and success.ended.begin <= self.at + _STAMP_SECONDS

    def must_meet(self, success: Attempt) -> bool:
        return self.must_count(success) and success.ended.end <= self.at - _STAMP_SECONDS

    @property
    def met_by(self) -> float:
        """By when it must be reported as met; never where that is not certain."""
        due_ats = [success.due_at for success in self.successes if self.must_meet(success)]
        return min(due_ats, default=NEVER) + LATENCY_SECONDS

    @property
    def decided_by(self) -> float:
        """By when it must be reported, as met or as missed."""
        return min(self.met_by, NEVER if self._may_stay_held_back else self._missed_by)

    @property
    def _missed_by(self) -> float:
        return due(self.at, REPORT_SECONDS, [*self.blind, *self.held_back]) + LATENCY_SECONDS

    @property
    def _may_stay_held_back(self) -> bool:
        """True where it may no longer be missed when the other alert is over."""
        by = self._missed_by
        held_back = any(span.begin <= by and self.at <= span.end for span in self.held_back)
        return held_back and self.over_from <= by

    @property
    def over_from(self) -> float:
        """From when on it may no longer be missed: a success that counts may be known."""
        known = [success.known_at for success in self.successes if self.may_count(success)]
        return min([*known, self.removed_from])

    def over_by(self, after: float) -> float:
        """By when it must no longer be missed that was reported so at a time."""
        due_ats = [success.due_at for success in self.successes if self.must_count(success)]
        return max(min(due_ats, default=NEVER), after) + LATENCY_SECONDS


def awaited_deadlines(
    world: World, planned: datetime, zero: datetime, blind: Sequence[Span]
) -> Iterator[AwaitedDeadline]:
    """Yield the deadlines of a day from the beginning on, also those that nothing awaits."""
    for deadline in world.deadlines:
        rule = written(deadline, planned)
        own = [*blind, *hidden_spans(world, deadline.pipeline)]
        held_back = tuple(_outages(world, blind))
        for day in due_between(rule, zero, zero + _LONGEST):
            yield AwaitedDeadline(
                deadline=deadline,
                at=(day.at - zero).total_seconds(),
                opens=(day.opens_at - zero).total_seconds(),
                day_at=day.at,
                attempts=tuple(_attempts(world, deadline, blind)),
                blind=tuple(own),
                held_back=held_back,
                removed_from=_removed_from(world, deadline),
            )


def latest_decision(
    world: World, planned: datetime, zero: datetime, blind: Sequence[Span]
) -> float:
    """Return when the last deadline of the script must be decided; 0 without one."""
    last = max((deadline.due_minutes for deadline in world.deadlines), default=0) * 60.0
    decided = (
        each.decided_by
        for each in awaited_deadlines(world, planned, zero, blind)
        if each.at <= last and each.is_awaited
    )
    return max((at for at in decided if at < NEVER), default=0.0)


def _outages(world: World, blind: Sequence[Span]) -> Iterator[Span]:
    """Yield when the alert about the workspace may be active."""
    for span in world.outages:
        yield Span(span.begin, due(span.end, RECOVERED_SECONDS, blind))
    for part in blindnesses(world):
        if UNREACHABLE in part.rules:
            yield Span(part.span.begin, due(part.recovered_at, RECOVERED_SECONDS, blind))


def _removed_from(world: World, deadline: Deadline) -> float:
    pipelines = world.plans if deadline.kind == "plan" else world.flows
    deleted = [each.deleted_at for each in pipelines if each.id == deadline.pipeline]
    spans = [*hidden_spans(world, deadline.pipeline), *unlisted_spans(world)]
    return min([*deleted, *(span.begin for span in spans)], default=NEVER)


def _attempts(world: World, deadline: Deadline, blind: Sequence[Span]) -> Iterator[Attempt]:
    """Yield the whole runs of a pipeline: a job group of a flow run says nothing of the flow."""
    groups = {group.id: group for group in world.job_groups}
    flow_runs = {run.id: run for run in world.flow_runs}
    plan_runs = {run.id: run for run in world.plan_runs}
    for end in own_ends(world, blind):
        kind, run_id = end.run
        is_plan = kind is RunKind.PLAN_RUN
        if end.subject.pipeline != deadline.pipeline or is_plan != (deadline.kind == "plan"):
            continue
        if kind is RunKind.JOB_GROUP:
            group = groups[run_id]
            if group.flow_run is not None:
                continue
            parts = [group]
            created, started, shown_from = group.created, group.started, group.shown_from
        elif kind is RunKind.FLOW_RUN:
            parts = [groups[group] for group in flow_runs[run_id].job_groups]
            created = flow_runs[run_id].created
            started = max(group.started for group in parts)
            shown_from = min(group.shown_from for group in parts)
        else:
            parts, plan_run = [], plan_runs[run_id]
            created, started, shown_from = plan_run.created, plan_run.started, plan_run.shown_from
        has_times = all(group.times is Times.ALL for group in parts)
        latest = world.stamped(started) if has_times else max(world.stamped(started), end.latest)
        yield Attempt(
            run=f"{kind} {run_id}",
            is_success=end.end is End.COMPLETE,
            began=Span(world.stamped(created), latest),
            ended=Span(end.earliest, end.latest),
            shown_from=shown_from,
            known_at=end.known_at,
            due_at=end.due_at,
            is_certain=not end.is_only_possible,
            is_seen_soon=_is_seen_soon(end, [group_allowance(group) for group in parts]),
        )


def _is_seen_soon(end: TrueEnd, allowances: Sequence[float]) -> bool:
    is_listed = end.latest == end.earliest and end.known_at - end.latest <= 1.0
    return is_listed and all(allowance <= REPORT_SECONDS for allowance in allowances)
