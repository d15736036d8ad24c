"""What becomes of everything around a record that is deleted, as the kinds' references say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from monitor.sandbox.api.calls import Call
from monitor.sandbox.api.errors import validation_failed
from monitor.sandbox.api.response.kinds import Kind, OnDelete, Reference, View
from monitor.sandbox.world.records.objects import Flow, Plan, Record


def delete(call: Call, record: Record) -> None:
    """Delete a record with all that goes with it, and cut the links of what stays.

    Nothing awaits in between, so that lists and counts agree at every moment.

    Raises:
        ApiError: 400, when something that stays holds what would be deleted.
    """
    world, view = call.world, call.view
    doomed = _doomed(view, record)
    gone = _ids_of(doomed.values())
    _refuse_referenced(view, record, doomed, gone)
    _cut_links(view, gone)
    for item in doomed.values():
        world.delete(item)
        item.updater_id = call.person.id
    if any(isinstance(item, Flow | Plan) for item in doomed.values()):
        _disable_schedules(call)


Doomed = dict[tuple[type[Record], int], Record]
# Searched all at once: a shelf that were read anew for each would take hours in a large flow.
Ids = Mapping[type[Record], AbstractSet[int]]


def _doomed(view: View, record: Record) -> Doomed:
    """Return a record and all that cascades from it."""
    found: Doomed = {}
    wave: Doomed = {(type(record), record.id): record}
    while wave:
        found |= wave
        holders = _holders(view, _ids_of(wave.values()), OnDelete.CASCADE)
        reached = {(type(row), row.id): row for _, _, row in holders}
        wave = {key: row for key, row in reached.items() if key not in found}
    return found


def _ids_of(records: Iterable[Record]) -> Ids:
    ids: dict[type[Record], set[int]] = {}
    for record in records:
        ids.setdefault(type(record), set()).add(record.id)
    return ids


def _holders(
    view: View, targets: Ids, rule: OnDelete
) -> Iterator[tuple[Kind[Any], Reference, Record]]:
    """Find the live records that link to any of the targets under a rule."""
    for target, ids in targets.items():
        for kind, link in view.table.referrers(target):
            if link.on_delete is not rule:
                continue
            for row in view.world.shelf(kind.record).live():
                value = getattr(row, link.attribute)
                if not ids.isdisjoint(value) if link.many else value in ids:
                    yield kind, link, row


def _refuse_referenced(view: View, record: Record, doomed: Doomed, gone: Ids) -> None:
    for kind, _, row in _holders(view, gone, OnDelete.REFUSE):
        if (type(row), row.id) not in doomed:
            raise validation_failed(
                f'"id" cannot be deleted: {record.id} is used by {kind.name} {row.id}'
            )


def _cut_links(view: View, gone: Ids) -> None:
    for _, link, row in list(_holders(view, gone, OnDelete.CLEAR)):
        value, ids = getattr(row, link.attribute), gone[link.target]
        left: Any = tuple(item for item in value if item not in ids) if link.many else None
        view.world.update(row, **{link.attribute: left})


def _disable_schedules(call: Call) -> None:
    """Switch off the schedules that have nothing left to start."""
    world = call.world
    for schedule in world.schedules.live():
        targets = [
            (world.flows if task.kind == "flow" else world.plans).get(task.target_id)
            for task in schedule.tasks
        ]
        if schedule.enabled and not any(targets):
            kinds = " and ".join(sorted({task.kind for task in schedule.tasks}))
            world.update(
                schedule, enabled=False, disable_reason=f"the {kinds} that it starts was deleted"
            )
    call.engine.schedules_changed()
