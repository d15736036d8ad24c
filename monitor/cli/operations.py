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
    found = [one for one in _chosen(edition, resource) if _has(one, words)]
    if as_json:
        print_json([_document(one) for one in found])
    else:
        columns = ("method", "path", "id", "name", "resource", "editions", "used for")
        print_table(columns, [_row(one) for one in found])


def _chosen(edition: Edition | None, resource: str | None) -> list[Operation]:
    known = {one.resource.lower(): one.resource for one in all_operations()}
    if resource is not None and resource.lower() not in known:
        names = ", ".join(sorted(known.values()))
        raise typer.BadParameter(f"{resource!r} is none of {names}", param_hint="--resource")
    wanted = None if resource is None else known[resource.lower()]
    return [
        one
        for one in all_operations()
        if (wanted is None or one.resource == wanted)
        and (edition is None or one.is_offered_in(edition))
    ]


def _has(one: Operation, words: list[str]) -> bool:
    told = (one.operation_id, one.method, one.path, one.name, one.resource)
    text = " ".join(told).lower()
    return all(word in text for word in words)


def _editions(one: Operation) -> list[str]:
    return [edition.value for edition in Edition if edition in one.editions]


def _document(one: Operation) -> dict[str, Any]:
    return {
        "method": one.method,
        "path": one.path,
        "name": one.name,
        "resource": one.resource,
        "editions": _editions(one),
        "operation_id": one.operation_id,
        "query": one.query,
    }


def _row(one: Operation) -> tuple[str, ...]:
    use = use_of(one.operation_id) or "-"
    names = (one.operation_id, one.name, one.resource)
    return (one.method, one.path, *names, " ".join(_editions(one)), use)
