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


def ratios(name: str, ours: Figure, theirs: Figure, *, target: float) -> Figure:
    """Return ours over theirs, repetition by repetition: what disturbs one disturbs both."""
    values = tuple(a / b for a, b in zip(ours.values, theirs.values, strict=True))
    return Figure(name=name, values=values, unit="times", target=target, better=ours.better)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that is not exceeded by that share of the values."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def table(title: str, figures: Iterable[Figure]) -> str:
    """Return the figures as a table that is readable as it stands and as Markdown."""
    rows = [("figure", "median", "range", "target", "")]
    rows += [_row(figure) for figure in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [_line(row, widths) for row in rows]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([f"### {title}", "", lines[0], rule, *lines[1:], ""])


def _row(figure: Figure) -> tuple[str, str, str, str, str]:
    result, target = "", ""
    if figure.target is not None:
        sign = ">=" if figure.better == "higher" else "<="
        target = f"{sign} {figure.target:g}"
        result = "met" if figure.is_met else "MISSED"
    unit = f" {figure.unit}" if figure.unit else ""
    spread = f"{_number(min(figure.values))} - {_number(max(figure.values))}"
    return figure.name, f"{_number(figure.median)}{unit}", spread, target, result


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (f" {cell:<{width}} " for cell, width in zip(row, widths, strict=True))
    return f"|{'|'.join(cells)}|"
