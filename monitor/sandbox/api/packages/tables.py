"""Flow packages of 2019, a table for each kind of row, as those since 2020 have them nested."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, TypeAlias

import msgspec

from monitor.sandbox.api.errors import shortened
from monitor.sandbox.api.packages.archive import bad_package

Row: TypeAlias = dict[str, Any]
Grouped: TypeAlias = defaultdict[int, list[Row]]
# Tables whose rows find their place inside others.
_PLACED = frozenset(
    {
        *("flows", "flownodes", "flowedges", "flowrunparameteroverrides", "webhookflowtasks"),
        *("editablescripts", "editsscriptlines", "scriptlines", "datasources", "storagelocations"),
        *("relationalsources", "convertedsources", "runparameters", "runparameteredits"),
        *("outputobjects", "outputobjectdataflowoptions", "writesettings", "publications"),
        *("connections", "referenceinfos"),
    }
)
_OWNERS = ("datasourceId", "writeSettingId", "publicationId")


def nested(data: dict[str, Any]) -> dict[str, Any]:
    """Return the tables as flows with all that is in them; other tables stay beside these.

    Raises:
        ApiError: 400, naming ``data`` and the table.
    """
    return _Tables(data).nested()


class _Tables:
    """The tables of one package, and what hangs on what in them."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._tables = {
            name: [row for row in _rows_of(name, rows) if row.get("deleted_at") is None]
            for name, rows in data.items()
        }
        self._grouped: dict[tuple[str, str], Grouped] = {}
        self._parameters = self._parameters_by_owner()

    def nested(self) -> dict[str, Any]:
        nodes, edges = self._by("flownodes", "flowId"), self._by("flowedges", "flowId")
        overrides = self._by("flowrunparameteroverrides", "flowId")
        webhooks = self._by("webhookflowtasks", "flowId")
        recipes = {_id_in(row): row for row in self._recipes()}
        sources = self._by("datasources", "parsingScriptId")
        outputs = self._by("outputobjects", "flowNodeId")
        flows = []
        for flow in self._tables.get("flows", ()):
            own = nodes[_id_in(flow)]
            scripts = [node["scriptId"] for node in own if isinstance(node.get("scriptId"), int)]
            flow_id = _id_in(flow)
            flows.append(
                {
                    **{key: value for key, value in flow.items() if value not in ([], None)},
                    "flownodes": own,
                    "flowedges": edges[flow_id],
                    "flowrunparameteroverrides": overrides[flow_id],
                    "webhookflowtasks": webhooks[flow_id],
                    "recipes": [recipes[script] for script in scripts if script in recipes],
                    "datasources": [self._source(row) for key in scripts for row in sources[key]],
                    "outputobjects": [
                        self._output(row)
                        for node in own
                        if isinstance(node.get("id"), int)
                        for row in outputs[node["id"]]
                    ],
                }
            )
        left = {name: rows for name, rows in self._tables.items() if name not in _PLACED and rows}
        return {**left, "flows": flows, "connections": self._tables.get("connections", [])}

    def _by(self, table: str, key: str) -> Grouped:
        """Return the rows of a table by the id under a key."""
        if (table, key) in self._grouped:
            return self._grouped[table, key]
        found = self._grouped[table, key] = defaultdict(list)
        for place, row in enumerate(self._tables.get(table, ())):
            value = row.get(key)
            if not isinstance(value, int):
                raise bad_package(f"has {table}[{place}] whose {key} is no id")
            found[value].append(row)
        return found

    def _recipes(self) -> list[Row]:
        """Return the scripts with the lines of their present edit, in order."""
        lines = {_id_in(row): row for row in self._tables.get("scriptlines", ())}
        links = self._by("editsscriptlines", "editId")
        found = []
        for script in self._tables.get("editablescripts", ()):
            own = links[_id_in(script, "currentEditId")]
            own = sorted(own, key=lambda link: str(link.get("index", "")).rjust(9))
            steps = [lines[key] for link in own if (key := _id_in(link, "scriptlineId")) in lines]
            rest = {key: value for key, value in script.items() if not key.endswith("EditId")}
            found.append({**rest, "steps": steps})
        return found

    def _source(self, row: Row) -> Row:
        key = _id_in(row)
        storage = self._by("storagelocations", "id")[_id_in(row, "storageLocationId")]
        relational = self._by("relationalsources", "datasourceId")[key]
        converted = self._by("convertedsources", "datasourceId")[key]
        place = (
            {name: storage[0].get(name) for name in ("type", "bucket", "path")} if storage else {}
        )
        return {
            **row,
            **place,
            **({"storageLocation": storage[0]} if storage else {}),
            **({"relationalsource": relational[0]} if relational else {}),
            **({"convertedSource": converted[0]} if converted else {}),
            "runParameters": self._parameters["datasourceId", key],
        }

    def _output(self, row: Row) -> Row:
        key = _id_in(row)
        parts: Row = {}
        for table, owner in (
            ("writesettings", "writeSettingId"),
            ("publications", "publicationId"),
        ):
            parts[table] = [
                {**part, "runParameters": self._parameters[owner, _id_in(part)]}
                for part in self._by(table, "outputObjectId")[key]
            ]
        options = self._by("outputobjectdataflowoptions", "outputObjectId")[key]
        return {**row, **parts, **({"outputobjectdataflowoptions": options} if options else {})}

    def _parameters_by_owner(self) -> defaultdict[tuple[str, int], list[Row]]:
        edits = self._by("runparameteredits", "runParameterId")
        found: defaultdict[tuple[str, int], list[Row]] = defaultdict(list)
        for row in self._tables.get("runparameters", ()):
            for owner in _OWNERS:
                if isinstance(row.get(owner), int):
                    edit = next(iter(edits[_id_in(row)]), {})
                    parameter = {"type": row.get("type"), "runParameterEdit": edit}
                    found[owner, row[owner]].append(parameter)
        return found


def _rows_of(name: str, value: Any) -> list[Row]:
    try:
        return msgspec.convert(value, list[Row])
    except msgspec.ValidationError as exc:
        raise bad_package(f"has a table {shortened(name)} that cannot be read: {exc}") from exc


def _id_in(row: Row, key: str = "id") -> int:
    """Return the id under a key; 0, which nothing has, where there is none."""
    value = row.get(key)
    return value if isinstance(value, int) else 0
