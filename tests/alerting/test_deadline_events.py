"""Deadlines in an engine over a store: one event each, counts that stay, and what is shown."""

from __future__ import annotations

from pathlib import Path

import msgspec

from monitor.alerting.rules.rule_settings import Match, RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from monitor.model.alert_texts import texts_of
from monitor.model.alerts import PipelineDeadlines
from monitor.model.events import EventType, WorkspaceEvent
from monitor.model.live_state import PollStatus
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import PipelineKind, RunKind, RunState, Status
from tests.alerting.earlier_failures import stand
from tests.alerting.engine_fixture import Fixture, engine_fixture
from tests.alerting.run_samples import FLOW, PLAN, at, state

# The zero of histories is Saturday, 10:00 UTC.
DUE = 3_600.0
DAY = 86_400.0
PLAN_RUN = RunKind.PLAN_RUN
NIGHTLY = ("acme", PLAN_RUN, PLAN.id)
_OF_ALERTS = (EventType.ALERT_FIRED, EventType.ALERT_RESOLVED)


def rule(**changes: object) -> RuleSettings:
    missed = default_rule(RuleKind.DEADLINE_MISSED)
    keys = {"deadline": "11:00", "match": Match(pipeline=(PLAN.id,)), **changes}
    return msgspec.structs.replace(missed, **keys)


def success(number: int, seconds: float, *, name: str | None = None) -> RunState:
    """Return a plan run of ten minutes that ended then."""
    ended = state(number, Status.SUCCEEDED, kind=PLAN_RUN, finished_at=at(seconds), seconds=600.0)
    if name is None:
        return ended
    assert ended.pipeline is not None
    return msgspec.structs.replace(
        ended, pipeline=msgspec.structs.replace(ended.pipeline, name=name)
    )


async def met(fixture: Fixture) -> list[WorkspaceEvent]:
    """Return the events of deadlines that were met, oldest first."""
    rows = await fixture.bus.events(after=0, limit=1_000)
    return [row.event for row in rows if row.event.type is EventType.DEADLINE_MET]  # type: ignore[misc] # its form


def known(fixture: Fixture, *successes: RunState) -> None:
    """Let the plan be known, with runs that have succeeded, as a daemon knows at its start."""
    fixture.live_state.name_pipeline("acme", PipelineKind.PLAN, PLAN.id, PLAN.name)
    for run in successes:
        stand(fixture.live_state, run)


async def begun(fixture: Fixture) -> None:
    """Let the plan be known, and evaluated once in the window of its deadline."""
    known(fixture, success(1, -2 * DAY))
    await fixture.evaluate(0)


def shown(fixture: Fixture) -> PipelineDeadlines:
    return fixture.engine.snapshot().deadlines[NIGHTLY]


async def test_a_deadline_that_is_met_makes_one_event(tmp_path: Path) -> None:
    """Its id names the deadline alone; it comes with the success, before the deadline."""
    async with engine_fixture(tmp_path, rule()) as fixture:
        await begun(fixture)
        await fixture.emit(success(2, 1_000))
        await fixture.evaluate(1_010)
        (event,) = await met(fixture)
        assert event.id == "acme:deadline:deadline_missed:plan/3:20261121"
        assert (event.what, event.number) == ("deadline:deadline_missed:plan/3", 20261121)
        assert (event.before, event.after) == (None, "2026-11-21T11:00:00Z")
        assert event.occurred_at == at(1_000)
        await fixture.emit(success(3, 1_500))
        await fixture.evaluate(1_510)
        assert len(await met(fixture)) == 1
        assert shown(fixture) == PipelineDeadlines(
            next_at=at(DUE + DAY), missed_at=None, met=1, missed=0
        )


async def test_a_restart_before_or_after_the_deadline_changes_nothing(tmp_path: Path) -> None:
    """What was met stays met, what was missed is counted once, and no event is repeated."""
    async with engine_fixture(tmp_path, rule()) as fixture:
        await begun(fixture)
        await fixture.emit(success(2, 1_000))
    async with engine_fixture(tmp_path, rule()) as fixture:
        await fixture.evaluate(DUE - 10)
        assert len(await met(fixture)) == 1
    async with engine_fixture(tmp_path, rule()) as fixture:
        assert shown(fixture).met == 1
        known(fixture, success(2, 1_000))
        await fixture.evaluate(DUE + DAY + 10)
        assert [alert.name for alert in fixture.firing()] == ["deadline_missed"]
    async with engine_fixture(tmp_path, rule()) as fixture:
        assert shown(fixture) == PipelineDeadlines(
            next_at=at(DUE + 2 * DAY), missed_at=at(DUE + DAY), met=1, missed=1
        )
        await fixture.emit(success(3, DUE + DAY + 900))
        await fixture.evaluate(DUE + DAY + 1_000)
        assert await fixture.told() == ["deadline_missed fired", "deadline_missed resolved"]
        assert len(await met(fixture)) == 1


async def test_a_success_that_is_read_late_says_why_the_alert_is_over(tmp_path: Path) -> None:
    """It had ended in time, so the deadline is met after all, and its event follows."""
    async with engine_fixture(tmp_path, rule()) as fixture:
        await begun(fixture)
        await fixture.evaluate(DUE + 10)
        await fixture.emit(success(2, DUE - 100))
        await fixture.evaluate(DUE + 70)
        assert await fixture.told() == ["deadline_missed fired", "deadline_missed resolved"]
        (alert,) = fixture.engine.snapshot().alerts
        assert alert.ends_at == alert.starts_at == at(DUE)
        assert texts_of(alert, at(DUE + 80))["description"].endswith(
            "Ended: a success that ended in time was seen later."
        )
        assert [event.number for event in await met(fixture)] == [20261121]
        assert (shown(fixture).met, shown(fixture).missed) == (1, 1)


async def test_an_alert_says_by_how_much_the_success_was_late(tmp_path: Path) -> None:
    """As it lasts, and as it was once it is over."""
    async with engine_fixture(tmp_path, rule()) as fixture:
        await begun(fixture)
        await fixture.evaluate(DUE + 600)
        (alert,) = fixture.firing()
        assert texts_of(alert, at(DUE + 600))["description"] == (
            "The deadline was 2026-11-21T11:00:00Z, and no success has come by then; "
            "late for 10 min."
        )
        await fixture.emit(success(2, DUE + 1_200))
        await fixture.evaluate(DUE + 1_300)
        (alert,) = fixture.engine.snapshot().alerts
        assert texts_of(alert, at(DUE + DAY))["description"].endswith("late for 20 min.")


async def test_another_daemon_without_the_memory_makes_the_same_event(tmp_path: Path) -> None:
    """The store has one event of one id, though the rule's rows were lost."""
    first = rule()
    async with engine_fixture(tmp_path, first) as fixture:
        await begun(fixture)
        await fixture.emit(success(2, 1_000))
        await fixture.evaluate(1_010)
    async with engine_fixture(tmp_path) as fixture:  # without the rule its memory goes
        await fixture.evaluate(1_020)
    async with engine_fixture(tmp_path, first) as fixture:
        known(fixture, success(2, 1_000))
        await fixture.evaluate(1_030)
        assert len(await met(fixture)) == 1
        assert shown(fixture).met == 1


async def test_a_renamed_pipeline_keeps_its_deadline(tmp_path: Path) -> None:
    """It is known by its id: what was missed under the old name ends under the new one."""
    async with engine_fixture(tmp_path, rule()) as fixture:
        await begun(fixture)
        await fixture.evaluate(DUE + 10)
        assert len(fixture.firing()) == 1
        fixture.live_state.name_pipeline("acme", PipelineKind.PLAN, PLAN.id, "hourly")
        await fixture.emit(success(2, DUE + 60, name="hourly"))
        await fixture.evaluate(DUE + 70)
        assert fixture.firing() == []
        assert shown(fixture).missed == 1


async def test_a_removed_pipeline_misses_no_deadline_any_more(tmp_path: Path) -> None:
    """Its alert ends once, whatever day comes, though no schedule says that it was deleted."""
    async with engine_fixture(tmp_path, rule()) as fixture:
        await begun(fixture)
        now = fixture.clock.now()
        fixture.live_state.update_workspace("acme", capabilities=frozenset({"list_plans"}))
        fixture.live_state.record_poll(
            PollStatus(
                workspace="acme",
                poll="names",
                last_attempt_at=now,
                last_success_at=now,
                last_outcome=PollOutcome.OK,
            )
        )
        await fixture.evaluate(DUE + 10)
        assert len(fixture.firing()) == 1
        fixture.live_state.forget_pipeline("acme", PipelineKind.PLAN, PLAN.id)
        for day in range(60):
            await fixture.evaluate(DUE + 20 + day * DAY)
        events = await fixture.bus.events(after=0, limit=1_000)
        types = [row.event.type for row in events if row.event.type in _OF_ALERTS]
        assert types == [EventType.ALERT_FIRED, EventType.ALERT_RESOLVED]
        assert fixture.engine.snapshot().deadlines == {}


async def test_another_pipeline_has_no_deadline(tmp_path: Path) -> None:
    """Only what the rule matches has one, and no memory besides."""
    async with engine_fixture(tmp_path, rule()) as fixture:
        await begun(fixture)
        fixture.live_state.name_pipeline("acme", PipelineKind.FLOW, FLOW.id, FLOW.name)
        await fixture.evaluate(DUE + 10)
        assert list(fixture.engine.snapshot().deadlines) == [NIGHTLY]


async def test_a_removed_rule_shows_nothing_any_more(tmp_path: Path) -> None:
    """Neither a next deadline nor counts."""
    async with engine_fixture(tmp_path, rule()) as fixture:
        await begun(fixture)
        await fixture.engine.reconfigure(msgspec.structs.replace(fixture.engine.settings, rules=()))
        await fixture.look_again()
        assert fixture.engine.snapshot().deadlines == {}
