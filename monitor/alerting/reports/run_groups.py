"""Sorts the ended runs of a workspace into the groups of a report. Pure: no I/O, no clock.

Runs come newest creation first, so the first success after a failure was mostly added just before.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from enum import Enum, auto
from heapq import heappush, heappushpop

from msgspec import Struct
from msgspec.structs import replace

from monitor.model.ends import RunEnd, run_end
from monitor.model.runs import Parents, Pipeline, PipelineKind, RunKey, RunKind, RunState, Status
from monitor.model.slices import free_in_slices

MOST_FAILURES = 10_000  # of a workspace that are kept one by one
MOST_ROWS = 500  # of one list of a report

BAD = (Status.FAILED, Status.LOST)


class FailureGroup(Enum):
    """What a report says of a failure; each is in exactly one group."""

    STILL_FAILING = auto()  # no later run of its part has succeeded
    RECOVERED = auto()
    OVER_WHEN_SEEN = auto()  # a success had followed it before it was observed
    PART = auto()  # of a run that failed too, which stands for it


class Stretch(Struct, frozen=True):
    """A stretch of workspace time, its end not included."""

    since: datetime
    until: datetime

    @property
    def before(self) -> Stretch:
        """The stretch before it, which is as long."""
        return Stretch(self.since - (self.until - self.since), self.since)

    def holds(self, at: datetime) -> bool:
        return self.since <= at < self.until


# What is kept by thousands is hidden from the garbage collector, which would halt all meanwhile.
class Usual(Struct, frozen=True, kw_only=True, gc=False):
    """What runs of a pipeline take: half of them at most ``seconds``."""

    seconds: float
    slow_from: float


class PipelineId(Struct, frozen=True, gc=False):
    """A flow or plan, whatever its name."""

    kind: PipelineKind
    id: str

    @classmethod
    def of(cls, pipeline: Pipeline) -> PipelineId:
        return cls(pipeline.kind, pipeline.id)


class FailingPart(Struct, frozen=True, gc=False):
    """What fails and recovers by itself; of a run without a pipeline the run."""

    kind: RunKind
    pipeline_id: str
    own_id: str


class FailedRun(Struct, frozen=True, kw_only=True, gc=False):
    """A failure of the stretch. ``recovered_at``: the first success of its part after it."""

    run: RunState
    end: RunEnd
    part: FailingPart
    recovered_at: datetime | None
    is_seen_late: bool


class SlowSuccess(Struct, frozen=True, kw_only=True, gc=False):
    """A success that took longer than usual."""

    run: RunState
    end: RunEnd
    seconds: float
    usual_seconds: float


class Tally(Struct, kw_only=True):
    """What is added up of one stretch; the arrays only where trends are wanted."""

    counts: Counter[tuple[RunKind, Status]]
    success_seconds: array[float]
    queue_seconds: array[float]
    has_trends: bool

    @classmethod
    def empty(cls, *, has_trends: bool) -> Tally:
        return cls(
            counts=Counter(),
            success_seconds=array("d"),
            queue_seconds=array("d"),
            has_trends=has_trends,
        )


def _part_of(run: RunState) -> FailingPart:
    """Return the run's recipe, else its pipeline."""
    if run.pipeline is None:
        return FailingPart(run.key.kind, "", run.key.id)  # nothing is known to be its next run
    recipe_id = "" if run.recipe is None else run.recipe.id
    return FailingPart(run.key.kind, run.pipeline.id, recipe_id)


class RunGroups:
    """Takes runs one by one; what follows from all of them is asked for at the end."""

    def __init__(
        self,
        stretch: Stretch,
        *,
        usual: Callable[[RunState], Usual | None],
        has_trends: bool = False,
    ) -> None:
        self._stretch = stretch
        self._before = stretch.before if has_trends else None
        self._usual = usual
        self._newest: dict[FailingPart, RunEnd] = {}  # successes
        self._last_added: dict[FailingPart, RunEnd] = {}  # likewise
        self._failures: dict[RunKey, FailedRun] = {}
        self._slow: list[tuple[float, RunKey, SlowSuccess]] = []  # a heap: the least slow first
        self.lost_slow = 0  # past the bound
        self.now = Tally.empty(has_trends=has_trends)
        self.before = Tally.empty(has_trends=has_trends)
        self.runs: Counter[PipelineId] = Counter()  # without parts of flow runs
        self.lost_failures = 0  # past the bound

    def add(self, run: RunState) -> None:
        """Take an ended run; each once."""
        end = run_end(run)
        if end is None:
            return
        part = _part_of(run)
        if run.status is Status.SUCCEEDED:
            newest = self._newest.get(part)
            if newest is None or end.order > newest.order:
                self._newest[part] = end
        if self._before is not None and self._before.holds(end.at):
            _count(self.before, run, end)
        elif self._is_of_stretch(run, end):
            self._add(run, end, part)
        if run.status is Status.SUCCEEDED:
            self._last_added[part] = end

    def _is_of_stretch(self, run: RunState, end: RunEnd) -> bool:
        return self._stretch.holds(end.at) or self._is_seen_late(run, end)

    def _is_seen_late(self, run: RunState, end: RunEnd) -> bool:
        """True of what a report of the time before could not know. Historical runs are no news."""
        seen_at = run.end_seen_at
        is_earlier = end.at < self._stretch.since
        return (
            is_earlier
            and seen_at is not None
            and not run.historical
            and self._stretch.holds(seen_at)
        )

    def _add(self, run: RunState, end: RunEnd, part: FailingPart) -> None:
        _count(self.now, run, end)
        if run.parents.flow_run is None and run.pipeline is not None:
            self.runs[PipelineId.of(run.pipeline)] += 1
        if run.status in BAD:
            self._add_failure(run, end, part)
        elif run.status is Status.SUCCEEDED and run.parents == Parents():
            self._add_success(run, end)

    def _add_failure(self, run: RunState, end: RunEnd, part: FailingPart) -> None:
        if len(self._failures) >= MOST_FAILURES:
            self.lost_failures += 1
            return
        after = self._last_added.get(part)
        failed = FailedRun(
            run=run,
            end=end,
            part=part,
            recovered_at=after.at if after is not None and after.order > end.order else None,
            is_seen_late=not self._stretch.holds(end.at),
        )
        self._failures[run.key] = failed

    def _add_success(self, run: RunState, end: RunEnd) -> None:
        seconds = end.duration_seconds
        usual = None if seconds is None else self._usual(run)
        if seconds is None or usual is None or seconds < usual.slow_from:
            return
        slow = SlowSuccess(run=run, end=end, seconds=seconds, usual_seconds=usual.seconds)
        item = (seconds - usual.seconds, run.key, slow)
        if len(self._slow) < MOST_ROWS:
            heappush(self._slow, item)
        else:
            heappushpop(self._slow, item)
            self.lost_slow += 1

    # --- what follows ---

    @property
    def slow(self) -> list[SlowSuccess]:
        """The slowest successes, in no order."""
        return [slow for _, _, slow in self._slow]

    def failures(self) -> list[FailedRun]:
        """Return the failures, in no order: there may be thousands."""
        return list(self._failures.values())

    def grouped(self, failed: FailedRun) -> tuple[FailureGroup, FailedRun]:
        """Return the group of one of the failures, and the failure with its recovery."""
        if any(key in self._failures for key in parents_of(failed.run)):
            return FailureGroup.PART, failed
        newest = self._newest.get(failed.part)
        if newest is None or newest.order < failed.end.order:
            return FailureGroup.STILL_FAILING, failed
        recovered_at = failed.recovered_at or newest.at
        failed = replace(failed, recovered_at=recovered_at)
        seen_at = failed.run.end_seen_at
        is_over = seen_at is not None and recovered_at <= seen_at
        return FailureGroup.OVER_WHEN_SEEN if is_over else FailureGroup.RECOVERED, failed

    async def free(self) -> None:
        """Forget all, when the report is made."""
        for held in (self._failures, self._newest, self._last_added, self.runs):
            await free_in_slices(held)


def parents_of(run: RunState) -> Iterable[RunKey]:
    """Return the runs that a run is a part of."""
    workspace, parents = run.key.workspace, run.parents
    if parents.flow_run is not None:
        yield RunKey(workspace, RunKind.FLOW_RUN, parents.flow_run)
    if parents.plan_run is not None:
        yield RunKey(workspace, RunKind.PLAN_RUN, parents.plan_run)


def _count(tally: Tally, run: RunState, end: RunEnd) -> None:
    tally.counts[run.key.kind, run.status] += 1
    if not tally.has_trends:
        return
    if run.status is Status.SUCCEEDED and end.duration_seconds is not None:
        tally.success_seconds.append(end.duration_seconds)
    is_known = not {"created_at", "started_at"} & set(run.approximate)
    if run.created_at is not None and run.started_at is not None and is_known:
        queued = (run.started_at - run.created_at).total_seconds()
        tally.queue_seconds.append(max(0.0, queued))
