"""What the resources' shapes have in common."""

from __future__ import annotations

from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.showing.rendering import Association, View, reference, stamp
from monitor.sandbox.records.objects import Person, Record


def creator_of(view: View, record: Record) -> Person | None:
    return view.world.people.get(record.creator_id, with_deleted=True)


def updater_of(view: View, record: Record) -> Record | None:
    return view.world.people.get(record.updater_id, with_deleted=True)


CREATOR = Association(key="creator", target="people", find=creator_of)
UPDATER = Association(key="updater", target="people", find=updater_of)
OWN = {"creator": CREATOR, "updater": UPDATER}
STAMPS = {
    "id": lambda _, record: record.id,
    "createdAt": lambda _, record: record.created_at,
    "updatedAt": lambda _, record: record.updated_at,
}
NAMED = {**STAMPS, "name": lambda _, record: record.name}


def stamps(record: Record) -> dict[str, Json]:
    """Return the fields that every stored thing shows."""
    return {
        "id": record.id,
        "createdAt": stamp(record.created_at),
        "updatedAt": stamp(record.updated_at),
        "creator": reference(record.creator_id),
        "updater": reference(record.updater_id),
    }
