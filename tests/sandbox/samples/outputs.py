"""Samples of the operations on output objects and their destinations."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.world.records.objects import (
    Connection,
    OutputObject,
    Publication,
    WriteSetting,
)
from monitor.sandbox.world.records.parts import SqlScript
from tests.sandbox.samples.sample import Living, Sample, of

WRITE_SETTING = {"path": "gs://out/more.csv", "action": "create", "format": "csv"}


def furnish(living: Living) -> None:
    """Let the oldest output also execute SQL."""
    living.create(
        SqlScript,
        output_object_id=living.first(OutputObject).id,
        sql_script="delete from orders",
        type="pre",
        vendor="postgres",
        connection_id=living.first(Connection).id,
    )


def publication(living: Living) -> dict[str, Any]:
    return {
        "path": ["public"],
        "tableName": "sales",
        "targetType": "postgres",
        "action": "create",
        "connectionId": living.first(Connection).id,
    }


def script(living: Living) -> dict[str, Any]:
    return {
        "sqlScript": "select 1",
        "type": "post",
        "vendor": "postgres",
        "connectionId": living.first(Connection).id,
    }


def output_object(living: Living) -> dict[str, Any]:
    return {
        "execution": "dataflow",
        "profiler": False,
        "flowNodeId": living.things.clean.id,
        "writeSettings": [WRITE_SETTING],
        "publications": [publication(living)],
        "sqlScripts": [script(living)],
    }


def of_output(living: Living) -> dict[str, Any]:
    return {"outputObjectId": living.first(OutputObject).id}


SAMPLES: dict[str, Sample] = {
    "createOutputObject": Sample(body=output_object),
    "listOutputObjects": Sample(),
    "countOutputObjects": Sample(),
    "getOutputObject": Sample(path=of(OutputObject)),
    "patchOutputObject": Sample(path=of(OutputObject), body=lambda _: {"profiler": True}),
    "deleteOutputObject": Sample(path=of(OutputObject)),
    "getInputsForOutputObject": Sample(path=of(OutputObject)),
    "createWriteSetting": Sample(body=lambda item: {**WRITE_SETTING, **of_output(item)}),
    "listWriteSettings": Sample(),
    "countWriteSettings": Sample(),
    "getWriteSetting": Sample(path=of(WriteSetting)),
    "patchWriteSetting": Sample(path=of(WriteSetting), body=lambda _: {"format": "json"}),
    "deleteWriteSetting": Sample(path=of(WriteSetting)),
    "createPublication": Sample(body=lambda item: {**publication(item), **of_output(item)}),
    "listPublications": Sample(),
    "countPublications": Sample(),
    "getPublication": Sample(path=of(Publication)),
    "patchPublication": Sample(path=of(Publication), body=lambda _: {"action": "upsert"}),
    "deletePublication": Sample(path=of(Publication)),
    "createSqlScript": Sample(body=lambda item: {**script(item), **of_output(item)}),
    "listSqlScripts": Sample(),
    "countSqlScripts": Sample(),
    "getSqlScript": Sample(path=of(SqlScript)),
    "patchSqlScript": Sample(path=of(SqlScript), body=lambda _: {"type": "post"}),
    "deleteSqlScript": Sample(path=of(SqlScript)),
}
