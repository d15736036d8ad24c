"""From the records of a package to new ones in a world, or in a scratch copy of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from monitor.sandbox.api.crud.rights import may_name
from monitor.sandbox.api.errors import ApiError, Json
from monitor.sandbox.api.packages.archive import VERSION, bad_package
from monitor.sandbox.api.packages.arrivals import Arrivals
from monitor.sandbox.api.packages.exporting import plural_of, row_of
from monitor.sandbox.api.packages.graph import Key, key_of, plant, relinked
from monitor.sandbox.api.request.bodies import check_body
from monitor.sandbox.api.response.kinds import ResourceTable, View
from monitor.sandbox.api.response.rendering import show
from monitor.sandbox.api.workspace.configuration import whole_number
from monitor.sandbox.world.records.objects import (
    Connection,
    Flow,
    ImportedDataset,
    Plan,
    Record,
    WebhookFlowTask,
)
from monitor.sandbox.world.records.parts import UserDefinedFunction
from monitor.sandbox.world.shelves import World

# What an answer always has, and the table that it shows.
_NAMES_OF_TABLES = {
    "flows": "flows",
    "datasources": "importeddatasets",
    "connections": "connections",
    "recipes": "wrangleddatasets",
    "outputobjects": "outputobjects",
    "webhookflowtasks": "webhookflowtasks",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of a package: ``made`` here, and ``known`` here before, by the old keys.

    ``arrived`` is what the package has of the known ones.
    """

    roots: tuple[Record, ...]
    made: Mapping[Key, Record]
    known: Mapping[Key, Record]
    arrived: Mapping[Key, Record]


def bring_in(view: View, arrivals: Arrivals, *, folder_id: int | None) -> Imported:
    """Make what arrived in the view's world, in the name of its person.

    What flows use is not made again where the person has it already. Flows come into the folder.
    The new records are not validated: see `refuse_invalid`.
    """
    known = _known_here(view, arrivals.used)
    strange = [_renamed(view.world, item) for item in arrivals.used if key_of(item) not in known]
    made = plant(
        view,
        (*strange, *arrivals.parts),
        by=view.person.id,
        known={key: item.id for key, item in known.items()},
        changes={
            key_of(part): {"folder_id": folder_id}
            for part in arrivals.parts
            if isinstance(part, Flow)
        },
    )
    roots = tuple(made[key_of(root)] for root in arrivals.roots)
    arrived = {key_of(item): item for item in arrivals.used if key_of(item) in known}
    return Imported(roots=roots, made=made, known=known, arrived=arrived)


def refuse_invalid(view: View, imported: Imported) -> None:
    """Hold every new record against what the API says that such a thing is.

    Raises:
        ApiError: 400, naming ``data``.
    """
    most = whole_number(view.world, "webhooks.maximumPerFlow")
    tasks = Counter(
        item.flow_id for item in imported.made.values() if isinstance(item, WebhookFlowTask)
    )
    if max(tasks.values(), default=0) > most:
        raise bad_package(f"has a flow with more than {most} webhooks")
    for record in imported.made.values():
        kind = view.table.kind_of(type(record))
        if kind is None:
            continue
        try:
            check_body(kind.model, _shown(view, record))
        except ApiError as exc:
            raise bad_package(
                f"has a {kind.name} as this workspace has none: {exc.details}"
            ) from exc
        except ValueError as exc:
            raise bad_package(f"has a {kind.name} whose address cannot be read: {exc}") from exc


def answer_of(view: View, imported: Imported) -> dict[str, Json]:
    """Return what an import answers."""
    mapping: dict[str, Json] = {}
    shown: dict[str, list[Json]] = {}
    for (_, old_id), record in {**imported.known, **imported.made}.items():
        mapping.setdefault(plural_of(view.table, record), {})[str(old_id)] = record.id
    for record in imported.made.values():
        shown.setdefault(plural_of(view.table, record), []).append(_shown(view, record))
    answer: dict[str, Json] = {
        "deletedObjects": {},
        "createdObjectMapping": mapping,
        "importRuleChanges": {"object": [], "value": []},
        "primaryFlowIds": [root.id for root in imported.roots if isinstance(root, Flow)],
        "release": {"version": VERSION},
        "kept": _kept(view, imported),
        **{name: shown.pop(plural, []) for name, plural in _NAMES_OF_TABLES.items()},
        **shown,
    }
    plan_ids = [root.id for root in imported.roots if isinstance(root, Plan)]
    return answer | ({"primaryPlanIds": plan_ids} if plan_ids else {})


def _kept(view: View, imported: Imported) -> dict[str, Json]:
    """Return what has no place here and is only kept, by the plural of what it is kept with."""
    names: dict[str, set[str]] = {}
    for record in imported.made.values():
        if record.extras:
            names.setdefault(plural_of(view.table, record), set()).update(record.extras)
    return {plural: sorted(found) for plural, found in sorted(names.items())}


def _shown(view: View, record: Record) -> dict[str, Json]:
    return show(view, plural_of(view.table, record), record)


def _known_here(view: View, used: Iterable[Record]) -> dict[Key, Record]:
    """Find what the person has already of what arrived, connections before their datasets."""
    found: dict[Key, Record] = {}
    taken: set[Key] = set()
    for other_record in sorted(used, key=lambda record: isinstance(record, ImportedDataset)):
        # Of several that are the same, the one that a package of this workspace means.
        live = view.world.shelf(type(other_record)).live()
        for other in sorted(live, key=lambda other: other.id != other_record.id):
            is_free = key_of(other) not in taken
            if (
                is_free
                and _is_same(view.table, other_record, other, found)
                and may_name(view, other)
            ):
                found[key_of(other_record)] = other
                taken.add(key_of(other))
                break
    return found


def _is_same(
    table: ResourceTable, first: Record, other: Record, found: Mapping[Key, Record]
) -> bool:
    """True where what arrived as ``first`` is here as ``other``.

    Connections have a UUID and functions a name; a dataset is the same when all is, and its
    connection is what became of it here.
    """
    if isinstance(first, Connection) and isinstance(other, Connection):
        return first.uuid == other.uuid
    if isinstance(first, UserDefinedFunction) and isinstance(other, UserDefinedFunction):
        return first.name == other.name
    if not isinstance(first, ImportedDataset) or getattr(other, "name", None) != first.name:
        return False

    def new_id(key: Key) -> int:
        return found[key].id if key in found else _NEW_ID

    return {**_content(table, first), **relinked(table, first, new_id)} == {
        **_content(table, other),
        **relinked(table, other, lambda _: None),
    }


_NEW_ID = -1  # the id of a connection that is not here yet
_OF_ONE_WORKSPACE = ("id", "created_at", "updated_at")


def _content(table: ResourceTable, record: Record) -> dict[str, Any]:
    row = row_of(table, record, frozenset())
    return {name: value for name, value in row.items() if name not in _OF_ONE_WORKSPACE}


def _renamed(world: World, record: Record) -> Record:
    """Give a connection another UUID where its own belongs to one that the person has not."""
    if isinstance(record, Connection) and any(
        connection.uuid == record.uuid for connection in world.connections
    ):
        record.uuid = world.uuid("imported connection", world.connections.ids.upcoming, record.id)
    return record
