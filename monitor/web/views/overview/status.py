"""The state of everything in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec import Struct

from monitor.model.live_state import Reachability, WorkspaceStatus
from monitor.web.views.overview.pipeline_index import PipelineIndex
from monitor.web.views.overview.pipeline_states import PipelineCondition
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View

_NAMED = 2  # workspaces
_WHY_CHARACTERS = 80
_WHY_UNSEEN = {
    Reachability.UNREACHABLE: "is unreachable",
    Reachability.UNKNOWN: "has not answered yet",
}


class Level(StrEnum):
    """How much it needs people; the colour of the sentence and of the icon."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


class StatusQuery(Struct, frozen=True, kw_only=True):
    """No parameters."""


class _Counts(Struct, frozen=True, kw_only=True):
    pipelines: int
    failing: int  # pipelines, as all that is not said to be something else
    missed_starts: int
    warnings: int
    running: int  # runs, without those that are part of another
    healthy: int
    canceled: int
    unknown: int  # of workspaces that cannot be seen
    new: int  # no run has ended yet
    other_alerts: int  # firing, and not about a pipeline


class StateSummary(_Counts, frozen=True, kw_only=True):
    """The state of everything. ``short`` fits a window's title.

    ``confirmed_at`` is ours: since then everything that is not counted as unknown was confirmed.
    """

    level: Level
    sentence: str
    short: str
    confirmed_at: datetime | None


class StatusReader:
    """Words for the counts of the index. What nobody can see is never counted as healthy."""

    def __init__(self, sources: ViewSources, index: PipelineIndex) -> None:
        self._sources = sources
        self._index = index

    async def read(self, _: StatusQuery) -> StateSummary:
        await self._index.refresh()
        states = {state: self._index.count(state) for state in PipelineCondition}
        counts = _Counts(
            pipelines=len(self._index),
            failing=states[PipelineCondition.FAILING],
            missed_starts=states[PipelineCondition.MISSED],
            warnings=states[PipelineCondition.WARNING],
            running=len(self._index.root_runs),
            healthy=states[PipelineCondition.HEALTHY],
            canceled=states[PipelineCondition.CANCELED],
            unknown=states[PipelineCondition.UNKNOWN],
            new=states[PipelineCondition.NEW],
            other_alerts=len(self._index.other_alerts()),
        )
        unseen = self._unseen()
        return StateSummary(
            **msgspec.structs.asdict(counts),
            level=_level(counts, is_blind=bool(unseen)),
            sentence=_sentence(counts, unseen),
            short=_short(counts, unseen),
            confirmed_at=self._index.confirmed_at,
        )

    def _unseen(self) -> list[str]:
        """Return which workspaces cannot be seen and why, in words."""
        blind = self._index.blind()
        whys = {workspace: why for (workspace, _), why in blind.items()}
        return [
            f"{status.workspace} {_WHY_UNSEEN[status.reachability]}"
            if status.reachability in _WHY_UNSEEN
            else f"{status.workspace}: {whys[status.workspace][:_WHY_CHARACTERS]}"
            for status in self._sources.live.workspaces()
            if status.workspace in whys and self._matters(status)
        ]

    def _matters(self, status: WorkspaceStatus) -> bool:
        """Return True where blindness hides something: not where an edition has no plans."""
        is_hidden = self._index.count(PipelineCondition.UNKNOWN, status.workspace) > 0
        return is_hidden or status.reachability in _WHY_UNSEEN


def _level(counts: _Counts, *, is_blind: bool) -> Level:
    if counts.failing or counts.missed_starts:
        return Level.CRITICAL
    if is_blind or counts.unknown or not counts.pipelines:
        return Level.UNKNOWN
    return Level.WARNING if counts.warnings or counts.other_alerts else Level.OK


def _sentence(counts: _Counts, unseen: Sequence[str]) -> str:
    """Return such as "2 pipelines failing, 1 missed start, 3 running, 318 healthy"."""
    where = f" ({', '.join(unseen[:_NAMED])}{_more(unseen)})" if unseen else ""
    if not counts.pipelines:
        return f"Nothing is known yet{where}" if unseen else "No pipeline is known yet"
    trouble = [
        _counted(counts.failing, "failing", "failing"),
        _counted(counts.missed_starts, "missed start", "missed starts"),
        _counted(counts.warnings, "with a warning", "with a warning"),
        _counted(counts.unknown, f"unknown{where}", f"unknown{where}"),
        _counted(counts.canceled, "canceled", "canceled"),
    ]
    trouble = [words for words in trouble if words]
    if not counts.unknown and unseen:
        trouble.append(", ".join(unseen[:_NAMED]) + _more(unseen))
    others = _counted(counts.other_alerts, "other alert", "other alerts")
    running = f"{counts.running:,} running" if counts.running else "nothing running"
    new = f"{counts.new:,} without a run yet" if counts.new else ""
    noun = "pipeline" if counts.pipelines == 1 else "pipelines"
    if not counts.healthy and not trouble:
        return f"Nothing has run yet: {counts.pipelines:,} {noun} known, {running}"
    if not trouble and not counts.new:
        healthy = "healthy" if others else "healthy, no alert"
        start = (
            "The only pipeline is" if counts.pipelines == 1 else f"All {counts.healthy:,} {noun}"
        )
        return ", ".join(filter(None, [f"{start} {healthy}", others, running]))
    parts = [*trouble, others, running, f"{counts.healthy:,} healthy", new]
    return _with_noun([part for part in parts if part])


def _with_noun(parts: list[str]) -> str:
    """Return the parts as a sentence; the first number says what is counted."""
    number, _, words = parts[0].partition(" ")
    if words in ("missed start", "missed starts") or not number[:1].isdigit():
        return ", ".join(parts)
    noun = "pipeline" if number == "1" else "pipelines"
    return ", ".join([f"{number} {noun} {words}", *parts[1:]])


def _counted(number: int, single: str, several: str) -> str:
    return f"{number:,} {single if number == 1 else several}" if number else ""


def _more(unseen: Sequence[str]) -> str:
    return f" and {len(unseen) - _NAMED} more" if len(unseen) > _NAMED else ""


def _short(counts: _Counts, unseen: Sequence[str]) -> str:
    parts = [
        _counted(counts.failing, "failing", "failing"),
        _counted(counts.missed_starts, "missed", "missed"),
        _counted(counts.unknown, "unknown", "unknown"),
        _counted(counts.warnings, "warning", "warnings"),
    ]
    parts = [part for part in parts if part]
    if unseen and not counts.unknown:
        parts.append(unseen[0])
    if not parts:
        return "all healthy" if counts.healthy else "nothing known yet"
    return ", ".join(parts)


def status_view(sources: ViewSources, index: PipelineIndex) -> View:
    return View(
        name="status",
        summary="The state of everything in one sentence.",
        api="/api/v1/status",
        query=StatusQuery,
        answer=StateSummary,
        read=StatusReader(sources, index).read,
    )
