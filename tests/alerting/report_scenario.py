"""The report of one workspace over a real store and engine, with the runs that a test stores."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from monitor.alerting.reports.report_query import ReportQuery
from monitor.alerting.reports.reporter import Reporter
from monitor.alerting.reports.settings import ReportMatch
from monitor.bus.contract import Change, Retention
from monitor.model.reports import Report
from monitor.model.runs import (
    Parents,
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)
from tests.alerting.engine_scenario import WORKSPACE, EngineScenario

HOUR = timedelta(hours=1)


def ended_run(
    number: int,
    ended_at: datetime,
    status: Status = Status.FAILED,
    *,
    kind: RunKind = RunKind.FLOW_RUN,
    flow: int = 1,
    seconds: float = 60,
    parents: Parents | None = None,
    **more: Any,
) -> RunState:
    """Return a run that ended then, as its first read showed."""
    begun_at = ended_at - timedelta(seconds=seconds)
    made: dict[str, Any] = {
        "created_at": begun_at,
        "started_at": begun_at,
        "finished_at": ended_at,
        "end_seen_at": ended_at,
        "pipeline": Pipeline(kind=PipelineKind.FLOW, id=str(flow), name=f"flow {flow}"),
        "confirmed_at": ended_at,
        "confirmed_by": Source.POLL,
    }
    return RunState(
        key=RunKey(WORKSPACE, kind, str(number)),
        status=status,
        parents=parents or Parents(),
        **{**made, **more},
    )


async def store_runs(scenario: EngineScenario, *runs: RunState) -> None:
    await scenario.bus.commit(Change(runs=runs), timeout_seconds=10)


async def report_of(
    scenario: EngineScenario,
    *,
    hours: float = 13,
    match: ReportMatch | None = None,
    until: datetime | None = None,
    retention: Retention | None = None,
) -> Report:
    """Return the report of so many hours until now, or until then."""
    end = until or scenario.clock.now()
    reporter = Reporter(
        bus=scenario.bus,
        view=scenario.live_state.view,
        engine=scenario.engine,
        clock=scenario.clock,
        retention=retention or Retention(),
    )
    query = ReportQuery(since=end - hours * HOUR, until=end, match=match or ReportMatch())
    return await reporter.report(query)
