"""The status line: the state of everything in one sentence, what is not observed among it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice

from msgspec import Struct

from monitor.alerting.explain.never_shown import why_limited
from monitor.model.live_state import Reachability, WorkspaceStatus
from monitor.model.public_shapes import filled
from monitor.model.runs import PipelineKind
from monitor.model.words import listed
from monitor.tracking.live_state import WATCHED_BY
from monitor.web.health import STARTING, RecentReadiness
from monitor.web.shown_shards import ShownLiveState
from monitor.web.views.overview.overview import Overview
from monitor.web.views.overview.pipeline_state import PipelineCondition
from monitor.web.views.overview.recent_overview import RecentOverview
from monitor.web.views.view import NoParameters, ViewSources, view
from monitor.web.views.watching import why_blind

_WHY_CHARACTERS = 80
_NAMED_FOR = timedelta(hours=1)  # after the last attempt; what still matters is tried more often

_NAMED = 2  # workspaces, rules or runs
_NAME_CHARACTERS = 120
_WORDS_CHARACTERS = 300
_CLUSTER = "cluster"  # its words are in the sentence
_POLLS = "polls"  # the check that fails also where a workspace is not seen


def why_unseen(live: ShownLiveState, overview: Overview, status: WorkspaceStatus) -> str | None:
    """Return such as "acme is unreachable", None where blindness hides nothing.

    Runs of plans that were never read hide nothing where no plan is known: an edition may have
    none. Runs of flows hide unknown flows: every edition has them.
    """
    name = status.workspace
    if status.reachability is Reachability.UNREACHABLE:
        return f"{name} {status.how_unreachable}"
    if status.reachability is Reachability.UNKNOWN:
        return f"{name} has not answered yet"
    if (never := why_blind(status)) is not None:
        return f"{name}: {never[:_WHY_CHARACTERS]}"
    whys = [overview.blind.get((name, PipelineKind.FLOW))]
    if overview.count(PipelineCondition.UNKNOWN, name):
        whys.append(overview.blind.get((name, PipelineKind.PLAN)))
    whys += [live.why_unwatched(name, what) for what in WATCHED_BY]
    whys.append(overview.starved.get(name))
    why = next((why for why in whys if why is not None), None)
    return None if why is None else f"{name}: {why[:_WHY_CHARACTERS]}"


def first_reads_of(live: ShownLiveState, status: WorkspaceStatus) -> str | None:
    """Return such as "reading: flows, schedules"; None where all was read once."""
    reads = live.first_reads(status.workspace)
    return f"{_of('reading', live, status)}: {', '.join(reads)}" if reads else None


def history_of(live: ShownLiveState, status: WorkspaceStatus) -> str | None:
    """Return such as "history: 6 of 24 h read"; None where no more of it is read."""
    if status.history is None or status.history.is_over or status.history.words is None:
        return None
    return f"{_of('history', live, status)}: {status.history.words}"


def unreadable_of(live: ShownLiveState, status: WorkspaceStatus, now: datetime) -> str | None:
    """Return such as "not readable: flow run 31"; None where each run was read."""
    runs = [
        f"{run.kind.replace('_', ' ')} {run.id}"
        for run in status.unreadable
        if now - run.tried_at <= _NAMED_FOR
    ]
    return f"{_of('not readable', live, status)}: {_named(runs)}" if runs else None


def _of(word: str, live: ShownLiveState, status: WorkspaceStatus) -> str:
    return word if len(live.workspaces()) == 1 else f"{word} of {status.workspace}"


class Level(StrEnum):
    """How much it needs people; the colour of the sentence and of the icon."""

    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


class _Known(Struct, frozen=True, kw_only=True):
    """What is counted, and what keeps the counts from being the whole truth or reaching people."""

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
    unseen: tuple[str, ...]  # workspaces that are not seen wholly, and why
    limited: tuple[str, ...]  # workspaces where only named runs are seen, and why
    failing_rules: tuple[str, ...]  # names of those that cannot be evaluated
    not_ready: tuple[str, ...]  # names of the readiness checks that fail
    unnotified: str | None  # why no alert reaches anybody, with the way out
    silenced: str | None  # how many pipelines, where it is most of them or a whole workspace
    cluster: tuple[str, ...]  # what is wrong where daemons share the store, in words
    reading: tuple[str, ...]  # what is read for the first time and not known yet, in words
    history: tuple[str, ...]  # how far back what was before the start is read, in words
    unreadable: tuple[str, ...]  # runs whose every read fails, in words


class LastingOutage(Struct, frozen=True, kw_only=True):
    """A workspace that does not answer, in words, and since when (our clock)."""

    workspace: str
    words: str
    since: datetime


class StateSummary(_Known, frozen=True, kw_only=True):
    """The state of everything. ``short`` fits a window's title.

    ``confirmed_at`` is ours: since then everything that is not counted as unknown was confirmed.
    """

    level: Level
    sentence: str
    short: str
    outages: tuple[LastingOutage, ...]  # the first ones, by the order of the configuration
    elsewhere: int  # workspaces that other daemons hold
    elsewhere_as_of: datetime | None  # when the oldest of them was read from the store
    confirmed_at: datetime | None


def _outages(workspaces: Sequence[WorkspaceStatus]) -> tuple[LastingOutage, ...]:
    found = (
        LastingOutage(workspace=status.workspace, words=words, since=status.since)
        for status in workspaces
        if (words := status.does_not_answer) is not None and status.since is not None
    )
    return tuple(islice(found, _NAMED))


def _readiness(sources: ViewSources) -> RecentReadiness:
    return RecentReadiness(sources.checks, clock=sources.clock)


@view("status", "/api/v1/status", "The state of everything in one sentence.")
async def status_view(sources: ViewSources, _: NoParameters) -> StateSummary:
    overview = await sources.shared(RecentOverview).get()
    not_ready = await _not_ready(sources)
    cluster = sources.cluster_problems()
    known = _known(sources, overview, not_ready, cluster.words)
    elsewhere, as_of = _elsewhere(sources)
    return filled(
        StateSummary,
        known,
        # While the store is away even a failure may be over for long.
        level=Level.UNKNOWN if cluster.is_store_away else _level(known),
        sentence=_sentence(known),
        short=_short(known),
        outages=_outages(sources.live.workspaces()),
        elsewhere=elsewhere,
        elsewhere_as_of=as_of,
        confirmed_at=overview.confirmed_at,
    )


def _known(
    sources: ViewSources,
    overview: Overview,
    not_ready: Sequence[str],
    cluster: tuple[str, ...],
) -> _Known:
    """Return the counts of the overview. What cannot be seen is never counted as healthy."""
    live, now, workspaces = sources.live, sources.clock.now(), sources.live.workspaces()
    unseen = _of_each(workspaces, lambda status: why_unseen(live, overview, status))
    said = [*([_POLLS] if unseen else []), *([_CLUSTER] if cluster else [])]
    return _Known(
        pipelines=len(overview.rows),
        failing=overview.count(PipelineCondition.FAILING),
        missed_starts=overview.count(PipelineCondition.MISSED),
        warnings=overview.count(PipelineCondition.WARNING),
        running=len(overview.roots) - overview.unconfirmed,
        unconfirmed=overview.unconfirmed,
        healthy=overview.count(PipelineCondition.HEALTHY),
        canceled=overview.count(PipelineCondition.CANCELED),
        unknown=overview.count(PipelineCondition.UNKNOWN),
        new=overview.count(PipelineCondition.NEW),
        other_alerts=len(overview.other_alerts),
        critical_alerts=overview.critical_alerts,
        unseen=unseen,
        limited=_of_each(
            workspaces, lambda status: _named_why(status.workspace, why_limited(status))
        ),
        failing_rules=tuple(sorted(sources.alerting.snapshot().failing_rules)),
        not_ready=tuple(name for name in not_ready if name not in said),
        unnotified=sources.alerting.unnotified(),
        silenced=overview.silenced.words,
        cluster=cluster,
        reading=_of_each(workspaces, lambda status: first_reads_of(live, status)),
        history=_of_each(workspaces, lambda status: history_of(live, status)),
        unreadable=_of_each(workspaces, lambda status: unreadable_of(live, status, now)),
    )


def _of_each(
    workspaces: Sequence[WorkspaceStatus], words: Callable[[WorkspaceStatus], str | None]
) -> tuple[str, ...]:
    return tuple(filter(None, map(words, workspaces)))


def _named_why(workspace: str, why: str | None) -> str | None:
    return None if why is None else f"{workspace}: {why}"


def _elsewhere(sources: ViewSources) -> tuple[int, datetime | None]:
    """Return how many workspaces other daemons hold, and the age of what is shown of them."""
    read_at = [
        (len(shard.live.workspaces()), shard.mirrored().read_at)
        for shard in sources.shards.all()
        if shard.mirrored is not None
    ]
    known = [at for _, at in read_at if at is not None]
    return sum(count for count, _ in read_at), min(known, default=None)


async def _not_ready(sources: ViewSources) -> tuple[str, ...]:
    """Return the names of the readiness checks that fail."""
    found = await sources.shared(_readiness).get()
    if found is None:
        return ("no check answers",)
    return tuple(name for name, finding in found.checks.items() if not finding.ok)


def _level(known: _Known) -> Level:
    if known.failing or known.missed_starts or known.critical_alerts:
        return Level.CRITICAL
    is_blind = any((known.unseen, known.failing_rules, known.cluster, known.reading))
    is_unknown = known.unknown or known.unconfirmed or not known.pipelines
    if is_blind or is_unknown or STARTING in known.not_ready:
        return Level.UNKNOWN
    is_warned = (
        known.warnings
        or known.other_alerts
        or known.not_ready
        or known.unnotified
        or known.silenced
        or known.unreadable
    )
    return Level.WARNING if is_warned else Level.OK


def _sentence(known: _Known) -> str:
    """Return such as "2 pipelines failing, 1 missed start, 3 running, 318 healthy"."""
    unseen = _named(known.unseen)
    where = f" ({unseen})" if unseen else ""
    others, reading = _others(known), [*known.reading, *known.history]
    if not known.pipelines:
        words = f"Nothing is known yet{where}" if unseen else "No pipeline is known yet"
        return ", ".join([words, *others, *reading])
    trouble = [
        _counted(known.failing, "failing", "failing"),
        _counted(known.missed_starts, "missed start", "missed starts"),
        _counted(known.warnings, "with a warning", "with a warning"),
        _counted(known.unknown, f"unknown{where}", f"unknown{where}"),
        _counted(known.canceled, "canceled", "canceled"),
        unseen if not known.unknown else "",
    ]
    trouble = [part for part in trouble if part]
    running = [] if known.reading and not known.running else [_running(known)]
    new = f"{known.new:,} without a run yet" if known.new else ""
    noun = "pipeline" if known.pipelines == 1 else "pipelines"
    if not known.healthy and not trouble:
        words = f"{known.pipelines:,} {noun} known"
        words = words if known.reading else f"Nothing has run yet: {words}"
        return ", ".join([words, *others, *running, *reading])
    if not trouble and not known.new and not known.reading:
        healthy = "healthy" if others else "healthy, no alert"
        start = "The only pipeline is" if known.pipelines == 1 else f"All {known.healthy:,} {noun}"
        return ", ".join([f"{start} {healthy}", *others, *running, *reading])
    parts = [*trouble, *others, *running, f"{known.healthy:,} healthy", new, *reading]
    return _with_noun([part for part in parts if part])


def _others(known: _Known) -> list[str]:
    """Return what is wrong beside the pipelines."""
    rules, not_ready = known.failing_rules, known.not_ready
    words = [
        _counted(known.other_alerts, "other alert", "other alerts"),
        f"{'rule' if len(rules) == 1 else 'rules'} {_named(rules)} cannot be evaluated"
        if rules
        else "",
        f"the monitor itself is not ready: {_named(not_ready)}" if not_ready else "",
        *(problem[:_WORDS_CHARACTERS] for problem in known.cluster),
        _named(known.limited),
        *known.unreadable,
        known.silenced,
        f"no notifications are sent: {known.unnotified}" if known.unnotified else "",
    ]
    return [part for part in words if part]


def _running(known: _Known) -> str:
    perhaps = f"{known.unconfirmed:,} perhaps running, not confirmed"
    if not known.unconfirmed:
        return f"{known.running:,} running" if known.running else "nothing running"
    return f"{known.running:,} running, {perhaps}" if known.running else perhaps


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
    return listed([name[:_NAME_CHARACTERS] for name in names], most=_NAMED)


def _short(known: _Known) -> str:
    rules = len(known.failing_rules)
    parts = [
        _counted(known.failing, "failing", "failing"),
        _counted(known.missed_starts, "missed", "missed"),
        _counted(known.unknown, "unknown", "unknown"),
        _counted(known.warnings, "warning", "warnings"),
        _counted(known.other_alerts, "other alert", "other alerts"),
        known.unseen[0] if known.unseen and not known.unknown else "",
        _counted(rules, "rule cannot be evaluated", "rules cannot be evaluated"),
        "monitor not ready" if known.not_ready else "",
        "cluster in trouble" if known.cluster else "",
        "no notifications are sent" if known.unnotified else "",
        known.silenced or "",
        _counted(known.unconfirmed, "run not confirmed", "runs not confirmed"),
        *known.unreadable,
        _counted(known.canceled, "canceled", "canceled"),
    ]
    parts = [part for part in [*parts, *known.reading] if part]
    if parts:
        return ", ".join(parts)
    if known.healthy:
        return "all healthy" if not known.new else f"{known.healthy:,} healthy"
    return "nothing has run yet" if known.new else "nothing known yet"
