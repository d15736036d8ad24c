"""What is true in a world, and from when on the daemon can and must know it.

Written from the requirements alone; no code of the daemon is used. An end sorts somewhere between
``earliest`` and ``latest``: one instant where the workspace shows it, a span where it shows none.
From ``known_at`` on the daemon may know it, from ``due_at`` on it must. So at any time
a subject certainly fails, certainly does not, or may be reported either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tests.worlds.allowances import (
    BEHIND_OVERLAP_SECONDS,
    LINK_SECONDS,
    RECONCILE_SECONDS,
    RELIST_SECONDS,
    REPORT_SECONDS,
    due,
    last_unfinished_read,
)
from tests.worlds.blindness import hidden_spans
from tests.worlds.impairments import Span
from tests.worlds.script import (
    NEVER,
    Callback,
    End,
    FlowRun,
    JobGroup,
    PlanRun,
    RunKind,
    Times,
    World,
)

Run = tuple[RunKind, int]
_WHOLE = ""


class Subject(Struct, frozen=True):
    """A pipeline as runs of one kind execute it: what an alert is about."""

    kind: RunKind
    pipeline: int


class TrueEnd(Struct, frozen=True, kw_only=True):
    """The end of a run, or of a part of it, as it counts for one subject.

    ``is_only_possible``: it may be counted and need not be, such as the failure of a part of a run
    that goes on.
    """

    subject: Subject
    run: Run
    end: End
    earliest: float
    latest: float
    known_at: float
    due_at: float
    starts_by: float = 0.0  # an alert may start as late as this where details come late
    part: str = _WHOLE
    until: float = NEVER  # from then on it no longer counts: the workspace has denied it
    must_until: float = NEVER
    is_only_possible: bool = False
    cleared_by: frozenset[Subject] = frozenset()  # successes of these; else of its own subject
    carriers: frozenset[Subject] = frozenset()  # whose alert may report it instead
    parts: frozenset[Run] = frozenset()  # runs inside of it, which may stand for it as evidence

    @property
    def latest_start(self) -> float:
        return max(self.latest, self.starts_by)

    def is_surely_after(self, other: TrueEnd) -> bool:
        """True where it is the later end; of equal ends a failure is."""
        if self.end is End.FAILED and other.end is not End.FAILED:
            return self.earliest >= other.latest
        return self.earliest > other.latest

    def may_clear(self, failure: TrueEnd) -> bool:
        """True for a success that counts for what failed, whenever it was."""
        subjects = failure.cleared_by or {failure.subject}
        return (
            self.end is End.COMPLETE
            and self.subject in subjects
            and self.part in (failure.part, _WHOLE)
        )


def true_ends(world: World, callbacks: Sequence[Callback], blind: Sequence[Span]) -> list[TrueEnd]:
    """Return every end that counts for an alert. ``callbacks`` are those that were delivered."""
    return _Ends(world, callbacks, blind).all()


def own_ends(world: World, blind: Sequence[Span]) -> list[TrueEnd]:
    """Return the end of every run for its own pipeline, whatever run it is part of."""
    return _Ends(world, (), blind).own()


class _Ends:
    def __init__(self, world: World, callbacks: Sequence[Callback], blind: Sequence[Span]) -> None:
        self._world = world
        self._callbacks = callbacks
        self._blind = blind
        self._blind_by_flow: dict[int, Sequence[Span]] = {}
        self._groups = {group.id: group for group in world.job_groups}
        self._plan_runs = {run.id: run for run in world.plan_runs}

    def all(self) -> list[TrueEnd]:
        ends: list[TrueEnd] = []
        for group in self._world.job_groups:
            if group.flow_run is None and group.deleted_at > group.end_shown_from:
                ends += self._of_lone_group(group)
        for flow_run in self._world.flow_runs:
            ends += self._counted(flow_run)
        return ends + [self._of_plan_run(run) for run in self._world.plan_runs]

    def own(self) -> list[TrueEnd]:
        return [
            *(self._of_group(group) for group in self._world.job_groups),
            *(self._of_flow_run(run)[0] for run in self._world.flow_runs),
            *(self._of_plan_run(run) for run in self._world.plan_runs),
        ]

    def _blind_of(self, flow: int) -> Sequence[Span]:
        """Return when runs of a flow need not become known."""
        if flow not in self._blind_by_flow:
            self._blind_by_flow[flow] = [*self._blind, *hidden_spans(self._world, flow)]
        return self._blind_by_flow[flow]

    # --- job groups ---

    def _of_group(self, group: JobGroup) -> TrueEnd:
        earliest, latest = self.span_of_group(group)
        known_at = group.end_shown_from
        due_at = due(known_at, group_allowance(group), self._blind_of(group.flow))
        return TrueEnd(
            subject=Subject(RunKind.JOB_GROUP, group.flow),
            part=str(group.recipe),
            run=(RunKind.JOB_GROUP, group.id),
            end=group.end,
            earliest=earliest,
            latest=latest,
            known_at=known_at,
            due_at=due_at,
            starts_by=self._starts_by(group),
            is_only_possible=due_at > group.deleted_at,
        )

    def _starts_by(self, group: JobGroup) -> float:
        """Return the latest start of an alert that could not wait for the job records."""
        if group.times is Times.NO_LAST_WRITE:
            by = due(group.end_shown_from, group_allowance(group), self._blind_of(group.flow))
            return max(by, self._world.stamped(by))
        return 0.0

    def _of_lone_group(self, group: JobGroup) -> list[TrueEnd]:
        truth = self._of_group(group)
        return [
            truth,
            *(
                self._called_back(truth, group, callback)
                for callback in self._failures_called_back(group, until=truth.due_at)
            ),
        ]

    def _failures_called_back(self, group: JobGroup, *, until: float) -> list[Callback]:
        return [
            callback
            for callback in self._callbacks
            if callback.job_group == group.id
            and callback.status is End.FAILED
            and callback.at < until
        ]

    def _called_back(self, truth: TrueEnd, group: JobGroup, callback: Callback) -> TrueEnd:
        """Return the failure that only a callback reports, until the workspace reports an end."""
        known_at = max(callback.at, group.shown_from)
        # A callback that comes as late as the end itself may be overtaken by it.
        is_early = due(known_at, REPORT_SECONDS, self._blind_of(group.flow)) < truth.known_at
        reads = self._between_reads(callback.at, REPORT_SECONDS, self._blind_of(group.flow))
        return TrueEnd(
            subject=truth.subject,
            part=truth.part,
            run=truth.run,
            end=End.FAILED,
            earliest=min(truth.earliest, reads[0]),
            latest=max(truth.latest, reads[1]),
            known_at=callback.at,
            due_at=due(known_at, REPORT_SECONDS, self._blind_of(group.flow)),
            until=truth.due_at,
            must_until=truth.known_at,
            is_only_possible=not is_early,
        )

    def span_of_group(self, group: JobGroup) -> tuple[float, float]:
        """Return where the end of a job group sorts, by what the workspace shows of it."""
        at = self._world.stamped(group.ended)
        is_implausible = at < self._world.stamped(group.created)
        if group.times is not Times.NONE and not is_implausible:
            # The end of its last job record, which a clock set back meanwhile leaves behind others.
            return at, max(at, self._world.stamped(group.middle))
        earliest, latest = self._between_reads(
            group.end_shown_from, group_allowance(group), self._blind_of(group.flow)
        )
        return min(at, group.ended, earliest), latest

    def _between_reads(
        self, at: float, allowance: float, blind: Sequence[Span]
    ) -> tuple[float, float]:
        """Return when an end that a read shows first may have been, by the workspace's clock.

        That clock may have been set in between.
        """
        earliest, latest = last_unfinished_read(at, blind), due(at, allowance, blind)
        stamped = self._world.stamped
        return min(earliest, stamped(earliest)), max(latest, stamped(latest))

    # --- flow runs ---

    def _of_flow_run(self, run: FlowRun) -> list[TrueEnd]:
        """Return the end of a flow run, and those of its failed parts behind it."""
        groups = [self._groups[group] for group in run.job_groups]
        spans = [self.span_of_group(group) for group in groups]
        subject = Subject(RunKind.FLOW_RUN, run.flow)
        allowance = max(group_allowance(group) for group in groups)
        inside: frozenset[Run] = frozenset((RunKind.JOB_GROUP, group.id) for group in groups)
        whole = TrueEnd(
            subject=subject,
            run=(RunKind.FLOW_RUN, run.id),
            parts=inside,
            end=run.end,
            earliest=max(earliest for earliest, _ in spans),
            latest=max(latest for _, latest in spans),
            known_at=run.end_shown_from,
            due_at=due(run.end_shown_from, allowance, self._blind_of(run.flow)),
            starts_by=max(self._starts_by(group) for group in groups),
        )
        parts = [self._failed_part(whole, group) for group in groups if group.end is End.FAILED]
        for group in groups:
            over_at = due(group.end_shown_from, allowance, self._blind_of(run.flow))
            for callback in self._failures_called_back(group, until=over_at):
                part = self._failed_part(whole, group)
                is_true = group.end is End.FAILED
                earliest, latest = self._between_reads(
                    callback.at, REPORT_SECONDS, self._blind_of(run.flow)
                )
                parts.append(
                    replace(
                        part,
                        known_at=callback.at,
                        earliest=min(part.earliest, earliest),
                        latest=max(part.latest, latest),
                        until=NEVER if is_true else over_at,
                    )
                )
        return [whole, *parts]

    def _failed_part(self, whole: TrueEnd, group: JobGroup) -> TrueEnd:
        """Return the failure of a part, which may be reported before the whole has ended."""
        earliest, latest = self.span_of_group(group)
        return replace(
            whole,
            end=End.FAILED,
            earliest=earliest,
            latest=max(latest, whole.latest),
            starts_by=self._starts_by(group),
            known_at=group.end_shown_from,
            due_at=NEVER,
            is_only_possible=True,
        )

    def _counted(self, run: FlowRun) -> list[TrueEnd]:
        """Return what the ends of a flow run count for, also if it is part of a plan run."""
        ends = self._of_flow_run(run)
        if run.plan_run is None:
            return ends
        plan_run = self._plan_runs[run.plan_run]
        plan, flow = Subject(RunKind.PLAN_RUN, plan_run.plan), ends[0].subject
        counted: list[TrueEnd] = []
        for end in ends:
            possible = replace(end, is_only_possible=True, due_at=NEVER)
            if end.end is not End.FAILED:
                # Whether it clears what failed outside of the plan is left open.
                counted.append(possible)
                continue
            counted.append(replace(possible, subject=plan, run=(RunKind.PLAN_RUN, plan_run.id)))
            if not self._is_link_known(run, plan_run, by=end.known_at):
                counted.append(replace(possible, cleared_by=frozenset({flow, plan})))
        return counted

    def _is_link_known(self, run: FlowRun, plan_run: PlanRun, *, by: float) -> bool:
        """True where a flow run must be known as part of its plan run by a time.

        What appears after the end of the plan run is linked when it can be.
        """
        shown_from = min(self._groups[group].shown_from for group in run.job_groups)
        named_from = max(shown_from, plan_run.children_named_from[run.id])
        is_known_soon = due(named_from, LINK_SECONDS, self._blind_of(run.flow)) <= by
        return is_known_soon and shown_from < plan_run.end_shown_from

    # --- plan runs ---

    def _of_plan_run(self, run: PlanRun) -> TrueEnd:
        failed = {
            Subject(RunKind.FLOW_RUN, child.flow)
            for child in self._world.flow_runs
            if child.plan_run == run.id and child.end is End.FAILED
        }
        at = self._world.stamped(run.ended)
        allowance = max(
            [REPORT_SECONDS]
            + [
                group_allowance(group)
                for group in self._world.job_groups
                if group.plan_run == run.id
            ]
        )
        if run.end_shown_from - run.ended > BEHIND_OVERLAP_SECONDS:
            allowance = max(allowance, RECONCILE_SECONDS)
        earliest = latest = at
        if at < self._world.stamped(run.created):  # no end that can be true
            reads = self._between_reads(run.end_shown_from, allowance, self._blind)
            earliest, latest = min(at, run.ended, reads[0]), reads[1]
        return TrueEnd(
            subject=Subject(RunKind.PLAN_RUN, run.plan),
            run=(RunKind.PLAN_RUN, run.id),
            end=run.end,
            earliest=earliest,
            latest=latest,
            known_at=run.end_shown_from,
            due_at=due(run.end_shown_from, allowance, self._blind),
            carriers=frozenset(failed),
            parts=frozenset(self._inside(run)),
        )

    def _inside(self, run: PlanRun) -> Iterator[Run]:
        for child in self._world.flow_runs:
            if child.plan_run == run.id:
                yield (RunKind.FLOW_RUN, child.id)
                for group in child.job_groups:
                    yield (RunKind.JOB_GROUP, group)


def group_allowance(group: JobGroup) -> float:
    """Return how long the end of a job group may take to be reported."""
    if group.shown_from - group.ended >= 0:
        is_behind = group.shown_from - group.ended > BEHIND_OVERLAP_SECONDS
        return RELIST_SECONDS if is_behind else REPORT_SECONDS
    is_behind = group.end_shown_from - group.ended > BEHIND_OVERLAP_SECONDS
    return RECONCILE_SECONDS if is_behind else REPORT_SECONDS
