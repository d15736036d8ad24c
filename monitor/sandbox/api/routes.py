"""Which handler serves which operation. An operation without one is a route not found."""

from __future__ import annotations

from monitor.sandbox.api.calls import Handlers
from monitor.sandbox.api.data import (
    connections,
    connector_metadata,
    dataset_library,
    imported_datasets,
    wrangled_datasets,
)
from monitor.sandbox.api.flows import edges, flows, folders, library, parameters, sharing
from monitor.sandbox.api.outputs import destinations, output_objects
from monitor.sandbox.api.packages import environment_parameters, flow_packages, macros
from monitor.sandbox.api.people import access_tokens, aws, dataflow_options, people
from monitor.sandbox.api.plans import (
    nodes,
    overrides,
    permissions,
    plan_runs,
    plans,
    run_parameters,
)
from monitor.sandbox.api.runs import flow_runs, job_groups, job_results
from monitor.sandbox.api.schedules import schedules
from monitor.sandbox.api.specification import document
from monitor.sandbox.api.webhooks import webhooks
from monitor.sandbox.api.workspace import configuring, functions, transfer, usage

SERVING = (
    *(connections, connector_metadata, dataset_library, imported_datasets, wrangled_datasets),
    *(edges, flows, folders, library, parameters, sharing),
    *(destinations, output_objects),
    *(flow_packages, macros, environment_parameters),
    *(access_tokens, aws, dataflow_options, people),
    *(nodes, overrides, permissions, plan_runs, plans, run_parameters),
    *(flow_runs, job_groups, job_results),
    *(schedules, document, webhooks),
    *(configuring, functions, transfer, usage),
)

HANDLERS: Handlers = {
    operation_id: handler for module in SERVING for operation_id, handler in module.HANDLERS.items()
}
