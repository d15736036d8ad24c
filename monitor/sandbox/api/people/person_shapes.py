"""The payloads of people."""

from __future__ import annotations

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.response.kinds import Resource, View
from monitor.sandbox.api.response.rendering import NAMED, stamp
from monitor.sandbox.api.workspace.configuration import setting
from monitor.sandbox.world.records.objects import Flow, Person, Plan
from monitor.sandbox.world.records.parts import DataflowOptions


def person(view: View, person: Person) -> dict[str, Json]:
    del view
    return {
        "id": person.id,
        "email": person.email,
        "name": person.name,
        "isDisabled": person.is_disabled,
        "state": person.state,
        "validateExportCompliance": False,
        "lastLoginTime": stamp(person.last_login_at),
        "lastStateChange": None,
        "outputHomeDir": person.output_home_dir,
        "uploadDir": person.upload_dir,
        "createdAt": stamp(person.created_at),
        "updatedAt": stamp(person.updated_at),
    }


def people_of(view: View, thing: Flow | Plan) -> list[Person]:
    """Return the owner of a flow or plan, then those it is shared with."""
    ids = [thing.creator_id, *sorted(thing.shared_with - {thing.creator_id})]
    found = [view.world.people.get(id_) for id_ in ids]
    return [id_ for id_ in found if id_ is not None]


OPERATIONS = ("read", "update", "delete", "create", "share", "execute", "export")
WHAT_PEOPLE_MAKE = ("flow", "plan", "datasource", "connection", "folder", "schedule", "package")
WHAT_ADMINISTRATORS_KEEP = ("userdefinedfunction", "globaljobhistory")


def privileges_of(person: Person) -> list[Json]:
    """Return the most that a person may do: all of it, or only read what administrators keep."""
    kept = OPERATIONS if person.is_admin else OPERATIONS[:1]
    return [
        {"resourceType": name, "operations": list(operations)}
        for names, operations in ((WHAT_PEOPLE_MAKE, OPERATIONS), (WHAT_ADMINISTRATORS_KEEP, kept))
        for name in names
    ]


def dataflow_options_of(view: View, person_id: int) -> list[tuple[str, Json]]:
    """Return what a person's jobs give Dataflow: the workspace's region, then their own options."""
    options: dict[str, Json] = {"region": setting(view.world, "dataflow.defaultRegion")}
    for dataflow_options in view.world.shelf(DataflowOptions).live():
        if dataflow_options.person_id == person_id:
            options |= dataflow_options.options
    return list(options.items())


PERSON_RESOURCES: dict[str, Resource] = {
    "people": Resource(
        plural="people",
        render=person,
        columns={
            **NAMED,
            "email": lambda _, record: record.email,
            "state": lambda _, record: record.state,
            "isDisabled": lambda _, record: record.is_disabled,
            "lastLoginTime": lambda _, record: record.last_login_at,
        },
        extra_fields=frozenset({"maximalPrivileges"}),
    ),
}
