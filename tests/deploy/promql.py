"""Reads PromQL as far as is needed to know which metrics and labels it names, and which we have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

from monitor.outputs.metrics.families import SHAPES
from monitor.outputs.metrics.family_shapes import FamilyType
from tests.test_architecture import modules

# Strings first: what stands in them is no word. Then ranges, numbers and durations, words, signs.
_TOKEN = re.compile(
    r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\[[^\]]*\]|\d[\w.]*|[A-Za-z_:][\w:]*|\S)"""
)
_WORD = re.compile(r"[A-Za-z_:][\w:]*\Z")
_OPERATORS = frozenset({"and", "or", "unless", "offset", "bool", "inf", "nan"})
_LISTS_LABELS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
# What Prometheus puts on every series of a target, and we on those of a shard with a name.
TARGET_LABELS = frozenset({"job", "instance", "pod", "shard"})
# Of others: the scrape itself, and the client library's account of the process.
FOREIGN = {
    "up": TARGET_LABELS,
    "process_start_time_seconds": TARGET_LABELS,
    "process_resident_memory_bytes": TARGET_LABELS,
}
_CLASSES = {
    "Counter": FamilyType.COUNTER,
    "Gauge": FamilyType.GAUGE,
    "Histogram": FamilyType.HISTOGRAM,
}


class Query(Struct, frozen=True):
    """What an expression names: metrics with the labels that they are picked by, and groupings."""

    metrics: tuple[tuple[str, frozenset[str]], ...]
    groupings: frozenset[str]


def read(expression: str) -> Query:
    """Return what the expression names. It must be valid PromQL; promtool checks that."""
    tokens = _TOKEN.findall(re.sub(r"#.*", "", expression))
    metrics: list[tuple[str, frozenset[str]]] = []
    groupings: set[str] = set()
    place = 0
    while place < len(tokens):
        word, following = tokens[place], tokens[place + 1 : place + 2]
        place += 1
        if not _WORD.match(word) or word in _OPERATORS:
            continue
        if word in _LISTS_LABELS:
            if following == ["("]:
                labels, place = _until(")", tokens, place)
                groupings |= labels
        elif following == ["{"]:
            labels, place = _until("}", tokens, place)
            metrics.append((word, labels))
        elif following not in (["("], ["by"], ["without"]):
            metrics.append((word, frozenset()))
    return Query(tuple(metrics), frozenset(groupings))


def _until(end: str, tokens: list[str], place: int) -> tuple[frozenset[str], int]:
    last = tokens.index(end, place)
    return frozenset(token for token in tokens[place:last] if _WORD.match(token)), last + 1


@cache
def series() -> dict[str, frozenset[str]]:
    """Return every series that the daemon can show, by name, with its own labels."""
    labels_by_series: dict[str, frozenset[str]] = {}
    for shape in SHAPES:
        labels_by_series |= _series_of(shape.name, shape.form, frozenset(shape.labels))
    for path in modules():
        for name, form, labels in _registered(path):
            counted = f"{name}_total" if form is FamilyType.COUNTER else name
            labels_by_series |= _series_of(counted, form, labels)
    return labels_by_series


def _series_of(name: str, form: FamilyType, labels: frozenset[str]) -> dict[str, frozenset[str]]:
    if form is FamilyType.HISTOGRAM:
        return {f"{name}_sum": labels, f"{name}_count": labels, f"{name}_bucket": labels | {"le"}}
    return {name: labels}


def _registered(path: Path) -> Iterator[tuple[str, FamilyType, frozenset[str]]]:
    """Find the metrics that a module makes with the client library, on a registry handed in."""
    tree = ast.parse(path.read_text())
    texts = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _CLASSES
            and any(keyword.arg == "registry" for keyword in node.keywords)
        ):
            labels = node.args[2] if len(node.args) > 2 else ast.List(elts=[])
            yield _text(node.args[0], texts), _CLASSES[node.func.id], _words(labels)


def _text(node: ast.expr, texts: Mapping[str, str]) -> str:
    """Return a literal name, also one that is put together from a constant of its module."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.JoinedStr), ast.dump(node)
    parts = (
        value.value if isinstance(value, ast.FormattedValue) else value for value in node.values
    )
    return "".join(
        texts[part.id] if isinstance(part, ast.Name) else _text(part, {}) for part in parts
    )


def _words(node: ast.expr) -> frozenset[str]:
    assert isinstance(node, ast.List | ast.Tuple), ast.dump(node)
    return frozenset(_text(elt, {}) for elt in node.elts)
