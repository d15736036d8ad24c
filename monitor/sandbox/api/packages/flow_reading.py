"""From the vendor's flow packages to tables of records.

Two formats are read. Since 2020 a document has its flows with all that is in them nested; before,
it had one table of each kind of row, which is nested here first. What has no place here is kept
as ``extras`` of the record that it belongs to, and written again on export. Ids inside of it are
those of the package that it came from.
"""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields

import msgspec

from monitor.sandbox.api.errors import shortened
from monitor.sandbox.api.packages.archive import (
    FORMAT,
    MANIFEST,
    MOST_KEPT_BYTES,
    MOST_ROWS,
    VERSION,
    Manifest,
    Package,
    PackageKind,
    Rows,
    bad_package,
    pages_in,
    read_as,
    unpacked,
)
from monitor.sandbox.api.packages.flow_document import (
    Document,
    FlowDocument,
    RelationalSource,
    VendorEdge,
    VendorFlow,
    VendorNode,
    VendorOutput,
    VendorSource,
)
from monitor.sandbox.api.packages.json5 import as_json
from monitor.sandbox.api.packages.tables import nested
from monitor.sandbox.world.records.objects import (
    Connection,
    Flow,
    ImportedDataset,
    OutputObject,
    Publication,
    Recipe,
    Record,
    WebhookFlowTask,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import (
    FlowNotificationSettings,
    FlowRunParameterOverride,
    SqlScript,
    UserDefinedFunction,
)

# What a document says of people and times is valid where it was written.
_ELSEWHERE = frozenset(
    {
        *("created_at", "updated_at", "created_by", "updated_by", "creator", "updater"),
        *("deleted_at", "workspace_id", "workspace", "cp_project", "associated_people"),
        *("creator_id", "updater_id", "extras", "id"),
    }
)
_SAYS_NOTHING: tuple[object, ...] = (None, [], {}, "")
UNSAID = {"active": True, "nextPortId": 1}  # as a new recipe has it
_OF_FLOW = frozenset(
    {
        *("flownodes", "flowedges", "recipes", "outputobjects", "datasources"),
        *("webhookflowtasks", "flowrunparameteroverrides", "flownotificationsettings"),
    }
)


def read_package(content: bytes, kind: PackageKind) -> Package:
    """Read a package: the vendor's of a flow, or one of this workspace's own format.

    Raises:
        ApiError: 400, naming ``data``, for whatever else the bytes are.
    """
    pages = pages_in(content)
    names = [name for name in pages if name.endswith((".json", ".json5"))]
    if MANIFEST in pages or len(names) != 1:
        return unpacked(pages, kind)
    name = names[0]
    page = as_json(pages[name], shortened(name)) if name.endswith("5") else pages[name]
    document: Document = read_as(page, Document, name)
    found = document.get("type", PackageKind.FLOW)
    if found != kind or kind is not PackageKind.FLOW:
        raise bad_package(f"is a package of the kind {shortened(str(found))}, not {kind}")
    files = {other: page for other, page in pages.items() if other != name}
    return package_of(document, files)


def package_of(document: Document, files: Mapping[str, bytes]) -> Package:
    """Return what a document says; ``files`` stand beside it in the archive.

    Raises:
        ApiError: 400, naming ``data`` and the place in it.
    """
    data = document.get("data")
    if isinstance(data, dict) and isinstance(data.get("flownodes"), list):
        document = {**document, "data": nested(data)}
    shape = _shape_of(document)
    data = document["data"]
    reading = _Reading()
    for place, flow in enumerate(shape.data.flows):
        _FlowReading(reading, flow, data["flows"][place], f"data.flows[{place}]").read()
    for table, kind in (("connections", Connection), ("userdefinedfunctions", UserDefinedFunction)):
        for row in data.get(table, ()):
            reading.add(table, kind, row)
    for connection in reading.tables["connections"]:
        # Documents of 2019 do not say whose it is.
        vendor = connection.setdefault("vendor", connection.get("type", "jdbc"))
        connection.setdefault("vendor_name", vendor)
    _keep_beside(reading, shape.metadata.primary_flow_ids, data, files)
    manifest = Manifest(
        format=FORMAT,
        version=VERSION,
        kind=PackageKind.FLOW,
        exported_at=shape.metadata.exported_at,
        workspace_id=0,
        comment=shape.metadata.comment,
        roots={"flows": shape.metadata.primary_flow_ids},
    )
    return Package(manifest=manifest, tables={k: v for k, v in reading.tables.items() if v})


def _shape_of(document: Document) -> FlowDocument:
    try:
        return msgspec.convert(document, FlowDocument)
    except (msgspec.ValidationError, ValueError, OverflowError) as exc:
        raise bad_package(f"has a place that cannot be read: {exc}".replace("`$.", "`")) from exc


def _keep_beside(
    reading: _Reading, roots: Collection[int], data: Document, files: Mapping[str, bytes]
) -> None:
    """Keep with the first flow what belongs to none: other tables, and files."""
    if sum(map(len, files.values())) > MOST_KEPT_BYTES:
        raise bad_package(f"has more than {MOST_KEPT_BYTES:,} bytes of files beside its document")
    known = {"flows", "connections", "userdefinedfunctions"}
    others = {name: rows for name, rows in data.items() if name not in known and rows}
    texts = {name: base64.b64encode(content).decode() for name, content in files.items()}
    kept = {**({"package": others} if others else {}), **({"files": texts} if texts else {})}
    for flow in reading.tables["flows"]:
        if kept and flow["id"] in roots:
            flow["extras"] = {**(flow["extras"] or {}), **kept}
            return


class _Reading:
    """The tables that are read so far."""

    def __init__(self) -> None:
        names = (
            *("flows", "wrangleddatasets", "datasetnodes", "referencenodes", "flowedges"),
            *("outputobjects", "writesettings", "publications", "sqlscripts", "webhookflowtasks"),
            *("flowrunparameteroverrides", "flownotificationsettings"),
            *("importeddatasets", "connections", "userdefinedfunctions"),
        )
        self.tables: dict[str, Rows] = {name: [] for name in names}
        self.dataset_ids: set[int] = set()
        self._count = 0

    def put(self, table: str, row: Document) -> None:
        self._count += 1
        if self._count > MOST_ROWS:
            raise bad_package(f"has more than {MOST_ROWS} records")
        self.tables[table].append(row)

    def add(
        self,
        table: str,
        kind: type[Record],
        document: Document,
        values: Document | None = None,
        *,
        placed: Collection[str] = (),
        kept: Document | None = None,
    ) -> None:
        """Add a row of what a record has of a document, and keep the rest.

        ``values`` are set as they are. Keys in ``placed`` are read elsewhere; ``kept`` is kept
        beside the rest.
        """
        names = {field.name for field in fields(kind)}
        row: Document = {"id": document["id"]}
        extras: Document = {}
        for key, value in document.items():
            attribute = snake(key)
            if attribute in _ELSEWHERE or key in placed:
                continue
            if attribute not in names:
                if value not in _SAYS_NOTHING and UNSAID.get(key, ...) != value:
                    extras[key] = value
            elif value is not None:
                row[attribute] = value
        self.put(table, {**row, **(values or {}), "extras": {**extras, **(kept or {})} or None})


class _FlowReading:
    """Reads one flow."""

    def __init__(self, reading: _Reading, shape: VendorFlow, flow: Document, place: str) -> None:
        self._reading = reading
        self._shape = shape
        self._flow = flow
        self._place = place
        self._nodes = {node.id: node for node in shape.flownodes}
        self._scripts = {row["id"]: row for row in flow.get("recipes", ())}
        self._sources = {source.parsing_script_id: source for source in shape.datasources}

    def read(self) -> None:
        shape, add = self._shape, self._reading.add
        home = {"flow_id": shape.id}
        add("flows", Flow, self._flow, placed=_OF_FLOW)
        inputs = self._inputs()
        for place, node in enumerate(shape.flownodes):
            self._read_node(node, self._flow["flownodes"][place], inputs[node.id], place)
        for row in self._flow.get("datasources", ()):
            self._read_source(row)
        for output, row in zip(
            shape.outputobjects, self._flow.get("outputobjects", ()), strict=True
        ):
            self._read_output(output, row)
        for webhook, row in zip(
            shape.webhookflowtasks, self._flow.get("webhookflowtasks", ()), strict=True
        ):
            recipes = [node.id for node in webhook.flownodes]
            values = {**home, "flow_node_ids": recipes}
            add("webhookflowtasks", WebhookFlowTask, row, values, placed=("flownodes",))
        for table, kind in (
            ("flowrunparameteroverrides", FlowRunParameterOverride),
            ("flownotificationsettings", FlowNotificationSettings),
        ):
            for row in self._flow.get(table, ()):
                add(table, kind, row, home)

    def _inputs(self) -> dict[int, list[VendorNode]]:
        """Read the edges; return what each node reads, its primary input first."""
        edges: defaultdict[int, list[VendorEdge]] = defaultdict(list)
        for place, edge in enumerate(self._shape.flowedges):
            where = f"{self._place}.flowedges[{place}]"
            for node_id in (edge.in_flow_node_id, edge.out_flow_node_id):
                if node_id not in self._nodes:
                    raise bad_package(f"is not whole: {where} names node {node_id} of no flownodes")
            if not self._nodes[edge.out_flow_node_id].wrangled:
                raise bad_package(f"has an edge {where} to a node that takes no input")
            edges[edge.out_flow_node_id].append(edge)
            self._reading.put(
                "flowedges",
                {
                    "id": edge.id,
                    "flow_id": self._shape.id,
                    "input_node_id": edge.in_flow_node_id,
                    "output_node_id": edge.out_flow_node_id,
                    "in_port_id": edge.in_port_id or 0,
                    "out_port_id": edge.out_port_id or 0,
                },
            )
        found: defaultdict[int, list[VendorNode]] = defaultdict(list)
        for node_id, own in edges.items():
            # The port of the primary input has no number.
            unnumbered = [edge for edge in own if edge.out_port_id is None]
            primary = unnumbered[0] if len(unnumbered) == 1 else own[0]
            ordered = (primary, *(edge for edge in own if edge is not primary))
            found[node_id] = [self._nodes[edge.in_flow_node_id] for edge in ordered]
        return found

    def _read_node(
        self, node: VendorNode, row: Document, inputs: list[VendorNode], place: int
    ) -> None:
        home = {"id": node.id, "flow_id": self._shape.id}
        known = {"id", "scriptId", "flowId", "flowNodeId", "wrangled"}
        rest = {
            key: value
            for key, value in row.items()
            if key not in known and snake(key) not in _ELSEWHERE and value is not None
        }
        kept = {"flownode": rest} if rest else {}
        script = self._scripts.get(node.script_id)
        if node.wrangled and script is not None:
            datasets, upstream = self._read_by(inputs)
            reads = {
                "dataset_ids": datasets,
                "upstream_ids": upstream,
                "primary_is_upstream": bool(datasets) and self._source_of(inputs[0]) is None,
            }
            self._reading.add("wrangleddatasets", Recipe, script, {**home, **reads}, kept=kept)
        elif node.flow_node_id is not None:
            extras = rest or None
            row = {**home, "recipe_id": node.flow_node_id, "extras": extras}
            self._reading.put("referencenodes", row)
        elif not node.wrangled and (source := self._source_of(node)) is not None:
            parsing = {
                key: value
                for key, value in (script or {}).items()
                if key not in _NAMING
                and value not in _SAYS_NOTHING
                and UNSAID.get(key, ...) != value
            }
            extras = {**kept, **({"recipe": parsing} if parsing else {})} or None
            self._reading.put("datasetnodes", {**home, "dataset_id": source.id, "extras": extras})
        else:
            what = "recipe of recipes" if node.wrangled else "dataset of datasources"
            where = f"{self._place}.flownodes[{place}]"
            raise bad_package(f"is not whole: {where} names script {node.script_id}, no {what}")

    def _source_of(self, node: VendorNode) -> VendorSource | None:
        return None if node.wrangled else self._sources.get(node.script_id or 0)

    def _read_by(self, inputs: Iterable[VendorNode]) -> tuple[list[int], list[int]]:
        """Return the datasets and the recipes that nodes give, each once."""
        datasets: dict[int, None] = {}
        recipes: dict[int, None] = {}
        for node in inputs:
            source = self._source_of(node)
            if source is not None:
                datasets[source.id] = None
            else:
                recipes[node.flow_node_id or node.id] = None
        return list(datasets), list(recipes)

    def _read_source(self, row: Document) -> None:
        """Read a dataset, whose name is that of the recipe which parses it. Flows may share it."""
        source = self._sources[row["parsingScriptId"]]
        if source.id in self._reading.dataset_ids:
            return
        self._reading.dataset_ids.add(source.id)
        relational = source.relationalsource or RelationalSource()
        script = self._scripts.get(source.parsing_script_id, {})
        values: Document = {"name": script.get("name", ""), "run_parameters": flat(row)}
        placed = {"parsingScriptId", "runParameters", "bucket", "path", "relationalsource"}
        kept: Document = {}
        if relational.table_name or relational.raw:
            names = [relational.table_name] if relational.table_name else []
            values["table_path"] = [*(relational.relational_path or ()), *names]
            values["raw"] = relational.raw or []
            rest = {
                key: value
                for key, value in row["relationalsource"].items()
                if key not in _ADDRESS and snake(key) not in _ELSEWHERE and value is not None
            }
            kept = {"relationalsource": rest} if rest else {}
            placed |= {"type"} if source.type == "jdbc" else set()
        else:
            placed.add("type")
            if not row.get("uri") and source.path is not None:
                path = source.path.lstrip("/")
                values["uri"] = f"{source.type or 'file'}://{source.bucket or ''}/{path}"
        self._reading.add(
            "importeddatasets", ImportedDataset, row, values, placed=placed, kept=kept
        )

    def _read_output(self, shape: VendorOutput, row: Document) -> None:
        parts: tuple[tuple[str, str, type[Record]], ...] = (
            ("writesettings", "writesettings", WriteSetting),
            ("publications", "publications", Publication),
            ("sqlScripts", "sqlscripts", SqlScript),
        )
        placed = ("flowNodeId", *(key for key, _, _ in parts))
        add = self._reading.add
        add("outputobjects", OutputObject, row, {"recipe_id": shape.flow_node_id}, placed=placed)
        for key, table, kind in parts:
            for part in row.get(key, ()):
                values = {"output_object_id": shape.id, "run_parameters": flat(part)}
                add(table, kind, part, values, placed=("runParameters", "outputObjectId"))


_NAMING = frozenset({"id", "name"})
_ADDRESS = frozenset({"relationalPath", "tableName", "raw", "datasourceId"})


def snake(name: str) -> str:
    """Return the attribute that keeps a field: ``tableName`` is ``table_name``."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def flat(row: Document) -> list[Document]:
    """Return the run parameters of a row as records keep them, without their edits' ids."""
    return [
        {
            key: value
            for key, value in {**parameter, **(parameter.get("runParameterEdit") or {})}.items()
            if key not in {"id", "runParameterEdit"}
        }
        for parameter in row.get("runParameters") or ()
    ]
