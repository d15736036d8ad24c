"""A flow with a deadline and its runs, evaluated by the rule alone, without an engine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from monitor.alerting.rules.contract import (
    DeadlineMet,
    EvaluationResult,
    Firing,
    FlowOrPlanFacts,
    Ok,
    OverWhenSeen,
    RuleAnswer,
    StateInput,
    Subject,
    SubjectKind,
)
from monitor.alerting.rules.deadlines import AwaitedDeadlines
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import RULE_DEFINITIONS, default_rule
from monitor.model.ends import run_end
from monitor.model.events import EventType
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import Parents, RunKind, RunState, Status
from tests.alerting.run_samples import FLOW, active, event_input, run_event, state

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = datetime(2026, 11, 23, tzinfo=BERLIN)
_SUBJECT = Subject(subject_kind=SubjectKind.FLOW_OR_PLAN, workspace="acme", pipeline=FLOW)


def on(text: str) -> datetime:
    """Return a wall time in Berlin: ``Tue 06:30`` of the week of the history, or ``06:30``."""
    day, _, clock = text.rpartition(" ")
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun").index(day or "Mon")
    hour, minute = (int(part) for part in clock.split(":"))
    wall = (MONDAY + timedelta(days=days)).replace(hour=hour, minute=minute)
    return wall.astimezone(UTC)


def run(
    number: int,
    started: datetime,
    ended: datetime | None = None,
    *,
    status: Status = Status.SUCCEEDED,
    kind: RunKind = RunKind.FLOW_RUN,
    parents: Parents | None = None,
) -> RunState:
    """Return a run; without an end it is active."""
    return state(
        number,
        Status.RUNNING if ended is None else status,
        kind=kind,
        created_at=started,
        started_at=started,
        finished_at=ended,
        parents=parents,
    )


class History:
    """``notices`` are starts and ends of alerts, as Berlin's clock shows them."""

    def __init__(
        self,
        kind: RuleKind = RuleKind.DEADLINE_MISSED,
        *,
        begin: str | datetime = "00:00",
        health: Sequence[RunState] = (),
        usual_seconds: float | None = None,
        **keys: Any,
    ) -> None:
        self.definition = RULE_DEFINITIONS[kind]
        terms = {"deadline": "07:00", "deadline_timezone": "Europe/Berlin"}
        self.rule = msgspec.structs.replace(default_rule(kind), **{**terms, **keys})
        self.memory_bytes = b""
        self.health = tuple(health)
        self.usual_seconds = usual_seconds
        self.active: tuple[RunState, ...] = ()
        self.notices: list[str] = []
        self.intervals: list[tuple[datetime, datetime | None]] = []  # of alerts
        self.met: list[DeadlineMet] = []
        self.last: EvaluationResult | None = None
        self.again_at: datetime | None = None
        self.writes = 0
        self.is_firing = False
        self.is_deleted = False
        self.evaluate(begin)

    def handle(self, run_state: RunState, event_type: EventType | None = None) -> None:
        """Let the rule handle the event of a run's status, or of another type."""
        assert self.definition.on_event is not None
        event = run_event(run_state, event_type)
        self._keep(self.definition.on_event(event_input(event), self.memory, self.rule))

    def succeed(self, number: int, started: str, ended: str, **changes: Any) -> RunState:
        """Let a run succeed, and the rule handle that."""
        ended_run = run(number, on(started), on(ended), **changes)
        self.handle(ended_run)
        return ended_run

    def evaluate(self, as_of: str | datetime | None, *, ends: str | None = None) -> None:
        """Evaluate as of a complete poll until nothing changes; ``ends``: that of other runs."""
        at = on(as_of) if isinstance(as_of, str) else as_of
        facts = FlowOrPlanFacts(
            pipeline_health=_health(self.health),
            active=tuple(map(active, self.active)),
            usual_seconds=self.usual_seconds,
            ends_known_until=None if ends is None else on(ends),
            is_deleted=self.is_deleted,
        )
        for _ in range(1_000):
            answer = self._evaluate(facts, at)
            if at is None or answer.memory is None or answer.again_at is None:
                return
            waits = answer.memory.next is not None and answer.memory.next.at <= at
            if answer.again_at > at or (ends is not None and waits):
                return
        raise AssertionError("the rule comes to no end")

    def _evaluate(self, facts: FlowOrPlanFacts, at: datetime | None) -> RuleAnswer[Any]:
        assert self.definition.evaluate is not None
        state_input = StateInput(
            subject=_SUBJECT, as_of=at, facts=facts, first_evaluated_at=on("00:00")
        )
        answer = self.definition.evaluate(state_input, self.memory, self.rule)
        self._keep(answer)
        self.met += answer.met
        self.last, self.again_at = answer.result, answer.again_at
        self._notice(answer.result)
        return answer

    def _notice(self, result: EvaluationResult | None) -> None:
        if isinstance(result, Firing) and not self.is_firing:
            self.notices.append(_shown(result.since))
            self.intervals.append((result.since, None))
        elif isinstance(result, Ok) and self.is_firing:
            self.notices.append(f"-{_shown(result.at)}")
            self.intervals[-1] = (self.intervals[-1][0], result.at)
        elif isinstance(result, OverWhenSeen):
            assert not self.is_firing
            self.notices.append(f"{_shown(result.since)}-{_shown(result.until)}")
            self.intervals.append((result.since, result.until))
        if isinstance(result, Firing | Ok):
            self.is_firing = isinstance(result, Firing)
        if isinstance(result, Firing | OverWhenSeen):
            assert sorted(result.facts) == sorted(self.definition.template_fields)

    def _keep(self, answer: RuleAnswer[AwaitedDeadlines]) -> None:
        stored = b"" if answer.memory is None else msgspec.json.encode(answer.memory)
        self.writes += stored != self.memory_bytes
        self.memory_bytes = stored

    @property
    def memory(self) -> AwaitedDeadlines | None:
        if not self.memory_bytes:
            return None
        return msgspec.json.decode(self.memory_bytes, type=AwaitedDeadlines)

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many deadlines were met, and how many missed."""
        memory = self.memory
        return (0, 0) if memory is None else (memory.met_count, memory.missed_count)

    @property
    def met_days(self) -> list[str]:
        """Return the days whose deadlines were published as met."""
        return [f"{met.day:%a}" for met in self.met]


def _health(runs: Sequence[RunState]) -> tuple[PipelineHealth, ...]:
    """Return what is known of runs that ended, whatever events there were."""
    ends = tuple(end for ended in runs if (end := run_end(ended)) is not None)
    if not ends:
        return ()
    kind = runs[0].key.kind
    return (PipelineHealth(workspace="acme", run_kind=kind, pipeline=FLOW, ends=ends),)


def _shown(at: datetime) -> str:
    return f"{at.astimezone(BERLIN):%a %H:%M}"
