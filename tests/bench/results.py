"""Saved figures: the file that a run writes, and what is read from it again."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.bench.figures import Figure, columns, number

_FORMAT = 1


class Measured(Struct, frozen=True, kw_only=True):
    """One benchmark of a run."""

    title: str
    figures: tuple[Figure, ...]
    seconds: float  # that it took


class Results(Struct, frozen=True, kw_only=True):
    """One run of benchmarks, by their names."""

    format: int = _FORMAT
    taken_at: datetime
    share: float  # of all cores, that each server could use
    cores: int
    python: str
    benchmarks: dict[str, Measured]


def results(benchmarks: Mapping[str, Measured], *, share: float) -> Results:
    """Return what a run on this machine has measured."""
    return Results(
        taken_at=datetime.now(UTC),
        share=share,
        cores=len(os.sched_getaffinity(0)),
        python=platform.python_version(),
        benchmarks=dict(benchmarks),
    )


def save(path: Path, saved: Results) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(saved)) + b"\n")


def load(path: Path) -> Results:
    return msgspec.json.decode(path.read_bytes(), type=Results)


def comparison(old: Results, new: Results) -> str:
    """Return both medians of each figure that both runs have, and the new one over the old."""
    rows = [("figure", "old", "new", "new / old")]
    for name, measured in new.benchmarks.items():
        before = old.benchmarks.get(name)
        if before is None:
            continue
        old_figures = {figure.name: figure for figure in before.figures}
        rows += [
            _compared(f"{name}: {figure.name}", old_figures[figure.name], figure)
            for figure in measured.figures
            if figure.name in old_figures
        ]
    return columns(rows)


def _compared(name: str, old: Figure, new: Figure) -> tuple[str, str, str, str]:
    ratio = number(new.median / old.median) if old.median else ""
    return name, _with_unit(old.values, old.unit), _with_unit(new.values, new.unit), ratio


def target_rows(saved: Results) -> str:
    """Return a Markdown row for each figure that has a target, as this folder's README shows it."""
    rows: list[tuple[str, ...]] = [("", "ours", "the other", "median (range)", "target", "")]
    for measured in saved.benchmarks.values():
        rows += _rows(measured.title, measured.figures)
    return columns(rows)


def _rows(title: str, figures: Sequence[Figure]) -> Iterator[tuple[str, ...]]:
    for figure in figures:
        if figure.target is None:
            continue
        yield (
            f"{title}: {figure.name}",
            _with_unit(figure.ours, figure.sides_unit),
            _with_unit(figure.theirs, figure.sides_unit),
            f"{_with_unit(figure.values, figure.unit)} ({figure.spread})",
            figure.target_text,
            figure.result,
        )


def _with_unit(values: Sequence[float], unit: str) -> str:
    if not values:
        return ""
    median = number(Figure(name="", values=tuple(values)).median)
    return f"{median} {unit}".rstrip()
