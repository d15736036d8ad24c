"""Rights on records: who sees one, who may change it, and with whom it is shared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from monitor.sandbox.api.calls import Call
from monitor.sandbox.api.errors import Json, bad_field, forbidden
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.request.parameters import INTEGER
from monitor.sandbox.api.response.kinds import (
    COLLABORATOR,
    OWNER,
    READ_ONLY,
    ROLES,
    Kind,
    View,
    Visibility,
)
from monitor.sandbox.world.records.objects import Flow, Person, Plan, Record

_NAMES = ("personId", "person", "subjectId", "id", "email")
Subject: TypeAlias = tuple[Person, str]


def sees(view: View, record: Record) -> bool:
    """True where a list shows a record to a person."""
    if isinstance(record, Flow | Plan):
        return view.may_see(record)
    kind: Kind[Any] | None = view.table.kind_of(type(record))
    if kind is None or kind.visibility is Visibility.EVERYBODY:
        return True
    if kind.is_visible_to is not None:
        return kind.is_visible_to(view, record)
    is_own = record.creator_id == view.person.id
    if kind.visibility is Visibility.OWN:
        return is_own
    home = view.home_of(record)
    if home is None:
        return is_own
    ids = view.visible_flow_ids if isinstance(home, Flow) else view.visible_plan_ids
    return home.id in ids


def may_name(view: View, record: Record) -> bool:
    """True where a person may link something to a record."""
    return view.person.is_admin or sees(view, record)


def may_change(view: View, record: Record) -> bool:
    """True for owners and administrators, and for collaborators of the flow or plan around."""
    person = view.person
    if person.is_admin:
        return True
    home = view.home_of(record)
    if home is None:
        return record.creator_id == person.id
    return home.creator_id == person.id or person.id in home.shared_with - home.read_only


def require_right(call: Call, record: Record) -> None:
    """Let only those on who may change a record.

    Raises:
        ApiError: 403.
    """
    if not may_change(call.view, record):
        kind = call.view.table.kind_of(type(record))
        name = type(record).__name__.lower() if kind is None else kind.name
        raise forbidden(f"You may not change {name} {record.id}")


def subjects(call: Call) -> list[Subject]:
    """Return with whom the body's ``data`` shares, each with a role.

    A row is an id, an e-mail address, or an object with one of them and a ``role``.

    Raises:
        ApiError: 400, naming the row that names no known person.
    """
    rows = Body(call.body).array("data")
    return [_subject(call, row, f"data[{place}]") for place, row in enumerate(rows)]


def _subject(call: Call, row: Json, name: str) -> Subject:
    if not isinstance(row, dict):
        return _person(call, row, name), COLLABORATOR
    body = Body(row, path=name)
    role = body.text("role", one_of=ROLES) if body.has("role") else COLLABORATOR
    for field in _NAMES:
        if body.has(field):
            value = body.raw(field)
            value = Body(value).raw("id") if isinstance(value, dict) else value
            return _person(call, value, f"{name}.{field}"), role
    raise bad_field(f"{name}.personId", "is required")


def _person(call: Call, value: Json, name: str) -> Person:
    for person in call.world.people.live():
        if isinstance(value, str) and value.casefold() == person.email.casefold():
            return person
    is_id = isinstance(value, int) or (isinstance(value, str) and INTEGER.fullmatch(value))
    found = call.world.people.get(int(value)) if is_id else None
    if found is None:
        raise bad_field(name, "names no person of this workspace")
    return found


def share(call: Call, thing: Flow | Plan, with_whom: Iterable[Subject]) -> None:
    """Let people see and, unless they only read, change a flow or plan.

    Raises:
        ApiError: 403 for who does not own it, 400 where it would get another owner.
    """
    require_ownership(call, thing)
    shared, read_only = set(thing.shared_with), set(thing.read_only)
    for place, (person, role) in enumerate(with_whom):
        if person.id == thing.creator_id:
            continue
        if role == OWNER:
            raise bad_field(f"data[{place}].role", "cannot make another person the owner")
        shared.add(person.id)
        read_only.discard(person.id)
        if role == READ_ONLY:
            read_only.add(person.id)
    call.world.update(
        thing,
        by=call.person.id,
        shared_with=frozenset(shared),
        read_only=frozenset(read_only),
    )


def unshare(call: Call, thing: Flow | Plan, person_id: int) -> None:
    """End a person's share in a flow or plan. People may also leave by themselves.

    Raises:
        ApiError: 403 for who does not own it.
    """
    if person_id != call.person.id:
        require_ownership(call, thing)
    call.world.update(
        thing,
        by=call.person.id,
        shared_with=thing.shared_with - {person_id},
        read_only=thing.read_only - {person_id},
    )


def require_ownership(call: Call, thing: Flow | Plan) -> None:
    """Let only the owner and administrators on.

    Raises:
        ApiError: 403.
    """
    if call.person.id != thing.creator_id and not call.person.is_admin:
        raise forbidden(f"Only the owner may share {type(thing).__name__.lower()} {thing.id}")
