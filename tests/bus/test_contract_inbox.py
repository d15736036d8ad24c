"""The contract of accepted callbacks."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from monitor.bus.contract import Change, EventBus, Received, Retention, StoredCallback
from tests.bus.conftest import OpenBus
from tests.bus.examples import SOON, callback, event, log_of
from tests.clocks import ManualClock

DAY_SECONDS = 86_400.0


async def receive(bus: EventBus, stored_callback: StoredCallback, *, bound: int = 100) -> Received:
    return await bus.receive(stored_callback, inbox_bound=bound, timeout_seconds=SOON)


async def process_all(bus: EventBus) -> None:
    waiting = (await bus.inbox("marketing", limit=100)).callbacks
    await bus.commit(Change(processed=tuple(stored.id for stored in waiting)), timeout_seconds=SOON)


async def test_a_received_callback_survives_a_restart(open_bus: OpenBus) -> None:
    """A stored callback waits unchanged after a restart, under an id of the store."""
    bus = await open_bus()
    assert await receive(bus, callback(1)) is Received.STORED
    await bus.close()
    bus = await open_bus()

    (waiting,) = (await bus.inbox("marketing", limit=10)).callbacks
    assert waiting.id > 0
    assert waiting.run_id == "1"
    assert waiting.received_at == callback(1).received_at
    assert waiting.fingerprint == callback(1).fingerprint
    assert waiting.task_flow_id == callback(1).task_flow_id == "7"


async def test_a_waiting_fingerprint_is_a_duplicate(bus: EventBus) -> None:
    """A callback equal to a waiting one is not stored again, except for another workspace."""
    assert await receive(bus, callback(1)) is Received.STORED
    assert await receive(bus, callback(1)) is Received.DUPLICATE
    assert await receive(bus, callback(1, workspace="other")) is Received.STORED

    assert (await bus.status()).inbox == {"marketing": 1, "other": 1}


async def test_duplicates_that_arrive_together_are_stored_once(bus: EventBus) -> None:
    """Of equal concurrent callbacks one is stored."""
    answers = await asyncio.gather(*(receive(bus, callback(1)) for _ in range(20)))

    assert sorted(answers) == [Received.DUPLICATE] * 19 + [Received.STORED]
    assert len((await bus.inbox("marketing", limit=100)).callbacks) == 1


async def test_a_processed_fingerprint_is_a_duplicate_for_a_day(
    bus: EventBus, clock: ManualClock
) -> None:
    """Its repetition is recognised until retention forgets it, whatever our clock shows then."""
    await receive(bus, callback(1))
    await process_all(bus)
    processed_at = clock.now()
    clock.set_wall(processed_at + timedelta(days=40))
    await bus.prune(Retention(), now=processed_at + timedelta(seconds=DAY_SECONDS - 1))
    assert await receive(bus, callback(1)) is Received.DUPLICATE

    await bus.prune(Retention(), now=processed_at + timedelta(seconds=DAY_SECONDS))
    assert await receive(bus, callback(1)) is Received.STORED
    assert len((await bus.inbox("marketing", limit=10)).callbacks) == 1


async def test_a_late_change_does_not_process_a_newer_callback(
    bus: EventBus, clock: ManualClock
) -> None:
    """The id of a callback that is stored again is another one."""
    await receive(bus, callback(1))
    (first,) = (await bus.inbox("marketing", limit=10)).callbacks
    await process_all(bus)
    await bus.prune(Retention(), now=clock.now() + timedelta(seconds=DAY_SECONDS + 1))
    await receive(bus, callback(1))
    await bus.commit(Change(processed=(first.id,)), timeout_seconds=SOON)

    assert len((await bus.inbox("marketing", limit=10)).callbacks) == 1


async def test_a_full_inbox_stores_nothing(bus: EventBus) -> None:
    """At the bound of a workspace new callbacks are refused; duplicates and others are not."""
    answers = [await receive(bus, callback(number), bound=2) for number in (1, 2, 3)]

    assert answers == [Received.STORED, Received.STORED, Received.FULL]
    assert await receive(bus, callback(1), bound=2) is Received.DUPLICATE
    assert await receive(bus, callback(1, workspace="other"), bound=2) is Received.STORED
    assert [stored.run_id for stored in (await bus.inbox("marketing", limit=9)).callbacks] == [
        "1",
        "2",
    ]


async def test_the_bound_holds_for_concurrent_callbacks(bus: EventBus) -> None:
    """Concurrent callbacks do not pass the bound either."""
    answers = await asyncio.gather(
        *(receive(bus, callback(number), bound=5) for number in range(20))
    )

    assert answers.count(Received.STORED) == 5
    assert answers.count(Received.FULL) == 15


async def test_processing_makes_room(bus: EventBus) -> None:
    """The bound counts waiting callbacks, not processed ones."""
    await receive(bus, callback(1), bound=1)
    await process_all(bus)

    assert await receive(bus, callback(2), bound=1) is Received.STORED


async def test_the_inbox_is_read_in_order_of_arrival(bus: EventBus) -> None:
    """Waiting callbacks come oldest first, from after an id, up to a limit."""
    for number in (5, 3, 9, 1):
        await receive(bus, callback(number))
    first = await bus.inbox("marketing", limit=2)
    rest = (await bus.inbox("marketing", after=first.until, limit=10)).callbacks

    assert [stored.run_id for stored in first.callbacks + rest] == ["5", "3", "9", "1"]
    assert (await bus.inbox("other", limit=10)).callbacks == ()


async def arrive(bus: EventBus, *arrived: StoredCallback) -> tuple[Received, ...]:
    change = Change(events=(event(1),), arrived=arrived)
    return await bus.commit(change, timeout_seconds=SOON)


async def test_a_callback_that_its_change_has_processed_never_waits(open_bus: OpenBus) -> None:
    """It is stored with the change, is in no inbox, and its repetition is a duplicate."""
    bus = await open_bus()
    assert await arrive(bus, callback(1), callback(2)) == (Received.STORED, Received.STORED)
    await bus.close()
    bus = await open_bus()

    assert (await bus.inbox("marketing", limit=10)).callbacks == ()
    assert (await bus.status()).inbox == {}
    assert await receive(bus, callback(1)) is Received.DUPLICATE
    assert len(await log_of(bus)) == 1


async def test_a_duplicate_spoils_no_change(bus: EventBus, clock: ManualClock) -> None:
    """Each callback of a change has its own answer, and one processed a day ago is new."""
    await arrive(bus, callback(1))
    clock.set_wall(clock.now() + timedelta(seconds=DAY_SECONDS - 1))
    await arrive(bus, callback(2))
    await bus.prune(Retention(), now=clock.now() + timedelta(seconds=2))
    await receive(bus, callback(3))

    answers = await arrive(bus, *(callback(number) for number in (1, 2, 3, 4, 4)))

    new, old = Received.STORED, Received.DUPLICATE
    assert answers == (new, old, old, new, old)
    assert [waiting.run_id for waiting in (await bus.inbox("marketing", limit=10)).callbacks] == [
        "3"
    ]
