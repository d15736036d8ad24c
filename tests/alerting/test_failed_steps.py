"""After a step whose commit failed no rule decides before the state was loaded from the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from monitor.alerting.alerts.silences import SilenceSettings
from monitor.alerting.engine.engine import Engine
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Retention
from monitor.model.alerts import Silence
from monitor.model.errors import BusUnavailableError
from tests.alerting.engine_scenario import EngineScenario, engine_scenario, guard
from tests.alerting.failing_steps import CutBus

SETTINGS = AlertingSettings(rules=(default_rule(RuleKind.RUN_FAILED),))
SILENCED_SETTINGS = msgspec.structs.replace(
    SETTINGS,
    silences=(
        SilenceSettings(
            matchers=("pipeline_id=1",), comment="why", ends_at=datetime(2027, 1, 1, tzinfo=UTC)
        ),
    ),
)


class FailingStep:
    """An engine whose next step is stored, although the store reports that it failed."""

    def __init__(self, engine_scenario: EngineScenario) -> None:
        self.judging = engine_scenario
        self.bus = CutBus(engine_scenario.bus, None)
        self.engine = engine_scenario.engine = Engine(
            bus=self.bus,
            view=engine_scenario.live_state.view,
            clock=engine_scenario.clock,
            settings=SETTINGS,
            retention=Retention(),
            guard=guard,
        )

    def silence(self) -> Silence:
        now = self.judging.clock.now()
        return Silence(
            id="quiet",
            matchers=("pipeline_id=1",),
            author="ann",
            comment="",
            starts_at=now,
            ends_at=now + timedelta(hours=1),
            origin="api",
        )


@pytest.fixture
async def failing(tmp_path: Path) -> AsyncIterator[FailingStep]:
    """Yield a restored engine that has run one cycle."""
    async with engine_scenario(tmp_path, SETTINGS) as history:
        failing = FailingStep(history)
        await failing.engine.restore()
        await history.round()
        yield failing


async def test_an_evaluation_that_waits_for_a_failed_silence_sees_it(failing: FailingStep) -> None:
    """The silence is stored after all, so the alert that fires meanwhile is silenced."""
    await failing.judging.end_run(1)
    failing.bus.fail_next()

    added, evaluated = await asyncio.gather(
        failing.engine.add_silence(failing.silence()),
        failing.engine.evaluate(),
        return_exceptions=True,
    )

    assert isinstance(added, BusUnavailableError)
    assert evaluated is None
    assert await failing.judging.words() == ["silenced"]


async def test_a_batch_after_a_silence_that_failed_to_expire_fires(failing: FailingStep) -> None:
    """The end of the silence is stored after all, so nothing suppresses the alert."""
    await failing.engine.add_silence(failing.silence())
    await failing.judging.end_run(1)
    failing.bus.fail_next()
    with pytest.raises(BusUnavailableError):
        await failing.engine.expire_silence("quiet")

    await failing.engine.take_some()

    assert await failing.judging.words() == ["fired"]


async def test_an_evaluation_after_a_failed_reload_knows_its_silences(failing: FailingStep) -> None:
    """The silences of the new configuration suppress, though the reload could not store them."""
    await failing.judging.end_run(1)
    failing.bus.fail_next(is_taken=False)
    await failing.engine.reconfigure(SILENCED_SETTINGS)

    await failing.engine.evaluate()

    assert await failing.judging.words() == ["silenced"]


async def test_a_silence_after_a_failed_evaluation_does_not_repeat_it(failing: FailingStep) -> None:
    """The alert of the failed step is in the store: the next steps publish nothing again."""
    await failing.judging.end_run(1)
    failing.bus.fail_next()
    with pytest.raises(BusUnavailableError):
        await failing.engine.evaluate()

    await failing.engine.add_silence(failing.silence())
    await failing.engine.evaluate()

    assert await failing.judging.words() == ["fired", "silenced"]


async def test_a_cancelled_silence_is_loaded_before_the_next_decision(failing: FailingStep) -> None:
    """The request is gone, but its silence is stored: the next batch is decided with it."""
    await failing.judging.end_run(1)
    failing.bus.fail_next(error=asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await failing.engine.add_silence(failing.silence())

    await failing.engine.take_some()

    assert await failing.judging.words() == ["silenced"]
