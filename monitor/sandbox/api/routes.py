"""Routes operations to handlers. An operation without one is a route not found."""

from __future__ import annotations

from monitor.sandbox.api.calls import Handlers
from monitor.sandbox.api.data import connections, dataset_library, imported_datasets, recipes
from monitor.sandbox.api.flows import edges, flows, library
from monitor.sandbox.api.outputs import output_objects
from monitor.sandbox.api.packages import environment_parameters, flow_packages
from monitor.sandbox.api.people import access, people
from monitor.sandbox.api.plans import nodes, plan_runs, plans
from monitor.sandbox.api.runs import job_results, runs
from monitor.sandbox.api.schedules import schedules
from monitor.sandbox.api.specification import document
from monitor.sandbox.api.unlisted import deployments, notebooks
from monitor.sandbox.api.webhooks import webhooks
from monitor.sandbox.api.workspace import configuration, usage

SERVING = (
    *(connections, dataset_library, imported_datasets, recipes),
    *(edges, flows, library),
    *(output_objects, flow_packages, environment_parameters),
    *(access, people),
    *(nodes, plan_runs, plans, job_results, runs),
    *(schedules, document, webhooks, configuration, usage),
)

HANDLERS: Handlers = {
    operation_id: handler for module in SERVING for operation_id, handler in module.HANDLERS.items()
}
# Beyond the catalogue.
UNLISTED_HANDLERS: Handlers = {**notebooks.HANDLERS, **deployments.HANDLERS}
