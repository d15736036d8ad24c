"""A workspace's clock that is set back before the moment at which following began."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import structlog

from monitor.alerting.rules.contract import WorkspaceFacts
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.live_state import Reachability
from tests.alerting.rule_evaluation import EvaluatedRule
from tests.decisions.followed import ALL, following
from tests.polling.conftest import NAME

MISSED = "dataprep_monitor_ends_missed_total"
SET_BACK = "workspace clock was set back"


async def test_ends_that_seem_to_lie_before_following_are_not_missed_silently(
    tmp_path: Path,
) -> None:
    """They are counted and logged, the alert says so, and all of it ends with the difference."""
    async with following(tmp_path) as it:
        await it.pass_time(300)
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        with structlog.testing.capture_logs() as lines:
            it.options.clock_offset_seconds = -3_600.0
            await it.pass_time(120)
            missed = it.run_job_groups(2)
            await it.pass_time(240)
        status = it.scenario.live_state.workspaces[NAME]

        assert [await it.transitions(run.id) for run in missed] == [[], []]
        assert it.scenario.sample(MISSED, workspace=NAME) == 2
        (line,) = [line for line in lines if line["event"] == SET_BACK]
        assert line["log_level"] == "warning"
        assert line["behind_seconds"] > 3_000
        assert status.reachability is Reachability.DEGRADED
        assert "clock" in (status.reason or "")
        assert rule.evaluate(WorkspaceFacts(status=status), 0) == "firing"
        assert "clock" in str(rule.firing.facts["reason"])

        it.options.clock_offset_seconds = 0.0
        await it.pass_time(120)
        run = it.run_job_group()
        await it.pass_time(120)
        status = it.scenario.live_state.workspaces[NAME]

        assert await it.transitions(run.id) == ALL
        assert status.reachability is Reachability.REACHABLE
        assert rule.evaluate(WorkspaceFacts(status=status), 600) == "ok"
        assert it.scenario.sample(MISSED, workspace=NAME) == 2


async def test_a_clock_that_was_ahead_when_following_began_is_noticed(tmp_path: Path) -> None:
    """The start of following lies in the future then, for this life and for the next."""
    async with following(tmp_path) as it:
        await it.pass_time(60)
        it.options.clock_offset_seconds = -600.0
        await it.crash()
        await it.begin()
        await it.pass_time(60)
        assert it.scenario.live_state.workspaces[NAME].clock_set_back is not None

        await it.pass_time(600)
        assert it.scenario.live_state.workspaces[NAME].clock_set_back is None


async def test_a_step_back_within_what_was_followed_is_no_secret(tmp_path: Path) -> None:
    """A failure may then sort before an older success; once the former time has passed, no more."""
    async with following(tmp_path) as it:
        await it.pass_time(900)
        it.options.clock_offset_seconds = -300.0
        await it.pass_time(120)
        status = it.scenario.live_state.workspaces[NAME]
        rule = EvaluatedRule(RuleKind.WORKSPACE_UNREACHABLE)
        assert status.reachability is Reachability.DEGRADED
        assert rule.evaluate(WorkspaceFacts(status=status), 0) == "firing"
        assert "ordered before" in str(rule.firing.facts["reason"])

        await it.pass_time(300)
        status = it.scenario.live_state.workspaces[NAME]
        assert (status.clock_set_back, status.reachability) == (None, Reachability.REACHABLE)


@pytest.mark.parametrize("ahead_seconds", [3_600.0, 40 * 86_400.0])
async def test_a_clock_that_is_wrong_for_one_round_is_no_alarm(
    tmp_path: Path, ahead_seconds: float
) -> None:
    """Nothing is known of a time that has not come, no run is late, and none of its times wrong."""
    async with following(tmp_path) as it:
        run = it.run_job_group(work_seconds=10_000)
        await it.pass_time(300)
        it.options.clock_offset_seconds = ahead_seconds
        await it.pass_time(30)
        it.options.clock_offset_seconds = 0.0
        await it.pass_time(120)
        status, now = it.scenario.live_state.workspaces[NAME], it.sandbox.world.now()
        active = it.scenario.live_state.active[it.scenario.key(run.id)].run

        assert (status.clock_set_back, status.reachability) == (None, Reachability.REACHABLE)
        assert max(it.scenario.live_state.complete.values()) <= now
        assert active.jobs is not None
        assert active.jobs.read_at is not None
        assert active.jobs.read_at <= now


async def test_waits_for_the_former_time_go_by_the_present(tmp_path: Path) -> None:
    """A clock that was wrong for so long that it was believed is an alarm for a day at most."""
    async with following(tmp_path) as it:
        await it.pass_time(300)
        it.options.clock_offset_seconds = 40 * 86_400.0
        await it.pass_time(180)
        it.options.clock_offset_seconds = 0.0
        await it.pass_time(180)
        live_state, now = it.scenario.live_state, it.sandbox.world.now()
        assert live_state.workspaces[NAME].clock_set_back is not None
        assert max(live_state.complete.values()) <= now
        assert min(live_state.complete.values()) > now - timedelta(seconds=180)

        await it.pass_time_there(86_400)
        await it.pass_time(120)
        status = live_state.workspaces[NAME]
        assert (status.clock_set_back, status.reachability) == (None, Reachability.REACHABLE)


async def test_a_clock_that_was_set_ahead_is_followed_without_a_doubt(tmp_path: Path) -> None:
    """Runs end before the minute is over in which it is not believed yet: no time is impossible."""
    async with following(tmp_path) as it:
        await it.pass_time(300)
        it.options.clock_offset_seconds = 900.0
        run = it.run_job_group()
        await it.pass_time(45)
        state = await it.scenario.state(run.id)
        await it.pass_time(120)

        assert state is not None
        assert (await it.transitions(run.id), state.implausible) == (ALL, ())
        skew = it.scenario.live_state.workspaces[NAME].clock_skew_seconds
        assert skew == pytest.approx(900, abs=20)


async def test_a_small_step_back_is_no_alarm(tmp_path: Path) -> None:
    """A correction of some seconds hides no end."""
    async with following(tmp_path) as it:
        await it.pass_time(600)
        it.options.clock_offset_seconds = -30.0
        await it.pass_time(60)
        run = it.run_job_group()
        await it.pass_time(240)

        assert it.scenario.live_state.workspaces[NAME].clock_set_back is None
        assert await it.transitions(run.id) == ALL
