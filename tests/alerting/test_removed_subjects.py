"""The subject of an alert is removed: the alert ends, and nothing of the subject is kept."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from monitor.alerting.rules.rule_settings import Match, RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.model.alert_texts import texts_of
from monitor.model.live_state import PollStatus, Reachability, ScheduleKnown
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Status
from monitor.model.triggers import HourlyTrigger
from tests.alerting.engine_scenario import WORKSPACE, EngineScenario, engine_scenario


def list_flows(scenario: EngineScenario, *flows: int) -> None:
    """Let the inventory have been read, with these flows in it."""
    now = scenario.clock.now()
    scenario.live_state.update_workspace(WORKSPACE, capabilities=frozenset({"list_flows"}))
    for flow in flows:
        scenario.live_state.name_pipeline(WORKSPACE, PipelineKind.FLOW, str(flow), f"flow {flow}")
    scenario.live_state.record_poll(
        PollStatus(
            workspace=WORKSPACE,
            poll="names",
            last_attempt_at=now,
            last_success_at=now,
            last_outcome=PollOutcome.OK,
        )
    )


async def ended(scenario: EngineScenario) -> list[object]:
    """Return why alerts ended."""
    for _ in range(60):
        await scenario.round()
    alerts = [event.alert for event in await scenario.told() if event.alert.ends_at]
    return [alert.facts.get("ended_because") for alert in alerts]


async def last_words(scenario: EngineScenario) -> str:
    """Return the description of the alert that ended last, as it is sent."""
    alert = [event.alert for event in await scenario.told() if event.alert.ends_at][-1]
    return texts_of(alert, scenario.clock.now(), is_kept=True)["description"]


async def remembered(scenario: EngineScenario) -> set[str]:
    state = await scenario.bus.consumer_state("alerting")
    return {key for key in state if key.startswith(("m:", "b:")) and ":pipeline:" in key}


async def test_a_deleted_flow_fails_no_more(tmp_path: Path) -> None:
    """The workspace lists it no more: over, and what was learned of it is dropped."""
    async with engine_scenario(tmp_path) as scenario:
        list_flows(scenario, 1, 2)
        await scenario.end_runs([1, 2], Status.SUCCEEDED)
        await scenario.end_runs([1, 2])
        await scenario.round()
        scenario.live_state.forget_pipeline(WORKSPACE, PipelineKind.FLOW, "1")

        assert await ended(scenario) == ["pipeline removed"]
        assert await scenario.words() == ["fired", "fired", "resolved"]
        assert (await last_words(scenario)).endswith(". Ended: pipeline removed.")
        assert not any(":1:" in key for key in await remembered(scenario))
        assert any(":2:" in key for key in await remembered(scenario))


async def test_the_end_says_which_flow_has_the_name_now(tmp_path: Path) -> None:
    """It must not read as if the flow of that name had failed, or had been deleted."""
    async with engine_scenario(tmp_path) as scenario:
        list_flows(scenario, 1, 2, 3)
        await scenario.end_runs([1, 2, 3])
        await scenario.round()
        for flow, name in ((2, "old"), (9, "flow 1"), (8, "flow 2")):
            scenario.live_state.name_pipeline(WORKSPACE, PipelineKind.FLOW, str(flow), name)
        await scenario.end_runs([2], Status.SUCCEEDED)
        await scenario.round()
        assert (await last_words(scenario)).endswith(". The name flow 2 is that of flow 8 now.")

        scenario.live_state.forget_pipeline(WORKSPACE, PipelineKind.FLOW, "1")
        assert await ended(scenario) == [None, "pipeline removed"]
        taken = " Ended: pipeline removed. The name flow 1 is that of flow 9 now."
        assert (await last_words(scenario)).endswith(taken)

        await scenario.end_runs([3], Status.SUCCEEDED)
        await scenario.round()
        assert "The name" not in await last_words(scenario)


async def test_why_it_is_over_takes_no_place_of_its_own_reason(tmp_path: Path) -> None:
    """The text that a rule has for its subject stays, and the reason for the end follows it."""
    rule = default_rule(RuleKind.WORKSPACE_UNREACHABLE)
    rule = msgspec.structs.replace(rule, for_seconds=0.0)
    async with engine_scenario(tmp_path, AlertingSettings(rules=(rule,))) as scenario:
        scenario.live_state.update_workspace(
            WORKSPACE,
            reachability=Reachability.UNREACHABLE,
            since=scenario.clock.now(),
            reason="no answer within 30 s",
        )
        await scenario.round()
        await scenario.engine.reconfigure(
            AlertingSettings(rules=(default_rule(RuleKind.CANCELED),))
        )
        assert await ended(scenario) == ["rule removed"]
        words = await last_words(scenario)
        assert "no answer within 30 s" in words
        assert words.endswith(" Ended: rule removed.")


async def test_a_workspace_that_is_watched_no_more_has_no_alerts(tmp_path: Path) -> None:
    """Its alerts are over with the reload that takes it out."""
    async with engine_scenario(tmp_path) as scenario:
        await scenario.end_runs([1, 2])
        await scenario.round()
        scenario.live_state.remove_workspace(WORKSPACE)

        assert await ended(scenario) == ["workspace removed", "workspace removed"]


def list_schedules(scenario: EngineScenario, *ids: str) -> None:
    """Let these have been read just now; one starts nothing that the inventory knows."""
    scenario.live_state.update_workspace(
        WORKSPACE,
        schedules=tuple(
            ScheduleKnown(id=name, name=name, is_enabled=True, triggers=(), pipelines=())
            for name in ids
        ),
        schedules_read_at=scenario.clock.now(),
    )


def read_schedule(scenario: EngineScenario, *, is_enabled: bool, is_deleted: bool) -> None:
    """Let a schedule that starts flow 1 every hour have been read just now."""
    flow = Pipeline(kind=PipelineKind.FLOW, id="1", name="flow 1")
    now = scenario.clock.now()
    schedule = ScheduleKnown(
        id="5",
        name="hourly",
        is_enabled=is_enabled,
        triggers=(HourlyTrigger(minute_of_hour=30),),
        pipelines=(flow,),
        deleted=(flow,) if is_deleted else (),
    )
    scenario.live_state.update_workspace(
        WORKSPACE,
        schedules=(schedule,),
        schedules_read_before=scenario.live_state.workspaces[WORKSPACE].schedules_read_at,
        schedules_read_at=now,
    )
    scenario.live_state.confirm(WORKSPACE, RunKind.JOB_GROUP, now, complete_at=now)


@pytest.mark.parametrize("is_enabled", [True, False])
async def test_of_a_deleted_flow_no_start_is_missed(tmp_path: Path, *, is_enabled: bool) -> None:
    """Its alert ends with that reason; its schedule stays, and nothing fires."""
    async with engine_scenario(tmp_path) as scenario:
        list_flows(scenario, 1)
        for _ in range(10):  # two hours in which nothing starts
            read_schedule(scenario, is_enabled=True, is_deleted=False)
            await scenario.round(720)
        assert await scenario.words("schedule_missed") == ["fired"]
        for _ in range(20):
            read_schedule(scenario, is_enabled=is_enabled, is_deleted=True)
            await scenario.round(720)

        assert await scenario.words("schedule_missed") == ["fired", "resolved"]
        assert (await scenario.told())[-1].alert.facts["ended_because"] == "pipeline removed"
        assert await scenario.words("schedule_disabled") == []


async def schedules_remembered(scenario: EngineScenario) -> set[str]:
    state = await scenario.bus.consumer_state("alerting")
    return {key.rpartition(":")[2] for key in state if key.startswith("m:schedule_disabled:")}


async def test_nothing_is_remembered_of_a_schedule_that_was_deleted(tmp_path: Path) -> None:
    """It goes with the first reading that lists it no more, also while the daemon was stopped."""
    async with engine_scenario(tmp_path) as scenario:
        list_schedules(scenario, "1", "2", "3")
        await scenario.round()
        assert await schedules_remembered(scenario) == {"1", "2", "3"}
        list_schedules(scenario, "2", "3")
        await scenario.round()
        assert await schedules_remembered(scenario) == {"2", "3"}

        later = await scenario.restarted()
        await later.round(120)
        assert await schedules_remembered(scenario) == {"2", "3"}
        list_schedules(later, "3")
        await later.round(120)
        assert await schedules_remembered(scenario) == {"3"}


async def test_pipelines_that_no_list_can_show_are_not_taken_as_removed(tmp_path: Path) -> None:
    """Flows that only runs have named, and lists that were not read: alerts stay."""
    async with engine_scenario(tmp_path) as scenario:
        await scenario.end_runs([1])

        assert await ended(scenario) == []
        assert await scenario.words() == ["fired"]


async def test_a_flow_with_a_name_that_its_rule_does_not_take_fails_no_more(tmp_path: Path) -> None:
    """The rule would not match its next success either; another new name changes nothing."""
    failed = default_rule(RuleKind.RUN_FAILED)
    rule = msgspec.structs.replace(failed, match=Match(pipeline=("flow*",)))
    async with engine_scenario(tmp_path, AlertingSettings(rules=(rule,))) as scenario:
        list_flows(scenario, 1, 2, 3)
        await scenario.end_runs([1, 2, 3])
        await scenario.round()
        scenario.live_state.name_pipeline(WORKSPACE, PipelineKind.FLOW, "1", "money")
        scenario.live_state.name_pipeline(WORKSPACE, PipelineKind.FLOW, "2", "flow of money")

        assert await ended(scenario) == ["pipeline renamed"]


async def test_alerts_of_a_removed_rule_are_shown_for_a_while_only(tmp_path: Path) -> None:
    """As long as every other alert that is over, so that pages and topics do not fill."""
    async with engine_scenario(tmp_path) as scenario:
        await scenario.end_runs([1])
        await scenario.round()
        rules = (default_rule(RuleKind.CANCELED),)
        await scenario.engine.reconfigure(AlertingSettings(rules=rules, resolved_kept_seconds=300))
        await scenario.round()
        assert [alert.ends_at is None for alert in scenario.engine.snapshot().alerts] == [False]

        for _ in range(61):  # one cycle in thirty evaluation for what is removed
            await scenario.round(6)

        assert scenario.engine.snapshot().alerts == ()
        assert await scenario.words() == ["fired", "resolved"]
