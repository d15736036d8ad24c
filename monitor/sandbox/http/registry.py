"""Which handler serves which operation. An operation without one is a route not found."""

from __future__ import annotations

from monitor.sandbox.http import (
    flows,
    job_groups,
    job_results,
    people,
    plans,
    schedules,
    specification,
    webhooks,
)
from monitor.sandbox.http.calls import Handlers

HANDLERS: Handlers = {
    **flows.HANDLERS,
    **job_groups.HANDLERS,
    **job_results.HANDLERS,
    **people.HANDLERS,
    **plans.HANDLERS,
    **schedules.HANDLERS,
    **specification.HANDLERS,
    **webhooks.HANDLERS,
}
