"""Packages as the tests send and compare them."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

from monitor.sandbox.api.packages.archive import PackageKind, pack
from monitor.sandbox.api.packages.flow_reading import read_package
from monitor.sandbox.world.shelves import World
from tests.sandbox.http_workspace import Answer, Workspace

Tables = dict[str, list[dict[str, Any]]]

# Which table an attribute leads to; where it is one of several, they share their ids.
NODES = ("wrangleddatasets", "datasetnodes", "referencenodes")
LINKS: Mapping[str, tuple[str, ...]] = {
    "flow_id": ("flows",),
    "plan_id": ("plans",),
    "recipe_id": ("wrangleddatasets",),
    "dataset_id": ("importeddatasets",),
    "connection_id": ("connections",),
    "output_object_id": ("outputobjects",),
    "plan_node_id": ("plannodes",),
    "in_plan_node_id": ("plannodes",),
    "out_plan_node_id": ("plannodes",),
    "input_node_id": NODES,
    "output_node_id": NODES,
    "upstream_ids": ("wrangleddatasets",),
    "flow_node_ids": ("wrangleddatasets",),
    "dataset_ids": ("importeddatasets",),
    "function_ids": ("userdefinedfunctions",),
}
# They show when and where, not what.
STAMPS = ("id", "created_at", "updated_at")
ZIP = {"Content-Type": "application/zip"}


async def send(workspace: Workspace, path: str, content: bytes, **query: str) -> Answer:
    """Send a package to an import."""
    return await workspace.request("POST", path, content=content, headers=ZIP, query=query)


async def fetch(workspace: Workspace, path: str, **query: str) -> bytes:
    """Export a package."""
    answer = await workspace.get(path, **query)
    assert answer.status == 200, answer.content
    assert answer.headers["Content-Type"] == "application/zip"
    return answer.content


def pages_of(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def manifest_of(content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(pages_of(content)["package.json"])
    return found


def document_of(content: bytes) -> dict[str, Any]:
    """Return the document that a flow's package is."""
    ((name, page),) = pages_of(content).items()
    assert name.startswith("flow_")
    found: dict[str, Any] = json.loads(page)
    return found


def in_own_format(content: bytes) -> bytes:
    """Return a package as this workspace wrote it before it wrote the vendor's documents."""
    if "package.json" in pages_of(content):
        return content
    return pack(read_package(content, PackageKind.FLOW))


def tables_of(content: bytes) -> Tables:
    return {
        name.removeprefix("data/").removesuffix(".json"): json.loads(page)
        for name, page in pages_of(in_own_format(content)).items()
        if name.startswith("data/")
    }


def zipped(pages: Mapping[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        for name, page in pages.items():
            archive.writestr(name, page)
    return written.getvalue()


def changed(content: bytes, **tables: Any) -> bytes:
    """Return a package with other tables, in the workspace's own format."""
    pages = pages_of(in_own_format(content))
    pages |= {f"data/{name}.json": json.dumps(rows).encode() for name, rows in tables.items()}
    return zipped(pages)


def meaning(content: bytes) -> Tables:
    """Return the content of a package, with positions in tables instead of ids.

    A document has its rows in an order of its own, tables have them by their ids.
    """
    tables = tables_of(content)
    if "package.json" in pages_of(content):
        tables = {
            name: sorted(rows, key=lambda row: int(row["id"])) for name, rows in tables.items()
        }
    positions = {
        (name, row["id"]): f"{name}[{position}]"
        for name, rows in tables.items()
        for position, row in enumerate(rows)
    }

    def placed(attribute: str, value: Any) -> Any:
        if attribute not in LINKS or value is None:
            return value
        if isinstance(value, list):
            return [placed(attribute, item) for item in value]
        return next(
            positions[name, value] for name in LINKS[attribute] if (name, value) in positions
        )

    return {
        name: [
            {key: placed(key, value) for key, value in row.items() if key not in STAMPS}
            for row in rows
        ]
        for name, rows in tables.items()
    }


def fingerprint(world: World) -> list[str]:
    """Return everything that a world is, and where its counters stand."""
    kinds: Iterable[type[Any]] = sorted(world.kinds(), key=lambda kind: kind.__name__)
    return [
        line
        for kind in kinds
        for shelf in (world.shelf(kind),)
        if len(shelf)
        for line in (f"{kind.__name__} {shelf.ids.upcoming}", *map(repr, shelf))
    ]
