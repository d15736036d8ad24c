"""Output objects, and the three kinds of things that they make: files, tables and SQL."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.response.kinds import (
    Association,
    Kind,
    OnDelete,
    Reference,
    View,
    named,
)
from monitor.sandbox.api.response.rendering import reference
from monitor.sandbox.world.records.objects import (
    Connection,
    OutputObject,
    Publication,
    Recipe,
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
