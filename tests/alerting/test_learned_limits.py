"""Limits that the engine learns from the runs it hears of, and keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.alerting.engine import Engine
from monitor.alerting.settings.defaults import default_rule
from monitor.alerting.settings.engine import AlertingSettings
from monitor.alerting.settings.rules import RuleKind
from monitor.bus.contract import Change, Retention
from monitor.bus.sqlite import SqliteBus
from monitor.model.alerts import Alert, AlertState
from monitor.model.knowledge import ActiveRun
from monitor.model.runs import RunKind, RunState, Status
from monitor.supervisor import Supervisor
from monitor.tracking.knowledge import Knowledge
from tests.alerting.run_stories import active, at, run_event, state
from tests.clocks import ManualClock

HOUR = 3_600.0


class Stage:
    """An engine with one rule, run_overdue with a learned limit, and what is known beside it."""

    def __init__(self, bus: SqliteBus, clock: ManualClock) -> None:
        self.bus = bus
        self.clock = clock
        self.knowledge = Knowledge(["acme"])
        registry = CollectorRegistry()
        self.engine = Engine(
            bus=bus,
            view=self.knowledge.view,
            clock=clock,
            settings=AlertingSettings(rules=(default_rule(RuleKind.RUN_OVERDUE),)),
            retention=Retention(),
            guard=Supervisor(clock=clock, registry=registry).contain,
        )

    async def succeed(self, number: int, *, seconds: float) -> None:
        """Let a run end well at its hour, after so many seconds."""
        finished_at = at(number * HOUR)
        run = state(number, Status.SUCCEEDED, finished_at=finished_at, seconds=seconds)
        change = Change(runs=(run,), events=(run_event(run),))
        await self.bus.commit(change, timeout_seconds=5)
        await self.engine.take_some()

    async def look(self, seconds: float, *runs: RunState) -> list[Alert]:
        """Look as of so many seconds after zero, while these are active; return what fires."""
        shown: list[ActiveRun] = [active(run) for run in runs]
        self.knowledge.active = {one.run.key: one for one in shown}
        now = at(seconds)
        self.knowledge.confirm("acme", RunKind.JOB_GROUP, now, complete_at=now)
        await self.engine.look()
        alerts = self.engine.picture().alerts
        return [one for one in alerts if one.state is AlertState.FIRING]


@asynccontextmanager
async def on_stage(folder: Path) -> AsyncIterator[Stage]:
    """Open the store of a folder and restore an engine from it."""
    clock = ManualClock()
    bus = await SqliteBus.open(folder / "state.db", clock=clock, registry=CollectorRegistry())
    try:
        stage = Stage(bus, clock)
        await stage.engine.restore()
        yield stage
    finally:
        await bus.close()


async def test_a_limit_is_learned_shown_and_kept(tmp_path: Path) -> None:
    """Ten successes make one, a restart keeps it, and a run that exceeds it is overdue."""
    async with on_stage(tmp_path) as stage:
        for number in range(9):
            await stage.succeed(number, seconds=400)
        assert stage.engine.picture().limits == ()
        await stage.succeed(9, seconds=400)
        (limit,) = stage.engine.picture().limits
        assert (limit.workspace, limit.pipeline.id, limit.runs) == ("acme", "7", 10)
        assert limit.seconds == pytest.approx(800)

    async with on_stage(tmp_path) as stage:
        assert [one.seconds for one in stage.engine.picture().limits] == [limit.seconds]
        run = state(50, Status.RUNNING, started_at=at(20 * HOUR))
        assert await stage.look(20 * HOUR + 799, run) == []
        (alert,) = await stage.look(20 * HOUR + 801, run)
        assert alert.starts_at == at(20 * HOUR + 800)
        assert alert.facts["limit_seconds"] == pytest.approx(800)


async def test_the_end_of_a_late_run_resolves_and_teaches(tmp_path: Path) -> None:
    """It is over with the run's end event, although the picture shows the run for a while yet."""
    async with on_stage(tmp_path) as stage:
        for number in range(10):
            await stage.succeed(number, seconds=400)
        run = state(10, Status.RUNNING, started_at=at(10 * HOUR - 900))
        assert len(await stage.look(10 * HOUR - 60, run)) == 1
        await stage.succeed(10, seconds=900)
        (alert,) = [one for one in stage.engine.picture().alerts if one.rule == "run_overdue"]
        assert alert.state is AlertState.RESOLVED
        assert alert.ends_at == at(10 * HOUR)
        assert await stage.look(10 * HOUR - 30, run) == []
        assert stage.engine.picture().limits[0].runs == 11


async def test_a_new_name_begins_nothing_anew(tmp_path: Path) -> None:
    """What is learned belongs to the pipeline by its id."""
    async with on_stage(tmp_path) as stage:
        for number in range(10):
            await stage.succeed(number, seconds=400)
        run = state(11, Status.SUCCEEDED, finished_at=at(11 * HOUR), seconds=400)
        assert run.pipeline is not None
        renamed = msgspec.structs.replace(run.pipeline, name="orders of today")
        run = msgspec.structs.replace(run, pipeline=renamed)
        await stage.bus.commit(Change(runs=(run,), events=(run_event(run),)), timeout_seconds=5)
        await stage.engine.take_some()
        assert [one.runs for one in stage.engine.picture().limits] == [11]
