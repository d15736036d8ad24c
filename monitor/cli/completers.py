"""What a shell completes for a half typed word. A key press calls these, so they load little.

A completer without a match returns nothing: a key press must not print a message.
"""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer

from monitor.alerting.alerts.label_names import SHOWN_LABELS
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.catalogue.operations import METHODS, Operation, find, operation, operations
from monitor.cli import lazy
from monitor.model.runs import PipelineKind, RunKind
from monitor.outputs.records import RECORDS

# A value and what it is; bash shows the values only.
Offer = tuple[str, str]


def operation_words(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Offer operation ids and methods, and behind a method its paths."""
    words = _words(ctx)
    if not words:
        ids = [(operation.operation_id, operation.name) for operation in operations()]
        methods = [(method, "a method, then a path") for method in METHODS]
        return [*ids, *(methods if incomplete else [])]
    if len(words) == 1 and words[0].upper() in METHODS:
        return list(dict.fromkeys(_paths(words[0].upper(), incomplete)))
    return []


def query_names(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Offer the query parameters of the operation that was typed before."""
    del incomplete
    typed = _operation(_words(ctx))
    return [] if typed is None else [(f"{name}=", typed.operation_id) for name in typed.query]


def resources() -> list[str]:
    """Offer the resource groups of the catalogue."""
    return sorted({operation.resource for operation in operations()})


def workspaces(ctx: typer.Context) -> list[str]:
    """Offer the workspaces of the configuration, whatever else is wrong with it."""
    return _names(ctx, "workspaces")


def faults(incomplete: str) -> list[Offer]:
    """Offer the sandbox's faults, also behind others that are already typed."""
    before, comma, _ = incomplete.rpartition(",")
    return [
        (f"{before}{comma}{fault.name}", fault.description) for fault in lazy.sandbox_faults.table()
    ]


def webhook_actions() -> list[str]:
    """Offer what can be done with webhook tasks."""
    return ["list", "sync", "test", "delete"]


def store_actions() -> list[str]:
    """Offer what can be done with the store."""
    return ["check", "migrate", "move"]


def alert_actions() -> list[str]:
    """Offer what can be done with alerts."""
    return ["list", "backtest"]


def silence_actions() -> list[str]:
    """Offer what can be done with silences."""
    return ["add", "list", "expire"]


def silence_words(ctx: typer.Context) -> list[str]:
    """Offer the labels that a matcher may name. Only the daemon knows the ids of silences."""
    if ctx.params.get("action") != "add":
        return []
    return [f"{label}=" for label in SHOWN_LABELS]


def explained_kinds(ctx: typer.Context) -> list[str]:
    """Offer the kinds of run and pipeline; only the daemon knows fingerprints and ids."""
    return [] if _words(ctx) else [*RunKind, *PipelineKind]


def rules(ctx: typer.Context) -> list[str]:
    """Offer the configured rules by their names, then the kinds of rule."""
    configured = _names(ctx, "alerts")
    return [*configured, *(kind for kind in RuleKind if kind not in configured)]


def outputs(ctx: typer.Context) -> list[str]:
    """Offer the outputs that the configuration names."""
    document = _document(ctx)
    names: list[str] = []
    for record in RECORDS:
        # Of a table that is not right, what can be read.
        with contextlib.suppress(LookupError, TypeError, ValueError, AttributeError):
            names += record.names(SimpleNamespace(**document[record.section]))
    return names


def _document(ctx: typer.Context) -> dict[str, Any]:
    """Return the configuration as it was written; empty where it cannot be read."""
    try:
        return tomllib.loads(Path(ctx.params["config"]).read_text(encoding="utf-8"))
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def _names(ctx: typer.Context, section: str) -> list[str]:
    try:
        tables = _document(ctx)[section]
        return [table["name"] for table in tables if isinstance(table.get("name"), str)]
    except (LookupError, TypeError, AttributeError):
        return []


def _words(ctx: typer.Context) -> list[str]:
    # Behind an option that waits for its value the library has not named the words yet.
    return list(ctx.params.get("words") or ctx.args)


def _operation(words: list[str]) -> Operation | None:
    if len(words) > 1 and words[0].upper() in METHODS:
        match = find(words[0], words[1])
        return None if match is None else match[0]
    try:
        return operation(words[0]) if words else None
    except KeyError:
        return None


def _paths(method: str, typed: str) -> Iterator[Offer]:
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
