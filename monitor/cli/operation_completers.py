"""Completes the catalogue's operations, their paths and their parameters in a shell."""

from __future__ import annotations

import re
from collections.abc import Iterator

import typer

from monitor.catalogue.operations import METHODS, Operation, find, operation, operations
from monitor.cli.completers import Completion, typed_words


def operation_words(ctx: typer.Context, incomplete: str) -> list[Completion]:
    """Offer operation ids and methods, and after a method its paths."""
    words = typed_words(ctx)
    if not words:
        ids = [(operation.operation_id, operation.name) for operation in operations()]
        methods = [(method, "a method, then a path") for method in METHODS]
        return [*ids, *(methods if incomplete else [])]
    if len(words) == 1 and words[0].upper() in METHODS:
        return list(dict.fromkeys(_paths(words[0].upper(), incomplete)))
    return []


def query_names(ctx: typer.Context, incomplete: str) -> list[Completion]:
    """Offer the query parameters of the operation that was typed before."""
    del incomplete
    typed = _operation(typed_words(ctx))
    return [] if typed is None else [(f"{name}=", typed.operation_id) for name in typed.query]


def resources() -> list[str]:
    """Offer the resource groups of the catalogue."""
    return sorted({operation.resource for operation in operations()})


def _operation(words: list[str]) -> Operation | None:
    if len(words) > 1 and words[0].upper() in METHODS:
        match = find(words[0], words[1])
        return None if match is None else match[0]
    try:
        return operation(words[0]) if words else None
    except KeyError:
        return None


def _paths(method: str, typed: str) -> Iterator[Completion]:
    """Yield the paths of a method up to where the next value must be typed by hand."""
    done = typed.split("/")[:-1]
    for candidate in operations():
        parts = candidate.path.split("/")
        if candidate.method != method or len(parts) <= len(done):
            continue
        if all(_fits(part, text) for part, text in zip(parts, done, strict=False)):
            rest = "/".join(parts[len(done) :])
            open_end = re.split(r":\w+", rest, maxsplit=1)[0]
            yield "/".join([*done, open_end]), candidate.name


def _fits(part: str, text: str) -> bool:
    return part == text or (part.startswith(":") and text != "")
