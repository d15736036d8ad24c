"""Ends that are seen late, out of order, without a time, or reported by a callback alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from monitor.alerting.rules.contract import EventInput, Firing, Ok, OverWhenSeen
from monitor.alerting.rules.part_ends import SubjectEnds, failing_parts, failing_since
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.run_failed import DEFINITION
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Change
from monitor.model.alerts import AlertState
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import Parents, RunKey, RunKind, RunState, Source, Status
from tests.alerting.engine_scenario import WORKSPACE, EngineScenario, engine_scenario
from tests.alerting.run_samples import END, at, key, run_event, state

OK, BAD, OFF, LOST = Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.LOST
_RULE = default_rule(RuleKind.RUN_FAILED)


class Ends:
    """The rule's memory, as ends become known one after the other."""

    def __init__(self) -> None:
        self.memory: SubjectEnds | None = None

    def see(self, event: RunEvent, *, root_run: RunKey | None = None) -> Any:
        event_input = EventInput(event=event, root_run=root_run or event.run.key)
        assert DEFINITION.on_event is not None
        if event.type not in DEFINITION.event_types:
            return None
        answer = DEFINITION.on_event(event_input, self.memory, _RULE)
        text = None if answer.memory is None else msgspec.json.encode(answer.memory)
        self.memory = None if text is None else msgspec.json.decode(text, type=SubjectEnds)
        return answer.result

    def end(self, number: int, status: Status, seconds: float, *, recipe: str | None = None) -> Any:
        return self.see(run_event(state(number, status, finished_at=at(seconds), recipe=recipe)))

    @property
    def failing(self) -> set[str]:
        return {
            end.run_id
            for part in failing_parts(self.memory or SubjectEnds()).values()
            for end in part
        }


class PastEnd(Struct, frozen=True):
    """What truly happened: a run of a part ended so, then."""

    number: int
    status: Status
    seconds: int
    recipe: str | None


def truly_failing(ends: Sequence[PastEnd]) -> set[str]:
    """Return the failures that no later success of the same part has followed."""
    return {
        str(end.number)
        for end in ends
        if end.status is BAD
        and not any(
            other.status is OK
            and other.seconds > end.seconds
            and (other.recipe == end.recipe or None in (other.recipe, end.recipe))
            for other in ends
        )
    }


_PAST = st.lists(
    st.tuples(
        st.sampled_from((OK, BAD, OFF, LOST)),
        st.integers(0, 12),
        st.sampled_from((None, "a", "b")),
    ),
    max_size=9,
).map(lambda ends: [PastEnd(number, *end) for number, end in enumerate(ends)])


@given(_PAST, st.randoms(use_true_random=False))
def test_open_failures_follow_the_true_order_of_ends(ends: list[PastEnd], random: Any) -> None:
    """After any prefix of any order of any ends, exactly the truly open failures are open."""
    known, shuffled = Ends(), list(ends)
    random.shuffle(shuffled)
    for count, end in enumerate(shuffled, 1):
        known.end(end.number, end.status, end.seconds, recipe=end.recipe)
        expected = truly_failing(shuffled[:count])
        assert known.failing == expected
        if expected:
            assert known.memory is not None
            oldest = min(end.seconds for end in ends if str(end.number) in expected)
            assert failing_since(known.memory, failing_parts(known.memory)) == at(oldest)


def test_an_older_failure_seen_after_a_newer_success_was_over_when_seen() -> None:
    """It lasted from its own end to the first success after it."""
    ends = Ends()
    ends.end(3, OK, 40)
    ends.end(2, OK, 20)
    late = ends.end(1, BAD, 10)
    assert isinstance(late, OverWhenSeen)
    assert (late.since, late.until) == (at(10), at(20))
    assert late.evidence == ("acme:job_group:1:failed",)


def test_a_better_time_opens_a_failure_again() -> None:
    """The success turns out to have ended before the failure."""
    ends = Ends()
    ends.end(1, BAD, 10)
    success = msgspec.structs.replace(
        state(2, OK, finished_at=at(12)), approximate=("finished_at",)
    )
    assert isinstance(ends.see(run_event(success)), Ok)
    better = msgspec.structs.replace(state(2, OK, finished_at=at(9)), detailed=True)
    again = ends.see(run_event(better, EventType.RUN_DETAILED))
    assert isinstance(again, Firing)
    assert (again.since, again.evidence) == (at(10), ("acme:job_group:1:failed",))
    assert again.run == key(1)


def test_a_better_time_closes_a_failure() -> None:
    """The failure turns out to have ended before the success."""
    ends = Ends()
    ends.end(2, OK, 12)
    late = msgspec.structs.replace(state(1, BAD, finished_at=at(14)), approximate=("finished_at",))
    assert isinstance(ends.see(run_event(late)), Firing)
    better = msgspec.structs.replace(state(1, BAD, finished_at=at(11)), detailed=True)
    over = ends.see(run_event(better, EventType.RUN_DETAILED))
    assert over == Ok(at=at(12), evidence=("acme:job_group:1:detailed",))


def bounded(number: int, status: Status, first: float, last: float) -> RunState:
    """Return a run of whose end no time is known, only between which reads it lies."""
    run = state(number, status)
    return msgspec.structs.replace(
        run, finished_at=None, started_at=None, unfinished_at=at(first), end_seen_at=at(last)
    )


def test_a_success_without_a_time_hides_no_failure_in_its_span() -> None:
    """It may have ended before the failure did, until no better time can come."""
    ends = Ends()
    ends.end(1, BAD, 10)
    assert ends.see(run_event(bounded(2, OK, 5, 30))) is None
    settled = msgspec.structs.replace(bounded(2, OK, 5, 30), detailed=True)
    assert isinstance(ends.see(run_event(settled, EventType.RUN_DETAILED)), Ok)


def test_a_success_that_only_a_callback_reported_resolves_nothing() -> None:
    """The workspace has to report it; then it counts from when it happened."""
    ends = Ends()
    ends.end(1, BAD, 10)
    claimed = msgspec.structs.replace(state(2, OK, finished_at=at(20)), unconfirmed_end=OK)
    assert ends.see(run_event(claimed)) is None
    assert ends.failing == {"1"}
    confirmed = ends.see(run_event(state(2, OK, finished_at=at(20)), EventType.RUN_CONFIRMED))
    assert isinstance(confirmed, Ok)
    assert confirmed.at == at(20)


@pytest.mark.parametrize("true_end", [OK, OFF])
def test_a_failure_that_the_workspace_corrects_is_none(true_end: Status) -> None:
    """A callback said that it failed; the true end takes that back, whatever it is."""
    ends = Ends()
    claimed = msgspec.structs.replace(bounded(1, BAD, 5, 10), unconfirmed_end=BAD)
    assert isinstance(ends.see(run_event(claimed)), Firing)
    assert isinstance(ends.end(1, true_end, 8), Ok)
    assert ends.failing == set()


@given(
    st.lists(
        st.tuples(
            st.sampled_from((OK, BAD, OFF, None)),  # how the plan run ended, if it did
            st.integers(0, 6),  # when it began
            st.sampled_from((None, 1, 2)),  # how long after that a part failed, if it did
        ),
        max_size=5,
    ),
    st.randoms(use_true_random=False),
)
def test_failures_inside_runs_count_the_same_in_any_order(
    plan_runs: list[tuple[Status | None, int, int | None]], random: Any
) -> None:
    """A part that failed is a failure of its plan run, unless that one ended well."""
    events: list[tuple[RunEvent, RunKey]] = []
    truth: list[PastEnd] = []
    for number, (status, began, failed_after) in enumerate(plan_runs):
        plan, finished_at = key(number, RunKind.PLAN_RUN), began + 3
        if status is not None:
            own = state(number, status, kind=RunKind.PLAN_RUN, finished_at=at(finished_at))
            events.append((run_event(own), plan))
        if failed_after is not None:
            parents, failed_at = Parents(plan_run=str(number)), began + failed_after
            part = state(
                number, BAD, kind=RunKind.FLOW_RUN, finished_at=at(failed_at), parents=parents
            )
            events.append((run_event(part), plan))
            if status in (None, OFF):
                truth.append(PastEnd(number, BAD, failed_at, None))
        if status in (OK, BAD):
            truth.append(PastEnd(number, status, finished_at, None))
    random.shuffle(events)
    ends = Ends()
    for event, plan in events:
        ends.see(event, root_run=plan)
    assert ends.failing == truly_failing(truth)


def test_a_failure_inside_a_run_that_was_none_is_taken_back() -> None:
    """A callback lied about one part; the run's own failure, by another part, is older."""
    ends, flow_run = Ends(), key(9, RunKind.FLOW_RUN)
    parents = Parents(flow_run="9")
    ends.see(run_event(state(8, OK, kind=RunKind.FLOW_RUN, finished_at=at(148))))
    lie = msgspec.structs.replace(bounded(1, BAD, 90, 180), parents=parents, unconfirmed_end=BAD)
    assert isinstance(ends.see(run_event(lie), root_run=flow_run), Firing)
    own = run_event(state(9, BAD, kind=RunKind.FLOW_RUN, finished_at=at(118)))
    ends.see(own)
    true_end = run_event(state(1, OK, finished_at=at(118), parents=parents))
    ends.see(true_end, root_run=flow_run)
    assert ends.failing == set()


def test_a_lie_about_the_only_part_that_failed_is_taken_back() -> None:
    """The run goes on, and nothing in it has failed."""
    ends, flow_run = Ends(), key(9, RunKind.FLOW_RUN)
    parents = Parents(flow_run="9")
    lie = msgspec.structs.replace(bounded(1, BAD, 90, 180), parents=parents, unconfirmed_end=BAD)
    assert isinstance(ends.see(run_event(lie), root_run=flow_run), Firing)
    true_end = run_event(state(1, OK, finished_at=at(118), parents=parents))
    assert isinstance(ends.see(true_end, root_run=flow_run), Ok)


def test_a_failure_inside_a_run_is_over_where_that_run_succeeds() -> None:
    """The plan went on and ended well: so it is no failure of the plan."""
    ends, plan = Ends(), key(9, RunKind.PLAN_RUN)
    inner = run_event(
        state(1, BAD, kind=RunKind.FLOW_RUN, finished_at=at(10), parents=Parents(plan_run="9"))
    )
    assert isinstance(ends.see(inner, root_run=plan), Firing)
    own = run_event(state(9, OK, kind=RunKind.PLAN_RUN, finished_at=at(20)))
    assert isinstance(ends.see(own), Ok)


def test_a_failure_inside_a_run_counts_from_when_the_part_failed() -> None:
    """The run's own end replaces what was known of it, and the start stays."""
    ends, plan = Ends(), key(9, RunKind.PLAN_RUN)
    inner = run_event(
        state(1, BAD, kind=RunKind.FLOW_RUN, finished_at=at(10), parents=Parents(plan_run="9"))
    )
    ends.see(inner, root_run=plan)
    own = ends.see(run_event(state(9, BAD, kind=RunKind.PLAN_RUN, finished_at=at(20))))
    assert isinstance(own, Firing)
    assert own.since == at(10)
    overlapping = ends.see(run_event(state(8, OK, kind=RunKind.PLAN_RUN, finished_at=at(15))))
    assert overlapping is None, "the plan run ended after that success"
    assert ends.failing == {"9"}


def ended(number: int, status: Status, ended_at: datetime) -> RunState:
    run = state(number, status, finished_at=ended_at)
    return msgspec.structs.replace(
        run,
        key=RunKey(WORKSPACE, RunKind.JOB_GROUP, str(number)),
        confirmed_at=ended_at,
        confirmed_by=Source.POLL,
    )


async def show(scenario: EngineScenario, *runs: RunState) -> None:
    """Let one commit show these ends, and one batch of the engine handle them."""
    events = tuple(run_event(run) for run in runs)
    await scenario.bus.commit(Change(runs=runs, events=events), timeout_seconds=10)
    await scenario.round()


async def test_a_late_failure_leaves_nothing_firing(tmp_path: Path) -> None:
    """One notification that it failed and one that it is over, both at once and marked."""
    async with engine_scenario(tmp_path, start=END) as scenario:
        await show(scenario, ended(2, OK, at(-60)))
        await show(scenario, ended(1, BAD, at(-120)))
        fired, resolved = await scenario.told()
        assert [fired.type, resolved.type] == ["alert.fired", "alert.resolved"]
        assert fired.alert.over_when_seen
        assert (fired.alert.starts_at, resolved.alert.ends_at) == (at(-120), at(-60))
        states = {alert.state for alert in scenario.engine.snapshot().alerts}
        assert states == {AlertState.RESOLVED}


@pytest.mark.parametrize("order", [(1, 3), (3, 1)])
async def test_late_failures_of_one_batch_are_one_alert(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    """It begins with the first of them, and the others are its evidence."""
    async with engine_scenario(tmp_path, start=END) as scenario:
        await show(scenario, ended(9, OK, at(-10)))
        await show(scenario, *(ended(number, BAD, at(-120 + number)) for number in order))
        assert await scenario.words() == ["fired", "resolved"]
        (alert,) = scenario.engine.snapshot().alerts
        assert alert.starts_at == at(-119)
        assert set(alert.evidence) == {f"{WORKSPACE}:job_group:{n}:failed" for n in order}


async def test_a_late_failure_that_did_not_last_is_not_notified(tmp_path: Path) -> None:
    """A rule that waits for a minute does not notify of half a minute, whenever it is seen."""
    rule = msgspec.structs.replace(_RULE, for_seconds=60)
    async with engine_scenario(tmp_path, AlertingSettings(rules=(rule,)), start=END) as scenario:
        await show(scenario, ended(2, OK, at(-60)))
        await show(scenario, ended(1, BAD, at(-90)))
        await scenario.round(600)
        assert await scenario.words() == []


async def test_a_late_failure_inside_an_ended_alert_is_its_evidence(tmp_path: Path) -> None:
    """It is not notified again, and the ended alert names it, also after a restart."""
    async with engine_scenario(tmp_path, start=END) as scenario:
        await show(scenario, ended(1, BAD, at(-120)))
        await show(scenario, ended(3, OK, at(-60)))
        await show(scenario, ended(2, BAD, at(-90)))
        assert await scenario.words() == ["fired", "resolved"]
        await scenario.engine.restore()
        (alert,) = scenario.engine.past.of(scenario.engine.snapshot().alerts[0].fingerprint)
        assert f"{WORKSPACE}:job_group:2:failed" in alert.alert.evidence


async def test_an_alert_reopened_under_its_start_has_other_ids(tmp_path: Path) -> None:
    """The success was earlier than it seemed: what was resolved fires again, numbered."""
    async with engine_scenario(tmp_path, start=END) as scenario:
        await show(scenario, ended(1, BAD, at(-120)))
        near = msgspec.structs.replace(ended(2, OK, at(-60)), approximate=("finished_at",))
        await show(scenario, near)
        better = msgspec.structs.replace(ended(2, OK, at(-180)), detailed=True)
        event = run_event(better, EventType.RUN_DETAILED)
        await scenario.bus.commit(Change(runs=(better,), events=(event,)), timeout_seconds=10)
        await scenario.round()
        assert await scenario.words() == ["fired", "resolved", "fired"]
        told = await scenario.told()
        assert len({event.id for event in told}) == 3
        await show(scenario, ended(3, OK, at(-30)))
        (first, second) = scenario.engine.past.of(told[0].alert.fingerprint)
        assert first.alert.starts_at == second.alert.starts_at, "the second replaces none"
        assert {event.alert.starts_at for event in told} == {at(-120)}
        assert [event.number for event in told] == [0, 0, 2]


async def test_a_corrected_failure_does_not_come_back_beside_a_late_one(tmp_path: Path) -> None:
    """In one batch the events of a run keep their order, whatever else failed before it."""
    async with engine_scenario(tmp_path, start=END) as scenario:
        claimed = await scenario.claim(1, BAD)
        await scenario.correct(claimed, OK)
        await scenario.end_run_before(2, BAD, seconds=600)
        await scenario.round()
        firing = {
            alert.labels["pipeline"]
            for alert in scenario.engine.snapshot().alerts
            if alert.state is AlertState.FIRING
        }
        assert firing == {"flow 2"}


def test_a_part_that_fails_stays_whatever_else_succeeds() -> None:
    """Of very many recipes those that fail are kept."""
    ends = Ends()
    ends.end(0, BAD, 0, recipe="broken")
    for number in range(1, 130):
        ends.end(number, OK, number, recipe=f"recipe {number}")
    assert ends.failing == {"0"}


def test_a_failure_inside_a_run_that_is_known_to_have_succeeded_is_none() -> None:
    """Also where the run's own end is long forgotten."""
    plan, parents = key(9, RunKind.PLAN_RUN), Parents(plan_run="9")
    part = run_event(state(1, BAD, kind=RunKind.FLOW_RUN, finished_at=at(10), parents=parents))
    event_input = EventInput(event=part, root_run=plan, root_succeeded=True)
    assert DEFINITION.on_event is not None
    assert DEFINITION.on_event(event_input, None, _RULE).result is None
