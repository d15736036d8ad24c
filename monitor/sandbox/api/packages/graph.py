"""Records that hang together, and how a copy of all of them is made.

What hangs together is read off the kinds: the parts of a flow or plan are the records that have
their home in it, and what they use is what they link to outside.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from monitor.sandbox.api.response.kinds import OnDelete, Reference, ResourceTable, View
from monitor.sandbox.world.records.objects import (
    Connection,
    Flow,
    ImportedDataset,
    Person,
    Plan,
    Record,
)
from monitor.sandbox.world.records.parts import UserDefinedFunction

Key: TypeAlias = tuple[type[Record], int]

# What flows of several people use, and what therefore is no part of any one of them.
USED: tuple[type[Record], ...] = (ImportedDataset, Connection, UserDefinedFunction)
_STAMPS = frozenset(field.name for field in dataclasses.fields(Record)) - {"extras"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Flows or plans with their ``parts``, the roots first, and what these use outside."""

    parts: tuple[Record, ...]
    used: tuple[Record, ...]

    def keys(self) -> frozenset[Key]:
        return frozenset(key_of(part) for part in (*self.parts, *self.used))


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One place where a record names another. Some ids may be of one of several kinds.

    A record is nothing without what a ``vital`` link names.
    """

    attribute: str
    record_id: int
    targets: tuple[type[Record], ...]
    many: bool
    vital: bool

    def possible_keys(self) -> tuple[Key, ...]:
        return tuple((target, self.record_id) for target in self.targets)


def key_of(record: Record) -> Key:
    return type(record), record.id


def graph_of(view: View, *roots: Record, leave_out: Collection[type[Record]] = ()) -> Graph:
    """Return what hangs on the roots, live records only.

    Nothing of a kind in ``leave_out`` is a part, nor what links to a person: who has which
    rights stays in its workspace.
    """
    parts = {key_of(root): root for root in roots}
    newest = list(roots)
    while newest:
        newest = [
            item
            for item in _at_home_in(view, {key_of(root) for root in newest}, leave_out)
            if parts.setdefault(key_of(item), item) is item
        ]
    used: dict[Key, Record] = {}
    waiting = list(parts.values())
    while waiting:
        for found in linked_records(view, waiting.pop(), USED):
            if key_of(found) not in used:
                used[key_of(found)] = found
                waiting.append(found)
    return Graph(parts=tuple(parts.values()), used=tuple(used.values()))


def home_flows_outside(view: View, graph: Graph) -> list[Flow]:
    """Return the live flows outside that parts of the graph name, or name something in."""
    inside = {key_of(other_part) for other_part in graph.parts}
    found: dict[int, Flow] = {}
    for part in graph.parts:
        for target in linked_records(view, part):
            home = view.home_of(target)
            if isinstance(home, Flow) and home.deleted_at is None and key_of(home) not in inside:
                found[home.id] = home
    return list(found.values())


def links_of(table: ResourceTable, record: Record) -> Iterator[Link]:
    """Give the links that a record has to other records."""
    by_attribute: dict[str, list[Reference]] = {}
    kind = table.kind_of(type(record))
    for link in () if kind is None else kind.references:
        by_attribute.setdefault(link.attribute, []).append(link)
    for attribute, links in by_attribute.items():
        value = getattr(record, attribute)
        many = links[0].many
        for record_id in value if many else () if value is None else (value,):
            yield Link(
                attribute=attribute,
                record_id=record_id,
                targets=tuple(link.target for link in links),
                many=many,
                vital=links[0].on_delete is OnDelete.CASCADE,
            )


def linked_records(
    view: View, record: Record, kinds: Collection[type[Record]] | None = None
) -> Iterator[Record]:
    """Give the live records, of some kinds or of all, that a record names."""
    for link in links_of(view.table, record):
        for target in link.targets:
            if kinds is None or target in kinds:
                found = view.world.shelf(target).get(link.record_id)
                if found is not None:
                    yield found


def plant(
    view: View,
    parts: Iterable[Record],
    *,
    by: int,
    known: Mapping[Key, int] | None = None,
    changes: Mapping[Key, Mapping[str, Any]] | None = None,
) -> dict[Key, Record]:
    """Make each part again, under a new id, in the name of person ``by``.

    Links among the parts lead to the new records, those to a key of ``known`` to the id that it
    gives, all others where they led before. A new flow or plan is not shared yet. ``changes``
    are values that shall differ. Returned by the old keys.
    """
    originals = list(parts)
    ids: dict[Key, int] = dict(known or {})
    made: dict[Key, Record] = {}
    for part in originals:
        values = {**_values(part), **(changes or {}).get(key_of(part), {})}
        made[key_of(part)] = new = view.world.create(type(part), by=by, **values)
        ids[key_of(part)] = new.id
    for old in originals:
        new = made[key_of(old)]
        view.world.update(new, **relinked(view.table, new, ids.get))
    return made


def relinked(
    table: ResourceTable, record: Record, new_id: Callable[[Key], int | None]
) -> dict[str, Any]:
    """Return the linking attributes as they become where ``new_id`` knows another id."""
    values: dict[str, Any] = {}
    for link in links_of(table, record):
        ids = (new_id(key) for key in link.possible_keys())
        found = next((id_ for id_ in ids if id_ is not None), link.record_id)
        if link.many:
            values[link.attribute] = (*values.get(link.attribute, ()), found)
        else:
            values[link.attribute] = found
    return values


def _at_home_in(
    view: View, keys: Collection[Key], leave_out: Collection[type[Record]]
) -> Iterator[Record]:
    for kind in view.table.kinds:
        if kind.record in leave_out or any(
            reference.target is Person for reference in kind.references
        ):
            continue
        for link in kind.references:
            if link.attribute != kind.home or all(target is not link.target for target, _ in keys):
                continue
            for record in view.world.shelf(kind.record).live():
                if (link.target, getattr(record, link.attribute)) in keys:
                    yield record


def _values(part: Record) -> dict[str, Any]:
    values = {
        field.name: getattr(part, field.name)
        for field in dataclasses.fields(part)
        if field.name not in _STAMPS
    }
    if isinstance(part, Flow | Plan):
        values |= {"shared_with": frozenset(), "read_only": frozenset()}
    return values
