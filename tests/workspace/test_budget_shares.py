"""The minimum share of each class of requests: however many of the others wait, none starves."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from monitor.model.errors import BudgetExhaustedError
from monitor.workspace.api_metrics import ApiMetrics
from monitor.workspace.priority import Priority
from monitor.workspace.request_budget import SHARE, RequestBudget, TurnShares
from tests.clocks import ManualClock

OPERATION = "listJobLibrary"
# A class that is owed a turn waits until the others that are owed one had theirs.
LATE_TURNS = 2.5

classes = st.sets(st.sampled_from(Priority), min_size=1)


class Spenders:
    """Callers that want another turn as soon as they had one, by class."""

    def __init__(self, requests_per_minute: float) -> None:
        self.clock = ManualClock()
        self.budget = RequestBudget(
            workspace="north",
            requests_per_minute=requests_per_minute,
            clock=self.clock,
            metrics=ApiMetrics.of(CollectorRegistry()),
        )
        self.turns: list[Priority] = []
        self._tasks: list[asyncio.Task[None]] = []

    def add(
        self, priority: Priority, *, wait_seconds: float = 1e6, rest_seconds: float = 0.0
    ) -> None:
        async def spend() -> None:
            while True:
                try:
                    await self.budget.acquire(
                        priority, wait_seconds=wait_seconds, operation_id=OPERATION
                    )
                except BudgetExhaustedError:
                    continue
                self.turns.append(priority)
                await self.clock.sleep(rest_seconds)

        task = asyncio.get_running_loop().create_task(spend(), name=priority.name)
        self._tasks.append(task)

    async def live(self, seconds: float) -> Counter[Priority]:
        """Let time pass and return the turns of it."""
        before = len(self.turns)
        await self.clock.advance(seconds)
        return Counter(self.turns[before:])

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def most_behind(turns: Iterable[Priority], priority: Priority) -> float:
    """Return how many turns a class was behind its share at most, in any stretch of turns."""
    behind = worst = 0.0
    for turn in turns:
        behind = max(0.0, behind + SHARE - (turn is priority))
        worst = max(worst, behind)
    return worst


@given(always=classes, now_and_then=st.lists(classes, max_size=40))
def test_a_class_that_waits_gets_its_share(
    always: set[Priority], now_and_then: list[set[Priority]]
) -> None:
    """Whatever else waits, and when, a class that waits has its share of any stretch of turns.

    The first that waits keeps half of them.
    """
    shares, turns = TurnShares(), []
    for number in range(2_000):
        others = now_and_then[number % len(now_and_then)] if now_and_then else set()
        waiting = sorted(always | others)
        turn = shares.owed(waiting)
        turns.append(waiting[0] if turn is None else turn)
        shares.record(turns[-1], waiting)

    for priority in always:
        assert most_behind(turns, priority) <= LATE_TURNS
    if not now_and_then:
        assert turns.count(min(always)) >= len(turns) / 2


async def test_all_classes_together_keep_the_rate() -> None:
    """With everybody waiting, shares add nothing to the stated rate, and each class has turns."""
    spenders = Spenders(60)
    for priority in Priority:
        for _ in range(10):
            spenders.add(priority)
    await spenders.live(0)
    turns = await spenders.live(200)
    await spenders.close()

    assert sum(turns.values()) == 200
    assert min(turns[priority] for priority in Priority) >= 200 * SHARE - LATE_TURNS


@pytest.mark.parametrize("requests_per_minute", [10, 120])
async def test_a_class_that_gives_up_and_comes_again_keeps_what_it_is_owed(
    requests_per_minute: float,
) -> None:
    """Callers of the last class that wait shorter than its turn takes still get its share."""
    spenders = Spenders(requests_per_minute)
    for priority in Priority:
        if priority is not Priority.INVENTORY:
            for _ in range(20):
                spenders.add(priority)
    spenders.add(Priority.INVENTORY, wait_seconds=30 / requests_per_minute * 10)
    turns = await spenders.live(600 / requests_per_minute * 60)
    await spenders.close()

    assert turns[Priority.INVENTORY] >= 600 * SHARE - LATE_TURNS


async def test_a_class_that_takes_every_turn_without_waiting_starves_no_other() -> None:
    """Where ends take each turn when it is there, the bucket never fills up to the reserve."""
    spenders = Spenders(120)
    spenders.add(Priority.ENDS, rest_seconds=0.5)
    spenders.add(Priority.INVENTORY)
    await spenders.live(120)
    turns = await spenders.live(600)
    await spenders.close()

    assert turns[Priority.INVENTORY] >= 1_200 * SHARE - LATE_TURNS


async def test_a_change_poll_waits_for_few_others() -> None:
    """With everybody waiting at 120 a minute, a change poll has its turn within two seconds."""
    spenders = Spenders(120)
    for priority in Priority:
        if priority is not Priority.CHANGES:
            for _ in range(50):
                spenders.add(priority)
    await spenders.live(60)
    for _ in range(40):
        began = spenders.clock.monotonic()
        poll = asyncio.create_task(
            spenders.budget.acquire(Priority.CHANGES, wait_seconds=30, operation_id=OPERATION)
        )
        while not poll.done():
            await spenders.clock.advance(0.1)
        assert spenders.clock.monotonic() - began <= 2
        await spenders.clock.advance(4.7)
    await spenders.close()


async def test_the_status_names_the_classes_that_starve() -> None:
    """A class is named from the first request that found no room until two minutes after the last.

    A class whose requests only wait is not named.
    """
    spenders = Spenders(12)
    for _ in range(30):
        spenders.add(Priority.ENDS)
    spenders.add(Priority.RECONCILIATION, wait_seconds=1e6)
    await spenders.live(60)
    assert spenders.budget.status()[0].starved == ()
    with pytest.raises(BudgetExhaustedError):
        await spenders.budget.acquire(Priority.NAMES, wait_seconds=0, operation_id=OPERATION)
    assert spenders.budget.status()[0].starved == ("names",)
    await spenders.live(119)
    assert spenders.budget.status()[0].starved == ("names",)
    await spenders.live(2)
    assert spenders.budget.status()[0].starved == ()
    await spenders.close()
