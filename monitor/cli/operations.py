"""``operations``: the catalogue of the workspace API."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from monitor.catalogue.operations import Edition, Operation
from monitor.catalogue.operations import operations as all_operations
from monitor.catalogue.uses import use_of
from monitor.cli import operation_completers
from monitor.cli.options import OutputOptions
from monitor.cli.row_layout import Column, Form, OutputForm
from monitor.cli.tables import print_rows

_COLUMNS = (
    Column("method", "method", Form.COPIED),
    Column("path", "path", Form.COPIED),
    Column("operation_id", "id", Form.COPIED),
    Column("name", "name"),
    Column("resource", "resource"),
    Column("editions", "editions"),
    Column("query", "parameters", is_wide=True),
    Column("used_for", "used for", Form.TEXT),
)
_FIELDS = (
    "method", "path", "operation_id", "name", "resource", "editions", "query", "used_for"
)  # fmt: skip


def operations(
    edition: Annotated[
        Edition | None,
        typer.Option("--edition", case_sensitive=False, help="Only what this edition offers."),
    ] = None,
    resource: Annotated[
        str | None,
        typer.Option(
            "--resource",
            metavar="NAME",
            help="Only this resource group.",
            autocompletion=operation_completers.resources,
        ),
    ] = None,
    *,
    text: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="TEXT",
            help="Only what has all these words in its id, method, path, name or resource.",
        ),
    ] = None,
    output: OutputOptions,
) -> None:
    """List the operations of the workspace API and our use of them."""
    words = (text or "").lower().split()
    matching = [operation for operation in _selected(edition, resource) if _has(operation, words)]
    rows = [_document(operation) for operation in matching]
    used = [{**row, "used_for": use_of(row["operation_id"])} for row in rows]
    form = output.form
    raw = rows if form is OutputForm.JSON else used
    print_rows(used, _COLUMNS, form, raw=raw, fields=_FIELDS, empty="no operation fits")


def _selected(edition: Edition | None, resource: str | None) -> list[Operation]:
    known = {operation.resource.lower(): operation.resource for operation in all_operations()}
    if resource is not None and resource.lower() not in known:
        names = ", ".join(sorted(known.values()))
        raise typer.BadParameter(f"{resource!r} is none of {names}", param_hint="--resource")
    group = None if resource is None else known[resource.lower()]
    return [
        operation
        for operation in all_operations()
        if (group is None or operation.resource == group)
        and (edition is None or operation.is_part_of(edition))
    ]


def _has(operation: Operation, words: list[str]) -> bool:
    texts = (
        operation.operation_id,
        operation.method,
        operation.path,
        operation.name,
        operation.resource,
    )
    text = " ".join(texts).lower()
    return all(word in text for word in words)


def _editions(operation: Operation) -> list[str]:
    return [edition.value for edition in Edition if edition in operation.editions]


def _document(operation: Operation) -> dict[str, Any]:
    return {
        "method": operation.method,
        "path": operation.path,
        "name": operation.name,
        "resource": operation.resource,
        "editions": _editions(operation),
        "operation_id": operation.operation_id,
        "query": operation.query,
    }
