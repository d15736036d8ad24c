"""Silences, mute times and outages suppress alerts; no end that is owed is lost."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.alerting.alerts.silences import SilenceSettings, new_silence
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.model.alerts import Silence
from monitor.model.mute_windows import is_muted, parse_mute_window
from monitor.model.runs import Status
from tests.alerting.engine_scenario import EngineScenario, engine_scenario
from tests.examples import examples

HOUR = 3_600.0
NIGHT = "22:00-06:00 Europe/Berlin"


def rules(
    *, mute: Sequence[str] = (), holidays: str | None = None, repeat_seconds: float = 4 * HOUR
) -> AlertingSettings:
    """Return the rules about failures, outages and budgets, and no others."""
    failed = msgspec.structs.replace(
        default_rule(RuleKind.RUN_FAILED),
        mute=tuple(mute),
        holidays=holidays,
        repeat_seconds=repeat_seconds,
    )
    starved = msgspec.structs.replace(default_rule(RuleKind.BUDGET_EXHAUSTED), for_seconds=0.0)
    outage = default_rule(RuleKind.WORKSPACE_UNREACHABLE)
    return AlertingSettings(rules=(failed, starved, outage))


def silence(history: EngineScenario, *matchers: str, seconds: float = HOUR) -> Silence:
    """Return a silence that begins now."""
    now = history.clock.now()
    return new_silence(
        matchers=matchers or ("rule=run_failed",),
        author="eve",
        comment="the warehouse moves",
        starts_at=None,
        ends_at=now + timedelta(seconds=seconds),
        now=now,
        longest_seconds=30 * 86_400,
    )


@pytest.fixture
async def history(tmp_path: Path) -> AsyncIterator[EngineScenario]:
    async with engine_scenario(tmp_path, rules()) as found:
        yield found


async def test_a_silenced_alert_fires_when_the_silence_ends(history: EngineScenario) -> None:
    """It is published as silenced, fires once the silence ends, and resolves."""
    await history.engine.add_silence(silence(history))
    await history.end_run(1)
    await history.round()
    assert await history.words() == ["silenced"]
    (alert,) = history.engine.snapshot().alerts
    assert alert.muted_by[0].startswith("silence:")
    await history.round(HOUR)
    await history.end_run(1, Status.SUCCEEDED)
    await history.round()
    assert await history.words() == ["silenced", "fired", "resolved"]


async def test_the_end_of_a_fired_alert_is_published_in_silence(
    history: EngineScenario,
) -> None:
    """A receiver that was notified of the start is notified of the end, silence or not."""
    await history.end_run(1)
    await history.round()
    await history.engine.add_silence(silence(history))
    await history.round()
    await history.end_run(1, Status.SUCCEEDED)
    await history.round()
    assert await history.words() == ["fired", "silenced", "resolved"]


async def test_an_alert_that_ends_under_a_silence_is_never_published(
    history: EngineScenario,
) -> None:
    """Its start was not published, so no end is owed."""
    await history.engine.add_silence(silence(history))
    await history.end_run(1)
    await history.round()
    await history.end_run(1, Status.SUCCEEDED)
    await history.round(2 * HOUR)
    assert await history.words() == ["silenced"]
    assert history.engine.snapshot().alerts == ()


async def test_an_expired_silence_suppresses_nothing(history: EngineScenario) -> None:
    """Taking a silence back is the same as its end."""
    scenario = silence(history)
    await history.engine.add_silence(scenario)
    await history.end_run(1)
    await history.round()
    assert await history.engine.expire_silence(scenario.id) is True
    assert await history.engine.expire_silence(scenario.id) is False
    await history.round()
    assert await history.words() == ["silenced", "fired"]


async def test_a_silence_suppresses_only_what_it_names(history: EngineScenario) -> None:
    """Alerts of other pipelines fire as ever."""
    await history.engine.add_silence(silence(history, "pipeline_id=1"))
    await history.end_runs([1, 2])
    await history.round()
    told = {(event.alert.labels["pipeline_id"], str(event.type)) for event in await history.told()}
    assert told == {("1", "alert.silenced"), ("2", "alert.fired")}


async def test_a_silence_taken_out_of_the_configuration_suppresses_nothing(tmp_path: Path) -> None:
    """Silences of the configuration and of people are one list; each leaves it its own way."""
    ends_at = datetime(2027, 1, 1, tzinfo=UTC)
    configured = SilenceSettings(matchers=("pipeline_id=1",), comment="why", ends_at=ends_at)
    with_silence = msgspec.structs.replace(rules(), silences=(configured,))
    async with engine_scenario(tmp_path, with_silence) as history:
        own = silence(history, "pipeline_id=2")
        await history.engine.add_silence(own)
        assert {other_silence.origin for other_silence in history.engine.snapshot().silences} == {
            "config",
            "api",
        }
        await history.end_runs([1, 2])
        await history.round()
        assert await history.words() == ["silenced", "silenced"]
        await history.engine.reconfigure(with_silence)
        await history.round()
        assert await history.words() == ["silenced", "silenced"]
        await history.engine.reconfigure(rules())
        await history.round()
        assert [other_silence.id for other_silence in history.engine.snapshot().silences] == [
            own.id
        ]
        assert await history.words() == ["silenced", "silenced", "fired"]
        assert (await history.told())[-1].alert.labels["pipeline_id"] == "1"


async def test_a_restart_forgets_no_silence(tmp_path: Path) -> None:
    """An alert silenced before a restart is silenced after it, and fires once at its end."""
    async with engine_scenario(tmp_path, rules()) as history:
        await history.engine.add_silence(silence(history))
        await history.end_run(1)
        await history.round()
        await history.engine.restore()
        await history.round()
        assert await history.words() == ["silenced"]
        await history.round(HOUR)
        await history.engine.restore()
        await history.round()
        assert await history.words() == ["silenced", "fired"]


async def test_a_clock_that_jumps_for_a_while_takes_no_silence(history: EngineScenario) -> None:
    """Two days ahead it counts as over; with the right time it is at work again."""
    await history.engine.add_silence(silence(history, "pipeline_id=1"))
    right = history.clock.now()
    history.clock.set_wall(right + timedelta(days=2))
    await history.round(120)
    history.clock.set_wall(right + timedelta(seconds=120))
    await history.end_runs([1])
    await history.round()

    assert await history.words() == ["silenced"]


async def test_failures_of_a_muted_night_fire_in_the_morning(tmp_path: Path) -> None:
    """Nothing at night, and one word at six by the clock on that wall."""
    start = datetime(2026, 11, 21, 21, 30, tzinfo=UTC)
    async with engine_scenario(tmp_path, rules(mute=[NIGHT]), start=start) as history:
        await history.end_run(1)
        await history.round()
        assert await history.words() == []
        await history.round(7.4 * HOUR)
        assert await history.words() == []
        await history.round(0.2 * HOUR)
        assert await history.words() == ["fired"]
        (told,) = await history.told()
        assert told.alert.starts_at == start + timedelta(seconds=2)


@pytest.mark.parametrize(("region", "before_midnight"), [("DE-BY", []), ("DE-BE", ["fired"])])
async def test_failures_of_a_holiday_fire_when_it_is_over(
    tmp_path: Path, region: str, before_midnight: list[str]
) -> None:
    """Epiphany is a holiday in Bavaria, until midnight there, and none in Berlin."""
    start = datetime(2027, 1, 6, 21, 30, tzinfo=UTC)
    configured = rules(mute=["holidays Europe/Berlin"], holidays=region)
    async with engine_scenario(tmp_path, configured, start=start) as history:
        await history.end_run(1)
        await history.round(1.4 * HOUR)
        assert await history.words() == before_midnight
        await history.round(0.2 * HOUR)
        assert await history.words() == ["fired"]


async def test_an_outage_adds_one_alert_to_a_storm(history: EngineScenario) -> None:
    """500 failures fire once each; the outage adds one and suppresses their reminders."""
    await history.end_runs(list(range(500)))
    await history.round()
    assert Counter(await history.words()) == {"fired": 500}
    history.answers(well=False)
    for _ in range(7):
        await history.round(HOUR)
    assert Counter(await history.words()) == {"fired": 500}
    assert await history.words("workspace_unreachable") == ["fired", "reminded"]
    history.spend(remaining=0)
    await history.round()
    alerts = history.engine.snapshot().alerts
    explained = [
        alert for alert in alerts if alert.muted_by and alert.muted_by[0].startswith("inhib")
    ]
    assert Counter(item.rule for item in explained) == {"run_failed": 500, "budget_exhausted": 1}
    history.answers(well=True)
    history.spend(remaining=100)
    await history.round()
    assert Counter(await history.words()) == {"fired": 500, "reminded": 500}
    assert (await history.words("workspace_unreachable"))[-1] == "resolved"
    assert await history.words("budget_exhausted") == []


async def test_alerts_that_an_outage_inhibits_do_not_fire_with_it(history: EngineScenario) -> None:
    """In the very cycle in which the outage fires, it already inhibits the others."""
    history.answers(well=False)
    await history.round()
    await history.clock.advance(121)
    history.spend(remaining=0)
    await history.engine.evaluate()
    assert await history.words("workspace_unreachable") == ["fired"]
    assert await history.words("budget_exhausted") == []
    history.answers(well=True)
    await history.round()
    assert await history.words("budget_exhausted") == ["fired"]


ACTIONS = st.one_of(
    st.tuples(st.just("fail"), st.integers(1, 2)),
    st.tuples(st.just("succeed"), st.integers(1, 2)),
    st.tuples(st.just("silence"), st.sampled_from([60, 900, 7_200])),
    st.tuples(st.just("expire"), st.just(0)),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("outage"), st.integers(0, 1)),
    st.tuples(st.just("wait"), st.sampled_from([2, 130, 1_800, 18_000])),
)


async def act(history: EngineScenario, silences: list[Silence], action: str, number: int) -> None:
    """Let one thing happen."""
    if action in ("fail", "succeed"):
        status = Status.FAILED if action == "fail" else Status.SUCCEEDED
        await history.end_run(number, status)
    elif action == "silence":
        silences.append(silence(history, "pipeline_id=1", seconds=number))
        await history.engine.add_silence(silences[-1])
    elif action == "expire" and silences:
        now = history.clock.now()
        if await history.engine.expire_silence(silences[-1].id):
            silences[-1] = msgspec.structs.replace(silences[-1], ends_at=now)
    elif action == "restart":
        await history.engine.restore()
    elif action == "outage":
        history.answers(well=number == 0)
    await history.round(number if action == "wait" else 2)


@settings(max_examples=examples(25))
@given(st.lists(ACTIONS, max_size=25))
async def test_nothing_is_published_in_silence_but_what_is_owed(
    history: list[tuple[str, int]],
) -> None:
    """Whatever happens, each published start has exactly one end once all is well."""
    with tempfile.TemporaryDirectory() as folder:
        configured = rules(mute=["Sat 12:00-13:00 UTC"], repeat_seconds=1_000)
        async with engine_scenario(Path(folder), configured) as judged:
            silences: list[Silence] = []
            for action, number in history:
                await act(judged, silences, action, number)
            judged.answers(well=True)
            await judged.end_runs([1, 2], Status.SUCCEEDED)
            await judged.round(2)
            await judged.round(4 * HOUR)
            told = await judged.told()
    starts: Counter[tuple[str, datetime]] = Counter()
    ends: Counter[tuple[str, datetime]] = Counter()
    window = parse_mute_window("Sat 12:00-13:00 UTC")
    for event in told:
        word, at = event.type.removeprefix("alert."), event.recorded_at
        instance = (event.alert.fingerprint, event.alert.starts_at)
        starts[instance] += word in ("fired", "flapping")
        ends[instance] += word == "resolved"
        if word in ("fired", "flapping", "reminded") and event.alert.rule == "run_failed":
            is_first = event.alert.labels["pipeline_id"] == "1"
            assert not is_muted((window,), at)
            # What fired at its very first instant fired before it was asked for.
            under = [held for held in silences if held.starts_at < at < held.ends_at]
            assert not (is_first and under)
    assert set((+starts).values()) <= {1}
    assert +starts == +ends
    assert len({item.id for item in told}) == len(told)
