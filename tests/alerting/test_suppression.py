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
from monitor.alerting.engine.suppression import is_muted
from monitor.alerting.rules.muting import parse_mute_window
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.model.alerts import Silence
from monitor.model.runs import Status
from tests.alerting.engine_scene import EngineScene, engine_scene
from tests.examples import examples

HOUR = 3_600.0
NIGHT = "22:00-06:00 Europe/Berlin"


def rules(*, mute: Sequence[str] = (), repeat_seconds: float = 4 * HOUR) -> AlertingSettings:
    """Return the rules about failures, outages and budgets, and no others."""
    failed = msgspec.structs.replace(
        default_rule(RuleKind.RUN_FAILED), mute=tuple(mute), repeat_seconds=repeat_seconds
    )
    starved = msgspec.structs.replace(default_rule(RuleKind.BUDGET_EXHAUSTED), for_seconds=0.0)
    outage = default_rule(RuleKind.WORKSPACE_UNREACHABLE)
    return AlertingSettings(rules=(failed, starved, outage))


def silence(story: EngineScene, *matchers: str, seconds: float = HOUR) -> Silence:
    """Return a silence that begins now."""
    now = story.clock.now()
    return new_silence(
        matchers=matchers or ("rule=run_failed",),
        author="eve",
        comment="the warehouse moves",
        starts_at=None,
        ends_at=now + timedelta(seconds=seconds),
        now=now,
    )


@pytest.fixture
async def story(tmp_path: Path) -> AsyncIterator[EngineScene]:
    async with engine_scene(tmp_path, rules()) as found:
        yield found


async def test_a_silenced_alert_fires_when_the_silence_ends(story: EngineScene) -> None:
    """It is published as silenced, fires once the silence ends, and resolves."""
    await story.engine.add_silence(silence(story))
    await story.end_run(1)
    await story.round()
    assert await story.words() == ["silenced"]
    (alert,) = story.engine.snapshot().alerts
    assert alert.muted_by[0].startswith("silence:")
    await story.round(HOUR)
    await story.end_run(1, Status.SUCCEEDED)
    await story.round()
    assert await story.words() == ["silenced", "fired", "resolved"]


async def test_the_end_of_a_fired_alert_is_published_in_silence(
    story: EngineScene,
) -> None:
    """Whoever was notified of the start is notified of the end, silence or not."""
    await story.end_run(1)
    await story.round()
    await story.engine.add_silence(silence(story))
    await story.round()
    await story.end_run(1, Status.SUCCEEDED)
    await story.round()
    assert await story.words() == ["fired", "silenced", "resolved"]


async def test_what_ends_under_a_silence_is_never_published(story: EngineScene) -> None:
    """Its start was not published, so no end is owed."""
    await story.engine.add_silence(silence(story))
    await story.end_run(1)
    await story.round()
    await story.end_run(1, Status.SUCCEEDED)
    await story.round(2 * HOUR)
    assert await story.words() == ["silenced"]
    assert story.engine.snapshot().alerts == ()


async def test_an_expired_silence_suppresses_nothing(story: EngineScene) -> None:
    """Taking a silence back is the same as its end."""
    scene = silence(story)
    await story.engine.add_silence(scene)
    await story.end_run(1)
    await story.round()
    assert await story.engine.expire_silence(scene.id) is True
    assert await story.engine.expire_silence(scene.id) is False
    await story.round()
    assert await story.words() == ["silenced", "fired"]


async def test_a_silence_suppresses_only_what_it_names(story: EngineScene) -> None:
    """Alerts of other pipelines fire as ever."""
    await story.engine.add_silence(silence(story, "pipeline_id=1"))
    await story.end_runs([1, 2])
    await story.round()
    told = {(event.alert.labels["pipeline_id"], str(event.type)) for event in await story.told()}
    assert told == {("1", "alert.silenced"), ("2", "alert.fired")}


async def test_a_silence_taken_out_of_the_configuration_suppresses_nothing(tmp_path: Path) -> None:
    """Silences of the configuration and of people are one list; each leaves it its own way."""
    ends_at = datetime(2027, 1, 1, tzinfo=UTC)
    configured = SilenceSettings(matchers=("pipeline_id=1",), comment="why", ends_at=ends_at)
    with_silence = msgspec.structs.replace(rules(), silences=(configured,))
    async with engine_scene(tmp_path, with_silence) as story:
        own = silence(story, "pipeline_id=2")
        await story.engine.add_silence(own)
        assert {other_silence.origin for other_silence in story.engine.snapshot().silences} == {
            "config",
            "api",
        }
        await story.end_runs([1, 2])
        await story.round()
        assert await story.words() == ["silenced", "silenced"]
        await story.engine.reconfigure(with_silence)
        await story.round()
        assert await story.words() == ["silenced", "silenced"]
        await story.engine.reconfigure(rules())
        await story.round()
        assert [other_silence.id for other_silence in story.engine.snapshot().silences] == [own.id]
        assert await story.words() == ["silenced", "silenced", "fired"]
        assert (await story.told())[-1].alert.labels["pipeline_id"] == "1"


async def test_a_restart_forgets_no_silence(tmp_path: Path) -> None:
    """What is silent before a restart is silent after it, and fires once when the silence ends."""
    async with engine_scene(tmp_path, rules()) as story:
        await story.engine.add_silence(silence(story))
        await story.end_run(1)
        await story.round()
        await story.engine.restore()
        await story.round()
        assert await story.words() == ["silenced"]
        await story.round(HOUR)
        await story.engine.restore()
        await story.round()
        assert await story.words() == ["silenced", "fired"]


async def test_a_clock_that_jumps_for_a_while_takes_no_silence(story: EngineScene) -> None:
    """Two days ahead it counts as over; with the right time it is at work again."""
    await story.engine.add_silence(silence(story, "pipeline_id=1"))
    right = story.clock.now()
    story.clock.set_wall(right + timedelta(days=2))
    await story.round(120)
    story.clock.set_wall(right + timedelta(seconds=120))
    await story.end_runs([1])
    await story.round()

    assert await story.words() == ["silenced"]


async def test_what_fails_in_a_muted_night_fires_in_the_morning(tmp_path: Path) -> None:
    """Nothing at night, and one word at six by the clock on that wall."""
    start = datetime(2026, 11, 21, 21, 30, tzinfo=UTC)
    async with engine_scene(tmp_path, rules(mute=[NIGHT]), start=start) as story:
        await story.end_run(1)
        await story.round()
        assert await story.words() == []
        await story.round(7.4 * HOUR)
        assert await story.words() == []
        await story.round(0.2 * HOUR)
        assert await story.words() == ["fired"]
        (told,) = await story.told()
        assert told.alert.starts_at == start + timedelta(seconds=2)


async def test_an_outage_adds_one_alert_to_a_storm(story: EngineScene) -> None:
    """500 failures fire once each; the outage adds one and suppresses their reminders."""
    await story.end_runs(list(range(500)))
    await story.round()
    assert Counter(await story.words()) == {"fired": 500}
    story.answers(well=False)
    for _ in range(7):
        await story.round(HOUR)
    assert Counter(await story.words()) == {"fired": 500}
    assert await story.words("workspace_unreachable") == ["fired", "reminded"]
    story.spend(remaining=0)
    await story.round()
    alerts = story.engine.snapshot().alerts
    explained = [
        alert for alert in alerts if alert.muted_by and alert.muted_by[0].startswith("inhib")
    ]
    assert Counter(item.rule for item in explained) == {"run_failed": 500, "budget_exhausted": 1}
    story.answers(well=True)
    story.spend(remaining=100)
    await story.round()
    assert Counter(await story.words()) == {"fired": 500, "reminded": 500}
    assert (await story.words("workspace_unreachable"))[-1] == "resolved"
    assert await story.words("budget_exhausted") == []


async def test_what_an_outage_inhibits_does_not_fire_with_it(story: EngineScene) -> None:
    """In the very cycle in which the outage fires, it already inhibits the others."""
    story.answers(well=False)
    await story.round()
    await story.clock.advance(121)
    story.spend(remaining=0)
    await story.engine.evaluate()
    assert await story.words("workspace_unreachable") == ["fired"]
    assert await story.words("budget_exhausted") == []
    story.answers(well=True)
    await story.round()
    assert await story.words("budget_exhausted") == ["fired"]


ACTIONS = st.one_of(
    st.tuples(st.just("fail"), st.integers(1, 2)),
    st.tuples(st.just("succeed"), st.integers(1, 2)),
    st.tuples(st.just("silence"), st.sampled_from([60, 900, 7_200])),
    st.tuples(st.just("expire"), st.just(0)),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("outage"), st.integers(0, 1)),
    st.tuples(st.just("wait"), st.sampled_from([2, 130, 1_800, 18_000])),
)


async def act(story: EngineScene, silences: list[Silence], action: str, number: int) -> None:
    """Let one thing happen."""
    if action in ("fail", "succeed"):
        status = Status.FAILED if action == "fail" else Status.SUCCEEDED
        await story.end_run(number, status)
    elif action == "silence":
        silences.append(silence(story, "pipeline_id=1", seconds=number))
        await story.engine.add_silence(silences[-1])
    elif action == "expire" and silences:
        now = story.clock.now()
        if await story.engine.expire_silence(silences[-1].id):
            silences[-1] = msgspec.structs.replace(silences[-1], ends_at=now)
    elif action == "restart":
        await story.engine.restore()
    elif action == "outage":
        story.answers(well=number == 0)
    await story.round(number if action == "wait" else 2)


@settings(max_examples=examples(25))
@given(st.lists(ACTIONS, max_size=25))
async def test_nothing_is_published_in_silence_but_what_is_owed(
    story: list[tuple[str, int]],
) -> None:
    """Whatever happens, each published start has exactly one end once all is well."""
    with tempfile.TemporaryDirectory() as folder:
        configured = rules(mute=["Sat 12:00-13:00 UTC"], repeat_seconds=1_000)
        async with engine_scene(Path(folder), configured) as judged:
            silences: list[Silence] = []
            for action, number in story:
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
