"""The family's handlers, by operation."""

from __future__ import annotations

from monitor.sandbox.http.calls import Handlers
from monitor.sandbox.http.runs import flow_runs, job_groups, job_results

HANDLERS: Handlers = {
    **flow_runs.HANDLERS,
    **job_groups.HANDLERS,
    **job_results.HANDLERS,
}
