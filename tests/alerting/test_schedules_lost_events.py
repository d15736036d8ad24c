"""Starts that retention deleted from the log before they were handled."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Change, Retention
from monitor.model.runs import RunKind
from tests.alerting.engine_scenario import WORKSPACE, EngineScenario, engine_scenario
from tests.alerting.schedule_histories import FLOW, HALF_PAST, queued, run_of, schedule

HOUR = 3_600.0
RULES = AlertingSettings(rules=(default_rule(RuleKind.SCHEDULE_MISSED),))
TINY = Retention(events_seconds=0, events_count=1, events_hard_cap=1)


async def poll(fixture: EngineScenario) -> None:
    """Complete a poll and a read of the schedules, and let the engine evaluate them."""
    now = fixture.clock.now()
    fixture.live_state.name_pipeline(WORKSPACE, FLOW.kind, FLOW.id, FLOW.name)
    fixture.live_state.update_workspace(
        WORKSPACE, schedules=(schedule(HALF_PAST),), schedules_read_at=now
    )
    for kind in RunKind:
        fixture.live_state.confirm(WORKSPACE, kind, now, complete_at=now)
    await fixture.engine.evaluate()
    await fixture.engine.evaluate()


async def start(fixture: EngineScenario, number: int) -> None:
    run = run_of(number, fixture.clock.now())
    await fixture.bus.commit(Change(runs=(run,), events=(queued(run),)), timeout_seconds=5)


async def test_a_start_lost_with_the_log_is_not_missed(tmp_path: Path) -> None:
    """A start that was lost with the log is unknown; later ones are evaluated again."""
    async with engine_scenario(tmp_path, RULES) as fixture:
        await poll(fixture)
        await fixture.clock.advance(HOUR / 2)
        await start(fixture, 1)
        await start(fixture, 2)
        await fixture.bus.prune(TINY, now=fixture.clock.now() + timedelta(days=1))
        await fixture.clock.advance(HOUR / 2)
        await poll(fixture)
        assert await fixture.words("schedule_missed") == []
        await fixture.clock.advance(HOUR)
        await poll(fixture)
        assert await fixture.words("schedule_missed") == ["fired"]
