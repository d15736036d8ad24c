"""What a poll for changes alone would miss, show twice, or never complete."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from monitor.model.runs import Source
from monitor.polling.settings import PollSettings
from monitor.sandbox.settings import WorldOptions
from tests.decisions.followed import ALL, Followed, following, ids


@pytest.mark.parametrize(
    "offset_seconds", [-300.0, 300.0], ids=["our clock is ahead", "our clock is behind"]
)
async def test_our_clock_is_five_minutes_off(tmp_path: Path, offset_seconds: float) -> None:
    """Runs that end just before following are old, later ones are published, by any clock.

    By our own time a clock that is ahead requests changes of a later time and takes the
    first ends for old news; one that is late shows what had ended before.
    """
    options = WorldOptions(clock_offset_seconds=offset_seconds)
    async with Followed(tmp_path, options=options) as it:
        old = it.run_job_groups(2)
        await it.pass_time_there(100)
        await it.begin()
        new = []
        for _ in range(8):
            new.append(it.run_job_group())
            await it.pass_time(60)

        assert [await it.transitions(group.id) for group in new] == [ALL] * 8
        assert [await it.transitions(group.id) for group in old] == [[], []]
        assert abs((it.scenario.since() - it.sandbox.world.now()).total_seconds() + 480) < 3


async def test_a_run_appears_before_the_overlap(tmp_path: Path) -> None:
    """A row that a list shows ten minutes after it was written is published all the same.

    Changes alone never read so far back: one run would never begin, the other never have been.
    """
    options = WorldOptions(late_rows=1.0, late_seconds=600.0)
    settings = PollSettings(detail_wait_seconds=0.0, jitter_share=0.0, relist_seconds=1_200.0)
    async with following(tmp_path, options=options, settings=settings) as it:
        long, short = it.run_job_group(work_seconds=5_000), it.run_job_group()
        await it.pass_time(1_500)
        assert await it.transitions(long.id) == ["queued", "started"]
        assert await it.transitions(short.id) == ALL
        assert {event.observed_by for event in await it.events()} == {Source.RECONCILIATION}


async def test_a_page_boundary_moves(tmp_path: Path) -> None:
    """Runs that are deleted while a list is read in pages push no other over the edge.

    A reader that goes on at the next offset never sees the row that moved, and the watermark
    passes it.
    """
    async with following(tmp_path, page_size=4) as it:
        await it.crash()
        runs = it.run_job_groups(14)
        await it.pass_time_there(3_600)
        leaving = list(runs[:3])

        def delete_one(query: Mapping[str, str]) -> None:
            if query.get("offset", "0") != "0" and leaving:
                it.sandbox.engine.delete_run(leaving.pop())

        it.on_list(delete_one)
        await it.begin()

        assert leaving == []
        assert [await it.transitions(run.id) for run in runs[3:]] == [ALL] * 11


@pytest.mark.parametrize("shift", [1, -1, 3])
async def test_pages_hide_and_repeat_rows(tmp_path: Path, shift: int) -> None:
    """Rows that slip over the edge of every page, either way, are published, each once."""
    options = WorldOptions(shifted_pages=1.0, page_shift=shift)
    async with following(tmp_path, options=options, page_size=10) as it:
        await it.crash()
        runs = it.run_job_groups(35)
        await it.pass_time_there(3_600)
        await it.begin()

        published = await it.all_transitions()
        assert sorted(published) == sorted(f"{id_}:{word}" for id_ in ids(runs) for word in ALL)


@pytest.mark.parametrize("poison", ["types", "id", "text"])
async def test_a_poison_row_holds_the_watermark(tmp_path: Path, poison: str) -> None:
    """A row that cannot be read stands first in every list forever, and holds up nothing.

    Where it ends the poll no run is published any more; where it holds the watermark each poll asks
    for more than the one before, without end.
    """
    options = WorldOptions(poison_row=poison)  # type: ignore[arg-type]  # one of its words
    async with following(tmp_path, options=options) as it:
        bounds: list[int] = []
        it.on_list(lambda query: bounds.append(int(query.get("dateFilter[updatedAt][gte]", 0))))
        runs = []
        for _ in range(4):
            runs.append(it.run_job_group())
            await it.pass_time(120)

        assert [await it.transitions(run.id) for run in runs] == [ALL] * 4
        behind = it.sandbox.world.now().timestamp() - max(bounds) / 1_000
        assert behind < 60 + it.scenario.settings.overlap_seconds
        assert len(it.scenario.polls.refetch_queue) == 0
