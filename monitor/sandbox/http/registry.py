"""Which handler serves which operation. An operation without one is a route not found."""

from __future__ import annotations

from monitor.sandbox.http.calls import Handlers
from monitor.sandbox.http.data import served as data
from monitor.sandbox.http.flows import served as flows
from monitor.sandbox.http.outputs import served as outputs
from monitor.sandbox.http.packages import served as packages
from monitor.sandbox.http.people import served as people
from monitor.sandbox.http.plans import served as plans
from monitor.sandbox.http.runs import served as runs
from monitor.sandbox.http.schedules import served as schedules
from monitor.sandbox.http.specification import served as specification
from monitor.sandbox.http.webhooks import served as webhooks
from monitor.sandbox.http.workspace import served as workspace

FAMILIES = (
    data,
    flows,
    outputs,
    packages,
    people,
    plans,
    runs,
    schedules,
    specification,
    webhooks,
    workspace,
)

HANDLERS: Handlers = {
    operation_id: handler
    for family in FAMILIES
    for operation_id, handler in family.HANDLERS.items()
}
