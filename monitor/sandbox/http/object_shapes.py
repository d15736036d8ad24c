"""The payloads of flows, recipes, outputs, webhook tasks and people."""

from __future__ import annotations

from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.rendering import Association, Resource, View, reference, stamp
from monitor.sandbox.http.run_shapes import CREATOR, STAMPS, UPDATER
from monitor.sandbox.objects import (
    Flow,
    ImportedDataset,
    Person,
    Plan,
    Publication,
    Recipe,
    Record,
    WebhookFlowTask,
)
from monitor.sandbox.world import WORKSPACE_ID

CLOUD_PROJECT = "sandbox"


def stamps(one: Record) -> dict[str, Json]:
    """Return the fields that every stored thing shows."""
    return {
        "id": one.id,
        "createdAt": stamp(one.created_at),
        "updatedAt": stamp(one.updated_at),
        "creator": reference(one.creator_id),
        "updater": reference(one.updater_id),
    }


def flow(view: View, one: Flow) -> dict[str, Json]:
    del view
    return {
        **stamps(one),
        "name": one.name,
        "description": one.description,
        "folder": reference(one.folder_id),
        "defaultOutputDir": one.default_output_dir,
        "settings": {},
        "flowState": None,
        "workspace": reference(WORKSPACE_ID),
        "cpProject": CLOUD_PROJECT,
        "deleted_at": stamp(one.deleted_at),
    }


def flow_node(view: View, one: Recipe) -> dict[str, Json]:
    """Return the node that holds a recipe; both have one id here."""
    del view
    return {
        **stamps(one),
        "flow": reference(one.flow_id),
        "recipe": reference(one.id),
        "wrangledDataset": reference(one.id),
    }


def wrangled_dataset(view: View, one: Recipe) -> dict[str, Json]:
    del view
    return {
        **stamps(one),
        "wrangled": True,
        "flow": reference(one.flow_id),
        "recipe": reference(one.id),
        "activeSample": None,
        "referenceinfo": None,
    }


def recipe(view: View, one: Recipe) -> dict[str, Json]:
    del view
    return {**stamps(one), "name": one.name, "description": None, "active": True}


def imported_dataset(view: View, one: ImportedDataset) -> dict[str, Json]:
    del view
    return {
        **stamps(one),
        "name": one.name,
        "uri": one.uri,
        "connection": reference(one.connection_id),
    }


def publication(view: View, one: Publication) -> dict[str, Json]:
    del view
    return {
        **stamps(one),
        "path": list(one.path),
        "tableName": one.table_name,
        "targetType": one.target_type,
        "action": one.action,
        "outputobject": reference(one.output_object_id),
        "connection": reference(one.connection_id),
        "parameters": {},
    }


def webhook_task(view: View, one: WebhookFlowTask) -> dict[str, Json]:
    del view
    return {
        **stamps(one),
        "name": one.name,
        "flow": reference(one.flow_id),
        "url": one.url,
        "method": one.method,
        "triggerEvent": one.trigger_event,
        "triggerObject": one.trigger_object,
        "flowNodeIds": list(one.flow_node_ids),
        "body": one.body,
        "headers": dict(one.headers),
        "secretKey": one.secret_key,
        "sslVerification": one.ssl_verification,
        "retryOnFailure": one.retry_on_failure,
    }


def person(view: View, one: Person) -> dict[str, Json]:
    del view
    return {
        "id": one.id,
        "email": one.email,
        "name": one.name,
        "isDisabled": one.is_disabled,
        "state": one.state,
        "validateExportCompliance": False,
        "lastLoginTime": stamp(one.last_login_at),
        "lastStateChange": None,
        "outputHomeDir": one.output_home_dir,
        "uploadDir": one.upload_dir,
        "createdAt": stamp(one.created_at),
        "updatedAt": stamp(one.updated_at),
    }


def people_of(view: View, thing: Flow | Plan) -> list[Person]:
    """Return the owner of a flow or plan, then those it is shared with."""
    ids = [thing.creator_id, *sorted(thing.shared_with - {thing.creator_id})]
    found = [view.world.people.get(one) for one in ids]
    return [one for one in found if one is not None]


def _flow_of(view: View, one: Recipe | WebhookFlowTask) -> Flow | None:
    return view.world.flows.get(one.flow_id, with_deleted=True)


FLOW = Association(key="flow", target="flows", find=_flow_of)
NAMED = {**STAMPS, "name": lambda _, one: one.name}
OWN = {"creator": CREATOR, "updater": UPDATER}
NOTHING: tuple[Record, ...] = ()

OBJECT_RESOURCES: dict[str, Resource] = {
    "flows": Resource(
        plural="flows",
        render=flow,
        columns=NAMED,
        associations={
            **OWN,
            "snapshots": Association(
                key="snapshots", target="flownodes", find=lambda _view, _one: NOTHING, many=True
            ),
            "flownodes": Association(
                key="flowNodes",
                target="flownodes",
                find=lambda view, one: view.world.recipes_of(one.id),
                many=True,
            ),
            "webhookflowtasks": Association(
                key="webhookFlowTasks",
                target="webhookflowtasks",
                find=lambda view, one: view.world.webhook_tasks_of(one.id),
                many=True,
            ),
            "associatedpeople": Association(
                key="associatedPeople", target="people", find=people_of, many=True
            ),
        },
    ),
    "flownodes": Resource(
        plural="flownodes",
        render=flow_node,
        columns=STAMPS,
        associations={
            **OWN,
            "flow": FLOW,
            "recipe": Association(key="recipe", target="recipes", find=lambda _, one: one),
        },
    ),
    "wrangleddatasets": Resource(
        plural="wrangleddatasets",
        render=wrangled_dataset,
        columns=NAMED,
        associations={
            **OWN,
            "flow": FLOW,
            "recipe": Association(key="recipe", target="recipes", find=lambda _, one: one),
        },
    ),
    "recipes": Resource(plural="recipes", render=recipe, columns=NAMED, associations=OWN),
    "importeddatasets": Resource(
        plural="importeddatasets", render=imported_dataset, columns=NAMED, associations=OWN
    ),
    "publications": Resource(
        plural="publications", render=publication, columns=STAMPS, associations=OWN
    ),
    "webhookflowtasks": Resource(
        plural="webhookflowtasks",
        render=webhook_task,
        columns=NAMED,
        associations={**OWN, "flow": FLOW},
    ),
    "people": Resource(
        plural="people", render=person, columns={**NAMED, "email": lambda _, one: one.email}
    ),
}
