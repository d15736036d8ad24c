"""Lines of reports, and reports that have them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from monitor.model.reports import Report, ReportedFailure
from monitor.model.runs import PipelineKind, RunKind, Status

HOUR = timedelta(hours=1)


def failure(**more: Any) -> ReportedFailure:
    ended_at = datetime(2026, 11, 21, 3, 12, tzinfo=UTC)
    made: dict[str, Any] = {
        "workspace": "acme",
        "pipeline": "orders",
        "pipeline_kind": PipelineKind.FLOW,
        "pipeline_id": "7",
        "kind": RunKind.JOB_GROUP,
        "part": None,
        "failures": 2,
        "status": Status.FAILED,
        "first_ended_at": ended_at - HOUR,
        "last_ended_at": ended_at,
        "is_time_certain": True,
        "run_ids": ("17", "16"),
        "reason": "no such table",
        "owner": "ann@example.com",
    }
    return ReportedFailure(**{**made, **more})


def shown(**lines: Any) -> Report:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    return Report(since=at, until=at, made_at=at, verdict="", **lines)
