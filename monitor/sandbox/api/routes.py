"""Which handler serves which operation. An operation without one is a route not found."""

from __future__ import annotations

from monitor.sandbox.api.calls import Handlers
from monitor.sandbox.api.data import (
    connections,
    connector_metadata,
    dataset_library,
    imported_datasets,
    recipes,
)
from monitor.sandbox.api.flows import edges, flows, library, parameters
from monitor.sandbox.api.outputs import output_objects
from monitor.sandbox.api.packages import environment_parameters, flow_packages, macros
from monitor.sandbox.api.people import access_tokens, aws, people
from monitor.sandbox.api.plans import nodes, plan_runs, plans
from monitor.sandbox.api.runs import flow_runs, job_groups, job_results
from monitor.sandbox.api.schedules import schedules
from monitor.sandbox.api.specification import document
from monitor.sandbox.api.unlisted import deployments, notebooks
from monitor.sandbox.api.webhooks import webhooks
from monitor.sandbox.api.workspace import configuration, functions, transfer, usage

SERVING = (
    *(connections, connector_metadata, dataset_library, imported_datasets, recipes),
    *(edges, flows, library, parameters),
    *(output_objects, flow_packages, macros, environment_parameters),
    *(access_tokens, aws, people),
    *(nodes, plan_runs, plans),
    *(flow_runs, job_groups, job_results),
    *(schedules, document, webhooks),
    *(configuration, functions, transfer, usage),
)

HANDLERS: Handlers = {
    operation_id: handler for module in SERVING for operation_id, handler in module.HANDLERS.items()
}
# Beyond the catalogue.
UNLISTED_HANDLERS: Handlers = {**notebooks.HANDLERS, **deployments.HANDLERS}
