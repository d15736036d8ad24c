"""For each subject, when an alert must be active, and when it may be. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from msgspec import Struct

from tests.worlds.allowances import DELETED_SECONDS, due
from tests.worlds.blindness import hidden_spans, unlisted_spans
from tests.worlds.impairments import Span
from tests.worlds.script import NEVER, End, RunKind, World
from tests.worlds.truth import Subject, TrueEnd


class Stretch(Struct, frozen=True, kw_only=True):
    """A stretch of time in which nothing changes of what is known about a subject.

    ``must`` are the failures that must be reported in it, ``may`` those that may.
    """

    begin: float
    end: float
    must: tuple[TrueEnd, ...]
    may: tuple[TrueEnd, ...]


def certain_failures(ends: Iterable[TrueEnd], at: float) -> tuple[TrueEnd, ...]:
    """Return the failures that are open at a time, whatever is known late and in any order."""
    ends = list(ends)
    return tuple(
        failure
        for failure in ends
        if failure.end is End.FAILED
        and not failure.is_only_possible
        and failure.due_at <= at < failure.must_until
        and not any(
            success.may_clear(failure)
            and success.known_at <= at
            and not failure.is_surely_after(success)
            for success in ends
        )
    )


def possible_failures(ends: Iterable[TrueEnd], at: float) -> tuple[TrueEnd, ...]:
    """Return the failures that may be open at a time."""
    ends = list(ends)
    return tuple(
        failure
        for failure in ends
        if failure.end is End.FAILED
        and failure.known_at <= at < failure.until
        and not any(
            success.may_clear(failure)
            and not success.is_only_possible
            and success.due_at <= at
            and success.is_surely_after(failure)
            for success in ends
        )
    )


def stretches(
    world: World, subject: Subject, ends: Sequence[TrueEnd], blind: Sequence[Span], until: float
) -> list[Stretch]:
    """Return what must and may be reported about a subject, from the beginning to ``until``."""
    deleted_at = deletion_of(world, subject)
    unlisted = [*unlisted_spans(world), *hidden_spans(world, subject.pipeline)]
    gone_at = due(deleted_at, DELETED_SECONDS, [*blind, *unlisted])
    own = [end for end in ends if end.subject == subject or end.end is End.COMPLETE]
    changes = {0.0, until, deleted_at, gone_at}
    for end in own:
        changes |= {end.known_at, end.due_at, end.until, end.must_until}
    borders = sorted(at for at in changes if 0 <= at <= until)
    found = []
    for begin, end_at in itertools.pairwise(borders):
        must = () if begin >= deleted_at else _of(subject, certain_failures(own, begin))
        may = () if begin >= gone_at else _of(subject, possible_failures(own, begin))
        found.append(Stretch(begin=begin, end=end_at, must=must, may=may))
    return found


def deletion_of(world: World, subject: Subject) -> float:
    """Return when the pipeline of a subject is deleted."""
    pipelines = world.plans if subject.kind is RunKind.PLAN_RUN else world.flows
    return next(
        (pipeline.deleted_at for pipeline in pipelines if pipeline.id == subject.pipeline), NEVER
    )


def _of(subject: Subject, failures: Iterable[TrueEnd]) -> tuple[TrueEnd, ...]:
    return tuple(failure for failure in failures if failure.subject == subject)
