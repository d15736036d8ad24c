"""Plan runs and flow runs that hang although no job group of theirs is active: `run_stuck`."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from monitor.alerting.rules.rule_settings import Match, RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.model.runs import Parents, RunKind, RunState, Status, Trigger
from monitor.model.words import iso
from tests.alerting.engine_fixture import engine_fixture
from tests.alerting.run_samples import at, state

STUCK = RuleKind.RUN_STUCK
HOUR = 3_600.0  # four times the default threshold
FLOW_RUN, PLAN_RUN = RunKind.FLOW_RUN, RunKind.PLAN_RUN
IN_PLAN = Parents(plan_run="9")


def hanging(kind: RunKind, *, read: float | None, written: float | None = None) -> RunState:
    """Return a run that began at zero, read and last written by the workspace then."""
    run = state(9, Status.RUNNING, kind=kind, created_at=at(0))
    return msgspec.structs.replace(
        run,
        unfinished_at=None if read is None else at(read),
        updated_at=None if written is None else at(written),
    )


@pytest.mark.parametrize("kind", [FLOW_RUN, PLAN_RUN])
async def test_a_run_without_job_groups_that_hangs_is_stuck(tmp_path: Path, kind: RunKind) -> None:
    """An hour after its start, and until it ends."""
    async with engine_fixture(tmp_path, STUCK) as fixture:
        assert await fixture.evaluate(HOUR - 1, hanging(kind, read=HOUR - 1)) == []
        (alert,) = await fixture.evaluate(HOUR + 1, hanging(kind, read=HOUR + 1))
        assert (alert.kind, alert.facts["run"]) == (kind, "9")
        assert await fixture.look_again() != []
        await fixture.emit(state(9, Status.FAILED, kind=kind, finished_at=at(HOUR + 60)))
        assert await fixture.told() == ["run_stuck fired", "run_stuck resolved"]


@pytest.mark.parametrize("child", [Status.PENDING, Status.RUNNING])
@pytest.mark.parametrize("kind_is_matched", [False, True])
async def test_a_plan_run_whose_task_waits_or_works_is_alive(
    tmp_path: Path, *, child: Status, kind_is_matched: bool
) -> None:
    """Also where the rule is about plan runs alone; its time begins when the last task is over."""
    match = Match(kind=(PLAN_RUN.value,)) if kind_is_matched else Match()
    stuck = msgspec.structs.replace(default_rule(STUCK), match=match, threshold=3 * HOUR)
    async with engine_fixture(tmp_path, stuck) as fixture:
        for hours in (1, 11, 12, 13):
            plan_run = hanging(PLAN_RUN, read=hours * HOUR)
            task = state(hours, child, created_at=at((hours - 1) * HOUR), parents=IN_PLAN)
            assert await fixture.evaluate(hours * HOUR, plan_run, task) == []
        assert await fixture.evaluate(24 * HOUR, hanging(PLAN_RUN, read=24 * HOUR)) == []
        (alert,) = await fixture.evaluate(25.1 * HOUR, hanging(PLAN_RUN, read=25.1 * HOUR))
        assert alert.facts["last_sign_at"] == iso(at(13 * HOUR))


async def test_a_job_group_that_a_plan_started_may_be_of_any_plan_run(tmp_path: Path) -> None:
    """Before the plan is known: its record may not be readable."""
    task = state(1, Status.PENDING, created_at=at(60))
    task = msgspec.structs.replace(task, trigger=Trigger.PLAN)
    stuck = msgspec.structs.replace(default_rule(STUCK), match=Match(kind=(PLAN_RUN.value,)))
    async with engine_fixture(tmp_path, stuck) as fixture:
        assert await fixture.evaluate(2 * HOUR, hanging(PLAN_RUN, read=2 * HOUR), task) == []
        assert len(await fixture.evaluate(4 * HOUR, hanging(PLAN_RUN, read=4 * HOUR))) == 1


async def test_a_clock_that_was_ahead_makes_no_run_alive_for_longer(tmp_path: Path) -> None:
    """Its last sign of life, when a day more was known, counts as one of now."""
    task = state(1, Status.RUNNING, created_at=at(0), parents=IN_PLAN)
    async with engine_fixture(tmp_path, STUCK) as fixture:
        assert await fixture.evaluate(24 * HOUR, hanging(PLAN_RUN, read=HOUR), task) == []
        fixture.live_state.limit_complete("acme", at(HOUR))
        assert await fixture.evaluate(1.1 * HOUR, hanging(PLAN_RUN, read=1.1 * HOUR)) == []
        assert len(await fixture.evaluate(2.2 * HOUR, hanging(PLAN_RUN, read=2.2 * HOUR))) == 1


async def test_a_run_that_the_workspace_writes_is_alive(tmp_path: Path) -> None:
    """The stamp of its record is a sign, as a heartbeat is."""
    async with engine_fixture(tmp_path, STUCK) as fixture:
        written = hanging(PLAN_RUN, read=2 * HOUR, written=1.5 * HOUR)
        assert await fixture.evaluate(2 * HOUR, written) == []
        written = hanging(PLAN_RUN, read=2.6 * HOUR, written=1.5 * HOUR)
        assert len(await fixture.evaluate(2.6 * HOUR, written)) == 1
        written = hanging(PLAN_RUN, read=2.7 * HOUR, written=2.65 * HOUR)
        assert await fixture.evaluate(2.7 * HOUR, written) == []


async def test_it_is_judged_as_of_its_last_read(tmp_path: Path) -> None:
    """A run that was not read for hours may have ended; a restart ends no stuck run either."""
    async with engine_fixture(tmp_path, STUCK) as fixture:
        assert await fixture.evaluate(5 * HOUR, hanging(FLOW_RUN, read=0.9 * HOUR)) == []
        assert await fixture.evaluate(5 * HOUR, hanging(FLOW_RUN, read=None)) == []
        assert len(await fixture.evaluate(5 * HOUR, hanging(FLOW_RUN, read=1.1 * HOUR))) == 1
    async with engine_fixture(tmp_path, STUCK) as fixture:
        assert len(await fixture.evaluate(6 * HOUR, hanging(FLOW_RUN, read=0.5 * HOUR))) == 1
        assert await fixture.told() == ["run_stuck fired"]


async def test_a_task_at_work_costs_no_commit_in_each_cycle(tmp_path: Path) -> None:
    """When it was last seen at work is remembered to the minute."""
    task = state(1, Status.RUNNING, created_at=at(60), parents=IN_PLAN)
    async with engine_fixture(tmp_path, STUCK) as fixture:
        await fixture.evaluate(600, hanging(PLAN_RUN, read=600), task)
        commits = fixture.registry.get_sample_value(
            "dataprep_monitor_commit_duration_seconds_count"
        )
        for seconds in range(602, 640, 2):
            await fixture.evaluate(seconds, hanging(PLAN_RUN, read=seconds), task)
        after = fixture.registry.get_sample_value("dataprep_monitor_commit_duration_seconds_count")
        assert after == commits
