"""Measured values of a benchmark, one for each repetition, and the table that shows them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct


class Figure(Struct, frozen=True, kw_only=True):
    """A line of the table. Without a target it is shown for comparison only."""

    name: str
    values: tuple[float, ...]  # one for each repetition
    unit: str = ""
    target: float | None = None
    better: Literal["higher", "lower"] = "lower"
    # Of a ratio, what it was made of, and its unit.
    ours: tuple[float, ...] = ()
    theirs: tuple[float, ...] = ()
    sides_unit: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def is_met(self) -> bool:
        """True where the median reaches the target, and where there is none."""
        if self.target is None:
            return True
        if self.better == "higher":
            return self.median >= self.target
        return self.median <= self.target

    @property
    def spread(self) -> str:
        return f"{number(min(self.values))} - {number(max(self.values))}"

    @property
    def target_text(self) -> str:
        if self.target is None:
            return ""
        return f"{'>=' if self.better == 'higher' else '<='} {self.target:g}"

    @property
    def result(self) -> str:
        if self.target is None:
            return ""
        return "met" if self.is_met else "MISSED"


def ratios(name: str, ours: Figure, theirs: Figure, *, target: float | None = None) -> Figure:
    """Return ours over theirs, repetition by repetition: what disturbs one disturbs both."""
    return Figure(
        name=name,
        values=tuple(a / b for a, b in zip(ours.values, theirs.values, strict=True)),
        unit="times",
        target=target,
        better=ours.better,
        ours=ours.values,
        theirs=theirs.values,
        sides_unit=ours.unit,
    )


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that is not exceeded by that share of the values."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def table(title: str, figures: Iterable[Figure]) -> str:
    """Return the figures as a table that is readable as it stands and as Markdown."""
    rows = [("figure", "median", "range", "target", "")]
    rows += [_row(figure) for figure in figures]
    return f"### {title}\n\n{columns(rows)}"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, whose first row is its head, with columns of equal width."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    head, *lines = [_line(row, widths) for row in rows]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([head, rule, *lines, ""])


def number(value: float) -> str:
    """Return a value with three digits, or all of a large one."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _row(figure: Figure) -> tuple[str, str, str, str, str]:
    unit = f" {figure.unit}" if figure.unit else ""
    median = f"{number(figure.median)}{unit}"
    return figure.name, median, figure.spread, figure.target_text, figure.result


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (f" {cell:<{width}} " for cell, width in zip(row, widths, strict=True))
    return f"|{'|'.join(cells)}|"
