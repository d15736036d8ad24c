"""Draws runs as small SVG: links inside, colours by class, nothing inline.

Screen readers get the words beside a drawing, which is hidden from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, NamedTuple
from urllib.parse import quote

from markupsafe import Markup, escape

from monitor.model.runs import Status
from monitor.model.words import duration
from monitor.web.views.overview.grid_history import MissedStart
from monitor.web.views.overview.pipeline_list import PipelineSummary, SightGap
from monitor.web.views.overview.pipeline_state import RunCell
from monitor.web.views.overview.running import RunningRun

_CELL = 7  # pixels, one of them between two cells
_HEIGHT = 26
_MOST_BARS = 45
_LOWEST = 5  # so that a run of no time can be seen and hit
_LINE_WIDTH, _LINE_HEIGHT = 84, 26
_BAR_WIDTH = 120
_STATE_WORDS = {"missed": "missed start", "new": "no run yet"}
_USUAL_SHARE = 0.55  # of the height, for what a run usually takes


class _Bar(NamedTuple):
    classes: str
    words: str
    url: str | None
    height: int


def strip(row: PipelineSummary, cells: Sequence[RunCell] | None = None) -> Markup:
    """Return the runs of a pipeline as bars, the newest at the right; as high as they took.

    Missed starts and gaps in which the workspace was not watched stand between them.
    """
    shown = row.runs if cells is None else cells
    before = f"/runs/{quote(row.workspace, safe='')}/"
    tallest = _tallest(row, shown)
    bars = [
        _Bar(
            f"{cell.status} old" if cell.historical else str(cell.status),
            _cell_words(cell),
            f"{before}{cell.kind}/{quote(cell.id, safe='')}",
            _height(cell, tallest),
        )
        for cell in shown
    ]
    if cells is None:
        between = [(start.at, _missed_bar(start)) for start in row.missed]
        between += [(gap.since, _gap_bar(gap)) for gap in row.gaps]
        for at, bar in sorted(between, key=itemgetter(0), reverse=True):
            bars.insert(sum(1 for cell in shown if cell.at is None or cell.at < at), bar)
    bars = bars[-_MOST_BARS:]
    first = (_MOST_BARS - len(bars)) * _CELL
    texts = [_drawn(first + number * _CELL, bar) for number, bar in enumerate(bars)]
    if first:
        texts.append(
            f'<g><title>no older run is known</title><rect class="gap" x="0" y="{_HEIGHT - 2}"'
            f' width="{first - 1}" height="2"/></g>'
        )
    return Markup(  # noqa: S704 - every text in it is escaped
        f'<svg class="strip" width="{_MOST_BARS * _CELL}" height="{_HEIGHT}"'
        f' viewBox="0 0 {_MOST_BARS * _CELL} {_HEIGHT}" aria-hidden="true">'
        f"{''.join(texts)}</svg>"
    )


def _missed_bar(start: MissedStart) -> _Bar:
    words, more = f"did not start at {_at(start.at)}", start.count - 1
    if more:
        words += ", nor once after that" if more == 1 else f", nor {more} times after that"
    if start.until is not None:
        words += f"; over since {_at(start.until)}"
    return _Bar("missed", words, None, _HEIGHT)


def _gap_bar(gap: SightGap) -> _Bar:
    until = "" if gap.until is None else f" until {_at(gap.until)}"
    return _Bar("gap", f"not seen from {_at(gap.since)}{until}: {gap.why}", None, _HEIGHT)


def _drawn(x: int, bar: _Bar) -> str:
    top, width = _HEIGHT - bar.height, _CELL - 1
    if bar.classes == "missed":  # an outline, which stands half outside
        x, top, width = x + 1, 1, width - 2
    height = bar.height if bar.classes != "missed" else _HEIGHT - 2
    rectangle = f'<rect class="{bar.classes}" x="{x}" y="{top}" width="{width}" height="{height}"/>'
    title = f"<title>{escape(bar.words)}</title>"
    if bar.url is None:
        return f"<g>{title}{rectangle}</g>"
    return f'<a href="{escape(bar.url)}" tabindex="-1">{title}{rectangle}</a>'


def sparkline(row: PipelineSummary) -> Markup:
    """Return the durations of a pipeline's successes as a line, over what is usual as a band."""
    cells = [
        cell
        for cell in row.runs
        if cell.status is Status.SUCCEEDED and cell.duration_seconds is not None
    ]
    durations = [cell.duration_seconds or 0.0 for cell in cells]
    if len(durations) < 2:  # noqa: PLR2004 - a line has two ends
        return Markup("")
    top = max(*durations, row.limit_seconds or 0.0, 1.0)
    step = (_LINE_WIDTH - 2) / (len(durations) - 1)
    points = " ".join(
        f"{1 + number * step:.1f},{_y(seconds, top):.1f}"
        for number, seconds in enumerate(durations)
    )
    band = ""
    if row.limit_seconds is not None:
        upper, lower = _y(row.limit_seconds, top), _y(min(durations), top)
        band = (
            f'<rect class="band" x="0" y="{upper:.1f}" width="{_LINE_WIDTH}"'
            f' height="{max(1.0, lower - upper):.1f}"/>'
        )
    return Markup(  # noqa: S704 - numbers only
        f'<svg class="sparkline" width="{_LINE_WIDTH}" height="{_LINE_HEIGHT}" aria-hidden="true">'
        f'{band}<polyline class="line" points="{points}"/></svg>'
    )


def strip_words(cells: Sequence[RunCell], missed: Sequence[MissedStart] = ()) -> str:
    """Return what a strip shows, such as ``last 40 runs: 38 succeeded, 2 failed``."""
    if not cells:
        return "no run is known"
    counts = [(status, sum(cell.status is status for cell in cells)) for status in Status]
    words = [f"{number} {status}" for status, number in counts if number]
    missed_starts = sum(start.count for start in missed)
    words += [f"{missed_starts} missed"] if missed_starts else []
    return f"last {len(cells)} runs: {', '.join(words)}"


def _tallest(row: PipelineSummary, cells: Sequence[RunCell]) -> float:
    """Return the duration of a full bar: a few long runs must not flatten all others."""
    durations = [cell.duration_seconds or 0.0 for cell in cells]
    usual = row.usual_seconds or 0.0
    return max(min(max(durations, default=1.0), usual / _USUAL_SHARE or 1e12), 1.0)


def _height(cell: RunCell, tallest: float) -> int:
    seconds = cell.duration_seconds
    if seconds is None:
        return _HEIGHT if not cell.status.is_terminal else _HEIGHT // 2
    return round(_LOWEST + (_HEIGHT - _LOWEST) * min(1.0, seconds / tallest))


def _cell_words(cell: RunCell) -> str:
    words = [str(cell.status)]
    if cell.duration_seconds is not None:
        words.append(f"in {duration(cell.duration_seconds)}")
    if cell.at is not None:
        words.append(f"\N{MIDDLE DOT} {_at(cell.at)}")
    if cell.historical:
        words.append("\N{MIDDLE DOT} before it was followed")
    return " ".join(words)


def _at(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%d %b %H:%M UTC")


def _y(seconds: float, top: float) -> float:
    return 1 + (_LINE_HEIGHT - 2) * (1 - seconds / top)


def progress(run: RunningRun) -> Markup | str:
    """Return how far a run is: what its jobs report, else its time beside what is usual."""
    share, words = run.percent_complete, "%"
    if share is None:
        if not run.usual_seconds or run.elapsed_seconds is None:
            return "\N{EN DASH}"
        share, words = (
            100 * min(1.0, run.elapsed_seconds / run.usual_seconds),
            "% of the usual time",
        )
    width = round(_BAR_WIDTH * min(100.0, share) / 100)
    return Markup(  # noqa: S704 - numbers only
        f'<svg class="progress" width="{_BAR_WIDTH}" height="8" aria-hidden="true">'
        f'<rect class="bar-ground" width="{_BAR_WIDTH}" height="8" rx="3"/>'
        f'<rect class="bar" width="{width}" height="8" rx="3"/></svg>'
        f"<span> {share:.0f}{words}</span>"
    )


def state_words(state: str) -> str:
    return _STATE_WORDS.get(state, state)


SVG_FILTERS: dict[str, Callable[..., Any]] = {
    "strip": strip,
    "strip_words": strip_words,
    "sparkline": sparkline,
    "progress": progress,
    "state_words": state_words,
}
