"""``operations``: the catalogue of the workspace API."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from monitor.catalogue.operations import Edition, Operation
from monitor.catalogue.operations import operations as all_operations
from monitor.catalogue.uses import use_of
from monitor.cli import completing
from monitor.cli.options import AsJson
from monitor.cli.tables import print_json, print_table


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
            autocompletion=completing.resources,
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
    as_json: AsJson = False,
) -> None:
    """List the operations of the workspace API, and what the monitor uses them for."""
    words = (text or "").lower().split()
    found = [item for item in _chosen(edition, resource) if _has(item, words)]
    if as_json:
        print_json([_document(item) for item in found])
    else:
        columns = ("method", "path", "id", "name", "resource", "editions", "used for")
        print_table(columns, [_row(item) for item in found])


def _chosen(edition: Edition | None, resource: str | None) -> list[Operation]:
    known = {
        all_operation.resource.lower(): all_operation.resource for all_operation in all_operations()
    }
    if resource is not None and resource.lower() not in known:
        names = ", ".join(sorted(known.values()))
        raise typer.BadParameter(f"{resource!r} is none of {names}", param_hint="--resource")
    wanted = None if resource is None else known[resource.lower()]
    return [
        all_operation
        for all_operation in all_operations()
        if (wanted is None or all_operation.resource == wanted)
        and (edition is None or all_operation.is_offered_in(edition))
    ]


def _has(operation: Operation, words: list[str]) -> bool:
    told = (
        operation.operation_id,
        operation.method,
        operation.path,
        operation.name,
        operation.resource,
    )
    text = " ".join(told).lower()
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


def _row(operation: Operation) -> tuple[str, ...]:
    use = use_of(operation.operation_id) or "-"
    names = (operation.operation_id, operation.name, operation.resource)
    return (operation.method, operation.path, *names, " ".join(_editions(operation)), use)
