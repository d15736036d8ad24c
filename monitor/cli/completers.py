"""Completes half typed words in a shell. A key press calls these, so they load little.

A completer without a match returns nothing: a key press must not print a message.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import typer

from monitor.cli import lazy
from monitor.model.runs import PipelineKind, RunKind

# A value and what it is; bash shows the values only.
Completion = tuple[str, str]


def workspaces(ctx: typer.Context) -> list[str]:
    """Offer the workspaces of the configuration, whatever else is wrong with it."""
    return _names(ctx, "workspaces")


def faults(incomplete: str) -> list[Completion]:
    """Offer the sandbox's faults, also after others that are already typed."""
    before, comma, _ = incomplete.rpartition(",")
    return [
        (f"{before}{comma}{fault.name}", fault.description) for fault in lazy.sandbox_faults.table()
    ]


def webhook_actions() -> list[str]:
    """Offer what can be done with webhook tasks."""
    return ["list", "sync", "test", "delete"]


def store_actions() -> list[str]:
    """Offer what can be done with the store."""
    return ["check", "export", "import"]


def access_actions() -> list[str]:
    """Offer what can be done with the people and programs that may reach the daemon."""
    return ["add", "list"]


def alert_actions() -> list[str]:
    """Offer what can be done with alerts."""
    return ["list", "backtest"]


def silence_actions() -> list[str]:
    """Offer what can be done with silences."""
    return ["add", "list", "expire"]


def letter_actions() -> list[str]:
    """Offer what can be done with dead letters."""
    return ["list", "show", "resend", "drop"]


def letter_words(ctx: typer.Context) -> list[str]:
    """Offer the outputs; only the daemon knows the ids of events."""
    is_output = ctx.params.get("action") != "show" and not typed_words(ctx)
    return outputs(ctx) if is_output else []


def notify_actions() -> list[str]:
    """Offer what can be done with channels."""
    return ["test", "list", "preview"]


def silence_words(ctx: typer.Context) -> list[str]:
    """Offer the labels that a matcher may name. Only the daemon knows the ids of silences."""
    if ctx.params.get("action") != "add":
        return []
    return [f"{label}=" for label in lazy.completed_names.SHOWN_LABELS]


def explained_kinds(ctx: typer.Context) -> list[str]:
    """Offer the kinds of run and pipeline; only the daemon knows fingerprints and ids."""
    return [] if typed_words(ctx) else [*RunKind, *PipelineKind]


def rules(ctx: typer.Context) -> list[str]:
    """Offer the configured rules by their names, then the kinds of rule."""
    configured = _names(ctx, "alerts")
    return [
        *configured,
        *(kind for kind in lazy.completed_names.RuleKind if kind not in configured),
    ]


def outputs(ctx: typer.Context) -> list[str]:
    """Offer the outputs that the configuration names."""
    return lazy.completed_names.outputs_in(_document(ctx))


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


def typed_words(ctx: typer.Context) -> list[str]:
    """Return the arguments before the half typed one."""
    # After an option that waits for its value the library has not named the words yet.
    return list(ctx.params.get("words") or ctx.args)
