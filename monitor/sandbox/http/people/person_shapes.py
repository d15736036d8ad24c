"""The payloads of people."""

from __future__ import annotations

from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.kinds.shapes import NAMED
from monitor.sandbox.http.showing.rendering import Resource, View, stamp
from monitor.sandbox.http.workspace.configuration import setting
from monitor.sandbox.records.objects import Flow, Person, Plan
from monitor.sandbox.records.people import DataflowOptions


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


OPERATIONS = ("read", "update", "delete", "create", "share", "execute", "export")
WHAT_PEOPLE_MAKE = ("flow", "plan", "datasource", "connection", "folder", "schedule", "package")
WHAT_ADMINISTRATORS_KEEP = ("userdefinedfunction", "globaljobhistory")


def privileges_of(one: Person) -> list[Json]:
    """Return the most that a person may do: all of it, or only read what administrators keep."""
    kept = OPERATIONS if one.is_admin else OPERATIONS[:1]
    return [
        {"resourceType": name, "operations": list(operations)}
        for names, operations in ((WHAT_PEOPLE_MAKE, OPERATIONS), (WHAT_ADMINISTRATORS_KEEP, kept))
        for name in names
    ]


def dataflow_options_of(view: View, person_id: int) -> list[tuple[str, Json]]:
    """Return what a person's jobs tell Dataflow: the workspace's region, then their own options."""
    options: dict[str, Json] = {"region": setting(view.world, "dataflow.defaultRegion")}
    for one in view.world.shelf(DataflowOptions).live():
        if one.person_id == person_id:
            options |= one.options
    return list(options.items())


PERSON_RESOURCES: dict[str, Resource] = {
    "people": Resource(
        plural="people",
        render=person,
        columns={
            **NAMED,
            "email": lambda _, one: one.email,
            "state": lambda _, one: one.state,
            "isDisabled": lambda _, one: one.is_disabled,
            "lastLoginTime": lambda _, one: one.last_login_at,
        },
        extra_fields=frozenset({"maximalPrivileges"}),
    ),
}
