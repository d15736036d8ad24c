"""Starts that retention deleted from the log before they were handled."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Change, Retention
from monitor.model.runs import RunKind
from tests.alerting.engine_scene import WORKSPACE, EngineScene, engine_scene
from tests.alerting.schedule_stories import FLOW, HALF_PAST, queued, run_of, schedule

HOUR = 3_600.0
RULES = AlertingSettings(rules=(default_rule(RuleKind.SCHEDULE_MISSED),))
TINY = Retention(events_seconds=0, events_count=1, events_hard_cap=1)


async def poll(stage: EngineScene) -> None:
    """Complete a poll and a read of the schedules, and let the engine evaluate them."""
    now = stage.clock.now()
    stage.live_state.name_pipeline(WORKSPACE, FLOW.kind, FLOW.id, FLOW.name)
    stage.live_state.update_workspace(
        WORKSPACE, schedules=(schedule(HALF_PAST),), schedules_read_at=now
    )
    for kind in RunKind:
        stage.live_state.confirm(WORKSPACE, kind, now, complete_at=now)
    await stage.engine.evaluate()
    await stage.engine.evaluate()


async def start(stage: EngineScene, number: int) -> None:
    run = run_of(number, stage.clock.now())
    await stage.bus.commit(Change(runs=(run,), events=(queued(run),)), timeout_seconds=5)


async def test_what_was_lost_with_the_log_is_not_missed(tmp_path: Path) -> None:
    """Whether anything started then is unknown; what comes after is evaluated again."""
    async with engine_scene(tmp_path, RULES) as stage:
        await poll(stage)
        await stage.clock.advance(HOUR / 2)
        await start(stage, 1)
        await start(stage, 2)
        await stage.bus.prune(TINY, now=stage.clock.now() + timedelta(days=1))
        await stage.clock.advance(HOUR / 2)
        await poll(stage)
        assert await stage.words("schedule_missed") == []
        await stage.clock.advance(HOUR)
        await poll(stage)
        assert await stage.words("schedule_missed") == ["fired"]
