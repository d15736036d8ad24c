"""Who may change what is known of a workspace, and how long callbacks wait for it."""

from __future__ import annotations

import asyncio

from monitor.tracking.turns import Turns

BRIEFLY = 0.01


async def test_a_free_workspace_is_taken_at_once() -> None:
    """Without anybody else the turn is there, and there again when it was given back."""
    turns = Turns()
    for _ in range(2):
        turn = await turns.take("acme", within_seconds=0.0)
        assert turn is not None
        turn.give_back()


async def test_a_busy_workspace_is_waited_for_within_the_limit() -> None:
    """A turn that others keep is not waited for without end, one that they give back is had."""
    turns = Turns()
    held = await turns.take("acme", within_seconds=BRIEFLY)
    assert held is not None
    assert await turns.take("acme", within_seconds=BRIEFLY) is None
    taking = asyncio.create_task(turns.take("acme", within_seconds=60.0))
    await asyncio.sleep(0)
    held.give_back()

    assert await taking is not None


async def test_a_turn_that_passes_from_one_to_the_next_is_not_free() -> None:
    """Just after a release others are first, and the limit holds for whoever comes then."""
    turns = Turns()
    first = await turns.take("acme", within_seconds=BRIEFLY)
    assert first is not None
    may_end = asyncio.Event()

    async def hold() -> None:
        async with turns.of("acme", "other"):
            await may_end.wait()

    holding = asyncio.create_task(hold())
    await asyncio.sleep(0)
    first.give_back()  # the next one has not run yet

    async with asyncio.timeout(5):
        assert await turns.take("acme", within_seconds=BRIEFLY) is None
    may_end.set()
    await holding
    assert await turns.take("acme", within_seconds=BRIEFLY) is not None


async def test_a_cancelled_wait_holds_nothing() -> None:
    """Whoever is cancelled while waiting for a second workspace gives the first one back."""
    turns = Turns()
    held = await turns.take("other", within_seconds=BRIEFLY)

    async def hold() -> None:
        async with turns.of("acme", "other"):
            raise AssertionError("the other workspace is held")

    waiting = asyncio.create_task(hold())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert held is not None
    assert waiting.cancelled()
    assert await turns.take("acme", within_seconds=0.0) is not None
