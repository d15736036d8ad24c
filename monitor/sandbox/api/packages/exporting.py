"""From flows and plans to the content of a package."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import msgspec

from monitor.sandbox.api.errors import ApiError, shortened, validation_failed
from monitor.sandbox.api.packages.archive import (
    FORMAT,
    VERSION,
    Manifest,
    Package,
    PackageKind,
    Rows,
)
from monitor.sandbox.api.packages.graph import (
    Graph,
    Key,
    Link,
    graph_of,
    home_flows_outside,
    links_of,
)
from monitor.sandbox.api.response.kinds import ResourceTable, View
from monitor.sandbox.world.records.objects import Connection, Flow, Plan, Record
from monitor.sandbox.world.shelves import WORKSPACE_ID, World

# Who made or deleted a thing, and whom it is for, is valid in one workspace only; data stays.
_STAYS_AT_HOME = frozenset(
    {
        "creator_id",
        "updater_id",
        "deleted_at",
        "shared_with",
        "read_only",
        "is_global",
        "credentials_shared",
        "content",
    }
)


def export(view: View, root: Flow | Plan, *, kind: PackageKind, comment: str | None) -> Package:
    """Return the package of a flow or plan, with the flows that it builds upon.

    Raises:
        ApiError: 403 for what the person may not see, 400 when it builds upon such a thing.
    """
    table, graph = view.table, gathered(view, root)
    inside = graph.keys()
    tables: dict[str, Rows] = {}
    for record in sorted((*graph.parts, *graph.used), key=lambda record: record.id):
        if not any(link.vital and _leads_out(link, inside) for link in links_of(table, record)):
            tables.setdefault(plural_of(table, record), []).append(row_of(table, record, inside))
    return Package(
        manifest=manifest_of(
            view.world, kind, comment=comment, roots={plural_of(table, root): [root.id]}
        ),
        tables=tables,
    )


def gathered(view: View, root: Flow | Plan) -> Graph:
    """Return what a package of ``root`` must have, so that nothing in it leads outside.

    Raises:
        ApiError: 403, 400: see `export`.
    """
    if not view.may_see(root):
        raise ApiError(
            403,
            "AccessControlException",
            "Access denied",
            f"You may not export {type(root).__name__.lower()} {root.id}",
        )
    roots: tuple[Record, ...] = (root,)
    graph = graph_of(view, *roots)
    while outside := home_flows_outside(view, graph):
        for flow in outside:
            if not view.may_see(flow):
                raise validation_failed(
                    f'"id" cannot be exported: {root.id} builds upon flow {flow.id}, '
                    "which you may not see"
                )
        roots = (*roots, *outside)
        graph = graph_of(view, *roots)
    return graph


def manifest_of(
    world: World,
    kind: PackageKind,
    *,
    comment: str | None = None,
    roots: dict[str, list[int]] | None = None,
) -> Manifest:
    """Return the page that a new package has about itself."""
    return Manifest(
        format=FORMAT,
        version=VERSION,
        kind=kind,
        exported_at=world.now(),
        workspace_id=WORKSPACE_ID,
        comment=None if comment is None else shortened(comment),
        roots=roots or {},
    )


def plural_of(table: ResourceTable, record: Record) -> str:
    """Return the name of the table that a record belongs to."""
    kind = table.kind_of(type(record))
    if kind is None:
        raise LookupError(f"nothing says what a {type(record).__name__} is")
    return kind.plural


def exported_names(record: type[Record]) -> frozenset[str]:
    """Return the attributes that a package has of a kind of records."""
    return frozenset(
        field.name
        for field in dataclasses.fields(record)
        if field.name not in _STAYS_AT_HOME and (field.repr or record is not Connection)
    )


def row_of(table: ResourceTable, record: Record, inside: Collection[Key]) -> dict[str, Any]:
    """Return a record as its attributes, without links that lead out of ``inside``.

    Secrets of connections are left out; they never leave their workspace.
    """
    values = {name: getattr(record, name) for name in exported_names(type(record))}
    cut = {
        (link.attribute, link.record_id)
        for link in links_of(table, record)
        if _leads_out(link, inside)
    }
    for attribute, record_id in cut:
        value = values[attribute]
        values[attribute] = (
            tuple(other_value for other_value in value if other_value != record_id)
            if isinstance(value, tuple)
            else None
        )
    row: dict[str, Any] = msgspec.to_builtins(values, order="sorted")
    return row


def _leads_out(link: Link, inside: Collection[Key]) -> bool:
    return not any(key in inside for key in link.possible_keys())
