"""Write settings, publications and SQL scripts: what a run of an output makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.sandbox.api.calls import Call, Handlers
from monitor.sandbox.api.crud.handlers import Hooks, crud
from monitor.sandbox.api.crud.values import values_of
from monitor.sandbox.api.errors import Json, bad_field
from monitor.sandbox.api.outputs.output_kinds import PUBLICATION, SQL_SCRIPT, WRITE_SETTING
from monitor.sandbox.api.response.kinds import Kind
from monitor.sandbox.running.run_parameters import MOST_INSERTIONS
from monitor.sandbox.world.records.objects import Publication, Record, WriteSetting
from monitor.sandbox.world.records.parts import SqlScript

# Field of an output object's body -> kind of what it makes.
NESTED: Mapping[str, Kind[Any]] = {
    "writeSettings": WRITE_SETTING,
    "publications": PUBLICATION,
    "sqlScripts": SQL_SCRIPT,
}


def nested_values(call: Call, kind: Kind[Any], body: Json, *, path: str) -> dict[str, Any]:
    """Return the values of one destination that stands inside another body.

    Raises:
        ApiError: 400, naming the field that cannot be.
    """
    values = values_of(call, kind, kind.requests[0], body=body, path=path)
    values.pop("output_object_id", None)
    return validated(values, path)


def validated(values: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Return the values, whose run parameters stand at places that can be.

    Raises:
        ApiError: 400, naming the place.
    """
    within = f"{path}." if path else ""
    total = 0
    for number, parameter in enumerate(values.get("run_parameters", ())):
        insertions, where = (
            parameter["insertionIndices"],
            f"runParameters[{number}].insertionIndices",
        )
        total += len(insertions)
        if total > MOST_INSERTIONS:
            raise bad_field(f"{within}{where}", f"must be at most {MOST_INSERTIONS} in all")
        for place, insertion in enumerate(insertions):
            for name in ("index", "order"):
                value = insertion.get(name, 0)
                if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                    at = f"{within}{where}[{place}].{name}"
                    raise bad_field(at, "must be a whole number from 0")
    return values


def _prepare(call: Call, record: Record | None, values: dict[str, Any]) -> dict[str, Any]:
    del call
    if record is not None:
        values.pop("output_object_id", None)  # what an output makes stays with it
    elif "output_object_id" not in values:
        raise bad_field("outputObjectId", "is required")
    return validated(values)


_WRITE_SETTINGS: Hooks[WriteSetting] = Hooks(prepare=_prepare)
_PUBLICATIONS: Hooks[Publication] = Hooks(prepare=_prepare)
_SQL_SCRIPTS: Hooks[SqlScript] = Hooks(prepare=_prepare)

HANDLERS: Handlers = {
    **crud(
        WRITE_SETTING,
        create="createWriteSetting",
        listed="listWriteSettings",
        counted="countWriteSettings",
        read="getWriteSetting",
        changed=("patchWriteSetting",),
        deleted="deleteWriteSetting",
        hooks=_WRITE_SETTINGS,
    ),
    **crud(
        PUBLICATION,
        create="createPublication",
        listed="listPublications",
        counted="countPublications",
        read="getPublication",
        changed=("patchPublication",),
        deleted="deletePublication",
        hooks=_PUBLICATIONS,
    ),
    **crud(
        SQL_SCRIPT,
        create="createSqlScript",
        listed="listSqlScripts",
        counted="countSqlScripts",
        read="getSqlScript",
        changed=("patchSqlScript",),
        deleted="deleteSqlScript",
        hooks=_SQL_SCRIPTS,
    ),
}
