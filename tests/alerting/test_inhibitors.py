"""Alerts that wait for another one: for how long, and what a success around them clears."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.model.alerts import AlertState
from monitor.model.runs import Parents, Recipe, RunKey, RunKind, RunState, Status, Trigger
from tests.alerting.engine_scenario import WORKSPACE, engine_scenario
from tests.alerting.related_runs import Family, evidence


async def fails_alone(family: Family, number: str, recipe: str, trigger: Trigger) -> RunState:
    """Let a job group of the flow fail that nothing shows to be part of a plan."""
    created_at = family.engine_scenario.clock.now() - timedelta(seconds=20)
    job_group = msgspec.structs.replace(
        family.flow_run,
        key=RunKey(WORKSPACE, RunKind.JOB_GROUP, number),
        created_at=created_at,
        recipe=Recipe(id=recipe),
        trigger=trigger,
    )
    return await family.ends(job_group, Status.FAILED)


async def test_the_success_of_a_plan_clears_only_what_ran_inside_it(tmp_path: Path) -> None:
    """A recipe that a person started by hand still fails when the plan has recovered."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        family.begin()
        await fails_alone(family, "1", "a", Trigger.MANUAL)
        await scenario.round(60)
        inside = await fails_alone(family, "2", "b", Trigger.PLAN)
        await scenario.round()
        await family.keep(msgspec.structs.replace(inside, parents=Parents(plan_run="p1")))
        await scenario.round(60)
        await Family(scenario, number=2).plan_ends(Status.SUCCEEDED)
        await scenario.round()

        assert await scenario.words() == ["fired"]
        assert len(await evidence(scenario)) == 1


@pytest.mark.parametrize("failures", [1, 2])
async def test_a_late_failure_was_over_by_a_success_inside_a_plan(
    tmp_path: Path, failures: int
) -> None:
    """A single run fails, and is seen only when the flow has succeeded inside a plan since.

    Whichever is seen first, nothing fires for it in the end: neither that it failed, nor, being
    the third in a row, that it keeps failing.
    """
    async with engine_scenario(tmp_path) as scenario:
        for number in range(failures):
            await Family(scenario, number=number).child_ends()
            await scenario.round(60)
        late = Family(scenario, number=8)
        failed = msgspec.structs.replace(
            late.flow_run, status=Status.FAILED, finished_at=scenario.clock.now()
        )
        await scenario.round(60)
        for number in (20, 21):  # the second when there is no alert any more
            inside = Family(scenario, number=number)
            await inside.link()
            await inside.child_ends(Status.SUCCEEDED)
            await inside.plan_ends(Status.SUCCEEDED)
            await scenario.round(60)
        await late.seen(failed)
        await scenario.round(60)

        assert [
            alert.name
            for alert in scenario.engine.snapshot().alerts
            if alert.state is not AlertState.RESOLVED
        ] == []


async def test_details_of_a_part_do_not_notify_again_for_its_plan(tmp_path: Path) -> None:
    """The part fired, its link became known, and its job records come: the plan's alert waits."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        family.begin()
        await family.child_ends()
        await scenario.round()
        await family.link()
        await family.detail_of_child()
        await scenario.round()

        assert await scenario.words() == ["fired"]


async def test_a_part_does_not_wait_endlessly_for_a_plan_that_does_not_contain_it(
    tmp_path: Path,
) -> None:
    """The plan that contains it is not observed yet; another one is active and has an alert."""
    async with engine_scenario(tmp_path) as scenario:
        await Family(scenario).plan_ends()
        await scenario.round(60)
        tonight = Family(scenario, number=2)
        tonight.begin()
        await tonight.child_ends()
        await scenario.round()
        assert await scenario.words() == ["fired"]
        await scenario.round(16)
        assert await scenario.words() == ["fired", "fired"]


async def test_a_failure_beside_a_part_is_not_merged_into_its_plan(tmp_path: Path) -> None:
    """An alert with a failure that is not inside the plan stays one of its own."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        family.begin()
        await family.plan_ends()
        await scenario.round()
        inside = await fails_alone(family, "0", "x", Trigger.PLAN)
        await fails_alone(family, "1", "a", Trigger.MANUAL)
        await scenario.round()
        await family.keep(msgspec.structs.replace(inside, parents=Parents(plan_run="p1")))
        await scenario.round()
        await scenario.round(16)

        assert await scenario.words() == ["fired", "fired"]
        of_flow = {"marketing:job_group:0:failed", "marketing:job_group:1:failed"}
        assert of_flow in await evidence(scenario)


async def test_an_inhibitor_that_has_ended_never_inhibits_again(tmp_path: Path) -> None:
    """The plan's alert fired after the part's had ended; the part fails again by itself."""
    rule = msgspec.structs.replace(default_rule(RuleKind.RUN_FAILED), repeat_seconds=3_600)
    async with engine_scenario(tmp_path, AlertingSettings(rules=(rule,))) as scenario:
        family = Family(scenario)
        await family.child_ends()
        await scenario.round()
        await family.plan_ends()
        await family.link()
        await scenario.round()
        await Family(scenario, number=2).child_ends(Status.SUCCEEDED)
        await scenario.round()
        assert await scenario.words() == ["fired", "resolved", "fired"]
        by_hand = Family(scenario, number=3)
        by_hand.flow_run = msgspec.structs.replace(by_hand.flow_run, trigger=Trigger.MANUAL)
        await by_hand.child_ends()
        await scenario.round()
        await scenario.round(3_700)
        assert (await scenario.words()).count("reminded") == 2
