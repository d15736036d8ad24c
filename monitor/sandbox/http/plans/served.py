"""The family's handlers, by operation."""

from __future__ import annotations

from monitor.sandbox.http.calls import Handlers
from monitor.sandbox.http.plans import (
    nodes,
    overrides,
    permissions,
    plan_runs,
    plans,
    run_parameters,
)

HANDLERS: Handlers = {
    **nodes.HANDLERS,
    **overrides.HANDLERS,
    **permissions.HANDLERS,
    **plan_runs.HANDLERS,
    **plans.HANDLERS,
    **run_parameters.HANDLERS,
}
