"""Alerts go on where a store comes out of a dump."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

from monitor.alerting.settings import AlertingSettings
from monitor.bus.sqlite import SqliteBus
from monitor.model.runs import Status
from tests.alerting.engine_scenario import EngineScenario, engine_scenario
from tests.bus.dump_scenario import carried, file_url


async def test_an_open_alert_stays_open_and_fires_once(tmp_path: Path, empty_database: str) -> None:
    """Out of a running file, through a database, into another file: it resolves there, once."""
    async with engine_scenario(tmp_path) as before:
        await before.end_run(1)
        await before.round()
        assert await before.words() == ["fired"]
        await carried(file_url(tmp_path / "state.db"), empty_database, tmp_path / "a.dump")
        back = tmp_path / "back.db"
        await carried(empty_database, file_url(back), tmp_path / "b.dump")
        bus = await SqliteBus.open(back, clock=before.clock, registry=CollectorRegistry())
        after = EngineScenario(bus, before.clock, AlertingSettings())
        after._runs = before._runs
        await after.engine.restore()
        after.answers(well=True)
        for _ in range(3):
            await after.round(60.0)
        assert await after.words() == ["fired"]
        assert await after.told() == await before.told()
        await after.end_run(1, Status.SUCCEEDED)
        await after.round()
        assert await after.words() == ["fired", "resolved"]
        await bus.close()
