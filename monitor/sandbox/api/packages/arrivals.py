"""From the content of a package to records that belong to no world yet.

The content of a package is validated here: an invalid file makes a refusal that names ``data``,
a valid one records that belong together. Whether the API can show them is validated in a scratch
copy of the world.
"""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from monitor.sandbox.api.errors import ApiError, shortened
from monitor.sandbox.api.packages.archive import Package, PackageKind, Rows, bad_package
from monitor.sandbox.api.packages.exporting import exported_names
from monitor.sandbox.api.packages.graph import USED, Key, key_of, links_of
from monitor.sandbox.api.request.bodies import check_sizes
from monitor.sandbox.api.response.kinds import Kind, ResourceTable, View
from monitor.sandbox.world.records.objects import Flow, Plan, PlanEdge, Recipe, Record

_ROOTS: Mapping[PackageKind, type[Record]] = {PackageKind.FLOW: Flow, PackageKind.PLAN: Plan}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The records of a package, under the ids that they had where it was made."""

    roots: tuple[Record, ...]
    parts: tuple[Record, ...]
    used: tuple[Record, ...]


def arrivals_of(package: Package, view: View) -> Arrivals:
    """Return the records of a package, validated; nothing in the view's world changes.

    Raises:
        ApiError: 400, naming ``data``.
    """
    records: dict[Key, Record] = {}
    for plural, rows in package.tables.items():
        for record in _records(_kind_named(view.table, plural), rows, view):
            if records.setdefault(key_of(record), record) is not record:
                raise bad_package(f"has two of {plural} with the id {record.id}")
    for record in records.values():
        _refuse_what_leads_outside(view.table, record, records)
    _refuse_circles(records.values())
    return Arrivals(
        roots=tuple(_roots(package, records)),
        parts=tuple(
            other_record for other_record in records.values() if not isinstance(other_record, USED)
        ),
        used=tuple(
            other_record for other_record in records.values() if isinstance(other_record, USED)
        ),
    )


def _kind_named(table: ResourceTable, plural: str) -> Kind[Any]:
    kind = next((other_kind for other_kind in table.kinds if other_kind.plural == plural), None)
    if kind is None or not (kind.record in USED or _lives_in_a_pipeline(table, kind)):
        raise bad_package(f"has a table {shortened(plural)}, which no package has")
    return kind


def _lives_in_a_pipeline(table: ResourceTable, kind: Kind[Any] | None) -> bool:
    if kind is None or kind.record in (Flow, Plan):
        return kind is not None
    homes = [reference.target for reference in kind.references if reference.attribute == kind.home]
    return any(_lives_in_a_pipeline(table, table.kind_of(home)) for home in homes)


def _records(kind: Kind[Any], rows: Rows, view: View) -> Iterable[Record]:
    now, by = view.world.now(), view.person.id
    # Records say in which workspace they were made, and by whom, only to that workspace.
    mine = {
        "created_at": now,
        "updated_at": now,
        "creator_id": by,
        "updater_id": by,
        "deleted_at": None,
    }
    exported = exported_names(kind.record)
    for row in rows:
        _check_sizes(row, kind)
        values = {name: value for name, value in row.items() if name in exported}
        try:
            yield cast("Record", msgspec.convert({**values, **mine}, kind.record))
        except (msgspec.ValidationError, ValueError, OverflowError) as exc:
            raise bad_package(f"has a {_called(kind, row)} that cannot be read: {exc}") from exc


def _check_sizes(row: Mapping[str, Any], kind: Kind[Any]) -> None:
    try:
        check_sizes(row)
    except ApiError as exc:
        raise bad_package(f"has a {_called(kind, row)} that cannot be kept: {exc.details}") from exc


def _called(kind: Kind[Any], row: Mapping[str, Any]) -> str:
    return f"{kind.name} {row['id']}" if isinstance(row.get("id"), int) else kind.name


def _refuse_what_leads_outside(
    table: ResourceTable, record: Record, records: Mapping[Key, Record]
) -> None:
    for link in links_of(table, record):
        if not any(key in records for key in link.possible_keys()):
            kind = table.kind_of(type(record))
            raise bad_package(
                f"is not whole: {kind.name if kind else 'a record'} {record.id} names "
                f"{link.attribute} {link.record_id}, which is not in it"
            )


def _refuse_circles(records: Iterable[Record]) -> None:
    """Refuse recipes or nodes of a plan that wait for each other."""
    before: dict[object, set[object]] = {}
    for record in records:
        if isinstance(record, Recipe):
            before[Recipe, record.id] = {(Recipe, other) for other in record.upstream_ids}
        elif isinstance(record, PlanEdge):
            begin, end = (PlanEdge, record.in_plan_node_id), (PlanEdge, record.out_plan_node_id)
            before.setdefault(end, set()).add(begin)
    try:
        graphlib.TopologicalSorter(before).prepare()
    except graphlib.CycleError as exc:
        raise bad_package("has a circle of recipes or plan nodes") from exc


def _roots(package: Package, records: Mapping[Key, Record]) -> Iterable[Record]:
    """Give what the package was made for: what its kind says, and at least one."""
    kind = _ROOTS[package.manifest.kind]
    plural = "plans" if kind is Plan else "flows"
    ids = package.manifest.roots.get(plural, [])
    if not ids or len(set(ids)) != len(ids):
        raise bad_package(f"does not name its {plural}")
    for id_ in ids:
        if (kind, id_) not in records:
            raise bad_package(f"says that it is of {plural} {id_}, and has none")
        yield records[kind, id_]
