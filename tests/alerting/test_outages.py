"""An outage fires once and resolves once, whatever restarts and clock jumps lie in between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Start
from tests.alerting.engine_scenario import EngineScenario, engine_scenario
from tests.examples import examples

RULE = "workspace_unreachable"
SETTINGS = AlertingSettings(
    rules=(default_rule(RuleKind.WORKSPACE_UNREACHABLE), default_rule(RuleKind.MONITOR_DEGRADED))
)
HOUR = 3_600.0
LIMIT_SECONDS = default_rule(RuleKind.WORKSPACE_UNREACHABLE).for_seconds


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[EngineScenario]:
    async with engine_scenario(tmp_path, SETTINGS) as found:
        yield found


def jump(history: EngineScenario, seconds: float) -> None:
    history.clock.set_wall(history.clock.now() + timedelta(seconds=seconds))


async def test_an_outage_shorter_than_its_limit_does_not_fire(history: EngineScenario) -> None:
    """It was over before its time."""
    history.answers(well=False)
    await history.round()
    await history.round(LIMIT_SECONDS - 2)
    history.answers(well=True)
    await history.round()
    await history.round(HOUR)
    assert await history.words(RULE) == []


@pytest.mark.parametrize("seconds", [-HOUR, HOUR])
async def test_a_jump_of_the_wall_clock_neither_hastens_nor_delays(
    history: EngineScenario, seconds: float
) -> None:
    """The limit is as long, whatever the wall clock shows; and nothing else is published."""
    history.answers(well=False)
    await history.round()
    jump(history, seconds)
    await history.round(LIMIT_SECONDS - 10)
    assert await history.words(RULE) == []
    await history.round(12)
    assert await history.words(RULE) == ["fired"]
    jump(history, -seconds)
    history.answers(well=True)
    await history.round()
    assert await history.words(RULE) == ["fired", "resolved"]
    assert await history.words("monitor_degraded") == []


@pytest.mark.parametrize("is_notified", [False, True])
async def test_a_restart_in_an_outage_publishes_nothing_twice(
    history: EngineScenario, *, is_notified: bool
) -> None:
    """The next life goes on with a pending alert, and with one that has fired, and ends it."""
    history.answers(well=False)
    await history.round()
    await history.round(50 if is_notified else 20)
    assert await history.words(RULE) == (["fired"] if is_notified else [])
    later = await history.restarted()
    await later.round()
    later.answers(well=False)
    await later.round()
    await later.round(40)
    assert await later.words(RULE) == ["fired"]
    later.answers(well=True)
    await later.round()
    assert await later.words(RULE) == ["fired", "resolved"]


async def test_an_outage_that_ended_while_the_daemon_was_down_is_over(
    history: EngineScenario,
) -> None:
    """The next life ends the alert of the one before, once the workspace answers."""
    history.answers(well=False)
    await history.round()
    await history.round(150)
    later = await history.restarted()
    await later.round()
    assert await later.words(RULE) == ["fired"]
    later.answers(well=True)
    await later.round()
    assert await later.words(RULE) == ["fired", "resolved"]


async def test_a_workspace_that_never_answered_was_so_before(tmp_path: Path) -> None:
    """It fires once, as preexisting."""
    async with engine_scenario(tmp_path, SETTINGS, is_asked=False) as history:
        history.answers(well=False)
        await history.round()
        await history.round(150)
        (told,) = await history.told()
        assert (str(told.type), told.alert.preexisting) == ("alert.fired", True)


async def test_an_output_that_is_removed_lags_no_more(history: EngineScenario) -> None:
    """Its alert ends with the start that takes it out of the store."""
    await history.bus.subscribe("webhook", start=Start.NEWEST)
    await history.end_run(1)
    await history.round(310)
    await history.round(62)
    assert await history.words("monitor_degraded") == ["fired"]
    (alert,) = history.engine.snapshot().alerts
    assert alert.labels["part"] == "backlog:webhook"
    await history.bus.keep_only(["alerting"])
    later = await history.restarted()
    await later.round()
    assert await later.words("monitor_degraded") == ["fired", "resolved"]


STEPS = st.one_of(
    st.tuples(st.just("answers"), st.sampled_from([0, 1])),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("jump"), st.sampled_from([-3_600, -60, 60, 3_600])),
    st.tuples(st.just("wait"), st.sampled_from([2, 20, 50, 700])),
)


@settings(max_examples=examples(25))
@given(st.lists(STEPS, max_size=25))
async def test_every_outage_fires_once_and_resolves_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """By an observer with a stopwatch: each outage of its limit and more, and no other."""
    async with engine_scenario(tmp_path_factory.mktemp("outages"), SETTINGS) as history:
        is_well = True
        seen_down: float | None = None  # by the stopwatch
        long_outages = 0
        for step, number in [*steps, ("answers", 1)]:
            if step == "answers":
                is_well = bool(number)
                history.answers(well=is_well)
            elif step == "restart":
                history = await history.restarted()  # noqa: PLW2901 - the history goes on
                history.answers(well=is_well)
            elif step == "jump":
                jump(history, number)
            before = None if seen_down is None else history.clock.monotonic() - seen_down
            await history.round(number if step == "wait" else 2)
            now = history.clock.monotonic()
            seen_down = None if is_well else now if seen_down is None else seen_down
            lasted = None if seen_down is None else now - seen_down
            long_outages += lasted is not None and (before or 0) < LIMIT_SECONDS <= lasted
        await history.round(2 * HOUR)
        told = await history.told()
    starts = [
        event.alert.starts_at for event in told if event.type in ("alert.fired", "alert.flapping")
    ]
    ends = [event.alert.starts_at for event in told if event.type == "alert.resolved"]
    assert starts == ends
    assert len({item.id for item in told}) == len(told)
    # Over a restart the wall clock is the only one; and a flapping one holds several outages.
    if not any(step == "jump" for step, _ in steps):
        is_flapping = any(item.type == "alert.flapping" for item in told)
        assert len(starts) == long_outages or (is_flapping and len(starts) < long_outages)
