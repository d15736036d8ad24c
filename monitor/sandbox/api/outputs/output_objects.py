"""Output objects, and the three kinds of things that they make: files, tables and SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import Hooks, create_record, crud, delete, found
from monitor.sandbox.api.crud.values import values_of
from monitor.sandbox.api.errors import Json, bad_field
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.response.kinds import Association, Kind, OnDelete, Reference, View, named
from monitor.sandbox.api.response.rendering import reference
from monitor.sandbox.running.destinations import MOST_INSERTIONS
from monitor.sandbox.world.lineage import datasets_of
from monitor.sandbox.world.records.objects import (
    Connection,
    OutputObject,
    Publication,
    Recipe,
    Record,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import SqlScript


def _flow_node_of(view: View, output_object: OutputObject) -> Recipe | None:
    return view.world.recipes.get(output_object.recipe_id, with_deleted=True)


def _scripts_of(view: View, output_object: OutputObject) -> list[SqlScript]:
    return view.world.shelf(SqlScript).having("output_object_id", output_object.id)


def _parameters(view: View, write_setting: WriteSetting | Publication | SqlScript) -> Json:
    del view
    return {"data": [dict(parameter) for parameter in write_setting.run_parameters]}


def _connection_text(view: View, write_setting: WriteSetting) -> Json:
    del view
    return None if write_setting.connection_id is None else str(write_setting.connection_id)


def _connection(*, shown: str = "", embeds_as: str = "") -> Reference:
    return Reference(
        "connection_id",
        Connection,
        shown=shown,
        sent="connectionId",
        on_delete=OnDelete.REFUSE,
        embeds_as=embeds_as,
    )


OUTPUT_OBJECT: Kind[OutputObject] = Kind(
    record=OutputObject,
    references=(Reference("recipe_id", Recipe, shown="flownode", sent="flowNodeId"),),
    home="recipe_id",
    computed={"flowNode": lambda _, record: reference(record.recipe_id)},  # as recorded
    also_shown=("ignoreRecipeErrors",),
    unkept=frozenset(
        {"writeSettings", "publications", "sqlScripts", "outputObjectSchemaDriftOptions"}
    ),
    associations=named(
        Association("flowNode", _flow_node_of, target="flownodes", other_key="flownode"),
        Association(
            "writeSettings", lambda view, record: view.world.write_settings_of(record.id), many=True
        ),
        Association(
            "publications", lambda view, record: view.world.publications_of(record.id), many=True
        ),
        Association("sqlScripts", _scripts_of, many=True),
    ),
)

WRITE_SETTING: Kind[WriteSetting] = Kind(
    record=WriteSetting,
    references=(
        Reference("output_object_id", OutputObject, shown="outputObject", sent="outputObjectId"),
        _connection(embeds_as="connection"),
    ),
    home="output_object_id",
    computed={
        "connectionId": _connection_text,
        "runParameters": _parameters,
        # A run without outputs that gives its destinations has settings of no output object.
        "outputObject": lambda _, record: reference(record.output_object_id or None),
    },
    filter_fields=("path",),
)

PUBLICATION: Kind[Publication] = Kind(
    record=Publication,
    references=(
        Reference("output_object_id", OutputObject, shown="outputobject", sent="outputObjectId"),
        _connection(shown="connection"),
    ),
    home="output_object_id",
    computed={"runParameters": _parameters},
    filter_fields=("tableName",),
)

SQL_SCRIPT: Kind[SqlScript] = Kind(
    record=SqlScript,
    references=(
        Reference(
            "output_object_id", OutputObject, sent="outputObjectId", embeds_as="outputObject"
        ),
        _connection(shown="connection"),
    ),
    home="output_object_id",
    computed={"runParameters": _parameters},
    filter_fields=("sqlScript",),
)

OUTPUT_KINDS: tuple[Kind[Any], ...] = (OUTPUT_OBJECT, WRITE_SETTING, PUBLICATION, SQL_SCRIPT)


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


def _prepare_destination(
    call: Call, record: Record | None, values: dict[str, Any]
) -> dict[str, Any]:
    del call
    if record is not None:
        values.pop("output_object_id", None)  # what an output makes stays with it
    elif "output_object_id" not in values:
        raise bad_field("outputObjectId", "is required")
    return validated(values)


_WRITE_SETTINGS: Hooks[WriteSetting] = Hooks(prepare=_prepare_destination)
_PUBLICATIONS: Hooks[Publication] = Hooks(prepare=_prepare_destination)
_SQL_SCRIPTS: Hooks[SqlScript] = Hooks(prepare=_prepare_destination)


def _nested(call: Call) -> dict[str, list[dict[str, Any]]]:
    """Return the values of all destinations that the body brings along, by their field.

    Raises:
        ApiError: 400, naming the field that cannot be.
    """
    body = Body(call.body)
    return {
        name: [
            nested_values(call, kind, item, path=f"{name}[{place}]")
            for place, item in enumerate(body.array(name))
        ]
        for name, kind in NESTED.items()
        if body.has(name)
    }


def _prepare_output_object(
    call: Call, record: OutputObject | None, values: dict[str, Any]
) -> dict[str, Any]:
    """Validate everything before anything is made."""
    if record is not None:
        values.pop("recipe_id", None)  # an output stays with its recipe
    elif "recipe_id" not in values:
        raise bad_field("flowNodeId", "is required")
    _nested(call)
    return values


def _replace_destinations(call: Call, output: OutputObject) -> None:
    """Let an output make what the body lists, in place of what it made of that kind."""
    for name, rows in _nested(call).items():
        kind = NESTED[name]
        for before in call.world.shelf(kind.record).having("output_object_id", output.id):
            delete(call, before)
        for values in rows:
            create_record(call, kind, {**values, "output_object_id": output.id})


def get_inputs(call: Call) -> Reply:
    """Return the datasets that an output is made of, through all recipes on the way."""
    output = found(call, OUTPUT_OBJECT)
    recipe = call.world.recipes.get(output.recipe_id)
    rows = [] if recipe is None else datasets_of(call.world, recipe)
    return call.list("importeddatasets", rows[::-1])


HOOKS: Hooks[OutputObject] = Hooks(prepare=_prepare_output_object, after=_replace_destinations)


HANDLERS: Handlers = {
    **crud(WRITE_SETTING, _WRITE_SETTINGS),
    **crud(PUBLICATION, _PUBLICATIONS),
    **crud(SQL_SCRIPT, _SQL_SCRIPTS),
    "getInputsForOutputObject": get_inputs,
    **crud(OUTPUT_OBJECT, HOOKS),
}
