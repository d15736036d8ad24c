"""A flow, its schedules and its starts, evaluated by the rule alone, without an engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from monitor.alerting.rules.awaited_starts import AwaitedStarts
from monitor.alerting.rules.contract import (
    EvaluationResult,
    EventInput,
    Firing,
    FlowOrPlanFacts,
    Ok,
    RuleAnswer,
    StateInput,
    Subject,
    SubjectKind,
)
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.schedule_missed import DEFINITION as SCHEDULE_MISSED
from monitor.alerting.rules.table import default_rule
from monitor.model.events import EventType, RunEvent, run_event_id
from monitor.model.live_state import ActiveRun, PipelineHealth, ScheduleKnown
from monitor.model.runs import (
    Parents,
    Pipeline,
    PipelineKind,
    Recipe,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
    Trigger,
)
from monitor.model.triggers import HourlyTrigger
from monitor.model.triggers import ScheduleTrigger as When

TEN = datetime(2026, 11, 21, 10, tzinfo=UTC)
FLOW = Pipeline(kind=PipelineKind.FLOW, id="11", name="Daily sales")
PLAN = Pipeline(kind=PipelineKind.PLAN, id="13", name="Month end")
HALF_PAST = HourlyTrigger(minute_of_hour=30)
GRACE = timedelta(minutes=10)


def at(text: str) -> datetime:
    """Return the time of day on the day of the history, or a day and a time: ``22 08:00``."""
    day, _, clock = text.rpartition(" ")
    hour, minute, *second = (int(part) for part in clock.split(":"))
    return TEN.replace(day=int(day or 21), hour=hour, minute=minute, second=sum(second))


def schedule(
    *triggers: When,
    schedule_id: str = "1",
    is_enabled: bool = True,
    created_at: datetime | None = None,
    updated_at: datetime | None = None,
) -> ScheduleKnown:
    return ScheduleKnown(
        id=schedule_id,
        name=f"s{schedule_id}",
        is_enabled=is_enabled,
        triggers=triggers,
        pipelines=(FLOW,),
        created_at=created_at,
        updated_at=updated_at,
    )


def run_of(
    number: int,
    created_at: datetime | None,
    *,
    kind: RunKind = RunKind.JOB_GROUP,
    trigger: Trigger = Trigger.SCHEDULE,
    flow_run: str | None = None,
    recipe: str | None = None,
) -> RunState:
    return RunState(
        key=RunKey("acme", kind, str(number)),
        status=Status.PENDING,
        created_at=created_at,
        pipeline=PLAN if kind is RunKind.PLAN_RUN else FLOW,
        recipe=None if recipe is None else Recipe(id=recipe),
        parents=Parents(flow_run=flow_run),
        trigger=trigger,
        confirmed_at=TEN,
        confirmed_by=Source.POLL,
    )


def queued(run: RunState) -> RunEvent:
    return RunEvent(
        id=run_event_id(run.key, EventType.RUN_QUEUED),
        type=EventType.RUN_QUEUED,
        run=run,
        before=None,
        occurred_at=run.created_at,
        recorded_at=TEN,
        observed_by=Source.POLL,
    )


class History:
    """Between two evaluations the memory is stored, as the engine stores it.

    ``notices`` are the starts of alerts, and their ends with a minus.
    """

    def __init__(
        self,
        *schedules: ScheduleKnown,
        begin: datetime = TEN,
        expect: str | None = None,
        timezone: str = "UTC",
        threshold: float = default_rule(RuleKind.SCHEDULE_MISSED).threshold,
    ) -> None:
        self.schedules: tuple[ScheduleKnown, ...] = schedules
        self.rule = msgspec.structs.replace(
            default_rule(RuleKind.SCHEDULE_MISSED),
            expect=expect,
            expect_timezone=timezone,
            threshold=threshold,
        )
        self.read_at: datetime | None = None
        self.read_before: datetime | None = None
        self.active: tuple[ActiveRun, ...] = ()
        self.pipeline_health: tuple[PipelineHealth, ...] = ()
        self.memory_bytes = b""
        self.notices: list[str] = []
        self.last: EvaluationResult | None = None
        self.evidence: tuple[str, ...] = ()
        self.is_firing = False
        self.missed: set[datetime] = set()  # every expected time that was ever found missed
        self.writes = 0
        self._runs = 0
        self.again_at: datetime | None = None
        self.evaluate(begin)

    def start(self, created_at: datetime, **changes: object) -> None:
        """Queue a run of the flow and handle its event."""
        self._runs += 1
        self.on_event(run_of(self._runs, created_at, **changes))  # type: ignore[arg-type] # of run_of

    def on_event(self, run: RunState) -> None:
        assert SCHEDULE_MISSED.on_event is not None
        event_input = EventInput(event=queued(run), root_run=run.key)
        self._keep(SCHEDULE_MISSED.on_event(event_input, self.memory, self.rule))

    def evaluate(self, as_of: datetime | None, *, reads: bool = True) -> None:
        """Evaluate as of a complete poll, the schedules just read, until nothing changes."""
        if reads:
            self.read_before, self.read_at = self.read_at, as_of
        while self._evaluate(as_of) and as_of is not None:
            pass

    def _evaluate(self, as_of: datetime | None) -> bool:
        assert SCHEDULE_MISSED.evaluate is not None
        facts = FlowOrPlanFacts(
            schedules=self.schedules,
            schedules_read_at=self.read_at,
            schedules_read_before=self.read_before,
            active=self.active,
            pipeline_health=self.pipeline_health,
        )
        state = StateInput(subject=_SUBJECT, as_of=as_of, facts=facts, first_evaluated_at=TEN)
        answer = SCHEDULE_MISSED.evaluate(state, self.memory, self.rule)
        self._keep(answer)
        self.last, self.again_at = answer.result, answer.again_at
        if answer.memory is not None:
            self.missed.update(expected.at for expected in answer.memory.missed)
        if isinstance(answer.result, Firing) and not self.is_firing:
            self.notices.append(f"{answer.result.since:%d %H:%M}")
            self.is_firing = True
        elif isinstance(answer.result, Ok) and self.is_firing:
            self.notices.append(f"-{answer.result.at:%d %H:%M}")
            self.evidence = answer.result.evidence
            self.is_firing = False
        return self.again_at is not None and as_of is not None and self.again_at <= as_of

    def _keep(self, answer: RuleAnswer[AwaitedStarts]) -> None:
        stored = b"" if answer.memory is None else msgspec.json.encode(answer.memory)
        self.writes += stored != self.memory_bytes
        self.memory_bytes = stored

    @property
    def memory(self) -> AwaitedStarts | None:
        return (
            msgspec.json.decode(self.memory_bytes, type=AwaitedStarts)
            if self.memory_bytes
            else None
        )

    @property
    def missed_ever(self) -> int:
        return self.memory.count if self.memory is not None else 0


_SUBJECT = Subject(subject_kind=SubjectKind.FLOW_OR_PLAN, workspace="acme", pipeline=FLOW)
