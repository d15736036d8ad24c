"""Where following begins: a crash in the middle of the initial poll emits nothing old or twice."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.decisions.followed import ALL, Followed, ids
from tests.polling.conftest import until


@pytest.mark.parametrize("page", [1, 2, 4])
async def test_a_crash_in_the_middle_of_the_initial_poll(tmp_path: Path, page: int) -> None:
    """The next life knows since when it follows, and reads what the first one did not reach.

    Where following begins with the first complete read, what ended before the second life is old
    news that was never reported. Where the watermark moves with each page, the rest of the list is
    never read.
    """
    async with Followed(tmp_path, page_size=5) as it:
        old = it.run_job_groups(22)
        await it.pass_time_there(600)
        active = it.run_job_group(work_seconds=1_000)
        await it.pass_time_there(60)
        pages: list[str] = []
        is_there = asyncio.Event()

        def stop_at_the_page(query: Mapping[str, str]) -> None:
            # The probe reads the list, too, yet no changes.
            if "dateFilter[updatedAt][gte]" in query:
                pages.append(query["offset"])
                if len(pages) == page:
                    is_there.set()

        it.on_list(stop_at_the_page)
        it.begin_unawaited()
        await until(is_there.is_set)
        await it.crash()
        meanwhile = it.run_job_group()
        await it.pass_time_there(2_000)
        await it.begin()
        states = [await it.scenario.state(group.id) for group in old]
        assert [state is not None and state.historical for state in states] == [True] * 22
        await it.pass_time(600, step=60)

        published = await it.all_transitions()
        expected = [f"{id_}:{word}" for id_ in ids([active, meanwhile]) for word in ALL]
        assert sorted(published) == sorted(expected)
