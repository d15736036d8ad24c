"""True histories of runs, and the distorted observations that a monitor gets at them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import strategies as st

from monitor.model.events import EventType, RunEvent
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import (
    JobCount,
    JobDetails,
    Parents,
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
    Trigger,
    status_of,
)
from monitor.outputs.metrics.counter_rows import RunCounts
from monitor.outputs.metrics.counting import CountingLimits, PendingCounts
from monitor.tracking.transitions import Boundary, advance

START = datetime(2026, 11, 21, 10, tzinfo=UTC)
API_SOURCES = (Source.POLL, Source.RECONCILIATION, Source.TRACK)


@dataclass(frozen=True)
class History:
    """What really happened to one run: the views that the API showed, oldest first."""

    key: RunKey
    views: tuple[Observation, ...]
    is_deleted: bool
    detail: Observation | None = None

    @property
    def end(self) -> Status | None:
        if self.is_deleted:
            return Status.LOST
        status = status_of(self.views[-1].native_status)
        return status if status is not None and status.is_terminal else None

    def event_types(self) -> list[EventType]:
        """Return the transitions that must be published, in order, once everything was read."""
        event_types = [EventType.RUN_QUEUED]
        statuses = {status_of(view.native_status) for view in self.views}
        if Status.RUNNING in statuses or self.end is not None:
            event_types.append(EventType.RUN_STARTED)
        if self.end is not None:
            event_types.append(EventType(f"run.{self.end}"))
        if self.detail is not None:
            event_types.append(EventType.RUN_DETAILED)
        return event_types


@dataclass
class World:
    """A monitor reduced to its rules: state, log, and commits that may fail."""

    boundary: Boundary = field(default_factory=Boundary)
    states: dict[RunKey, RunState] = field(default_factory=dict)
    log: list[RunEvent] = field(default_factory=list)
    unconfirmed: list[Observation] = field(default_factory=list)

    def observe(self, observation: Observation, *, crash: bool = False) -> ObservationOutcome:
        """Apply an observation; a crash before the commit leaves everything as it was."""
        transition = advance(self.states.get(observation.key), observation, self.boundary)
        if crash:
            return transition.outcome
        if transition.outcome is ObservationOutcome.UNCONFIRMED:
            self.unconfirmed.append(observation)
        if transition.state is not None:
            self.states[observation.key] = transition.state
        self.log.extend(transition.events)
        return transition.outcome

    def ids(self, key: RunKey) -> list[str]:
        """Return the ids of a run's events; that a callback was right is for the inside only."""
        return [
            event.id
            for event in self.log
            if event.run.key == key and event.type is not EventType.RUN_CONFIRMED
        ]

    def confirm_callbacks(self) -> None:
        """Apply the waiting callbacks again, as the inbox does."""
        waiting, self.unconfirmed = self.unconfirmed, []
        for observation in waiting:
            self.observe(observation)


def comparable(state: RunState) -> RunState:
    """Drop what depends on who observed the run when, and not on what happened."""
    return msgspec.structs.replace(
        state,
        confirmed_at=START,
        confirmed_by=Source.POLL,
        ended_by=None,
        has_unsent_details=False,
        unfinished_at=None,
        end_seen_at=None,
        updated_at=None,
        contradiction=None,
        is_called_back=False,
        jobs=state.jobs if state.detailed else None,
    )


@st.composite
def histories(draw: st.DrawFn, *, kind: RunKind | None = None, number: int = 1) -> History:
    """Draw a true history: stamps may be equal or absent, words unknown, parents late."""
    run_kind = kind or draw(st.sampled_from(list(RunKind)))
    key = RunKey("acme", run_kind, str(number))
    words = _words(draw)
    is_deleted = status_of(words[-1]) in (None, Status.PENDING, Status.RUNNING) and draw(
        st.booleans()
    )
    has_times = draw(st.booleans())
    seconds = sorted(draw(st.lists(st.integers(0, 5), min_size=len(words), max_size=len(words))))
    plan_run = run_kind is RunKind.PLAN_RUN
    views: list[Observation] = []
    started_at: datetime | None = None
    for word, second in zip(words, seconds, strict=True):
        at = START + timedelta(seconds=second)
        status = status_of(word)
        is_over = status is not None and status.is_terminal
        if status is Status.RUNNING or is_over:
            started_at = started_at or at
        views.append(
            Observation(
                key=key,
                source=Source.POLL,
                observed_at=START,
                native_status=word,
                created_at=START if has_times else None,
                updated_at=at if has_times else None,
                started_at=started_at if plan_run and has_times else None,
                finished_at=at if plan_run and has_times and is_over else None,
            )
        )
    last = status_of(words[-1])
    detail = None
    if run_kind is RunKind.JOB_GROUP and last is not None and last.is_terminal:
        detail = _detail(views[-1], seconds[-1]) if draw(st.booleans()) else None
    views[-1] = msgspec.structs.replace(views[-1], **_late_details(draw, run_kind))
    return History(key=key, views=tuple(views), is_deleted=is_deleted, detail=detail)


def _words(draw: st.DrawFn) -> list[str]:
    words = ["Created"]
    if draw(st.booleans()):
        words.append(draw(st.sampled_from(["Pending", "undefined", "Warming up"])))
    if draw(st.booleans()):
        words.extend(["InProgress"] * draw(st.integers(1, 2)))
    if draw(st.booleans()):
        words.append(draw(st.sampled_from(["Complete", "Failed", "Canceled", "Cancelled"])))
    return words


def _late_details(draw: st.DrawFn, kind: RunKind) -> dict[str, object]:
    pipeline_kind = PipelineKind.PLAN if kind is RunKind.PLAN_RUN else PipelineKind.FLOW
    return {
        "pipeline": Pipeline(kind=pipeline_kind, id="7", name=draw(st.sampled_from([None, "x"]))),
        "parents": Parents(flow_run=draw(st.sampled_from([None, "71"]))),
        "trigger": draw(st.sampled_from(list(Trigger))),
        "owner": draw(st.sampled_from([None, "jane"])),
    }


def _detail(last_view: Observation, second: int) -> Observation:
    return msgspec.structs.replace(
        last_view,
        source=Source.DETAIL,
        started_at=START + timedelta(seconds=0.5),
        finished_at=START + timedelta(seconds=second, milliseconds=900),
        jobs=JobDetails(counts=(JobCount(job_type="wrangle", status="Complete", count=1),)),
        is_detail_final=True,
    )


@st.composite
def distorted_observations(
    draw: st.DrawFn, history: History, *, lies: bool = False
) -> list[tuple[Observation, bool]]:
    """Draw what a monitor observes of it: lost, repeated, late, by poll and by callback.

    The flag says that the daemon dies before the commit. What is deleted or has ended comes last
    once more, as a reconciliation makes sure, so that nothing is lost forever. ``lies``: up to
    three callbacks name an end that the run may never have.
    """
    chosen: list[Observation] = []
    for view in history.views:
        for _ in range(draw(st.integers(0, 2))):
            source = draw(st.sampled_from(API_SOURCES))
            chosen.append(msgspec.structs.replace(view, source=source))
    if history.end is not None and not history.is_deleted:
        callback = _callback(history, history.views[-1].native_status)
        chosen.extend([callback] * draw(st.integers(0, 2)))
        if history.detail is not None:
            # As the inbox completes it with the job records.
            completed = msgspec.structs.replace(history.detail, source=Source.CALLBACK)
            chosen.extend([completed] * draw(st.integers(0, 1)))
    if lies:
        words = draw(st.lists(st.sampled_from(["Complete", "Failed", "Canceled"]), max_size=3))
        chosen.extend(_callback(history, word) for word in words)
    if history.detail is not None:
        chosen.extend([history.detail] * draw(st.integers(0, 1)))
    shuffled = draw(st.permutations(chosen))
    return [(observation, draw(st.booleans())) for observation in shuffled]


def _callback(history: History, word: str | None) -> Observation:
    return Observation(
        key=history.key, source=Source.CALLBACK, observed_at=START, native_status=word
    )


def final_observations(history: History) -> list[Observation]:
    """Return the observations that polling and the reconciliation guarantee in the end."""
    last = [
        msgspec.structs.replace(view, source=Source.RECONCILIATION) for view in history.views[-1:]
    ]
    if any(status_of(view.native_status) is Status.RUNNING for view in history.views):
        running = [
            view for view in history.views if status_of(view.native_status) is Status.RUNNING
        ]
        last = [running[-1], *last]
    if history.detail is not None:
        last.append(history.detail)
    if history.is_deleted:
        gone = Observation(
            key=history.key, source=Source.RECONCILIATION, observed_at=START, is_gone=True
        )
        last.append(gone)
    return last


def remaining(world: World) -> dict[Status, int]:
    """Return the ends that counters show, less what corrections say is to be subtracted."""
    counts = PendingCounts({}, limits=CountingLimits(places=10, forget_seconds=60.0))
    for event in world.log:
        counts.take(event)
    left: dict[Status, int] = {}
    for row in counts.changed.values():
        if isinstance(row, RunCounts):
            for status, number in row.ended.items():
                wrong = sum(row.corrected.get(status, {}).values())
                left[status] = left.get(status, 0) + number - wrong
    return {status: number for status, number in left.items() if number}
