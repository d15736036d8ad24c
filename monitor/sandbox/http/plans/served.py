"""The family's handlers, by operation."""

from __future__ import annotations

from monitor.sandbox.http.calls import Handlers
from monitor.sandbox.http.plans import plan_runs, plans

HANDLERS: Handlers = {
    **plan_runs.HANDLERS,
    **plans.HANDLERS,
}
