"""What a shell offers when a word is half typed. It is asked at a key press, so it loads little.

A completer that cannot tell offers nothing: whoever presses a key wants no message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer

from monitor.catalogue.operations import METHODS, Operation, find, operation, operations
from monitor.model.runs import PipelineKind, RunKind

# A value and what it is; bash shows the values only.
Offer = tuple[str, str]


def called(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Offer operation ids and methods, and behind a method the paths that it has."""
    given = _words(ctx)
    if not given:
        ids = [(operation.operation_id, operation.name) for operation in operations()]
        methods = [(method, "a method, then a path") for method in METHODS]
        return [*ids, *(methods if incomplete else [])]
    if len(given) == 1 and given[0].upper() in METHODS:
        return list(dict.fromkeys(_paths(given[0].upper(), incomplete)))
    return []


def query_names(ctx: typer.Context, incomplete: str) -> list[Offer]:
    """Offer the query parameters of the operation that stands before."""
    del incomplete
    one = _operation(_words(ctx))
    return [] if one is None else [(f"{name}=", one.operation_id) for name in one.query]


def resources() -> list[str]:
    """Offer the resource groups of the catalogue."""
    return sorted({operation.resource for operation in operations()})


def workspaces(ctx: typer.Context) -> list[str]:
    """Offer the workspaces of the configuration, whatever else is wrong with it."""
    return _names(ctx, "workspaces")


def faults(incomplete: str) -> list[Offer]:
    """Offer the sandbox's faults, behind others that are typed already too."""
    from monitor.sandbox.faults import table  # noqa: PLC0415 - few presses ask for it

    before, comma, _ = incomplete.rpartition(",")
    return [(f"{before}{comma}{item.name}", item.description) for item in table()]


def actions() -> list[str]:
    """Offer what can be done to webhook tasks."""
    return ["list", "sync", "test", "delete"]


def alert_actions() -> list[str]:
    """Offer what can be done with alerts."""
    return ["list", "backtest"]


def silence_actions() -> list[str]:
    """Offer what can be done with silences."""
    return ["add", "list", "expire"]


def silence_words(ctx: typer.Context) -> list[str]:
    """Offer the labels that a matcher may name. The ids of silences only the daemon knows."""
    from monitor.alerting.alerts.label_names import SHOWN_LABELS  # noqa: PLC0415 - few presses

    if ctx.params.get("action") != "add":
        return []
    return [f"{label}=" for label in SHOWN_LABELS]


def explained(ctx: typer.Context) -> list[str]:
    """Offer the kinds of run and pipeline; fingerprints and ids only the daemon knows."""
    return [] if _words(ctx) else [*RunKind, *PipelineKind]


def rules(ctx: typer.Context) -> list[str]:
    """Offer the rules that there are, and those of the configuration by their names."""
    from monitor.alerting.rules.rule_settings import RuleKind  # noqa: PLC0415 - few presses

    own = _names(ctx, "alerts")
    return [*own, *(item for item in RuleKind if item not in own)]


def outputs(ctx: typer.Context) -> list[str]:
    """Offer the outputs that the configuration names."""
    document = _document(ctx)
    found: list[str] = [name for name in ("mqtt", "webhook") if name in document]
    try:
        parts = [urlsplit(url) for url in document["alertmanager"]["urls"]]
        return [*found, *(f"alertmanager:{part.hostname}:{part.port or 9093}" for part in parts)]
    except (LookupError, TypeError, ValueError, AttributeError):
        return found


def _document(ctx: typer.Context) -> dict[str, Any]:
    """Return the configuration as it stands there; empty where it cannot be read."""
    import tomllib  # noqa: PLC0415 - few presses ask for it

    try:
        return tomllib.loads(Path(ctx.params["config"]).read_text(encoding="utf-8"))
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def _names(ctx: typer.Context, section: str) -> list[str]:
    try:
        found = _document(ctx)[section]
        return [item["name"] for item in found if isinstance(item.get("name"), str)]
    except (LookupError, TypeError, AttributeError):
        return []


def _words(ctx: typer.Context) -> list[str]:
    # Behind an option that waits for its value the library has not named the words yet.
    return list(ctx.params.get("words") or ctx.args)


def _operation(words: list[str]) -> Operation | None:
    if len(words) > 1 and words[0].upper() in METHODS:
        found = find(words[0], words[1])
        return None if found is None else found[0]
    try:
        return operation(words[0]) if words else None
    except KeyError:
        return None


def _paths(method: str, typed: str) -> Iterator[Offer]:
    """Yield the paths of a method up to where the next value must be typed by hand."""
    done = typed.split("/")[:-1]
    for other_operation in operations():
        parts = other_operation.path.split("/")
        if other_operation.method != method or len(parts) <= len(done):
            continue
        if all(_fits(part, text) for part, text in zip(parts, done, strict=False)):
            rest = "/".join(parts[len(done) :])
            open_end = re.split(r":\w+", rest, maxsplit=1)[0]
            yield "/".join([*done, open_end]), other_operation.name


def _fits(part: str, text: str) -> bool:
    return part == text or (part.startswith(":") and text != "")
