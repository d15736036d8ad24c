"""Any recorded past of one workspace, and any rules to try on it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import strategies as st
from msgspec import Struct

from monitor.alerting.rules.deadline_settings import Counts
from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Recorded
from monitor.model.events import STATUS_EVENTS, EventType, RunEvent, run_event_id
from monitor.model.live_state import ScheduleKnown, WorkspaceStatus
from monitor.model.runs import (
    Parents,
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
    Trigger,
)
from monitor.model.triggers import HourlyTrigger

BEGIN = datetime(2026, 11, 20, 10, tzinfo=UTC)
WORKSPACE = "acme"
_MINUTE = timedelta(minutes=1)
_PLAN = Pipeline(kind=PipelineKind.PLAN, id="1", name="month end")
_FLOWS = [
    Pipeline(kind=PipelineKind.FLOW, id=str(other_number), name=f"flow {other_number}")
    for other_number in range(3)
]
_ENDS = (Status.SUCCEEDED, Status.SUCCEEDED, Status.FAILED, Status.FAILED, Status.CANCELED, None)


class Ran(Struct, frozen=True):
    """One run with what ran inside it. Times are minutes from the beginning, delays seconds."""

    flow: int
    created: int
    waits: int  # before it starts
    lasts: int
    ends: Status | None  # None: it has not ended when the log does
    inside: tuple[RunKind, ...]  # the kinds of run that it is made of, root first
    trigger: Trigger
    noticed: int  # seconds after it happened
    is_linked_late: bool  # what it is a part of is notified with its end alone


RUNS = st.lists(
    st.builds(
        Ran,
        flow=st.integers(0, 2),
        created=st.integers(0, 200),
        waits=st.sampled_from((0, 0, 1, 20)),
        lasts=st.sampled_from((1, 2, 5, 40, 100)),
        ends=st.sampled_from(_ENDS),
        inside=st.sampled_from(
            (
                (RunKind.JOB_GROUP,),
                (RunKind.FLOW_RUN, RunKind.JOB_GROUP),
                (RunKind.PLAN_RUN, RunKind.FLOW_RUN, RunKind.JOB_GROUP),
            )
        ),
        trigger=st.sampled_from((Trigger.SCHEDULE, Trigger.MANUAL)),
        noticed=st.sampled_from((2, 3, 10, 900, 5_000)),
        is_linked_late=st.booleans(),
    ),
    min_size=1,
    max_size=25,
)


def recorded(runs: list[Ran]) -> list[Recorded]:
    """Return the log of these runs."""
    events = [event for number, ran in enumerate(runs) for event in _events(number, ran)]
    events.sort(key=lambda event: (event.recorded_at, event.id))
    return [Recorded(position, event) for position, event in enumerate(events, 1)]


def _events(number: int, ran: Ran) -> Iterator[RunEvent]:
    created = BEGIN + ran.created * _MINUTE
    for depth, kind in enumerate(ran.inside):
        # What is inside begins a little later and ends a little earlier.
        begun = created + timedelta(seconds=3 * depth)
        ended = created + (ran.waits + ran.lasts) * _MINUTE - timedelta(seconds=3 * depth)
        above = {f"{item}": str(number) for item in ran.inside[:depth]}
        run = RunState(
            key=RunKey(WORKSPACE, kind, str(number)),
            status=Status.PENDING,
            created_at=begun,
            pipeline=_PLAN if kind is RunKind.PLAN_RUN else _FLOWS[ran.flow],
            trigger=Trigger.PLAN if depth and ran.inside[0] is RunKind.PLAN_RUN else ran.trigger,
            parents=Parents() if ran.is_linked_late else Parents(**above),
            confirmed_at=begun,
            confirmed_by=Source.POLL,
        )
        yield _event(run, begun, ran.noticed)
        started = begun + ran.waits * _MINUTE
        run = msgspec.structs.replace(run, status=Status.RUNNING, started_at=started)
        yield _event(run, started, ran.noticed)
        if ran.ends is not None:
            run = msgspec.structs.replace(
                run,
                status=ran.ends,
                finished_at=ended,
                parents=Parents(**above),
                error="no space" if ran.ends is Status.FAILED and depth else None,
            )
            yield _event(run, ended, ran.noticed)


def _event(run: RunState, at: datetime, noticed: int) -> RunEvent:
    kind = EventType.RUN_QUEUED if run.status is Status.PENDING else STATUS_EVENTS[run.status]
    recorded_at = at + timedelta(seconds=noticed)
    run = msgspec.structs.replace(run, confirmed_at=recorded_at)
    return RunEvent(
        id=run_event_id(run.key, kind),
        type=kind,
        run=run,
        before=None,
        occurred_at=at,
        recorded_at=recorded_at,
        observed_by=Source.POLL,
    )


def workspace() -> WorkspaceStatus:
    """Return the workspace as it stands: one flow runs each hour, one each half hour."""
    schedules = tuple(
        ScheduleKnown(
            id=str(number),
            name=f"schedule {number}",
            is_enabled=True,
            triggers=tuple(HourlyTrigger(minute_of_hour=minute) for minute in minutes),
            pipelines=(_FLOWS[number],),
        )
        for number, minutes in enumerate(((30,), (0, 30)))
    )
    return WorkspaceStatus(
        workspace=WORKSPACE,
        capabilities=frozenset({"follow_flow_runs", "list_plan_runs"}),
        followed_since=BEGIN,
        schedules=schedules,
    )


def _rules() -> st.SearchStrategy[tuple[RuleSettings, ...]]:
    def one(kind: RuleKind, *thresholds: float) -> st.SearchStrategy[RuleSettings]:
        return st.builds(
            msgspec.structs.replace,
            st.just(default_rule(kind)),
            threshold=st.sampled_from(thresholds or (default_rule(kind).threshold,)),
            for_seconds=st.sampled_from((0.0, 0.0, 90.0, 1_000.0)),
            repeat_seconds=st.sampled_from((0.0, 600.0, 3_600.0)),
            mute=st.sampled_from(((), (), ("Mon-Sun 11:00-12:30 UTC",))),
            match=st.sampled_from((Match(), Match(), Match(trigger=("schedule",)))),
        )

    def of_pipelines(kind: RuleKind, *thresholds: float) -> st.SearchStrategy[RuleSettings]:
        return one(kind, *thresholds).map(lambda rule: msgspec.structs.replace(rule, match=Match()))

    def with_deadline(kind: RuleKind, *thresholds: float) -> st.SearchStrategy[RuleSettings]:
        return st.builds(
            msgspec.structs.replace,
            of_pipelines(kind, *thresholds),
            deadline=st.sampled_from(("10:30", "12:00")),
            counts=st.sampled_from(Counts),
            counts_from=st.sampled_from(("00:00", "10:20", "11:00")),
        )

    return st.tuples(
        one(RuleKind.RUN_FAILED),
        one(RuleKind.CANCELED),
        one(RuleKind.FAILING_REPEATEDLY, 2.0, 0.5),
        one(RuleKind.RUN_OVERDUE, 180.0, 1_800.0),
        one(RuleKind.QUEUE_SLOW, 60.0, 600.0),
        of_pipelines(RuleKind.NOT_FRESH, 1_200.0, 7_200.0),
        of_pipelines(RuleKind.SCHEDULE_MISSED, 60.0, 600.0),
        with_deadline(RuleKind.DEADLINE_MISSED),
        with_deadline(RuleKind.DEADLINE_AT_RISK, 600.0, 1_800.0),
    )


ALERTING = st.builds(
    AlertingSettings,
    rules=_rules(),
    evaluation_interval_seconds=st.just(60.0),
    flap_count=st.sampled_from((2, 3)),
    flap_seconds=st.sampled_from((600.0, 7_200.0)),
    resolved_kept_seconds=st.sampled_from((60.0, 3_600.0)),
    parents_wait_seconds=st.sampled_from((0.0, 15.0, 200.0)),
)
