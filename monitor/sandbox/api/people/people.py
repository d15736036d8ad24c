"""People, the options of their jobs, and how what one owns becomes another's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from monitor.sandbox.api.calls import NO_CONTENT, Call, Handlers, Reply
from monitor.sandbox.api.errors import (
    Json,
    bad_field,
    bad_parameter,
    forbidden,
    not_found,
    validation_failed,
)
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.request.parameters import INTEGER, boolean, names, word
from monitor.sandbox.api.response.kinds import Resource, View
from monitor.sandbox.api.response.rendering import NAMED, columns, kept, stamp
from monitor.sandbox.api.workspace.configuration import setting
from monitor.sandbox.world.records.objects import (
    Flow,
    Person,
    Plan,
    PlanSnapshot,
    Record,
    ScheduleHistory,
    Token,
)
from monitor.sandbox.world.records.parts import (
    AwsConfig,
    AwsRole,
    DataflowOptions,
    WorkspaceSetting,
)
from monitor.sandbox.world.records.runs import FlowRun, Job, JobGroup, PlanSnapshotRun, PlanTaskRun
from monitor.sandbox.world.shelves import WORKSPACE_ID, World

OPERATIONS = ("read", "update", "delete", "create", "share", "execute", "export")
WHAT_PEOPLE_MAKE = ("flow", "plan", "datasource", "connection", "folder", "schedule", "package")
WHAT_ADMINISTRATORS_KEEP = ("userdefinedfunction", "globaljobhistory")
TYPE = re.compile(r"[\w.-]{1,64}")
# People have no owner, history keeps who it was, and access stays with its person.
STAYS: frozenset[type[Record]] = frozenset(
    {
        *(Person, Token, AwsConfig, AwsRole, DataflowOptions, WorkspaceSetting),
        *(PlanSnapshot, ScheduleHistory, FlowRun, Job, JobGroup, PlanSnapshotRun, PlanTaskRun),
    }
)


def person(view: View, person: Person) -> dict[str, Json]:
    del view
    return {
        **kept(person, "id", "email", "name", "isDisabled", "state", "outputHomeDir", "uploadDir"),
        **kept(person, "createdAt", "updatedAt"),
        "validateExportCompliance": False,
        "lastLoginTime": stamp(person.last_login_at),
        "lastStateChange": None,
    }


def people_of(view: View, thing: Flow | Plan) -> list[Person]:
    """Return the owner of a flow or plan, then those it is shared with."""
    ids = [thing.creator_id, *sorted(thing.shared_with - {thing.creator_id})]
    found = [view.world.people.get(id_) for id_ in ids]
    return [id_ for id_ in found if id_ is not None]


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
    for own in view.world.shelf(DataflowOptions).having("person_id", person_id):
        options |= own.options
    return list(options.items())


PERSON_RESOURCES: dict[str, Resource] = {
    "people": Resource(
        plural="people",
        render=person,
        columns={
            **NAMED,
            **columns("email", "state", "isDisabled"),
            "lastLoginTime": lambda _, record: record.last_login_at,
        },
        extra_fields=frozenset({"maximalPrivileges"}),
    ),
}


def get_current_person(call: Call) -> Reply:
    """Show whose token it is."""
    return _shown(call, call.person)


def get_person(call: Call) -> Reply:
    """Show a person of the workspace."""
    return _shown(call, call.thing(call.world.people, "person"))


def list_people(call: Call) -> Reply:
    """List the people of the workspace, or those whom the query describes."""
    return call.list(
        "people",
        list(_described(call, call.world.people.live()))[::-1],
        filter_fields=("name", "email"),
        extra=_extra_of(call),
    )


def _shown(call: Call, person: Person) -> Reply:
    workspace_id = call.query.get("workspaceId").strip()
    if workspace_id and workspace_id != str(WORKSPACE_ID):
        raise not_found("workspace", workspace_id)
    return call.show("people", person, extra=_extra_of(call)(person))


def _extra_of(call: Call) -> Callable[[Person], Mapping[str, Json]]:
    """Return a person's privileges, where the query requests them."""
    with_privileges = boolean(call.query, "includePrivileges")

    def extra(person: Person) -> Mapping[str, Json]:
        return {"maximalPrivileges": privileges_of(person)} if with_privileges else {}

    return extra


def _described(call: Call, people: Iterable[Person]) -> Iterable[Person]:
    """Keep those who fit ``email``, ``state``, ``isDisabled`` and ``peopleIds``.

    Raises:
        ApiError: 400, naming the parameter.
    """
    email = call.query.get("email").strip().casefold()
    state = word(call.query, "state", ("active", "hidden"))
    disabled = call.query.get("isDisabled").strip()
    is_disabled = boolean(call.query, "isDisabled")
    ids = _ids(call)
    boolean(call.query, "includeStatus")
    return (
        person
        for person in people
        if (not email or person.email.casefold() == email)
        and (not state or person.state == state)
        and (not disabled or person.is_disabled is is_disabled)
        and (not ids or person.id in ids)
    )


def _ids(call: Call) -> frozenset[int]:
    given = [*call.query.all("peopleIds"), *call.query.all("peopleIds[]")]
    parts = [part for text in given for part in names(text)]
    for part in parts:
        if not INTEGER.fullmatch(part):
            raise bad_parameter("peopleIds", part, "ids of people")
    return frozenset(int(part) for part in parts)


def set_own_options(call: Call) -> Reply:
    """Keep options of one type for the caller, in place of earlier ones."""
    return _keep(call, call.person, call.path_values[0])


def set_options_of_another(call: Call) -> Reply:
    """Keep options of one type for the person with an e-mail address."""
    email, options_type = call.path_values
    people = call.world.people.live()
    found = next((person for person in people if person.email.casefold() == email.casefold()), None)
    if not call.person.is_admin and found is not call.person:
        raise forbidden("Only an administrator may set options of another person")
    if found is None:
        raise not_found("person", email)
    return _keep(call, found, options_type)


def _keep(call: Call, person: Person, options_type: str) -> Reply:
    if not TYPE.fullmatch(options_type):
        raise bad_field("type", "must be letters, digits, dots, dashes and underscores")
    body = Body(call.body)
    options = {name: body.raw(name) for name in body.names() if body.has(name)}
    for own in call.world.shelf(DataflowOptions).having("person_id", person.id):
        if own.type == options_type:
            call.world.update(own, by=call.person.id, options=options)
            return NO_CONTENT
    call.world.create(
        DataflowOptions,
        by=call.person.id,
        person_id=person.id,
        type=options_type,
        options=options,
    )
    return NO_CONTENT


def transfer_assets(call: Call) -> Reply:
    """Give all assets of one person to another, schedules among them; runs and tokens stay."""
    if not call.person.is_admin:
        raise forbidden("Only an administrator may transfer assets")
    body = Body(call.body)
    giver = _person(call.world, body, "from")
    receiver = _person(call.world, body, "to")
    if giver is receiver:
        raise validation_failed('"toPersonId" must be another person than "fromPersonId"')
    if receiver.is_disabled:
        raise bad_field(_name_of(body, "to"), "names a person whose account is disabled")
    give(call.world, giver, receiver, by=call.person)
    call.engine.schedules_changed()
    return NO_CONTENT


def give(world: World, giver: Person, receiver: Person, *, by: Person) -> None:
    """Make ``receiver`` the owner of all assets of ``giver``, deleted ones too."""
    for kind in world.kinds():
        if kind in STAYS:
            continue
        for other_kind in world.shelf(kind):
            if other_kind.creator_id == giver.id:
                other_kind.creator_id = receiver.id
                _notify(world, other_kind, receiver, by=by)


def _notify(world: World, record: Record, receiver: Person, *, by: Person) -> None:
    """Note who moved an asset; what is shared with its own owner is not shared with them."""
    if record.deleted_at is not None:
        return
    if isinstance(record, Flow | Plan):
        own = {receiver.id}
        world.update(
            record, by=by.id, shared_with=record.shared_with - own, read_only=record.read_only - own
        )
    else:
        world.update(record, by=by.id)


def _person(world: World, body: Body, end: str) -> Person:
    """Return whom ``fromPersonId`` or ``fromEmail`` names, or the same with ``to``.

    Raises:
        ApiError: 400, naming the field.
    """
    name = _name_of(body, end)
    if name.endswith("Email"):
        email = body.text(name).casefold()
        found = next(
            (person for person in world.people.live() if person.email.casefold() == email), None
        )
    else:
        found = world.people.get(body.integer(name))
    if found is None:
        raise bad_field(name, "names no person of this workspace")
    return found


def _name_of(body: Body, end: str) -> str:
    email = f"{end}Email"
    return email if body.has(email) and not body.has(f"{end}PersonId") else f"{end}PersonId"


HANDLERS: Handlers = {
    "getCurrentPerson": get_current_person,
    "getPerson": get_person,
    "listPerson": list_people,
    "setDataflowOption": set_own_options,
    "setCurrentPersonDataflowOption": set_own_options,
    "setPersonDataflowOption": set_options_of_another,
    "transferUserAssetsInCurrentWorkspace": transfer_assets,
}
