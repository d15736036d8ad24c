"""Rules about runs that have not ended: late ones, waiting ones, silent ones."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.rules.contract import (
    AnyRuleDefinition,
    EvaluationResult,
    Firing,
    Ok,
    RuleAnswer,
    Unknown,
)
from monitor.alerting.rules.queue_slow import DEFINITION as QUEUE_SLOW
from monitor.alerting.rules.run_overdue import DEFINITION as RUN_OVERDUE
from monitor.alerting.rules.run_stuck import DEFINITION as RUN_STUCK
from monitor.model.events import EventType
from monitor.model.runs import JobCount, JobDetails, Parents, RunKind, RunState, Status
from tests.alerting.run_samples import at, event_input, key, rule, run_event, state, state_input


class Watch:
    """One rule over one pipeline, its memory stored in between."""

    def __init__(self, definition: AnyRuleDefinition, threshold: float | None = None) -> None:
        self.definition = definition
        self.settings = rule(definition.rule, threshold=threshold)
        self.memory: Any = None
        self.again_at: datetime | None = None

    def evaluate(
        self,
        *runs: RunState,
        as_of: float | None,
        kind: RunKind = RunKind.JOB_GROUP,
        limit: float | None = None,
    ) -> EvaluationResult | None:
        """Evaluate as of so many seconds after zero; None: not known yet."""
        assert self.definition.evaluate is not None
        instant = None if as_of is None else at(as_of)
        question = state_input(*runs, as_of=instant, kind=kind, limit=limit)
        return self._keep(self.definition.evaluate(question, self.memory, self.settings))

    def end(
        self, number: int, *, seconds: float, status: Status = Status.SUCCEEDED
    ) -> EvaluationResult | None:
        """Handle the end of a run."""
        return self.on_event(state(number, status, finished_at=at(seconds)))

    def on_event(self, run: RunState) -> EvaluationResult | None:
        assert self.definition.on_event is not None
        event = run_event(run)
        assert event.type in self.definition.event_types
        return self._keep(self.definition.on_event(event_input(event), self.memory, self.settings))

    def _keep(self, answer: RuleAnswer[Any]) -> EvaluationResult | None:
        memory = answer.memory
        if memory is not None:
            memory = msgspec.json.decode(msgspec.json.encode(memory), type=self.definition.memory)
        self.memory, self.again_at = memory, answer.again_at
        return answer.result


def running(number: int, *, since: float = 0.0, **more: Any) -> RunState:
    return state(number, Status.RUNNING, created_at=at(since), **more)


def waiting(number: int, *, since: float = 0.0) -> RunState:
    return state(number, Status.PENDING, created_at=at(since))


def jobs(
    *,
    read: float,
    percent: float | None = None,
    beat: float | None = None,
    done: int = 0,
) -> JobDetails:
    return JobDetails(
        counts=(JobCount(job_type="wrangle", status="succeeded", count=done),),
        percent_complete=percent,
        heartbeat_at=None if beat is None else at(beat),
        read_at=at(read),
    )


def working(number: int, seen: JobDetails | None) -> RunState:
    return running(number, jobs=seen)


def test_a_run_over_its_limit_is_overdue_until_it_ends() -> None:
    """It begins when the limit is reached, names the run, and ends with the run's end."""
    watch = Watch(RUN_OVERDUE, threshold=600)
    assert watch.evaluate(running(1), as_of=599) is None
    assert watch.again_at == at(600)
    firing = watch.evaluate(running(1), as_of=700)
    ok = watch.end(1, seconds=710)

    assert isinstance(firing, Firing)
    assert (firing.since, firing.as_of, firing.run) == (at(600), at(700), key(1))
    assert firing.evidence == ("acme:job_group:1:started",)
    assert firing.facts == {
        "run": "1",
        "started_at": "2026-11-21T10:00:00Z",
        "limit_seconds": 600.0,
    }
    assert ok == Ok(at=at(710), evidence=("acme:job_group:1:succeeded",))
    assert watch.evaluate(as_of=720) is None
    assert watch.memory is None


def test_the_reported_start_counts_before_the_creation() -> None:
    """A run that waited for an hour has not run for an hour."""
    watch = Watch(RUN_OVERDUE, threshold=600)
    assert watch.evaluate(running(1, started_at=at(3_600)), as_of=4_000) is None
    assert watch.again_at == at(4_200)


def test_a_waiting_run_is_not_overdue() -> None:
    """Waiting has a rule of its own."""
    watch = Watch(RUN_OVERDUE, threshold=600)
    assert watch.evaluate(waiting(1), as_of=9_000) is None


def test_a_learned_limit_is_fixed_when_it_is_first_exceeded() -> None:
    """Runs that end beside it move the limit; what was late does not stop being late by that."""
    watch = Watch(RUN_OVERDUE)
    assert watch.evaluate(running(1), as_of=9_000) is None
    assert isinstance(watch.evaluate(running(1), as_of=9_100, limit=8_000), Firing)
    firing = watch.evaluate(running(1), as_of=9_200, limit=20_000)

    assert isinstance(firing, Firing)
    assert firing.since == at(8_000)


def test_each_run_is_evaluated_by_itself() -> None:
    """Of two runs side by side one is late: the alert is about that one, and ends with it."""
    watch = Watch(RUN_OVERDUE, threshold=600)
    firing = watch.evaluate(running(1), running(2, since=500), as_of=800)
    ok = watch.end(1, seconds=900)

    assert isinstance(firing, Firing)
    assert firing.run == key(1)
    assert ok == Ok(at=at(900), evidence=("acme:job_group:1:succeeded",))
    assert watch.evaluate(running(2, since=500), as_of=1_000) is None


def test_it_is_over_when_the_last_late_run_is() -> None:
    """Two are late: the end of one ends nothing."""
    watch = Watch(RUN_OVERDUE, threshold=600)
    watch.evaluate(running(1), running(2), as_of=800)
    assert watch.end(1, seconds=900) is None
    assert isinstance(watch.end(2, seconds=950, status=Status.FAILED), Ok)


def test_parts_of_a_run_are_not_overdue_beside_it() -> None:
    """A flow run is measured as a whole; its job groups only where a rule names their kind."""
    watch = Watch(RUN_OVERDUE, threshold=600)
    inner = running(1, parents=Parents(flow_run="9"))
    outer = running(9, kind=RunKind.FLOW_RUN, since=700)

    assert watch.evaluate(inner, outer, as_of=800, kind=RunKind.FLOW_RUN) is None
    assert isinstance(watch.evaluate(inner, as_of=800), Firing)


def test_a_flow_run_whose_parts_are_over_may_be_over() -> None:
    """No list shows its end: it has two minutes more in which that is read by its id."""
    watch = Watch(RUN_OVERDUE, threshold=600)
    inner = running(1, parents=Parents(flow_run="9"))
    outer = running(9, kind=RunKind.FLOW_RUN)

    assert watch.evaluate(outer, as_of=700, kind=RunKind.FLOW_RUN) is None
    assert watch.again_at == at(720)
    assert isinstance(watch.evaluate(outer, inner, as_of=700, kind=RunKind.FLOW_RUN), Firing)
    assert isinstance(watch.evaluate(outer, as_of=710, kind=RunKind.FLOW_RUN), Firing)
    later = Watch(RUN_OVERDUE, threshold=600)
    assert isinstance(later.evaluate(outer, as_of=721, kind=RunKind.FLOW_RUN), Firing)


def test_an_older_snapshot_makes_no_flash() -> None:
    """The end event comes before live state shows it: nothing fires again."""
    watch = Watch(RUN_OVERDUE, threshold=600)
    watch.evaluate(running(1), as_of=700)
    assert isinstance(watch.end(1, seconds=710), Ok)
    assert watch.evaluate(running(1), as_of=720) is None
    assert watch.evaluate(as_of=730) is None
    assert watch.memory is None


def test_a_run_that_vanishes_without_an_event_stops_being_late() -> None:
    """A run that came to belong to another one leaves this subject."""
    watch = Watch(RUN_OVERDUE, threshold=600)
    watch.evaluate(running(1), as_of=700)
    assert watch.evaluate(as_of=800) == Ok(at=at(800))


def test_nothing_is_late_before_all_was_read() -> None:
    """After a restart, and in an outage, an alert stays as it is."""
    watch = Watch(RUN_OVERDUE, threshold=600)
    watch.evaluate(running(1), as_of=700)
    before = watch.memory
    assert isinstance(watch.evaluate(as_of=None), Unknown)
    assert watch.memory == before


def test_an_outage_makes_nothing_late() -> None:
    """The run ends in an outage: the first complete poll shows its end, no lateness."""
    watch = Watch(RUN_OVERDUE, threshold=600)
    for _ in range(10):
        assert watch.evaluate(running(1), as_of=500) is None
    assert watch.end(1, seconds=650) is None
    assert watch.evaluate(as_of=4_000) is None


def test_a_queue_is_slow_until_the_run_starts() -> None:
    """A run that waits for ten minutes fires, and resolves when it starts."""
    watch = Watch(QUEUE_SLOW)
    assert watch.evaluate(waiting(1), as_of=599) is None
    firing = watch.evaluate(waiting(1), as_of=601)
    ok = watch.on_event(state(1, Status.RUNNING, started_at=at(620)))

    assert isinstance(firing, Firing)
    assert (firing.since, firing.run) == (at(600), key(1))
    assert firing.evidence == ("acme:job_group:1:queued",)
    assert firing.facts == {
        "run": "1",
        "created_at": "2026-11-21T10:00:00Z",
        "limit_seconds": 600.0,
    }
    assert ok == Ok(at=at(620), evidence=("acme:job_group:1:started",))
    assert watch.evaluate(running(1), as_of=9_000) is None


def test_a_wait_inside_a_flow_run_is_the_flow_runs() -> None:
    """The alert names the outermost run, its facts the one that waits."""
    watch = Watch(QUEUE_SLOW)
    inner = msgspec.structs.replace(waiting(1), parents=Parents(flow_run="9", plan_run="5"))
    firing = watch.evaluate(inner, as_of=700, kind=RunKind.FLOW_RUN)

    assert isinstance(firing, Firing)
    assert firing.run == key(9, RunKind.FLOW_RUN)
    assert firing.facts["run"] == "1"
    assert isinstance(firing := watch.evaluate(inner, as_of=700, kind=RunKind.PLAN_RUN), Firing)
    assert firing.run == key(5, RunKind.PLAN_RUN)


def test_a_run_without_a_stamp_is_never_late() -> None:
    """A flow run whose record was not read yet has no time at all."""
    bare = state(1, Status.PENDING)
    for definition in (RUN_OVERDUE, QUEUE_SLOW, RUN_STUCK):
        watch = Watch(definition, threshold=60)
        assert watch.evaluate(bare, as_of=99_000) is None
        running_bare = msgspec.structs.replace(bare, status=Status.RUNNING)
        assert watch.evaluate(running_bare, as_of=99_000) is None


def test_no_heartbeat_for_fifteen_minutes_is_stuck() -> None:
    """By the heartbeat's own stamp, as of the reading that showed it; a new one ends it."""
    watch = Watch(RUN_STUCK)
    assert watch.evaluate(working(1, jobs(read=60, percent=40, beat=50)), as_of=60) is None
    assert watch.evaluate(working(1, jobs(read=900, percent=40, beat=50)), as_of=900) is None
    firing = watch.evaluate(working(1, jobs(read=960, percent=40, beat=50)), as_of=980)
    alive = watch.evaluate(working(1, jobs(read=1_020, percent=40, beat=1_010)), as_of=1_030)

    assert isinstance(firing, Firing)
    assert (firing.since, firing.as_of) == (at(950), at(960))
    assert firing.facts == {
        "run": "1",
        "last_sign_at": "2026-11-21T10:00:50Z",
        "limit_seconds": 900.0,
        "percent_complete": 40.0,
    }
    assert alive == Ok(at=at(1_030))


def test_progress_is_a_sign_without_heartbeat() -> None:
    """Without a heartbeat, a percentage that moves, or a job that ends, shows work."""
    watch = Watch(RUN_STUCK)
    for minute in range(60):
        seen = jobs(read=60 * minute, percent=minute // 10, done=minute // 10)
        assert watch.evaluate(working(1, seen), as_of=60 * minute) is None
    seen = jobs(read=60 * 66, percent=5, done=5)
    assert isinstance(watch.evaluate(working(1, seen), as_of=60 * 66), Firing)
    seen = jobs(read=60 * 67, percent=5, done=6)
    assert isinstance(watch.evaluate(working(1, seen), as_of=60 * 67), Ok)


def test_records_without_progress_make_nothing_stuck() -> None:
    """Without heartbeat and percentage in all records work looks like silence."""
    watch = Watch(RUN_STUCK)
    for read in (0, 5_000, 50_000):
        assert watch.evaluate(working(1, jobs(read=read)), as_of=read) is None


def test_unread_job_records_make_nothing_stuck() -> None:
    """No ok, no budget, or only an old reading: time alone makes nothing stuck."""
    watch = Watch(RUN_STUCK)
    assert watch.evaluate(working(1, None), as_of=50_000) is None
    for as_of in (100, 5_000, 50_000):
        assert watch.evaluate(working(1, jobs(read=60, percent=1, beat=50)), as_of=as_of) is None


def test_an_outage_stops_the_signs_and_nothing_else() -> None:
    """An hour without reading, then a reading with a fresh heartbeat: nothing in between."""
    watch = Watch(RUN_STUCK)
    watch.evaluate(working(1, jobs(read=60, percent=1, beat=50)), as_of=60)
    assert watch.evaluate(working(1, jobs(read=60, percent=1, beat=50)), as_of=3_660) is None
    seen = jobs(read=3_700, percent=70, beat=3_690)
    assert watch.evaluate(working(1, seen), as_of=3_700) is None


def test_a_stuck_run_stays_so_over_a_restart() -> None:
    """Until its job records are read again the result is unknown; then the silence counts on."""
    watch = Watch(RUN_STUCK)
    first = watch.evaluate(working(1, jobs(read=1_000, percent=1, beat=50)), as_of=1_000)
    assert isinstance(first, Firing)
    assert isinstance(watch.evaluate(working(1, None), as_of=1_100), Unknown)
    again = watch.evaluate(working(1, jobs(read=1_200, percent=1, beat=50)), as_of=1_200)
    assert isinstance(again, Firing)
    assert again.since == first.since


def test_of_two_runs_one_is_stuck() -> None:
    """The other one works on and its end ends nothing; that of the stuck one does."""
    watch = Watch(RUN_STUCK)
    silent = working(1, jobs(read=1_000, percent=1, beat=50))
    alive = working(2, jobs(read=1_000, percent=50, beat=990))
    firing = watch.evaluate(silent, alive, as_of=1_000)

    assert isinstance(firing, Firing)
    assert firing.run == key(1)
    assert watch.end(2, seconds=1_010) is None
    assert isinstance(watch.evaluate(silent, as_of=1_020), Firing)
    assert isinstance(watch.end(1, seconds=1_030, status=Status.CANCELED), Ok)


def test_waiting_and_working_have_limits_of_their_own() -> None:
    """A waiting run shows no heartbeat and has four times as long; its start is a sign."""
    watch = Watch(RUN_STUCK)
    assert watch.evaluate(waiting(1), as_of=3_599) is None
    firing = watch.evaluate(waiting(1), as_of=3_601)
    assert isinstance(firing, Firing)
    assert firing.since == at(3_600)
    assert firing.evidence == ("acme:job_group:1:queued",)
    assert watch.evaluate(working(1, None), as_of=3_700) == Ok(at=at(3_700))


def test_a_heartbeat_of_the_future_is_one_of_now() -> None:
    """A machine whose clock is an hour ahead does not hide an hour of silence."""
    watch = Watch(RUN_STUCK)
    watch.evaluate(working(1, jobs(read=60, percent=1, beat=3_660)), as_of=60)
    result = watch.evaluate(working(1, jobs(read=1_000, percent=1, beat=3_660)), as_of=1_000)
    assert isinstance(result, Firing)


@given(
    st.lists(st.tuples(st.integers(1, 600), st.booleans(), st.booleans()), min_size=1, max_size=40)
)
def test_stuck_is_what_the_newest_sign_says(steps: list[tuple[int, bool, bool]]) -> None:
    """For any reads: firing exactly where the newest progress is a quarter of an hour old."""
    watch = Watch(RUN_STUCK)
    now, sign, percent, beat = 0, 0, 0, 0
    watch.evaluate(working(1, jobs(read=0, percent=0, beat=0)), as_of=0)
    for seconds, beats, moves in steps:
        now += seconds
        if moves:
            percent, sign = percent + 1, now
        if beats:
            beat = sign = now
        seen = jobs(read=now, percent=percent, beat=beat)
        result = watch.evaluate(working(1, seen), as_of=now)
        assert isinstance(result, Firing) == (now - sign >= 900)


@pytest.mark.parametrize(
    ("definition", "run"),
    [(RUN_OVERDUE, running(1)), (RUN_STUCK, waiting(1)), (QUEUE_SLOW, waiting(1))],
)
def test_a_firing_rule_fills_the_fields_that_its_texts_may_use(
    definition: AnyRuleDefinition, run: RunState
) -> None:
    """Each field that annotations may name is reported by the rule."""
    result = Watch(definition, threshold=60).evaluate(run, as_of=300)
    assert isinstance(result, Firing)
    assert tuple(result.facts) == definition.template_fields


def test_ends_of_any_kind_are_handled() -> None:
    """A run that is lost is not late any more."""
    watch = Watch(RUN_OVERDUE, threshold=60)
    watch.evaluate(running(1), as_of=100)
    assert EventType.RUN_LOST in RUN_OVERDUE.event_types
    assert isinstance(watch.end(1, seconds=200, status=Status.LOST), Ok)
