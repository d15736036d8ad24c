"""Who sees a record, and who may change it."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.api.calls import Call
from monitor.sandbox.api.errors import forbidden
from monitor.sandbox.api.response.kinds import Kind, View, Visibility
from monitor.sandbox.world.records.objects import Flow, Plan, Record


def home_of(view: View, record: Record) -> Flow | Plan | None:
    """Return the flow or plan that a record is part of, deleted ones too."""
    found: Record | None = record
    while found is not None and not isinstance(found, Flow | Plan):
        found = _parent_of(view, found)
    return found


def _parent_of(view: View, record: Record) -> Record | None:
    kind = view.table.kind_of(type(record))
    if kind is None or not kind.home:
        return None
    link = next(reference for reference in kind.references if reference.attribute == kind.home)
    parent_id = getattr(record, kind.home)
    return (
        None
        if parent_id is None
        else view.world.shelf(link.target).get(parent_id, with_deleted=True)
    )


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
    home = home_of(view, record)
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
    home = home_of(view, record)
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
