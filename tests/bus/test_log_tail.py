"""The log in memory equals the log in the file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from monitor.bus import log_tail
from monitor.bus.contract import EventBus, Recorded, Retention, Start, Step
from monitor.bus.log_tail import LogTail
from monitor.bus.sqlite import SqliteBus
from monitor.model.errors import BusUnavailableError
from tests.bus.examples import NOW, SOON, event, events
from tests.clocks import ManualClock

# Groups of numbers that are committed at the same time. A negative one is the step of a consumer
# that does not exist: it is refused, and its event with it.
GROUPS = st.lists(
    st.lists(st.integers(-3, 12).filter(bool), min_size=1, max_size=5), min_size=1, max_size=6
)


async def open_store(path: Path) -> SqliteBus:
    return await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())


async def store_together(bus: EventBus, numbers: list[int]) -> None:
    """Write all at once, so that they share one transaction."""

    async def store_number(number: int) -> None:
        if number > 0:
            await bus.commit(events(number), timeout_seconds=SOON)
            return
        step = Step(consumer="a stranger", events=(event(100 - number),))
        with pytest.raises(BusUnavailableError):
            await bus.advance(step, timeout_seconds=SOON)

    await asyncio.gather(*(store_number(number) for number in numbers))


@given(groups=GROUPS)
async def test_the_tail_is_the_end_of_the_file(groups: list[list[int]]) -> None:
    """After any commits, repetitions and refusals a restarted store reads the same log."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "state.db"
        bus = await open_store(path)
        for numbers in groups:
            await store_together(bus, numbers)
        from_memory = await bus.events(after=0, limit=1_000)
        await bus.close()

        again = await open_store(path)
        assert await again.events(after=0, limit=1_000) == from_memory
        await again.close()


async def test_a_cut_log_is_read_from_the_file(tmp_path: Path) -> None:
    """Removed events are a gap, also for a reader whose events were still in memory."""
    bus = await open_store(tmp_path / "state.db")
    await bus.subscribe("slow", start=Start.OLDEST)
    await bus.commit(events(1, 2, 3, 4), timeout_seconds=SOON)
    await bus.prune(Retention(events_count=1, events_hard_cap=1), now=NOW)

    batch = await bus.read("slow", after=0, limit=10)

    assert batch.gap is not None
    assert batch.gap.lost == 3
    assert [event.position for event in batch.events] == [4]
    await bus.close()


async def test_memory_holds_the_newest_only() -> None:
    """A reader after the events in memory reads from the file."""
    end = LogTail(7)
    stored = 2 * log_tail.EVENTS_KEPT + 1
    end.append([Recorded(7 + number, event(number)) for number in range(1, stored + 1)])

    kept = stored - log_tail.EVENTS_KEPT
    assert end.after(7 + kept - 1, limit=1) is None
    assert end.after(7 + kept, limit=1) == (Recorded(7 + kept + 1, event(kept + 1)),)
    assert end.after(7 + stored, limit=5) == ()
