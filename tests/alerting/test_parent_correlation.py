"""What fails inside a plan is one alert, in whatever order it becomes known."""

from __future__ import annotations

import itertools
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.model.alert_texts import texts_of
from monitor.model.runs import RunKind, Status, Trigger
from tests.alerting.engine_scenario import WORKSPACE, engine_scenario
from tests.alerting.related_runs import Family, evidence

_STEPS = ("child fails", "link", "plan fails")


async def show(family: Family, step: str) -> None:
    if step == "child fails":
        await family.child_ends()
    elif step == "link":
        await family.link()
    else:
        await family.plan_ends()


@pytest.mark.parametrize("order", list(itertools.permutations(_STEPS)), ids="-".join)
@pytest.mark.parametrize("is_heard_at_once", [True, False], ids=["each", "together"])
async def test_both_failures_are_one_alert(
    tmp_path: Path,
    order: tuple[str, ...],
    is_heard_at_once: bool,  # noqa: FBT001 - a parameter
) -> None:
    """In any order, in two batches or in one: one `fired`; the other alert waits for it."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        for step in order:
            await show(family, step)
            if is_heard_at_once:
                await scenario.round()

        (first,) = await evidence(scenario)
        assert first <= {"marketing:flow_run:f1:failed", "marketing:plan_run:p1:failed"}
        assert await scenario.words() == ["fired"]


async def test_the_plan_fires_when_it_still_fails_after_its_part_recovered(tmp_path: Path) -> None:
    """The flow's next success ends the flow's alert; then the plan's begins, at the plan's end."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        await family.child_ends()
        await scenario.round(60)
        await family.plan_ends()
        ended_at = scenario.clock.now()
        await family.link()
        await scenario.round()
        assert await scenario.words() == ["fired"]
        alone = Family(scenario, number=2)
        await alone.child_ends(Status.SUCCEEDED)
        await scenario.round()

        assert await scenario.words() == ["fired", "resolved", "fired"]
        (plan,) = [alert for alert in scenario.engine.snapshot().alerts if alert.ends_at is None]
        assert plan.labels["pipeline"] == "nightly"
        assert plan.starts_at == ended_at


async def test_the_success_of_the_plan_ends_the_alert_of_its_part(tmp_path: Path) -> None:
    """The newest success of either ends it, also where the next flow run is not known as a part."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        await family.child_ends()
        await scenario.round()
        await family.plan_ends()
        await family.link()
        await scenario.round()
        again = Family(scenario, number=2)
        await again.plan_ends(Status.SUCCEEDED)
        await scenario.round()

        assert await scenario.words() == ["fired", "resolved"]
        assert await evidence(scenario) == []


async def test_a_failure_counts_for_its_plan_where_the_link_is_known_in_time(
    tmp_path: Path,
) -> None:
    """It begins the plan's alert when the part fails; the flow has none, its success ends none."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        family.begin()
        await family.link()
        await family.child_ends(error="no such table")
        failed_at = scenario.clock.now()
        await scenario.round(60)
        alone = Family(scenario, number=2)
        await alone.child_ends(Status.SUCCEEDED)
        await family.plan_ends()
        await scenario.round()

        assert await scenario.words() == ["fired"]
        (plan,) = [alert for alert in scenario.engine.snapshot().alerts if alert.ends_at is None]
        assert (plan.labels["pipeline"], plan.starts_at) == ("nightly", failed_at)
        assert plan.facts["error"] == "no such table"
        assert plan.facts["part"] == "orders"


async def test_a_flow_run_that_was_observed_counts_before_its_kind_is_probed(
    tmp_path: Path,
) -> None:
    """The edition is known again, the capabilities not yet: what the store knows is followed."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        family.begin()
        scenario.live_state.update_workspace(
            WORKSPACE, edition="RL", capabilities=frozenset({"list_changes"})
        )
        await family.part_of_child_fails()
        await scenario.round()
        (alert,) = scenario.engine.snapshot().alerts
        assert alert.kind is RunKind.FLOW_RUN


async def test_a_link_that_became_known_after_the_event_counts(tmp_path: Path) -> None:
    """The event of the flow run names no plan run, the store does when the event is handled."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        family.begin()
        await family.child_ends()
        await family.link()
        await scenario.round()
        (alert,) = scenario.engine.snapshot().alerts
        assert alert.kind is RunKind.PLAN_RUN


async def test_right_after_a_start_a_part_counts_for_its_flow_run(tmp_path: Path) -> None:
    """Nothing was probed yet, and an event of before the stop is handled: its root is known."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        scenario.live_state.update_workspace(WORKSPACE, capabilities=frozenset())
        await family.part_of_child_fails()
        await scenario.round()
        (alert,) = scenario.engine.snapshot().alerts
        assert alert.kind is RunKind.FLOW_RUN


async def test_the_wait_for_a_link_that_never_comes_has_a_limit(tmp_path: Path) -> None:
    """After fifteen seconds the plan's failure fires by itself."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        await family.child_ends()
        await scenario.round()
        await family.plan_ends()
        await scenario.round()

        await scenario.round(14)
        assert await scenario.words() == ["fired"]
        await scenario.round(1)
        assert await scenario.words() == ["fired", "fired"]


async def test_a_failure_that_waits_is_handled_before_the_next_success(tmp_path: Path) -> None:
    """The plan fails and soon succeeds again: nothing that fired late stays on forever."""
    async with engine_scenario(tmp_path) as scenario:
        first = Family(scenario)
        await first.child_ends()
        await scenario.round()
        await first.plan_ends()
        await scenario.round()
        again = Family(scenario, number=2)
        await again.plan_ends(Status.SUCCEEDED)
        await again.child_ends(Status.SUCCEEDED)
        for _ in range(10):
            await scenario.round()

        assert await evidence(scenario) == []


async def test_a_failure_that_waits_survives_a_restart(tmp_path: Path) -> None:
    """A waiting failure is in the store: the next process finds the link, or fires in time."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        await family.child_ends()
        await scenario.round()
        await family.plan_ends()
        await scenario.round()
        await scenario.engine.restore()
        await family.link()

        assert len(await evidence(scenario)) == 1
        await scenario.round(60)
        assert await scenario.words() == ["fired"]


async def test_a_clock_set_back_makes_nothing_wait_for_longer(tmp_path: Path) -> None:
    """The next process has a clock that is hours late: a waiting failure fires at once."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        await family.child_ends()
        await scenario.round()
        await family.plan_ends()
        await scenario.round()
        scenario.clock.set_wall(scenario.clock.now() - timedelta(hours=2))
        scenario.engine = scenario.another_engine()
        await scenario.engine.restore()
        await scenario.round()

        assert await scenario.words() == ["fired", "fired"]


async def test_an_alert_of_a_single_run_ends_by_a_success_inside_a_plan(tmp_path: Path) -> None:
    """A flow run fails by itself; the next one runs inside a plan that is known: it is over."""
    async with engine_scenario(tmp_path) as scenario:
        alone = Family(scenario)
        await alone.child_ends()
        await scenario.round()
        inside = Family(scenario, number=2)
        await inside.plan_ends(Status.SUCCEEDED)
        await inside.link()
        await inside.child_ends(Status.SUCCEEDED)
        await scenario.round()

        assert await scenario.words() == ["fired", "resolved"]


async def test_the_next_night_is_the_same_trouble(tmp_path: Path) -> None:
    """The flow fails in each night's plan and never recovers: one alert for all of them."""
    async with engine_scenario(tmp_path) as scenario:
        for number in (1, 2, 3):
            family = Family(scenario, number=number)
            await family.child_ends()
            await scenario.round()
            await family.plan_ends()
            await scenario.round()
            await family.link()
            await scenario.round(86_400)

        assert len(await evidence(scenario)) == 1
        assert {word for word in await scenario.words() if word != "reminded"} == {"fired"}
        assert (await scenario.words()).count("fired") == 1


async def test_a_failure_in_a_plan_that_has_an_alert_is_its_evidence(
    tmp_path: Path,
) -> None:
    """The plan failed last night and runs again: what fails in it now is not notified again."""
    async with engine_scenario(tmp_path) as scenario:
        await Family(scenario).plan_ends()
        await scenario.round(3_600)
        tonight = Family(scenario, number=2)
        tonight.begin()
        await tonight.part_of_child_fails()
        await scenario.round()
        await tonight.child_ends()
        await scenario.round()

        assert await evidence(scenario) == [{"marketing:plan_run:p1:failed"}]
        assert await scenario.words() == ["fired"]


async def test_a_part_that_fails_after_its_plan_waits_as_well(tmp_path: Path) -> None:
    """Notified first is the plan, then a job group of its flow run, then the link: one alert."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        family.begin()
        await family.plan_ends()
        await scenario.round()
        await family.part_of_child_fails()
        await scenario.round()
        assert await scenario.words() == ["fired"]
        await family.child_ends()
        await family.link()
        await scenario.round()

        assert await scenario.words() == ["fired"]
        assert len(await evidence(scenario)) == 1


async def test_a_reason_that_comes_later_is_added(tmp_path: Path) -> None:
    """The plan run reports none at first: its alert shows it as soon as its part's is known."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        await family.plan_ends()
        await scenario.round()
        await family.reason_of_plan("no such table", part="orders")
        await scenario.round()

        (alert,) = scenario.engine.snapshot().alerts
        assert (alert.facts["error"], alert.facts["part"]) == ("no such table", "orders")
        assert "no such table" in texts_of(alert, alert.starts_at)["description"]
        assert await scenario.words() == ["fired"]


async def test_an_alert_of_a_part_goes_on_once_its_plan_is_known(tmp_path: Path) -> None:
    """A part fails and fires; then the link is known; what fails of it next is no other alert."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        family.begin()
        await family.part_of_child_fails()
        await scenario.round()
        await family.link()
        await family.child_ends()
        await scenario.round()
        await family.plan_ends()
        await scenario.round()

        assert await scenario.words() == ["fired"]
        assert await evidence(scenario) == [
            {
                "marketing:job_group:j-f1:failed",
                "marketing:flow_run:f1:failed",
            }
        ]


async def test_an_old_alert_of_a_flow_hides_no_plan(tmp_path: Path) -> None:
    """A flow failed by hand yesterday; today's plan with it and another flow fires."""
    async with engine_scenario(tmp_path) as scenario:
        by_hand = Family(scenario)
        by_hand.flow_run = msgspec.structs.replace(by_hand.flow_run, trigger=Trigger.MANUAL)
        await by_hand.child_ends()
        await scenario.round(86_400)
        family = Family(scenario, number=2)
        family.begin()
        await family.link()
        await family.child_ends(error="no such table")
        await family.another_child_fails()
        await scenario.round()
        await family.plan_ends()
        await scenario.round()

        assert (await scenario.words()).count("fired") == 2
        assert {a.labels["pipeline_id"] for a in scenario.engine.snapshot().alerts} == {"7", "70"}


async def test_a_pending_alert_takes_the_plan_in_too(tmp_path: Path) -> None:
    """A rule that waits for a minute has one alert for both failures, in any case."""
    rule = msgspec.structs.replace(default_rule(RuleKind.RUN_FAILED), for_seconds=60)
    async with engine_scenario(tmp_path, AlertingSettings(rules=(rule,))) as scenario:
        family = Family(scenario)
        await family.child_ends()
        await family.plan_ends()
        await scenario.round()
        await family.link()
        scenario.live_state.confirm(
            WORKSPACE,
            RunKind.FLOW_RUN,
            scenario.clock.now(),
            complete_at=scenario.clock.now() + timedelta(days=1),
        )
        await scenario.round(90)

        assert len(await evidence(scenario)) == 1
        assert await scenario.words() == ["fired"]


async def test_plans_that_have_nothing_to_do_with_it_wait_for_nothing(tmp_path: Path) -> None:
    """A flow run that failed before the plan run began delays the plan's failure by nothing."""
    async with engine_scenario(tmp_path) as scenario:
        before = Family(scenario)
        await before.child_ends()
        await scenario.round(120)
        later = Family(scenario, number=2)
        await later.plan_ends()
        await scenario.round()

        assert await scenario.words() == ["fired", "fired"]
