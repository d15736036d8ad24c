"""Limits that the engine learns from events of runs, and keeps."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alerts import AlertState
from monitor.model.runs import Status
from tests.alerting.engine_fixture import Fixture, engine_fixture
from tests.alerting.run_samples import FLOW, at, state
from tests.pipeline_healths import end_at, health_after, show

HOUR = 3_600.0


async def succeed(fixture: Fixture, number: int, *, seconds: float) -> None:
    """Let a run end well at its hour, after so many seconds."""
    finished_at = at(number * HOUR)
    await fixture.emit(state(number, Status.SUCCEEDED, finished_at=finished_at, seconds=seconds))


async def test_a_limit_is_learned_shown_and_kept(tmp_path: Path) -> None:
    """Ten successes make one, a restart keeps it, and a run that exceeds it is overdue."""
    async with engine_fixture(tmp_path, RuleKind.RUN_OVERDUE) as fixture:
        for number in range(9):
            await succeed(fixture, number, seconds=400)
        assert fixture.engine.snapshot().limits == ()
        await succeed(fixture, 9, seconds=400)
        await fixture.look_again()
        (limit,) = fixture.engine.snapshot().limits
        assert (limit.workspace, limit.pipeline.id, limit.runs) == ("acme", "7", 10)
        assert limit.seconds == pytest.approx(800)

    async with engine_fixture(tmp_path, RuleKind.RUN_OVERDUE) as fixture:
        assert [other_limit.seconds for other_limit in fixture.engine.snapshot().limits] == [
            limit.seconds
        ]
        run = state(50, Status.RUNNING, started_at=at(20 * HOUR))
        assert await fixture.evaluate(20 * HOUR + 799, run) == []
        (alert,) = await fixture.evaluate(20 * HOUR + 801, run)
        assert alert.starts_at == at(20 * HOUR + 800)
        assert alert.facts["limit_seconds"] == pytest.approx(800)


async def test_the_end_of_a_late_run_resolves_and_teaches(tmp_path: Path) -> None:
    """It ends with the run's end event, although live state shows the run for a while yet."""
    async with engine_fixture(tmp_path, RuleKind.RUN_OVERDUE) as fixture:
        for number in range(10):
            await succeed(fixture, number, seconds=400)
        run = state(10, Status.RUNNING, started_at=at(10 * HOUR - 900))
        assert len(await fixture.evaluate(10 * HOUR - 60, run)) == 1
        await succeed(fixture, 10, seconds=900)
        (alert,) = [
            other_alert
            for other_alert in fixture.engine.snapshot().alerts
            if other_alert.rule == "run_overdue"
        ]
        assert alert.state is AlertState.RESOLVED
        assert alert.ends_at == at(10 * HOUR)
        assert await fixture.evaluate(10 * HOUR - 30, run) == []
        assert fixture.engine.snapshot().limits[0].runs == 11


async def test_a_new_name_resets_nothing(tmp_path: Path) -> None:
    """Learned limits belong to the pipeline by its id."""
    async with engine_fixture(tmp_path, RuleKind.RUN_OVERDUE) as fixture:
        for number in range(10):
            await succeed(fixture, number, seconds=400)
        run = state(11, Status.SUCCEEDED, finished_at=at(11 * HOUR), seconds=400)
        assert run.pipeline is not None
        renamed = msgspec.structs.replace(run.pipeline, name="orders of today")
        run = msgspec.structs.replace(run, pipeline=renamed)
        await fixture.emit(run)
        await fixture.engine.store_position()
        assert [limit.runs for limit in fixture.engine.snapshot().limits] == [11]


async def test_a_pipeline_without_runs_for_ninety_days_is_forgotten(tmp_path: Path) -> None:
    """Where no list shows that a pipeline is gone, what was learned of it is dropped in the end."""
    async with engine_fixture(tmp_path, RuleKind.RUN_OVERDUE) as fixture:
        await succeed(fixture, 0, seconds=400)
        for days, is_kept in ((89, True), (91, False)):
            await fixture.clock.advance(120)
            await fixture.evaluate(days * 24 * HOUR)
            assert await is_learned(fixture) is is_kept


async def test_a_clock_that_jumps_forgets_nothing_that_was_learned(tmp_path: Path) -> None:
    """Ours shows another year: only the workspace's own time lets anything be forgotten."""
    async with engine_fixture(tmp_path, RuleKind.RUN_OVERDUE) as fixture:
        await succeed(fixture, 0, seconds=400)
        fixture.clock.set_wall(at(400 * 24 * HOUR))
        await fixture.clock.advance(120)
        await fixture.evaluate(HOUR)

        assert await is_learned(fixture)


async def is_learned(fixture: Fixture) -> bool:
    return any(key.startswith("b:") for key in await fixture.bus.consumer_state("alerting"))


async def look_at_success(fixture: Fixture, hours: int, *, success: int) -> list[str]:
    """Look so many hours after the history's zero, and return which rules fire."""
    show(fixture.live_state, health_after(end_at(at(success * HOUR)), pipeline=FLOW))
    return [alert.name for alert in await fixture.evaluate(hours * HOUR)]


async def test_lateness_by_a_learned_limit_is_over_with_the_next_success(
    tmp_path: Path,
) -> None:
    """However long it stayed away: its limit is kept until then."""
    async with engine_fixture(tmp_path, RuleKind.NOT_FRESH) as fixture:
        for number in range(10):
            await succeed(fixture, number, seconds=400)
        for hours in (24, 100 * 24, 100 * 24 + 1):
            assert await look_at_success(fixture, hours, success=9) == ["not_fresh"]
            await fixture.clock.advance(100 * 24 * HOUR)

        later = 100 * 24 + 2
        await succeed(fixture, later, seconds=400)
        assert await look_at_success(fixture, later, success=later) == []
        told = [item for item in await fixture.told() if not item.endswith("reminded")]
        assert told == ["not_fresh fired", "not_fresh resolved"]
