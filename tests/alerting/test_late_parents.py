"""What fails inside a plan is told once, in whatever order it becomes known."""

from __future__ import annotations

import itertools
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.alerting.rules.rule_settings import Match, RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.model.alerts import AlertState
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Status, Trigger
from tests.alerting.families import Family
from tests.alerting.judging import WORKSPACE, Judging, judging

_STEPS = ("child fails", "link", "plan fails")


async def show(family: Family, step: str) -> None:
    if step == "child fails":
        await family.child_ends()
    elif step == "link":
        await family.link()
    else:
        await family.plan_ends()


async def evidence(judging: Judging) -> list[set[str]]:
    """Return what each alert that fires is held up by."""
    await judging.round()
    alerts = [
        alert for alert in judging.engine.snapshot().alerts if alert.state is AlertState.FIRING
    ]
    return [set(alert.evidence) for alert in alerts if alert.name == "run_failed"]


@pytest.mark.parametrize("order", list(itertools.permutations(_STEPS)), ids="-".join)
@pytest.mark.parametrize("is_heard_at_once", [True, False], ids=["each", "together"])
async def test_both_failures_are_one_alert(
    tmp_path: Path,
    order: tuple[str, ...],
    is_heard_at_once: bool,  # noqa: FBT001 - a parameter
) -> None:
    """In any order, heard one by one or in one batch: one `fired`, with both as evidence."""
    async with judging(tmp_path) as one:
        family = Family(one)
        for step in order:
            await show(family, step)
            if is_heard_at_once:
                await one.round()

        assert await evidence(one) == [
            {"marketing:flow_run:f1:failed", "marketing:plan_run:p1:failed"}
        ]
        assert await one.words() == ["fired"]


async def test_a_link_that_never_comes_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    """After fifteen seconds the plan's failure is told by itself."""
    async with judging(tmp_path) as one:
        family = Family(one)
        await family.child_ends()
        await one.round()
        await family.plan_ends()
        await one.round()

        await one.round(14)
        assert await one.words() == ["fired"]
        await one.round(1)
        assert await one.words() == ["fired", "fired"]


async def test_a_failure_that_waits_is_heard_before_the_next_success(tmp_path: Path) -> None:
    """The plan fails and soon succeeds again: nothing that fired late stays on for ever."""
    async with judging(tmp_path) as one:
        first = Family(one)
        await first.child_ends()
        await one.round()
        await first.plan_ends()
        await one.round()
        again = Family(one, number=2)
        await again.plan_ends(Status.SUCCEEDED)
        await again.child_ends(Status.SUCCEEDED)
        for _ in range(10):
            await one.round()

        assert await evidence(one) == []


async def test_a_failure_that_waits_survives_a_restart(tmp_path: Path) -> None:
    """What waits is in the store: the next process finds the link, or tells it in time."""
    async with judging(tmp_path) as one:
        family = Family(one)
        await family.child_ends()
        await one.round()
        await family.plan_ends()
        await one.round()
        await one.engine.restore()
        await family.link()

        assert len(await evidence(one)) == 1
        await one.round(60)
        assert await one.words() == ["fired"]


async def test_a_clock_set_back_makes_nothing_wait_for_longer(tmp_path: Path) -> None:
    """The next process has a clock that is hours behind: what waits is told by it at once."""
    async with judging(tmp_path) as one:
        family = Family(one)
        await family.child_ends()
        await one.round()
        await family.plan_ends()
        await one.round()
        one.clock.set_wall(one.clock.now() - timedelta(hours=2))
        one.engine = one.another_engine()
        await one.engine.restore()
        await one.round()

        assert await one.words() == ["fired", "fired"]


async def test_what_was_told_alone_ends_when_it_succeeds_inside(tmp_path: Path) -> None:
    """A flow run fails by itself; the next one runs inside a plan that is known: it is over."""
    async with judging(tmp_path) as one:
        alone = Family(one)
        await alone.child_ends()
        await one.round()
        inside = Family(one, number=2)
        await inside.plan_ends(Status.SUCCEEDED)
        await inside.link()
        await inside.child_ends(Status.SUCCEEDED)
        await one.round()

        assert await one.words() == ["fired", "resolved"]


async def test_the_next_night_is_the_same_trouble(tmp_path: Path) -> None:
    """The flow fails in each night's plan and never recovers: one alert for all of them."""
    async with judging(tmp_path) as one:
        for number in (1, 2, 3):
            family = Family(one, number=number)
            await family.child_ends()
            await one.round()
            await family.plan_ends()
            await one.round()
            await family.link()
            await one.round(86_400)

        assert len(await evidence(one)) == 1
        assert {word for word in await one.words() if word != "reminded"} == {"fired"}
        assert (await one.words()).count("fired") == 1


async def test_what_fails_in_a_plan_that_is_told_of_is_not_told_again(tmp_path: Path) -> None:
    """The plan failed last night and runs again: what fails in it now is evidence, at once."""
    async with judging(tmp_path) as one:
        await Family(one).plan_ends()
        await one.round(3_600)
        tonight = Family(one, number=2)
        tonight.begin()
        await tonight.part_of_child_fails()
        await one.round()
        await tonight.child_ends()
        await one.round()

        assert await evidence(one) == [
            {
                "marketing:plan_run:p1:failed",
                "marketing:job_group:j-f2:failed",
                "marketing:flow_run:f2:failed",
            }
        ]
        assert await one.words() == ["fired"]


async def test_a_part_that_fails_after_its_plan_waits_as_well(tmp_path: Path) -> None:
    """Told first is the plan, then a job group of its flow run, then the link: one alert."""
    async with judging(tmp_path) as one:
        family = Family(one)
        family.begin()
        await family.plan_ends()
        await one.round()
        await family.part_of_child_fails()
        await one.round()
        assert await one.words() == ["fired"]
        await family.child_ends()
        await family.link()
        await one.round()

        assert await one.words() == ["fired"]
        assert len(await evidence(one)) == 1


async def test_an_alert_takes_the_error_of_what_failed_inside(tmp_path: Path) -> None:
    """The plan run tells none: the message of its flow run is told in its place, in any order."""
    for order in (("plan", "child"), ("child", "plan")):
        folder = tmp_path / order[0]
        folder.mkdir()
        async with judging(folder) as one:
            family = Family(one)
            for step in order:
                if step == "plan":
                    await family.plan_ends()
                else:
                    await family.child_ends(error="no such table")
                await one.round()
            await family.link()
            await one.round()

            (alert,) = one.engine.snapshot().alerts
            assert alert.facts["error"] == "no such table"
            assert "no such table" in alert.annotations["description"]


async def test_what_was_told_alone_goes_on_also_where_its_plan_is_known(tmp_path: Path) -> None:
    """A part fails and is told; then the link is known; what fails of it next is no other alert."""
    async with judging(tmp_path) as one:
        family = Family(one)
        family.begin()
        await family.part_of_child_fails()
        await one.round()
        await family.link()
        await family.child_ends()
        await one.round()
        await family.plan_ends()
        await one.round()

        assert await one.words() == ["fired"]
        assert await evidence(one) == [
            {
                "marketing:job_group:j-f1:failed",
                "marketing:flow_run:f1:failed",
                "marketing:plan_run:p1:failed",
            }
        ]


async def test_an_old_alert_of_a_flow_hides_no_plan(tmp_path: Path) -> None:
    """A flow failed by hand yesterday; today's plan with it and another flow is told of."""
    async with judging(tmp_path) as one:
        by_hand = Family(one)
        by_hand.flow_run = msgspec.structs.replace(by_hand.flow_run, trigger=Trigger.MANUAL)
        await by_hand.child_ends()
        await one.round(86_400)
        family = Family(one, number=2)
        family.begin()
        await family.link()
        await family.child_ends(error="no such table")
        await family.another_child_fails()
        await one.round()
        await family.plan_ends()
        await one.round()

        assert (await one.words()).count("fired") == 2
        assert {a.labels["pipeline_id"] for a in one.engine.snapshot().alerts} == {"7", "70"}


async def test_of_very_many_alerts_each_is_asked_for_its_error(tmp_path: Path) -> None:
    """Thirty plans fail and say nothing; minutes later the link of any one still brings why."""
    settings = AlertingSettings(parents_wait_seconds=0)
    async with judging(tmp_path, settings) as one:
        families = [Family(one, number=number) for number in range(30)]
        for number, family in enumerate(families):
            plan = Pipeline(kind=PipelineKind.PLAN, id=str(1_000 + number))
            family.plan_run = msgspec.structs.replace(family.plan_run, pipeline=plan)
            await family.plan_ends()
        for _ in range(61):
            await one.round()
        alerts = [alert for alert in one.engine.snapshot().alerts if alert.name == "run_failed"]
        assert len(alerts) == 30
        last = max(alerts, key=lambda alert: alert.fingerprint)
        family = next(
            other_family for other_family in families if last.run == other_family.plan_run.key
        )
        family.flow_run = msgspec.structs.replace(family.flow_run, error="no such table")
        await family.link()
        for _ in range(2):
            await one.round()

        told = {a.fingerprint: a.facts["error"] for a in one.engine.snapshot().alerts}
        assert told[last.fingerprint] == "no such table"


async def test_a_late_link_brings_the_error_to_a_rule_about_plans_only(tmp_path: Path) -> None:
    """The flow matches no rule; its error is told with the plan's failure all the same."""
    rule = msgspec.structs.replace(
        default_rule(RuleKind.RUN_FAILED), match=Match(pipeline=("nightly",))
    )
    async with judging(tmp_path, AlertingSettings(rules=(rule,))) as one:
        family = Family(one)
        await family.child_ends(error="no such table")
        await family.plan_ends()
        await one.round()
        await family.link()
        await one.round()

        (alert,) = one.engine.snapshot().alerts
        assert "no such table" in alert.annotations["description"]
        assert await one.words() == ["fired"]


async def test_what_is_pending_takes_the_plan_in_too(tmp_path: Path) -> None:
    """A rule that waits for a minute tells both failures as one, in any case."""
    rule = msgspec.structs.replace(default_rule(RuleKind.RUN_FAILED), for_seconds=60)
    async with judging(tmp_path, AlertingSettings(rules=(rule,))) as one:
        family = Family(one)
        await family.child_ends()
        await family.plan_ends()
        await one.round()
        await family.link()
        one.live_state.confirm(
            WORKSPACE,
            RunKind.FLOW_RUN,
            one.clock.now(),
            complete_at=one.clock.now() + timedelta(days=1),
        )
        await one.round(90)

        assert len(await evidence(one)) == 1
        assert await one.words() == ["fired"]


async def test_plans_that_have_nothing_to_do_with_it_wait_for_nothing(tmp_path: Path) -> None:
    """A flow run that failed before the plan run began delays the plan's failure by nothing."""
    async with judging(tmp_path) as one:
        before = Family(one)
        await before.child_ends()
        await one.round(120)
        later = Family(one, number=2)
        await later.plan_ends()
        await one.round()

        assert await one.words() == ["fired", "fired"]
