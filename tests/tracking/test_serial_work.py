"""Work of one workspace runs piece by piece, in order, whatever is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from monitor.model.errors import BusUnavailableError
from monitor.tracking.serial_work import SerialWork


class Recorded:
    """Pieces of work that the test lets end, and when each has begun and ended."""

    def __init__(self) -> None:
        self.turns = SerialWork()
        self.lines: list[str] = []
        self.may_end = asyncio.Event()

    def piece(self, name: str) -> Callable[[], Awaitable[str]]:
        async def work() -> str:
            self.lines.append(f"{name} begins")
            await self.may_end.wait()
            self.lines.append(f"{name} ends")
            return name

        return work

    def start(self, name: str, *, workspace: str = "acme") -> asyncio.Task[str]:
        return asyncio.create_task(self.turns.run(workspace, self.piece(name)))


async def passing(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_work_of_one_workspace_does_not_overlap() -> None:
    """Each piece begins when the one before has ended, in the order of their arrival."""
    recorded = Recorded()
    pieces = [recorded.start(name) for name in ("first", "second", "third")]
    await passing()
    assert recorded.lines == ["first begins"]
    recorded.may_end.set()

    assert await asyncio.gather(*pieces) == ["first", "second", "third"]
    ordered = [
        f"{name} {what}" for name in ("first", "second", "third") for what in ("begins", "ends")
    ]
    assert recorded.lines == ordered


async def test_workspaces_do_not_wait_for_each_other() -> None:
    """Work of another workspace begins at once."""
    recorded = Recorded()
    pieces = [recorded.start("first"), recorded.start("other", workspace="other")]
    await passing()

    assert recorded.lines == ["first begins", "other begins"]
    recorded.may_end.set()
    await asyncio.gather(*pieces)


async def test_a_caller_that_is_cancelled_waits_for_its_work() -> None:
    """However often it is cancelled, its work ends, and the next begins only then."""
    recorded = Recorded()
    first, second = recorded.start("first"), recorded.start("second")
    await passing()
    for _ in range(2):
        first.cancel()
        await passing()
    assert not first.done()
    recorded.may_end.set()

    assert await second == "second"
    with pytest.raises(asyncio.CancelledError):
        await first
    assert recorded.lines[:2] == ["first begins", "first ends"]


async def test_work_that_has_not_begun_is_not_done() -> None:
    """A caller that is cancelled before its turn has come ends at once and leaves nothing."""
    recorded = Recorded()
    first, second = recorded.start("first"), recorded.start("second")
    await passing()
    second.cancel()
    await asyncio.wait((second,), timeout=30)
    assert second.cancelled()
    recorded.may_end.set()

    assert await first == "first"
    await passing()
    assert recorded.lines == ["first begins", "first ends"]


async def test_work_that_is_begun_needs_no_caller() -> None:
    """Work without a waiting caller is done in its turn, and its failure stops no other."""
    recorded = Recorded()
    recorded.may_end.set()

    async def fail() -> None:
        raise BusUnavailableError("the disk is full")

    failed = recorded.turns.begin("acme", fail)
    done = recorded.turns.begin("acme", recorded.piece("second"))

    assert await done == "second"
    assert isinstance(failed.exception(), BusUnavailableError)


async def test_only_a_failure_that_is_not_foreseen_ends_the_watch() -> None:
    """A store that refuses is its caller's matter; anything else is the daemon's."""
    turns = SerialWork()
    watching = asyncio.create_task(turns.watch())

    async def refuse() -> None:
        raise BusUnavailableError("the disk is full")

    async def break_down() -> None:
        raise KeyError("unforeseen")

    with pytest.raises(BusUnavailableError):
        await turns.run("acme", refuse)
    await passing()
    assert not watching.done()
    with pytest.raises(KeyError):
        await turns.run("acme", break_down)
    with pytest.raises(KeyError):
        await asyncio.wait_for(watching, timeout=30)
