"""Adds what makes a world difficult besides its runs: callbacks, edits, deletions, outages."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from tests.worlds.draft import SCRIPT_SECONDS, Draft
from tests.worlds.impairments import ClockSet, Span
from tests.worlds.script import Callback, End, Ingredient, JobGroup, Pipeline

_STOP_SECONDS = (8.0, 40.0)
_OUTAGE_SECONDS = (8.0, 25.0)
_OPPOSITE = {End.COMPLETE: End.FAILED, End.FAILED: End.COMPLETE, End.CANCELED: End.COMPLETE}


def add_surprises(draft: Draft) -> None:
    """Add every ingredient that is no run."""
    for ingredient, add in _SURPRISES.items():
        if draft.has(ingredient):
            draft.begin(ingredient)
            add(draft)


def stops_of_batch(batch: int) -> tuple[Span, ...]:
    """Return when the daemon is stopped; a part of the batches has no stop."""
    random = Random(f"stops of batch {batch}")  # noqa: S311 - a reproducible world
    return () if batch % 3 == 1 else tuple(_spans(random, _STOP_SECONDS))


def clock_sets_of_batch(batch: int) -> tuple[ClockSet, ...]:
    """Return how the daemon's clock is set: in a third of the batches, in the end right again."""
    if batch % 3 != 0:
        return ()
    random = Random(f"clock of batch {batch}")  # noqa: S311 - a reproducible world
    seconds = round(random.choice((-1, 1)) * random.uniform(30, 900), 3)
    first, second = sorted(random.uniform(30, SCRIPT_SECONDS) for _ in range(2))
    return (ClockSet(at=first, seconds=seconds), ClockSet(at=second, seconds=-seconds))


def harm_of_batch(batch: int) -> Ingredient | None:
    """Return what happens to the daemon's store where it stops; most often nothing."""
    return {3: Ingredient.DAMAGED_STORE, 8: Ingredient.DELETED_STORE}.get(batch % 9)


def _spans(random: Random, seconds: tuple[float, float]) -> list[Span]:
    begins = sorted(random.uniform(30, SCRIPT_SECONDS) for _ in range(random.choice((1, 2))))
    spans: list[Span] = []
    for begin in begins:
        earliest = spans[-1].end + 30 if spans else 0.0
        start = round(max(begin, earliest), 3)
        spans.append(Span(start, round(start + random.uniform(*seconds), 3)))
    return spans


def _add_callbacks(draft: Draft) -> None:
    """Add true callbacks: in time, before the lists show the end, late, twice."""
    for group in draft.job_groups:
        if group.end is End.CANCELED or draft.happens(0.3):
            continue
        if group.deleted_at < group.end_shown_from:
            continue
        lag = draft.random.choice((0.0, 0.5, 0.5, 25.0))
        times = draft.random.choice((1, 1, 2))
        for number in range(times):
            at = round(group.ended + lag + number * draft.between(0.2, 8), 3)
            draft.callbacks.append(Callback(at=at, job_group=group.id, status=group.end))


def _add_lies(draft: Draft) -> None:
    """Add callbacks that name another end than the true one, while the run is shown active."""
    for group in draft.job_groups:
        share = 0.5 if group.flow_run is None else 0.2
        if not draft.happens(share) or group.deleted_at < group.end_shown_from:
            continue
        earliest = max(group.started, group.shown_from)
        at = draft.between(earliest, max(earliest, group.end_shown_from))
        draft.callbacks.append(Callback(at=at, job_group=group.id, status=_OPPOSITE[group.end]))


def _rename(draft: Draft) -> None:
    draft.flows = [_renamed(draft, flow) for flow in draft.flows]
    draft.plans = [_renamed(draft, plan) for plan in draft.plans]


def _renamed(draft: Draft, pipeline: Pipeline) -> Pipeline:
    at = draft.between(20, SCRIPT_SECONDS)
    return replace(pipeline, renamed_at=at, new_name=f"{pipeline.name} renamed")


def _delete_runs(draft: Draft) -> None:
    """Delete some job groups that run alone: while they run, or after they were shown ended."""

    def with_deletion(group: JobGroup) -> JobGroup:
        if group.flow_run is not None or not draft.happens(0.3):
            return group
        if draft.happens(0.5):
            at = draft.between(group.started, group.ended)
            return replace(group, deleted_at=at) if at > group.shown_from else group
        return replace(group, deleted_at=round(group.end_shown_from + 60, 3))

    draft.job_groups = [with_deletion(group) for group in draft.job_groups]


def _delete_flow(draft: Draft) -> None:
    """Delete the first flow after all of its runs were reported."""
    flow = draft.flows[0]
    last = max(group.end_shown_from for group in draft.job_groups if group.flow == flow.id)
    draft.flows[0] = replace(flow, deleted_at=round(last + draft.between(150, 200), 3))


def _add_outages(draft: Draft) -> None:
    draft.outages = _spans(draft.random, _OUTAGE_SECONDS)


# In their order; each by a chance of its own.
_SURPRISES = {
    Ingredient.DELETED_RUNS: _delete_runs,
    Ingredient.CALLBACKS: _add_callbacks,
    Ingredient.LIES: _add_lies,
    Ingredient.RENAMES: _rename,
    Ingredient.DELETED_FLOWS: _delete_flow,
    Ingredient.OUTAGES: _add_outages,
}
