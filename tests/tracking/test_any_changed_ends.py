"""Whatever ends a workspace, callbacks and records show, in whatever order they are read."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.events import STATUS_EVENTS, EventType
from monitor.model.observations import Observation
from monitor.model.runs import Source, status_of
from tests.tracking.histories import API_SOURCES, START, World, remaining
from tests.tracking.test_changed_ends import KEY, WORDS, called, ended, recorded, words, written

ENDS = frozenset(event for status, event in STATUS_EVENTS.items() if status.is_terminal)


@st.composite
def records(draw: st.DrawFn) -> tuple[list[Observation], list[Observation]]:
    """Draw what a record says one write after another, and reads of it in any order.

    Reads may lag behind the last write, callbacks and parts may say anything, job records come at
    any time.
    """
    ends = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))
    writes = [written(0, word, minute) for minute, word in enumerate(["InProgress", *ends])]
    if draw(st.booleans()):
        writes[1:] = [ended(minute, word) for minute, word in enumerate(ends, start=1)]
    reads: list[Observation] = []
    newest = 0
    for number in range(draw(st.integers(0, 12))):
        newest = min(len(writes) - 1, newest + draw(st.integers(0, 2)))
        row = draw(st.sampled_from(writes[: newest + 1]))
        minute = 5 + number / 60
        at = START + timedelta(minutes=minute)
        source = draw(st.sampled_from(API_SOURCES))
        read = msgspec.structs.replace(row, observed_at=at, requested_at=at, source=source)
        detail = msgspec.structs.replace(row, observed_at=at, source=Source.DETAIL, error="x")
        word = draw(st.sampled_from(WORDS))
        others = [called(minute, word), detail, recorded(minute, word, Source.PARTS)]
        if row is not writes[0]:
            full = recorded(
                minute,
                row.native_status or "",
                draw(st.sampled_from([*API_SOURCES, Source.DETAIL])),
            )
            full = msgspec.structs.replace(full, updated_at=row.updated_at, requested_at=at)
            others += [full, msgspec.structs.replace(detail, is_detail_final=True)]
        reads.append(draw(st.sampled_from([read, read, read, *others])))
    last = START + timedelta(minutes=6)
    reads.append(msgspec.structs.replace(writes[-1], observed_at=last, requested_at=last))
    return writes, reads


@given(drawn=records(), crashes=st.lists(st.booleans(), min_size=13, max_size=13))
def test_any_reads_of_a_changing_record_end_with_its_last_word(
    drawn: tuple[list[Observation], list[Observation]], crashes: list[bool]
) -> None:
    """At most one correction for each change, ids that repeat nothing, counters that add up.

    What is known of the end is of this end: no records that were read before it was seen.
    """
    writes, reads = drawn
    world = World()
    for read, is_crash in zip(reads, crashes, strict=False):
        if read.source in (Source.DETAIL, Source.PARTS) and KEY not in world.states:
            continue  # they are read of runs that are known
        if is_crash:
            world.observe(read, crash=True)  # and again, after the restart
        world.observe(read)
    world.confirm_callbacks()

    run, said = world.states[KEY], [write.native_status for write in writes]
    assert run.status is status_of(said[-1])
    assert len(set(words(world))) == len(words(world))
    changes = sum(before != after for before, after in pairwise(said[1:]))
    was_derived = any(event.observed_by is Source.PARTS for event in world.log)
    assert run.corrections <= changes + was_derived
    ends = [event for event in world.log if event.type in ENDS]
    corrections = [event for event in world.log if event.type is EventType.RUN_CORRECTED]
    assert ends[-1].run.status is run.status
    assert len(corrections) == len(ends) - 1
    for before, correction, after in zip(ends, corrections, ends[1:], strict=False):
        assert correction.before is after.before is before.run.status
        assert correction.run == after.run
    if run.corrections and run.jobs is not None:
        assert run.end_seen_at is not None
        assert run.jobs.read_at is not None
        assert run.jobs.read_at >= run.end_seen_at
    assert remaining(world) == {run.status: 1}
