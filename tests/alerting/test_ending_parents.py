"""A failure counts for the run around it also where that ends while the failure is attributed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from monitor.alerting.attribution.attribution import Lineage
from monitor.alerting.engine.engine import Engine
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Retention
from monitor.bus.sqlite import SqliteBus
from monitor.model.runs import RunKey, RunKind, RunState
from tests.alerting.engine_scenario import WORKSPACE, EngineScenario, engine_scenario, guard
from tests.alerting.related_runs import Family

_BEFORE = RunKey(WORKSPACE, RunKind.FLOW_RUN, "f2")  # ended: alerting must ask the store for it


class BusyBus:
    """A store; while it answers about the earlier flow run, something else happens, once."""

    def __init__(self, bus: SqliteBus) -> None:
        self._bus = bus
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    async def runs(self, keys: Collection[RunKey]) -> dict[RunKey, RunState]:
        found = await self._bus.runs(keys)
        if self.meanwhile is not None and _BEFORE in keys:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return found


@asynccontextmanager
async def busy_scenario(folder: Path) -> AsyncIterator[tuple[EngineScenario, BusyBus, Family]]:
    """Yield a plan run and its flow run, which both run, after an unrelated flow run has failed.

    A job group of that one fails with what fails next, so alerting must ask the store in between.
    """
    async with engine_scenario(folder) as scenario:
        bus = BusyBus(scenario.bus)
        scenario.engine = Engine(
            bus=bus,
            view=scenario.live_state.view,
            clock=scenario.clock,
            settings=AlertingSettings(),
            retention=Retention(),
            guard=guard,
        )
        await scenario.engine.restore()
        family, before = Family(scenario), Family(scenario, number=2)
        family.begin()
        await family.link()
        await before.child_ends()
        await scenario.round(3_600)
        await before.part_of_child_fails()
        yield scenario, bus, family


def evidence_of(scenario: EngineScenario) -> dict[str, set[str]]:
    """Return the evidence of the open alerts, by the id of their pipeline."""
    return {
        alert.labels["pipeline_id"]: set(alert.evidence)
        for alert in scenario.engine.snapshot().alerts
        if alert.name == "run_failed"
    }


async def test_a_plan_run_that_ends_meanwhile_has_the_failure_of_its_flow_run(
    tmp_path: Path,
) -> None:
    """The flow run's failure is evidence of the plan's alert, and none of one of its own flow."""
    async with busy_scenario(tmp_path) as (scenario, bus, family):
        await family.child_ends()
        bus.meanwhile = family.plan_ends
        await scenario.round()

        assert bus.meanwhile is None
        found = evidence_of(scenario)
        assert "marketing:flow_run:f1:failed" in found["70"]
        assert "marketing:flow_run:f1:failed" not in found["7"]


async def test_a_plan_run_that_ends_meanwhile_has_the_failure_of_its_job_group(
    tmp_path: Path,
) -> None:
    """A job group names its flow run alone, which names the plan run, and both end meanwhile."""
    async with busy_scenario(tmp_path) as (scenario, bus, family):
        await family.part_of_child_fails()

        async def both_end() -> None:
            await family.child_ends()
            await family.plan_ends()

        bus.meanwhile = both_end
        await scenario.round()

        assert bus.meanwhile is None
        found = evidence_of(scenario)
        assert "marketing:job_group:j-f1:failed" in found["70"]
        assert "marketing:job_group:j-f1:failed" not in found["7"]


async def test_what_was_prepared_stays_known_when_it_ends(tmp_path: Path) -> None:
    """A cycle and an explanation ask for the line some turns later than they prepared it."""
    async with engine_scenario(tmp_path) as scenario:
        family = Family(scenario)
        family.begin()
        await family.link()
        lineage = Lineage(bus=scenario.bus, view=scenario.live_state.view)
        await lineage.prepare([family.flow_run])
        await family.plan_ends()

        keys = [part.key for part in lineage.line(family.flow_run)]
        assert keys == [family.flow_run.key, family.plan_run.key]
