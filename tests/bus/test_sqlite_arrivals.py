"""The inbox in memory equals the inbox in the file."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Change
from monitor.bus.sqlite import SqliteBus, inbox
from monitor.bus.sqlite.inbox import RecentCallbacks
from tests.bus.examples import SOON, callback
from tests.clocks import ManualClock

WORKSPACES = ("marketing", "finance")
# A number arrives, a negative one is processed if it waits; 0 restarts the store.
STEPS = st.lists(
    st.tuples(st.sampled_from(WORKSPACES), st.integers(-6, 6)), min_size=1, max_size=12
)


async def open_store(path: Path) -> SqliteBus:
    return await SqliteBus.open(path, clock=ManualClock(), registry=CollectorRegistry())


@given(steps=STEPS)
async def test_the_inbox_has_the_unprocessed_callbacks(
    steps: list[tuple[str, int]],
) -> None:
    """The inbox reads the same from any id, before and after a restart."""
    waiting: dict[tuple[str, str], int] = {}
    with TemporaryDirectory() as folder:
        bus = await open_store(Path(folder) / "state.db")
        received: set[tuple[str, int]] = set()
        for workspace, number in steps:
            if number == 0:
                await bus.close()
                bus = await open_store(Path(folder) / "state.db")
            elif number < 0:
                processed = waiting.pop((workspace, str(-number)), None)
                if processed is not None:
                    await bus.commit(Change(processed=(processed,)), timeout_seconds=SOON)
            elif (workspace, number) not in received:
                received.add((workspace, number))
                arriving = callback(number, workspace=workspace)
                await bus.receive(arriving, inbox_bound=10, timeout_seconds=SOON)
                newest = (await bus.inbox(workspace, limit=100)).callbacks[-1]
                waiting[workspace, newest.run_id] = newest.id
            for name in WORKSPACES:
                expected = sorted(text for (of, _), text in waiting.items() if of == name)
                for after in (0, *expected):
                    read = [
                        waiting.id
                        for waiting in (await bus.inbox(name, after=after, limit=100)).callbacks
                    ]
                    assert read == [text for text in expected if text > after]
        await bus.close()


async def test_older_callbacks_are_read_from_the_file() -> None:
    """Memory has a bound, and reports where it ends."""
    recent = RecentCallbacks()
    count = inbox.CALLBACKS_KEPT + 2
    recent.add(replace(callback(number), id=number) for number in range(1, count + 1))

    assert recent.waiting_after("marketing", 1, limit=1) is None
    behind = recent.waiting_after("marketing", 2, limit=1)
    assert behind is not None
    assert [waiting.id for waiting in behind] == [3]
    assert recent.waiting_after("finance", 0, limit=1) is None
