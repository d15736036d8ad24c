"""The handlers that all resources have alike, made from a kind and the catalogue."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, dataclass
from typing import Any, Generic, TypeVar

from monitor.catalogue.operations import Operation, operations
from monitor.sandbox.api.calls import NO_CONTENT, Call, Handler, Handlers, Reply
from monitor.sandbox.api.crud.rights import require_right, sees
from monitor.sandbox.api.crud.values import values_of
from monitor.sandbox.api.errors import Json, bad_field, validation_failed
from monitor.sandbox.api.models.models import MINIMAL, request_of, response_of, status_of
from monitor.sandbox.api.response.kinds import Kind, OnDelete, Reference, View
from monitor.sandbox.api.response.rendering import name_of, reference, stamp
from monitor.sandbox.world.records.objects import Flow, Plan, Record

Doomed = dict[tuple[type[Record], int], Record]
# Searched all at once: reading the shelf again for each would take hours in a large flow.
Ids = Mapping[type[Record], AbstractSet[int]]
T = TypeVar("T", bound=Record)
_RECORD_FIELDS = frozenset(field.name for field in dataclasses.fields(Record))


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


def _as_they_are(call: Call, record: Record | None, values: dict[str, Any]) -> dict[str, Any]:
    del call, record
    return values


def _all(call: Call, rows: Iterable[T]) -> Iterable[T]:
    del call
    return rows


def _nothing(call: Call, record: Record) -> None:
    del call, record


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks(Generic[T]):
    """What acts around the plain behaviour.

    ``prepare`` validates and completes the values; it has no record on create. ``narrow`` are a
    list's and its count's own filters. ``after`` gets what was created or changed.
    """

    prepare: Callable[[Call, T | None, dict[str, Any]], dict[str, Any]] = _as_they_are
    narrow: Callable[[Call, Iterable[T]], Iterable[T]] = _all
    after: Callable[[Call, T], None] = _nothing
    may_change: Callable[[Call, T], None] = require_right


def crud(
    kind: Kind[T], hooks: Hooks[T] | None = None, among: Iterable[Operation] | None = None
) -> Handlers:
    """Return the handlers of the operations that there are on a kind's collection.

    The operations are those of the catalogue where no others are handed in.
    What a family serves in a way of its own stands after these among its handlers.
    """
    around: Hooks[T] = Hooks() if hooks is None else hooks
    one, some = _spoken(kind)
    alike = {
        ("POST", ""): (_create, f"Make {one}."),
        ("GET", ""): (_list, f"List {some}."),
        ("GET", "/count"): (_count, f"Count what the list of {some} shows."),
        ("GET", "/:id"): (_read, f"Read {one}."),
        ("PUT", "/:id"): (_change, f"Change the sent fields of {one}."),
        ("PATCH", "/:id"): (_change, f"Change the sent fields of {one}."),
        ("DELETE", "/:id"): (_delete, f"Delete {one}, and what goes with it."),
    }
    made: dict[str, Handler] = {}
    for operation in operations() if among is None else among:
        _, collection, rest = operation.path.partition(f"/v4/{kind.name}s")
        if collection and (operation.method, rest) in alike:
            serve, says = alike[operation.method, rest]
            made[operation.operation_id] = _handler(serve, kind, around, says)
    return made


def _spoken(kind: Kind[Any]) -> tuple[str, str]:
    """Return how people call one of a kind, and several: an output object, output objects."""
    words = re.sub(r"(?<=[a-z])([A-Z])", r" \1", kind.name).lower()
    words = words.replace("aws", "AWS").replace("sql", "SQL")
    article = "an" if words.startswith(("AWS", "SQL", *"aeio")) else "a"
    return f"{article} {words}", f"{words}s"


def _handler(
    serve: Callable[[Kind[Any], Hooks[Any], Call], Reply],
    kind: Kind[Any],
    hooks: Hooks[Any],
    says: str,
) -> Handler:
    handler = functools.partial(serve, kind, hooks)
    handler.__doc__ = says
    return handler


def rows_of(call: Call, kind: Kind[T], hooks: Hooks[T] | None = None) -> Iterable[T]:
    """Return what a list shows and a count counts, newest first, before their query selects."""
    query = call.list_query()

    def is_shown(record: Record) -> bool:
        if record.deleted_at is not None and not query.include_deleted:
            return False
        if isinstance(record, Flow | Plan):
            return call.view.in_scope(record, query.scope)
        return sees(call.view, record)

    rows = (item for item in call.world.shelf(kind.record).newest() if is_shown(item))
    return rows if hooks is None else hooks.narrow(call, rows)


def create_record(call: Call, kind: Kind[T], values: Mapping[str, Any]) -> T:
    """Make a record in the caller's name.

    Raises:
        ApiError: 400, when the values lack what every such record has.
    """
    for field in dataclasses.fields(kind.record):
        has_default = (field.default, field.default_factory) != (MISSING, MISSING)
        if not has_default and field.name not in values and field.name not in _RECORD_FIELDS:
            raise bad_field(name_of(kind, field.name), "is required")
    return call.world.create(kind.record, by=call.person.id, **values)


def answer(
    call: Call, kind: Kind[T], record: T, *, extra: Mapping[str, Json] | None = None
) -> Reply:
    """Return what the operation answers about a record: all of it, a few fields, or nothing."""
    model = response_of(call.operation)
    if model is None:
        return NO_CONTENT
    status = status_of(call.operation)
    if model in MINIMAL:
        return Reply(status=status, body=minimal(record))
    return Reply(status=status, body=call.show(kind.plural, record, extra=extra).body)


def minimal(record: Record) -> dict[str, Json]:
    """Return the few fields that most changes answer."""
    return {
        "id": record.id,
        "updater": reference(record.updater_id),
        "createdAt": stamp(record.created_at),
        "updatedAt": stamp(record.updated_at),
    }


def found(call: Call, kind: Kind[T]) -> T:
    """Return the record that the path names.

    Raises:
        ApiError: 400 when the id is no number, 404 when there is no such record.
    """
    return call.thing(call.world.shelf(kind.record), kind.name)


def _create(kind: Kind[T], hooks: Hooks[T], call: Call) -> Reply:
    values = hooks.prepare(call, None, values_of(call, kind, _model_of(call)))
    require_right_around(call, kind, values)
    record = create_record(call, kind, values)
    hooks.after(call, record)
    return answer(call, kind, record)


def require_right_around(call: Call, kind: Kind[Any], values: Mapping[str, Any]) -> None:
    """Let only those make a part of a flow or plan who may change it.

    Raises:
        ApiError: 403.
    """
    if not kind.home or values.get(kind.home) is None:
        return
    link = next(reference for reference in kind.references if reference.attribute == kind.home)
    parent = call.world.shelf(link.target).get(values[kind.home])
    if parent is not None:
        require_right(call, parent)


def _change(kind: Kind[T], hooks: Hooks[T], call: Call) -> Reply:
    record = found(call, kind)
    hooks.may_change(call, record)
    values = hooks.prepare(call, record, values_of(call, kind, _model_of(call), changes=True))
    call.world.update(record, by=call.person.id, **values)
    hooks.after(call, record)
    return answer(call, kind, record)


def _list(kind: Kind[T], hooks: Hooks[T], call: Call) -> Reply:
    return call.list(kind.plural, rows_of(call, kind, hooks), filter_fields=kind.filter_fields)


def _count(kind: Kind[T], hooks: Hooks[T], call: Call) -> Reply:
    return call.count(kind.plural, rows_of(call, kind, hooks), filter_fields=kind.filter_fields)


def _read(kind: Kind[T], hooks: Hooks[T], call: Call) -> Reply:
    del hooks
    return call.show(kind.plural, found(call, kind))


def _delete(kind: Kind[T], hooks: Hooks[T], call: Call) -> Reply:
    record = found(call, kind)
    hooks.may_change(call, record)
    delete(call, record)
    return answer(call, kind, record)


def _model_of(call: Call) -> str:
    model = request_of(call.operation)
    if model is None:
        raise LookupError(f"{call.operation.operation_id} takes no body")
    return model
