"""The baseline of a pipeline, learned from its runs that succeeded. Pure: no I/O, no clock.

How long its runs take, and how far apart its successes are. Both are kept as sketches (t-digests)
and not as samples: the memory of a pipeline never grows, however often it runs. What is stored
are the sketches' pairs of mean and count, which any other implementation of t-digests reads too.

Events teach one by one. Historical runs make no events: what they show stands apart, where it can
be replaced by a newer reading of the same runs, until it goes into the first sketch of events.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec
from fastdigest import TDigest
from msgspec import Meta, Struct

from monitor.model.events import EventType, RunEvent
from monitor.model.runs import Parents, RunState, Status, Trigger

MINIMUM_RUNS = 10

_LEAST_LIMIT_SECONDS = 300.0
_LEAST_AGE_SECONDS = 3_600.0
_CENTROIDS = 50
_VALUES_OF_ONE = 80
_VALUES_AT_ONCE = 20
_LIMIT_FACTOR = 2.0
_AGE_FACTOR = 3.0
_RECURRING_FACTOR = 1.25  # on top of a gap that has been seen twice, such as a weekend's
_RECIPES_KEPT = 50
_IDLE = timedelta(days=90)
_PAST_OF_GAPS = timedelta(days=6)  # less may lack a weekend

Pair = tuple[float, Annotated[int, Meta(ge=1)]]  # mean, count


class Digest(Struct, frozen=True, kw_only=True, gc=False):
    """A sketch of values: pairs by rising mean, and both ends, which pairs alone would blur."""

    pairs: tuple[Pair, ...]
    least: float
    most: float

    @property
    def count(self) -> int:
        return sum(count for _, count in self.pairs)


class Baseline(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Two sketches: the older one goes when the newer one is full, and newest values.

    So what is usual follows what has changed, at the latest after two hundred values. The newest
    values go into a sketch together, because that costs as much for twenty as for one.
    """

    newer: Digest | None = None
    older: Digest | None = None
    recent: tuple[float, ...] = ()

    @property
    def count(self) -> int:
        digests = (self.newer, self.older)
        return len(self.recent) + sum(digest.count for digest in digests if digest is not None)


class Past(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What historical successes show, in seconds, the oldest first.

    ``durations`` is how long they took, ``gaps`` how far apart they were. Gaps are those of at
    least six days, back to where every run is known: of older runs some are known long before
    others, and fewer days may lack a weekend. So few days show a weekend only once, therefore the
    longest gap allows its like; it stays when the gaps go into the first sketch of events.
    """

    durations: tuple[float, ...] = ()
    gaps: tuple[float, ...] = ()
    longest_gap: float = 0.0


class Learned(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """All that is learned of one pipeline and kind of run. Instants are the workspace's."""

    durations: Baseline | None = None
    gaps: Baseline | None = None
    # By recipe: the recipes of one flow succeed side by side, and each has its own rhythm.
    succeeded_at: dict[str, datetime] = {}
    newest_at: datetime | None = None  # of all successes, also of those inside other runs
    past: Past | None = None


def learn(before: Learned | None, event: RunEvent) -> Learned | None:
    """Return what is learned after one event; the same object where it adds nothing."""
    run = event.run
    if run.finished_at is None or not _is_success(event):
        return before
    learned = before or Learned()
    newest_at = max(run.finished_at, learned.newest_at or run.finished_at)
    learned = msgspec.structs.replace(learned, newest_at=newest_at)
    if run.duration_seconds is not None:
        learned = _with_duration(learned, run.duration_seconds)
    return learned if _is_inside(run) else _with_gap(learned, run, run.finished_at)


def with_past(
    before: Learned | None, runs: Iterable[RunState], *, known_since: datetime | None
) -> Learned | None:
    """Return what is learned, with what the historical ones of these runs show.

    It stands in place of what such runs showed before, so reading them again adds nothing; but not
    in place of more, which newer runs have hidden since. The same object where it is the same.
    Every run that was created at or after ``known_since`` is known; None: that is not known.
    """
    ended = [
        (run.finished_at, run)
        for run in runs
        if run.historical and run.status is Status.SUCCEEDED and run.finished_at is not None
    ]
    if not ended:
        return before
    ended.sort(key=lambda end: (end[0], end[1].key))
    learned = before or Learned()
    known = learned.past or Past()
    successes = [run for _, run in ended]
    gaps = _gaps_of(successes, known_since)
    past = Past(
        durations=_fuller(known.durations, _durations_of(successes), learned.durations),
        gaps=_fuller(known.gaps, gaps, learned.gaps),
        longest_gap=max(known.longest_gap, *gaps) if gaps else known.longest_gap,
    )
    if past == known:
        return before
    newest_at = max(ended[-1][0], learned.newest_at or ended[-1][0])
    return msgspec.structs.replace(learned, past=past, newest_at=newest_at)


def is_grown(learned: Learned) -> bool:
    """True where no historical run adds to what is learned any more."""
    # What runs inside other runs has no gaps.
    return _has_sketch(learned.durations) and (learned.gaps is None or _has_sketch(learned.gaps))


def known_durations(learned: Learned | None) -> Baseline | None:
    """Return how long runs take, by events and historical runs; None where nothing shows it."""
    if learned is None:
        return None
    return _after_past(learned.durations, learned.past.durations if learned.past else ())


def known_gaps(learned: Learned | None) -> Baseline | None:
    """Return likewise how far apart successes are."""
    if learned is None:
        return None
    return _after_past(learned.gaps, learned.past.gaps if learned.past else ())


def _durations_of(runs: Iterable[RunState]) -> tuple[float, ...]:
    durations = (run.duration_seconds for run in runs)
    return tuple(round(each, 3) for each in durations if each is not None)


def _gaps_of(runs: Iterable[RunState], known_since: datetime | None) -> tuple[float, ...]:
    """Return the gaps between runs in their order, each recipe's own; none of too few days."""
    ends = [
        (run.finished_at, _recipe_of(run))
        for run in runs
        if run.finished_at is not None and not _is_inside(run) and _is_since(run, known_since)
    ]
    if not ends or ends[-1][0] - ends[0][0] < _PAST_OF_GAPS:
        return ()
    gaps: list[float] = []
    before: dict[str, datetime] = {}
    for finished_at, recipe in ends:
        if recipe in before and finished_at > before[recipe]:
            gaps.append(round((finished_at - before[recipe]).total_seconds(), 3))
        before[recipe] = finished_at
    return tuple(gaps)


def _is_since(run: RunState, known_since: datetime | None) -> bool:
    created_at = run.created_at or run.started_at
    return known_since is not None and created_at is not None and created_at >= known_since


def _fuller(
    known: tuple[float, ...], read: tuple[float, ...], baseline: Baseline | None
) -> tuple[float, ...]:
    """Return what was read, unless more was known; nothing where a sketch has taken it up."""
    if _has_sketch(baseline):
        return ()
    return known if len(read) < len(known) else read


def _after_past(baseline: Baseline | None, past: tuple[float, ...]) -> Baseline | None:
    if not past or _has_sketch(baseline):
        return baseline
    return Baseline(recent=(*past, *(baseline.recent if baseline is not None else ())))


def _has_sketch(baseline: Baseline | None) -> bool:
    return baseline is not None and (baseline.newer is not None or baseline.older is not None)


def _fills_first_sketch(baseline: Baseline | None) -> bool:
    """True where the next value makes the first sketch, which takes up the past."""
    recent = () if baseline is None else baseline.recent
    return not _has_sketch(baseline) and len(recent) + 1 >= _VALUES_AT_ONCE


def _with_duration(learned: Learned, seconds: float) -> Learned:
    durations, past = learned.durations, learned.past
    if past is not None and _fills_first_sketch(durations):
        durations, past = known_durations(learned), msgspec.structs.replace(past, durations=())
    return msgspec.structs.replace(learned, durations=with_value(durations, seconds), past=past)


def _is_inside(run: RunState) -> bool:
    """True of what runs inside another run, and so has no rhythm of its own."""
    return run.parents != Parents() or run.trigger is Trigger.PLAN


def _recipe_of(run: RunState) -> str:
    return run.recipe.id if run.recipe is not None else ""


def _is_success(event: RunEvent) -> bool:
    """True once for each success: when the workspace reports it, not only a callback."""
    if event.type is EventType.RUN_CONFIRMED:
        return event.run.status is Status.SUCCEEDED
    return event.type is EventType.RUN_SUCCEEDED and event.run.unconfirmed_end is None


def _with_gap(learned: Learned, run: RunState, finished_at: datetime) -> Learned:
    gaps, past, recipe = learned.gaps, learned.past, _recipe_of(run)
    before = learned.succeeded_at.get(recipe)
    if before is not None and finished_at > before:
        if past is not None and _fills_first_sketch(gaps):
            gaps, past = known_gaps(learned), msgspec.structs.replace(past, gaps=())
        gaps = with_value(gaps, (finished_at - before).total_seconds())
    succeeded_at = {**learned.succeeded_at, recipe: max(finished_at, before or finished_at)}
    newest = sorted(succeeded_at.items(), key=lambda success: success[1])[-_RECIPES_KEPT:]
    return msgspec.structs.replace(learned, gaps=gaps, past=past, succeeded_at=dict(newest))


def is_idle(learned: Learned, now: datetime) -> bool:
    """True where nothing has succeeded for so long that it need not be kept."""
    return learned.newest_at is None or now - learned.newest_at > _IDLE


def limit_seconds(learned: Learned | None, *, minimum_runs: int = MINIMUM_RUNS) -> float | None:
    """Return how long a run may take; None below ``minimum_runs``."""
    baseline = known_durations(learned)
    if baseline is None or baseline.count < minimum_runs:
        return None
    return max(_LEAST_LIMIT_SECONDS, _LIMIT_FACTOR * quantile(baseline, 0.95))


def usual_seconds(learned: Learned | None, *, minimum_runs: int = MINIMUM_RUNS) -> float | None:
    """Return how long a run usually takes, the median; None below ``minimum_runs``."""
    baseline = known_durations(learned)
    if baseline is None or baseline.count < minimum_runs:
        return None
    return quantile(baseline, 0.5)


def age_seconds(learned: Learned | None, *, minimum_runs: int = MINIMUM_RUNS) -> float | None:
    """Return how old the last success may be; None below ``minimum_runs`` successes.

    Three times the usual gap, and more than a gap that comes back: what runs each hour of a
    working day is not late on a Sunday. A gap seen once, such as an outage's, allows nothing,
    unless it is the longest of the past.
    """
    baseline = known_gaps(learned)
    if learned is None or baseline is None or baseline.count + 1 < minimum_runs:
        return None
    usual = _AGE_FACTOR * quantile(baseline, 0.95)
    recurring = _second_largest(baseline)
    if learned.past is not None and baseline.older is None:
        recurring = max(recurring, learned.past.longest_gap)
    return max(_LEAST_AGE_SECONDS, usual, _RECURRING_FACTOR * recurring)


def with_value(baseline: Baseline | None, value: float) -> Baseline:
    """Return the baseline with one more value, which is kept to the millisecond."""
    baseline = baseline or Baseline()
    recent = (*baseline.recent, round(value, 3))
    if len(recent) < _VALUES_AT_ONCE:
        return Baseline(newer=baseline.newer, older=baseline.older, recent=recent)
    newer, older = baseline.newer, baseline.older
    if newer is not None and newer.count >= _VALUES_OF_ONE:
        newer, older = None, newer
    sketch = _sketch(newer)
    sketch.batch_update(recent)
    return Baseline(newer=_digest(sketch), older=older)


def quantile(baseline: Baseline, share: float) -> float:
    """Return the value that is not exceeded by about that share of the values."""
    sketch = _sketch(baseline.newer)
    if baseline.older is not None:
        sketch.merge_inplace(_sketch(baseline.older))
    if baseline.recent:
        sketch.batch_update(baseline.recent)
    return float(sketch.quantile(share))


def _second_largest(baseline: Baseline) -> float:
    pairs = [(value, 1) for value in baseline.recent]
    for digest in (baseline.newer, baseline.older):
        pairs += digest.pairs if digest is not None else ()
    values = 0
    for mean, count in sorted(pairs, reverse=True):
        values += count
        if values > 1:
            return mean
    return pairs[-1][0]


def _sketch(digest: Digest | None) -> TDigest:
    if digest is None:
        return TDigest(max_centroids=_CENTROIDS)
    return TDigest.from_dict(
        {
            "max_centroids": _CENTROIDS,
            "mass": digest.count,
            "sum": sum(mean * count for mean, count in digest.pairs),
            "min": digest.least,
            "max": digest.most,
            "n_values": digest.count,
            "centroids": [{"m": mean, "c": count} for mean, count in digest.pairs],
        }
    )


def _digest(sketch: TDigest) -> Digest:
    content: dict[str, Any] = sketch.to_dict()
    # Short numbers keep what is stored small.
    pairs = tuple(
        (round(centroid["m"], 3), round(centroid["c"])) for centroid in content["centroids"]
    )
    return Digest(pairs=pairs, least=content["min"], most=content["max"])
