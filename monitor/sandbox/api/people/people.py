"""The people of the workspace, and the person whose token it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.errors import Json, bad_parameter, not_found
from monitor.sandbox.api.people.person_shapes import privileges_of
from monitor.sandbox.api.request.parameters import INTEGER, boolean, names, word
from monitor.sandbox.world.records.objects import Person
from monitor.sandbox.world.shelves import WORKSPACE_ID


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
        list(_described(call, call.world.people.live())),
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


HANDLERS: Handlers = {
    "getCurrentPerson": get_current_person,
    "getPerson": get_person,
    "listPerson": list_people,
}
