"""From the tables of a flow package to the vendor's document, as it is since 2020.

What a package kept of the vendor's stands in it again. Inputs that a recipe reads have a node and
an edge in the document, also where none was made here.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from monitor.sandbox.api.packages.archive import Package, Rows, json_of, zipped
from monitor.sandbox.api.packages.flow_document import Document
from monitor.sandbox.api.packages.flow_reading import UNSAID

_PRODUCT = "sandbox"
_HOLDERS = ("flow_id", "output_object_id", "recipe_id")
# The parts of an output, by their names in the document.
_PARTS = {
    "publications": "publications",
    "writesettings": "writesettings",
    "sqlScripts": "sqlscripts",
}
_SCRIPT = {**UNSAID, "steps": []}


def packed(package: Package) -> bytes:
    """Return a flow package as a ZIP of one document, and of the files that it came with."""
    document = document_of(package)
    files: dict[str, bytes] = {}
    for flow in document["data"]["flows"]:
        for name, text in flow.pop("files", {}).items():
            files[name] = base64.b64decode(text)
        document["data"] |= flow.pop("package", {})
    (root,) = package.manifest.roots["flows"]
    named = next(flow["name"] for flow in document["data"]["flows"] if flow["id"] == root)
    name = re.sub(r"[^\w. -]", "_", named)[:100]
    document["hash"] = _hash_of(document["data"])
    return zipped({**files, f"flow_{name}.json": json_of(document)})


def document_of(package: Package) -> Document:
    """Return the vendor's document of a package."""
    tables: defaultdict[str, Rows] = defaultdict(list, package.tables)
    writing = _Writing(tables)
    exported_at = msgspec.to_builtins(package.manifest.exported_at)
    named = f"{exported_at} {package.manifest.roots}"
    functions = tables["userdefinedfunctions"]
    return {
        "type": "flow",
        "kind": "artifact",
        "metadata": {
            "trifactaVersion": _PRODUCT,
            "exportedAt": exported_at,
            "uuid": str(uuid.uuid5(uuid.NAMESPACE_OID, named)),
            "comment": package.manifest.comment or "",
            "primaryFlowIds": package.manifest.roots["flows"],
            "edition": _PRODUCT,
        },
        "data": {
            "artifacts": [],
            "connections": [_shown(row) for row in tables["connections"]],
            "flows": [writing.flow(row) for row in tables["flows"]],
            **({"userdefinedfunctions": [_shown(row) for row in functions]} if functions else {}),
        },
    }


def _hash_of(data: Document) -> str:
    return base64.b64encode(hashlib.sha256(json_of(data)).digest()).decode()[:32]


class _Writing:
    """Puts the rows of a package's tables together."""

    def __init__(self, tables: defaultdict[str, Rows]) -> None:
        ids = (row["id"] for rows in tables.values() for row in rows)
        self._new_ids = itertools.count(max(ids, default=0) + 1)
        self._sources = {row["id"]: row for row in tables["importeddatasets"]}
        # What hangs on a flow, an output, or for outputs on a recipe, by the id of that.
        self._parts: defaultdict[tuple[str, int], Rows] = defaultdict(list)
        for table, rows in list(tables.items()):
            for row in rows:
                holder = next((row[key] for key in _HOLDERS if key in row), None)
                if holder is not None:
                    self._parts[table, holder].append(row)

    def flow(self, row: Document) -> Document:
        """Return a flow with all that is in it."""
        recipes = self._of(row, "wrangleddatasets")
        nodes = _Nodes(row["id"], self._of(row, "datasetnodes"), self._of(row, "referencenodes"))
        edges = self._edges(row, recipes, nodes)
        shown: Document = {
            "references": [],
            "notes": [],
            "flowgraphvertices": [],
            "runparameters": [],
            **_shown(row),
            "flownodes": [
                *(_node(recipe, recipe["id"], wrangled=True) for recipe in recipes),
                *(_node(node, node["id"]) for node in nodes.datasets),
                *(_node(node, None, refers_to=node["recipe_id"]) for node in nodes.references),
            ],
            "flowedges": edges,
            "recipes": [
                *(_script(recipe, _shown(recipe, "flow_id", *_READS)) for recipe in recipes),
                *(self._parsing(node) for node in nodes.datasets),
            ],
            "datasources": [
                _source(self._sources[node["dataset_id"]], node["id"]) for node in nodes.datasets
            ],
            "outputobjects": [
                self._output(output)
                for recipe in recipes
                for output in self._parts["outputobjects", recipe["id"]]
            ],
            "webhookflowtasks": [
                {
                    **_shown(task, "flow_id", "flow_node_ids"),
                    "flownodes": [{"id": node_id} for node_id in task["flow_node_ids"]],
                }
                for task in self._of(row, "webhookflowtasks")
            ],
        }
        for table in ("flowrunparameteroverrides", "flownotificationsettings"):
            shown[table] = [_shown(part, "flow_id") for part in self._of(row, table)]
        return shown

    def _of(self, flow: Document, table: str) -> Rows:
        return self._parts[table, flow["id"]]

    def _edges(self, flow: Document, recipes: Rows, nodes: _Nodes) -> Rows:
        """Return the edges to each recipe: from its primary input, then from the others."""
        kept: defaultdict[int, dict[int, Document]] = defaultdict(dict)
        for edge in self._of(flow, "flowedges"):
            kept[edge["output_node_id"]].setdefault(edge["input_node_id"], edge)
        own = {recipe["id"] for recipe in recipes}
        edges: Rows = []
        for recipe in recipes:
            known = kept[recipe["id"]]
            first, *others = (*nodes.read_by(recipe, own, self._new_ids), *known) or (None,)
            datasets = {node["id"] for node in nodes.datasets}
            others.sort(key=lambda node_id: node_id not in datasets)
            ordered = [] if first is None else dict.fromkeys((first, *others))
            for place, node_id in enumerate(ordered):
                edge = known.get(node_id) or {"id": next(self._new_ids), "out_port_id": place}
                edges.append(
                    {
                        "id": edge["id"],
                        "inFlowNodeId": node_id,
                        "inPortId": edge.get("in_port_id") or None,
                        "outFlowNodeId": recipe["id"],
                        # The port of the primary input has no number.
                        "outPortId": (edge["out_port_id"] or None) if place else None,
                    }
                )
        return edges

    def _parsing(self, node: Document) -> Document:
        kept = (node["extras"] or {}).get("recipe", {})
        name = self._sources[node["dataset_id"]]["name"]
        return {"description": None, **_SCRIPT, **kept, "id": node["id"], "name": name}

    def _output(self, row: Document) -> Document:
        shown = {**_shown(row, "recipe_id"), "flowNodeId": row["recipe_id"]}
        for key, table in _PARTS.items():
            shown[key] = [
                {**_shown(part, "output_object_id"), "runParameters": _edited(part)}
                for part in self._parts[table, row["id"]]
            ]
        return shown


_READS = ("dataset_ids", "upstream_ids", "primary_is_upstream")


class _Nodes:
    """The nodes of a flow beside its recipes; those that are missing are made."""

    def __init__(self, flow_id: int, datasets: Rows, references: Rows) -> None:
        self._flow_id = flow_id
        self.datasets = datasets
        self.references = references

    def read_by(self, recipe: Document, own: Collection[int], new_ids: Iterable[int]) -> list[int]:
        """Return the nodes of what a recipe reads, its primary input first."""
        ids = iter(new_ids)
        datasets = [
            self._node(self.datasets, "dataset_id", dataset_id, recipe, ids)
            for dataset_id in recipe["dataset_ids"]
        ]
        upstream = [
            upstream_id
            if upstream_id in own
            else self._node(self.references, "recipe_id", upstream_id, recipe, ids)
            for upstream_id in recipe["upstream_ids"]
        ]
        if recipe["primary_is_upstream"]:
            return [*upstream[:1], *datasets, *upstream[1:]]
        return [*datasets, *upstream]

    def _node(self, rows: Rows, link: str, wanted: int, recipe: Document, ids: Any) -> int:
        for row in rows:
            if row[link] == wanted:
                return int(row["id"])
        rows.append({"id": next(ids), "flow_id": recipe["flow_id"], link: wanted, "extras": None})
        return int(rows[-1]["id"])


def _node(
    row: Document, script_id: int | None, *, wrangled: bool = False, refers_to: int | None = None
) -> Document:
    extras = row["extras"] or {}
    kept = extras if refers_to is not None else extras.get("flownode", {})
    return {
        "referenceId": None,
        **kept,
        "id": row["id"],
        "scriptId": script_id,
        "flowNodeId": refers_to,
        "wrangled": wrangled,
    }


def _script(row: Document, shown: Document) -> Document:
    shown.pop("flownode", None)
    return {**_SCRIPT, **shown, "id": row["id"]}


def _source(row: Document, script_id: int) -> Document:
    kept = row["extras"] or {}
    shown = _shown(row)
    shown["runParameters"] = _edited(row)
    shown["parsingScriptId"] = script_id
    if row["uri"] is not None:
        scheme, _, rest = row["uri"].rpartition("://")
        bucket, _, path = rest.partition("/")
        shown |= {"type": scheme or "file", "bucket": bucket or None, "path": f"/{path}"}
    if row["table_path"] or row["raw"]:
        shown.setdefault("type", "jdbc")
        *folders, table = row["table_path"] or [None]
        shown["relationalsource"] = {
            **kept.get("relationalsource", {}),
            "relationalPath": folders,
            "tableName": table,
            "raw": row["raw"] or None,
        }
    return shown


def _edited(row: Document) -> Rows:
    """Return the run parameters of a row, with what may be edited of them below."""
    return [
        {
            "type": parameter.get("type", "path"),
            "runParameterEdit": {key: value for key, value in parameter.items() if key != "type"},
        }
        for parameter in row["run_parameters"]
    ]


def _shown(row: Document, *left_out: str) -> Document:
    """Return a row with the vendor's names, beside what was kept of the vendor's."""
    own = {
        camel(name): value
        for name, value in row.items()
        if name not in {*left_out, "extras", "created_at", "updated_at"}
    }
    return {**(row.get("extras") or {}), **own}


def camel(attribute: str) -> str:
    """Return the field that keeps an attribute: ``table_name`` is ``tableName``."""
    return re.sub("_([a-z])", lambda found: found.group(1).upper(), attribute)
