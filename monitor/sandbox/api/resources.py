"""All resources of all families: what can be shown or embedded, and what hangs on what."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.api.data.connections import CONNECTION
from monitor.sandbox.api.data.dataset_kinds import DATA_SOURCES, DATASET_NODE, IMPORTED_DATASET
from monitor.sandbox.api.data.dataset_library import LIBRARY_ROWS
from monitor.sandbox.api.data.recipes import FUNCTION, RECIPE, RECIPES, REFERENCE_NODE
from monitor.sandbox.api.flows.edges import EDGE, FLOW_NODES
from monitor.sandbox.api.flows.flows import FLOW, FOLDER, NOTIFICATION_SETTINGS, PARAMETER_OVERRIDE
from monitor.sandbox.api.flows.library import LIBRARY_ROWS as FLOW_LIBRARY_ROWS
from monitor.sandbox.api.outputs.output_objects import OUTPUT_KINDS
from monitor.sandbox.api.packages.environment_parameters import PACKAGE_KINDS
from monitor.sandbox.api.people.access import AWS_CONFIG, AWS_ROLE
from monitor.sandbox.api.people.people import PERSON_RESOURCES
from monitor.sandbox.api.plans.plans import PLAN_KINDS
from monitor.sandbox.api.response.kinds import Kind, ResourceTable
from monitor.sandbox.api.response.rendering import resource_of
from monitor.sandbox.api.runs.job_shapes import JOB_RESOURCES
from monitor.sandbox.api.runs.run_shapes import RUN_RESOURCES
from monitor.sandbox.api.schedules.schedules import SCHEDULE
from monitor.sandbox.api.unlisted.deployments import DEPLOYMENT, RELEASE
from monitor.sandbox.api.webhooks.webhooks import WEBHOOK_FLOW_TASK
from monitor.sandbox.world.records.objects import (
    Flow,
    ImportedDataset,
    Person,
    Plan,
    Publication,
    Recipe,
    Record,
)

_KINDS: tuple[Kind[Any], ...] = (
    *(CONNECTION, IMPORTED_DATASET, DATASET_NODE, RECIPE, REFERENCE_NODE),
    *(FOLDER, FLOW, EDGE, PARAMETER_OVERRIDE, NOTIFICATION_SETTINGS),
    *OUTPUT_KINDS,
    *PACKAGE_KINDS,
    *(AWS_CONFIG, AWS_ROLE),
    *PLAN_KINDS,
    *(DEPLOYMENT, RELEASE),
    SCHEDULE,
    WEBHOOK_FLOW_TASK,
    FUNCTION,
)

# The names of resources that no kind defines: their shapes were written by hand.
_NAMES: dict[type[Record], str] = {
    Flow: "flows",
    Person: "people",
    Plan: "plans",
    Recipe: "wrangleddatasets",
    ImportedDataset: "importeddatasets",
    Publication: "publications",
    **{kind.record: kind.plural for kind in _KINDS},
}

RESOURCES = ResourceTable(
    _KINDS,
    {
        **{item.plural: item for item in (RECIPES, DATA_SOURCES, LIBRARY_ROWS)},
        "flownodes": FLOW_NODES,
        "flowslibraryrows": FLOW_LIBRARY_ROWS,
        **PERSON_RESOURCES,
        **RUN_RESOURCES,
        **JOB_RESOURCES,
        **{kind.plural: resource_of(kind, _NAMES) for kind in _KINDS},
    },
)
