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
from tests.alerting.engine_scene import WORKSPACE, engine_scene
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
    async with engine_scene(tmp_path) as scene:
        family = Family(scene)
        for step in order:
            await show(family, step)
            if is_heard_at_once:
                await scene.round()

        (first,) = await evidence(scene)
        assert first <= {"marketing:flow_run:f1:failed", "marketing:plan_run:p1:failed"}
        assert await scene.words() == ["fired"]


async def test_the_plan_fires_when_it_still_fails_after_its_part_recovered(tmp_path: Path) -> None:
    """The flow's next success ends the flow's alert; then the plan's begins, at the plan's end."""
    async with engine_scene(tmp_path) as scene:
        family = Family(scene)
        await family.child_ends()
        await scene.round(60)
        await family.plan_ends()
        ended_at = scene.clock.now()
        await family.link()
        await scene.round()
        assert await scene.words() == ["fired"]
        alone = Family(scene, number=2)
        await alone.child_ends(Status.SUCCEEDED)
        await scene.round()

        assert await scene.words() == ["fired", "resolved", "fired"]
        (plan,) = [alert for alert in scene.engine.snapshot().alerts if alert.ends_at is None]
        assert plan.labels["pipeline"] == "nightly"
        assert plan.starts_at == ended_at


async def test_the_success_of_the_plan_ends_the_alert_of_its_part(tmp_path: Path) -> None:
    """The newest success of either ends it, also where the next flow run is not known as a part."""
    async with engine_scene(tmp_path) as scene:
        family = Family(scene)
        await family.child_ends()
        await scene.round()
        await family.plan_ends()
        await family.link()
        await scene.round()
        again = Family(scene, number=2)
        await again.plan_ends(Status.SUCCEEDED)
        await scene.round()

        assert await scene.words() == ["fired", "resolved"]
        assert await evidence(scene) == []


async def test_a_failure_counts_for_its_plan_where_the_link_is_known_in_time(
    tmp_path: Path,
) -> None:
    """It begins the plan's alert when the part fails; the flow has none, its success ends none."""
    async with engine_scene(tmp_path) as scene:
        family = Family(scene)
        family.begin()
        await family.link()
        await family.child_ends(error="no such table")
        failed_at = scene.clock.now()
        await scene.round(60)
        alone = Family(scene, number=2)
        await alone.child_ends(Status.SUCCEEDED)
        await family.plan_ends()
        await scene.round()

        assert await scene.words() == ["fired"]
        (plan,) = [alert for alert in scene.engine.snapshot().alerts if alert.ends_at is None]
        assert (plan.labels["pipeline"], plan.starts_at) == ("nightly", failed_at)
        assert plan.facts["error"] == "no such table"
        assert plan.facts["part"] == "orders"


async def test_a_flow_run_that_was_observed_counts_before_its_kind_is_probed(
    tmp_path: Path,
) -> None:
    """The edition is known again, the capabilities not yet: what the store knows is followed."""
    async with engine_scene(tmp_path) as scene:
        family = Family(scene)
        family.begin()
        scene.live_state.update_workspace(
            WORKSPACE, edition="RL", capabilities=frozenset({"list_changes"})
        )
        await family.part_of_child_fails()
        await scene.round()
        (alert,) = scene.engine.snapshot().alerts
        assert alert.kind is RunKind.FLOW_RUN


async def test_a_link_that_became_known_after_the_event_counts(tmp_path: Path) -> None:
    """The event of the flow run names no plan run, the store does when the event is handled."""
    async with engine_scene(tmp_path) as scene:
        family = Family(scene)
        family.begin()
        await family.child_ends()
        await family.link()
        await scene.round()
        (alert,) = scene.engine.snapshot().alerts
        assert alert.kind is RunKind.PLAN_RUN


async def test_right_after_a_start_a_part_counts_for_its_flow_run(tmp_path: Path) -> None:
    """Nothing was probed yet, and an event of before the stop is handled: its root is known."""
    async with engine_scene(tmp_path) as scene:
        family = Family(scene)
        scene.live_state.update_workspace(WORKSPACE, capabilities=frozenset())
        await family.part_of_child_fails()
        await scene.round()
        (alert,) = scene.engine.snapshot().alerts
        assert alert.kind is RunKind.FLOW_RUN


async def test_a_link_that_never_comes_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    """After fifteen seconds the plan's failure fires by itself."""
    async with engine_scene(tmp_path) as scene:
        family = Family(scene)
        await family.child_ends()
        await scene.round()
        await family.plan_ends()
        await scene.round()

        await scene.round(14)
        assert await scene.words() == ["fired"]
        await scene.round(1)
        assert await scene.words() == ["fired", "fired"]


async def test_a_failure_that_waits_is_handled_before_the_next_success(tmp_path: Path) -> None:
    """The plan fails and soon succeeds again: nothing that fired late stays on forever."""
    async with engine_scene(tmp_path) as scene:
        first = Family(scene)
        await first.child_ends()
        await scene.round()
        await first.plan_ends()
        await scene.round()
        again = Family(scene, number=2)
        await again.plan_ends(Status.SUCCEEDED)
        await again.child_ends(Status.SUCCEEDED)
        for _ in range(10):
            await scene.round()

        assert await evidence(scene) == []


async def test_a_failure_that_waits_survives_a_restart(tmp_path: Path) -> None:
    """What waits is in the store: the next process finds the link, or fires in time."""
    async with engine_scene(tmp_path) as scene:
        family = Family(scene)
        await family.child_ends()
        await scene.round()
        await family.plan_ends()
        await scene.round()
        await scene.engine.restore()
        await family.link()

        assert len(await evidence(scene)) == 1
        await scene.round(60)
        assert await scene.words() == ["fired"]


async def test_a_clock_set_back_makes_nothing_wait_for_longer(tmp_path: Path) -> None:
    """The next process has a clock that is hours behind: what waits fires at once."""
    async with engine_scene(tmp_path) as scene:
        family = Family(scene)
        await family.child_ends()
        await scene.round()
        await family.plan_ends()
        await scene.round()
        scene.clock.set_wall(scene.clock.now() - timedelta(hours=2))
        scene.engine = scene.another_engine()
        await scene.engine.restore()
        await scene.round()

        assert await scene.words() == ["fired", "fired"]


async def test_an_alert_of_a_single_run_ends_by_a_success_inside_a_plan(tmp_path: Path) -> None:
    """A flow run fails by itself; the next one runs inside a plan that is known: it is over."""
    async with engine_scene(tmp_path) as scene:
        alone = Family(scene)
        await alone.child_ends()
        await scene.round()
        inside = Family(scene, number=2)
        await inside.plan_ends(Status.SUCCEEDED)
        await inside.link()
        await inside.child_ends(Status.SUCCEEDED)
        await scene.round()

        assert await scene.words() == ["fired", "resolved"]


async def test_the_next_night_is_the_same_trouble(tmp_path: Path) -> None:
    """The flow fails in each night's plan and never recovers: one alert for all of them."""
    async with engine_scene(tmp_path) as scene:
        for number in (1, 2, 3):
            family = Family(scene, number=number)
            await family.child_ends()
            await scene.round()
            await family.plan_ends()
            await scene.round()
            await family.link()
            await scene.round(86_400)

        assert len(await evidence(scene)) == 1
        assert {word for word in await scene.words() if word != "reminded"} == {"fired"}
        assert (await scene.words()).count("fired") == 1


async def test_a_failure_in_a_plan_that_has_an_alert_is_its_evidence(
    tmp_path: Path,
) -> None:
    """The plan failed last night and runs again: what fails in it now notifies nobody again."""
    async with engine_scene(tmp_path) as scene:
        await Family(scene).plan_ends()
        await scene.round(3_600)
        tonight = Family(scene, number=2)
        tonight.begin()
        await tonight.part_of_child_fails()
        await scene.round()
        await tonight.child_ends()
        await scene.round()

        assert await evidence(scene) == [{"marketing:plan_run:p1:failed"}]
        assert await scene.words() == ["fired"]


async def test_a_part_that_fails_after_its_plan_waits_as_well(tmp_path: Path) -> None:
    """Notified first is the plan, then a job group of its flow run, then the link: one alert."""
    async with engine_scene(tmp_path) as scene:
        family = Family(scene)
        family.begin()
        await family.plan_ends()
        await scene.round()
        await family.part_of_child_fails()
        await scene.round()
        assert await scene.words() == ["fired"]
        await family.child_ends()
        await family.link()
        await scene.round()

        assert await scene.words() == ["fired"]
        assert len(await evidence(scene)) == 1


async def test_a_reason_that_comes_later_is_added(tmp_path: Path) -> None:
    """The plan run reports none at first: its alert shows it as soon as its part's is known."""
    async with engine_scene(tmp_path) as scene:
        family = Family(scene)
        await family.plan_ends()
        await scene.round()
        await family.reason_of_plan("no such table", part="orders")
        await scene.round()

        (alert,) = scene.engine.snapshot().alerts
        assert (alert.facts["error"], alert.facts["part"]) == ("no such table", "orders")
        assert "no such table" in texts_of(alert, alert.starts_at)["description"]
        assert await scene.words() == ["fired"]


async def test_an_alert_of_a_part_goes_on_once_its_plan_is_known(tmp_path: Path) -> None:
    """A part fails and fires; then the link is known; what fails of it next is no other alert."""
    async with engine_scene(tmp_path) as scene:
        family = Family(scene)
        family.begin()
        await family.part_of_child_fails()
        await scene.round()
        await family.link()
        await family.child_ends()
        await scene.round()
        await family.plan_ends()
        await scene.round()

        assert await scene.words() == ["fired"]
        assert await evidence(scene) == [
            {
                "marketing:job_group:j-f1:failed",
                "marketing:flow_run:f1:failed",
            }
        ]


async def test_an_old_alert_of_a_flow_hides_no_plan(tmp_path: Path) -> None:
    """A flow failed by hand yesterday; today's plan with it and another flow fires."""
    async with engine_scene(tmp_path) as scene:
        by_hand = Family(scene)
        by_hand.flow_run = msgspec.structs.replace(by_hand.flow_run, trigger=Trigger.MANUAL)
        await by_hand.child_ends()
        await scene.round(86_400)
        family = Family(scene, number=2)
        family.begin()
        await family.link()
        await family.child_ends(error="no such table")
        await family.another_child_fails()
        await scene.round()
        await family.plan_ends()
        await scene.round()

        assert (await scene.words()).count("fired") == 2
        assert {a.labels["pipeline_id"] for a in scene.engine.snapshot().alerts} == {"7", "70"}


async def test_what_is_pending_takes_the_plan_in_too(tmp_path: Path) -> None:
    """A rule that waits for a minute has one alert for both failures, in any case."""
    rule = msgspec.structs.replace(default_rule(RuleKind.RUN_FAILED), for_seconds=60)
    async with engine_scene(tmp_path, AlertingSettings(rules=(rule,))) as scene:
        family = Family(scene)
        await family.child_ends()
        await family.plan_ends()
        await scene.round()
        await family.link()
        scene.live_state.confirm(
            WORKSPACE,
            RunKind.FLOW_RUN,
            scene.clock.now(),
            complete_at=scene.clock.now() + timedelta(days=1),
        )
        await scene.round(90)

        assert len(await evidence(scene)) == 1
        assert await scene.words() == ["fired"]


async def test_plans_that_have_nothing_to_do_with_it_wait_for_nothing(tmp_path: Path) -> None:
    """A flow run that failed before the plan run began delays the plan's failure by nothing."""
    async with engine_scene(tmp_path) as scene:
        before = Family(scene)
        await before.child_ends()
        await scene.round(120)
        later = Family(scene, number=2)
        await later.plan_ends()
        await scene.round()

        assert await scene.words() == ["fired", "fired"]
