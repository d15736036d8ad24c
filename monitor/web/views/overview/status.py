"""The state of everything in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec import Struct

from monitor.alerting.explain.never_shown import why_limited
from monitor.web.health import STARTING, RecentReadiness
from monitor.web.views.overview.overview import Overview
from monitor.web.views.overview.pipeline_rows import PipelineCondition
from monitor.web.views.overview.recent_overview import RecentOverview
from monitor.web.views.overview.unseen import (
    first_reads_of,
    history_of,
    unreadable_of,
    why_unseen,
)
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View

_NAMED = 2  # workspaces, or rules
_NAME_CHARACTERS = 120
_WORDS_CHARACTERS = 300
_CLUSTER = "cluster"  # its words are in the sentence
_POLLS = "polls"  # the check that fails also where a workspace is not seen


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
    unconfirmed: int  # such runs that may have ended unseen; not in ``running``
    healthy: int
    canceled: int
    unknown: int  # of workspaces that cannot be seen
    new: int  # no run has ended yet
    other_alerts: int  # firing, and not about a pipeline that is known
    critical_alerts: int  # firing, whatever they are about


class StateSummary(_Counts, frozen=True, kw_only=True):
    """The state of everything. ``short`` fits a window's title.

    ``confirmed_at`` is ours: since then everything that is not counted as unknown was confirmed.
    """

    level: Level
    sentence: str
    short: str
    unseen: tuple[str, ...]  # workspaces that are not seen wholly, and why
    limited: tuple[str, ...]  # workspaces where only named runs are seen, and why
    failing_rules: tuple[str, ...]  # names of those that cannot be evaluated
    not_ready: tuple[str, ...]  # names of the readiness checks that fail
    unnotified: str | None  # why no alert reaches anybody, with the way out
    cluster: tuple[str, ...]  # what is wrong where daemons share the store, in words
    reading: tuple[str, ...]  # what is read for the first time and not known yet, in words
    history: tuple[str, ...]  # how far back what was before the start is read, in words
    unreadable: tuple[str, ...]  # runs of which every read fails, in words
    elsewhere: int  # workspaces that other daemons hold
    elsewhere_as_of: datetime | None  # when the oldest of them was read from the store
    confirmed_at: datetime | None


class _Blindness(Struct, frozen=True, kw_only=True):
    """What keeps the counts from being the whole truth, or from reaching people."""

    unseen: tuple[str, ...]
    limited: tuple[str, ...]
    failing_rules: tuple[str, ...]
    not_ready: tuple[str, ...]
    cluster: tuple[str, ...]
    unnotified: str | None
    reading: tuple[str, ...]
    history: tuple[str, ...]
    unreadable: tuple[str, ...]


class StatusReader:
    """Words for the counts of the overview. What nobody can see is never counted as healthy."""

    def __init__(self, sources: ViewSources, recent: RecentOverview) -> None:
        self._sources = sources
        self._recent = recent
        self._readiness = RecentReadiness(sources.checks, clock=sources.clock)

    async def read(self, _: StatusQuery) -> StateSummary:
        overview = await self._recent.get()
        not_ready = await self._not_ready()
        counts = _counts(overview)
        live, now = self._sources.live, self._sources.clock.now()
        workspaces = live.workspaces()
        whys = (why_unseen(live, overview, status) for status in workspaces)
        unseen = tuple(why for why in whys if why is not None)
        cluster = self._sources.cluster_problems()
        said = [*([_POLLS] if unseen else []), *([_CLUSTER] if cluster.words else [])]
        blindness = _Blindness(
            unseen=unseen,
            limited=tuple(
                f"{status.workspace}: {why}"
                for status in live.workspaces()
                if (why := why_limited(status)) is not None
            ),
            failing_rules=tuple(sorted(self._sources.alerting.snapshot().failing_rules)),
            not_ready=tuple(name for name in not_ready if name not in said),
            cluster=cluster.words,
            unnotified=self._sources.alerting.unnotified(),
            reading=tuple(filter(None, (first_reads_of(live, known) for known in workspaces))),
            history=tuple(filter(None, (history_of(live, known) for known in workspaces))),
            unreadable=tuple(
                filter(None, (unreadable_of(live, known, now) for known in workspaces))
            ),
        )
        elsewhere, as_of = self._elsewhere()
        return StateSummary(
            **msgspec.structs.asdict(counts),
            **msgspec.structs.asdict(blindness),
            # While the store is away even a failure may be over for long.
            level=Level.UNKNOWN if cluster.is_store_away else _level(counts, blindness),
            sentence=_sentence(counts, blindness),
            short=_short(counts, blindness),
            elsewhere=elsewhere,
            elsewhere_as_of=as_of,
            confirmed_at=overview.confirmed_at,
        )

    def _elsewhere(self) -> tuple[int, datetime | None]:
        """Return how many workspaces other daemons hold, and the age of what is shown of them."""
        read_at = [
            (len(shard.live.workspaces()), shard.mirrored().read_at)
            for shard in self._sources.shards.all()
            if shard.mirrored is not None
        ]
        known = [at for _, at in read_at if at is not None]
        return sum(count for count, _ in read_at), min(known, default=None)

    async def _not_ready(self) -> tuple[str, ...]:
        """Return the names of the readiness checks that fail."""
        found = await self._readiness.get()
        if found is None:
            return ("no check answers",)
        return tuple(name for name, finding in found.checks.items() if not finding.ok)


def _counts(overview: Overview) -> _Counts:
    states = {state: overview.count(state) for state in PipelineCondition}
    return _Counts(
        pipelines=len(overview.rows),
        failing=states[PipelineCondition.FAILING],
        missed_starts=states[PipelineCondition.MISSED],
        warnings=states[PipelineCondition.WARNING],
        running=len(overview.roots) - overview.unconfirmed,
        unconfirmed=overview.unconfirmed,
        healthy=states[PipelineCondition.HEALTHY],
        canceled=states[PipelineCondition.CANCELED],
        unknown=states[PipelineCondition.UNKNOWN],
        new=states[PipelineCondition.NEW],
        other_alerts=len(overview.other_alerts),
        critical_alerts=overview.critical_alerts,
    )


def _level(counts: _Counts, blindness: _Blindness) -> Level:
    if counts.failing or counts.missed_starts or counts.critical_alerts:
        return Level.CRITICAL
    is_blind = any(
        (blindness.unseen, blindness.failing_rules, blindness.cluster, blindness.reading)
    )
    is_unknown = counts.unknown or counts.unconfirmed or not counts.pipelines
    if is_blind or is_unknown or STARTING in blindness.not_ready:
        return Level.UNKNOWN
    is_warned = (
        counts.warnings
        or counts.other_alerts
        or blindness.not_ready
        or blindness.unnotified
        or blindness.unreadable
    )
    return Level.WARNING if is_warned else Level.OK


def _sentence(counts: _Counts, blindness: _Blindness) -> str:
    """Return such as "2 pipelines failing, 1 missed start, 3 running, 318 healthy"."""
    unseen = _named(blindness.unseen)
    where = f" ({unseen})" if unseen else ""
    others, reading = _others(counts, blindness), [*blindness.reading, *blindness.history]
    if not counts.pipelines:
        known = f"Nothing is known yet{where}" if unseen else "No pipeline is known yet"
        return ", ".join([known, *others, *reading])
    trouble = [
        _counted(counts.failing, "failing", "failing"),
        _counted(counts.missed_starts, "missed start", "missed starts"),
        _counted(counts.warnings, "with a warning", "with a warning"),
        _counted(counts.unknown, f"unknown{where}", f"unknown{where}"),
        _counted(counts.canceled, "canceled", "canceled"),
        unseen if not counts.unknown else "",
    ]
    trouble = [words for words in trouble if words]
    running = [] if blindness.reading and not counts.running else [_running(counts)]
    new = f"{counts.new:,} without a run yet" if counts.new else ""
    noun = "pipeline" if counts.pipelines == 1 else "pipelines"
    if not counts.healthy and not trouble:
        known = f"{counts.pipelines:,} {noun} known"
        known = known if blindness.reading else f"Nothing has run yet: {known}"
        return ", ".join([known, *others, *running, *reading])
    if not trouble and not counts.new and not blindness.reading:
        healthy = "healthy" if others else "healthy, no alert"
        start = (
            "The only pipeline is" if counts.pipelines == 1 else f"All {counts.healthy:,} {noun}"
        )
        return ", ".join([f"{start} {healthy}", *others, *running, *reading])
    parts = [*trouble, *others, *running, f"{counts.healthy:,} healthy", new, *reading]
    return _with_noun([part for part in parts if part])


def _others(counts: _Counts, blindness: _Blindness) -> list[str]:
    """Return what is wrong beside the pipelines."""
    rules, not_ready = blindness.failing_rules, blindness.not_ready
    words = [
        _counted(counts.other_alerts, "other alert", "other alerts"),
        f"{'rule' if len(rules) == 1 else 'rules'} {_named(rules)} cannot be evaluated"
        if rules
        else "",
        f"the monitor itself is not ready: {_named(not_ready)}" if not_ready else "",
        *(problem[:_WORDS_CHARACTERS] for problem in blindness.cluster),
        _named(blindness.limited),
        *blindness.unreadable,
        f"nobody is notified: {blindness.unnotified}" if blindness.unnotified else "",
    ]
    return [part for part in words if part]


def _running(counts: _Counts) -> str:
    perhaps = f"{counts.unconfirmed:,} perhaps running, not confirmed"
    if not counts.unconfirmed:
        return f"{counts.running:,} running" if counts.running else "nothing running"
    return f"{counts.running:,} running, {perhaps}" if counts.running else perhaps


def _with_noun(parts: list[str]) -> str:
    """Return the parts as a sentence; the first number says what is counted."""
    number, _, words = parts[0].partition(" ")
    counted = ("failing", "with a", "unknown", "canceled")
    if not number[:1].isdigit() or not words.startswith(counted):
        return ", ".join(parts)
    noun = "pipeline" if number == "1" else "pipelines"
    return ", ".join([f"{number} {noun} {words}", *parts[1:]])


def _counted(number: int, single: str, several: str) -> str:
    return f"{number:,} {single if number == 1 else several}" if number else ""


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(name[:_NAME_CHARACTERS] for name in names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown


def _short(counts: _Counts, blindness: _Blindness) -> str:
    rules = len(blindness.failing_rules)
    parts = [
        _counted(counts.failing, "failing", "failing"),
        _counted(counts.missed_starts, "missed", "missed"),
        _counted(counts.unknown, "unknown", "unknown"),
        _counted(counts.warnings, "warning", "warnings"),
        _counted(counts.other_alerts, "other alert", "other alerts"),
        blindness.unseen[0] if blindness.unseen and not counts.unknown else "",
        _counted(rules, "rule cannot be evaluated", "rules cannot be evaluated"),
        "monitor not ready" if blindness.not_ready else "",
        "cluster in trouble" if blindness.cluster else "",
        "nobody is notified" if blindness.unnotified else "",
        _counted(counts.unconfirmed, "run not confirmed", "runs not confirmed"),
        *blindness.unreadable,
        _counted(counts.canceled, "canceled", "canceled"),
    ]
    parts = [part for part in [*parts, *blindness.reading] if part]
    if parts:
        return ", ".join(parts)
    if counts.healthy:
        return "all healthy" if not counts.new else f"{counts.healthy:,} healthy"
    return "nothing has run yet" if counts.new else "nothing known yet"


def status_view(sources: ViewSources, recent: RecentOverview) -> View:
    return View(
        name="status",
        summary="The state of everything in one sentence.",
        api="/api/v1/status",
        query=StatusQuery,
        answer=StateSummary,
        read=StatusReader(sources, recent).read,
    )
