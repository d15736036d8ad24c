"""The contract of retention."""

from __future__ import annotations

import asyncio

from monitor.bus.contract import Change, EventBus, Gap, Pruned, Received, Retention, Start, Step
from monitor.model.runs import RunKind, Status
from tests.bus.conftest import OpenBus
from tests.bus.examples import NOW, SOON, at, callback, events, key, log_of, run

KEEP_TWO = Retention(events_count=2)
CUT_TO_TWO = Retention(events_count=2, events_hard_cap=2)


async def fill(bus: EventBus, count: int) -> None:
    await bus.commit(events(*range(1, count + 1)), timeout_seconds=SOON)


async def test_events_leave_by_age(bus: EventBus) -> None:
    """Events older than the limit are removed; one that is exactly as old stays."""
    for number in (1, 2, 3):
        change = events(number, recorded_at=at(number))
        await bus.commit(change, timeout_seconds=SOON)
    pruned = await bus.prune(Retention(events_seconds=10), now=at(12))

    assert pruned == Pruned(events=1, runs=0, callbacks=())
    assert await log_of(bus) == [(2, "2"), (3, "3")]


async def test_events_leave_by_count(bus: EventBus) -> None:
    """The oldest are removed until no more than the limit are stored."""
    await fill(bus, 2_505)

    assert (await bus.prune(KEEP_TWO, now=NOW)).events == 2_503
    assert await log_of(bus) == [(2_504, "2504"), (2_505, "2505")]


async def test_the_log_has_no_holes(bus: EventBus) -> None:
    """An event with an old time does not leave from between younger ones."""
    for number, seconds in ((1, 50), (2, 1), (3, 60)):
        change = events(number, recorded_at=at(seconds))
        await bus.commit(change, timeout_seconds=SOON)
    await bus.prune(Retention(events_seconds=20), now=at(65))

    assert [position for position, _ in await log_of(bus)] == [1, 2, 3]


async def test_a_slow_consumer_keeps_its_events(bus: EventBus) -> None:
    """Neither age nor count removes events that the slowest consumer has not read."""
    await fill(bus, 5)
    await bus.subscribe("slow", start=Start.OLDEST)
    await bus.subscribe("quick", start=Start.NEWEST)
    await bus.advance(Step(consumer="slow", position=1), timeout_seconds=SOON)
    await bus.prune(Retention(events_seconds=0, events_count=1), now=at(1_000))

    assert (await bus.status()).oldest_position == 2
    assert (await bus.read("slow", after=1, limit=9)).gap is None


async def test_the_hard_cap_overtakes_a_consumer(bus: EventBus) -> None:
    """Above the hard cap unread events are removed, and their consumer gets a gap."""
    await fill(bus, 5)
    await bus.subscribe("slow", start=Start.OLDEST)
    await bus.advance(Step(consumer="slow", position=1), timeout_seconds=SOON)
    await bus.prune(CUT_TO_TWO, now=NOW)
    batch = await bus.read("slow", after=1, limit=9)

    assert batch.gap == Gap(until=3, lost=2)
    assert [event.position for event in batch.events] == [4, 5]


async def test_a_gap_may_be_all_there_is(bus: EventBus) -> None:
    """A consumer that lost everything gets a gap up to the newest position, and no events."""
    await fill(bus, 3)
    await bus.subscribe("slow", start=Start.OLDEST)
    await bus.prune(Retention(events_count=0, events_hard_cap=0), now=NOW)
    batch = await bus.read("slow", after=0, limit=9)

    assert batch.gap == Gap(until=3, lost=3)
    assert batch.events == ()
    assert await bus.wait(0, timeout_seconds=SOON)


async def test_a_loss_is_counted_once(open_bus: OpenBus) -> None:
    """Reading over a gap again counts nothing, also after a restart; a longer gap adds the rest."""
    bus = await open_bus()
    await fill(bus, 6)
    await bus.subscribe("slow", start=Start.OLDEST)
    await bus.prune(Retention(events_count=4, events_hard_cap=4), now=NOW)
    for _ in range(2):
        await bus.read("slow", after=0, limit=9)
    assert (await bus.status()).consumers[0].lost == 2
    await bus.close()
    bus = await open_bus()
    await bus.prune(CUT_TO_TWO, now=NOW)
    await bus.read("slow", after=0, limit=9)

    assert (await bus.status()).consumers[0].lost == 4


async def test_events_that_were_read_are_not_lost(bus: EventBus) -> None:
    """A reader that is ahead of its stored position loses only what it has not read."""
    await fill(bus, 6)
    await bus.subscribe("ahead", start=Start.OLDEST)
    await bus.prune(CUT_TO_TWO, now=NOW)

    assert (await bus.read("ahead", after=3, limit=9)).gap == Gap(until=4, lost=1)
    assert (await bus.status()).consumers[0].lost == 1


async def test_concurrent_readers_count_a_loss_once(bus: EventBus) -> None:
    """Reads under one name that meet the same gap at the same time count it once."""
    await fill(bus, 6)
    await bus.subscribe("slow", start=Start.OLDEST)
    await bus.prune(CUT_TO_TWO, now=NOW)
    await asyncio.gather(*(bus.read("slow", after=0, limit=9) for _ in range(10)))

    assert (await bus.status()).consumers[0].lost == 4


async def test_a_reader_without_a_subscription_counts_no_loss(bus: EventBus) -> None:
    """Reading events from after a gap, under no or an unknown name, changes nothing."""
    await fill(bus, 6)
    await bus.subscribe("slow", start=Start.OLDEST)
    await bus.prune(CUT_TO_TWO, now=NOW)
    await bus.events(after=0, limit=9)
    batch = await bus.read("stranger", after=0, limit=9)

    assert batch.gap == Gap(until=4, lost=4)
    assert [consumer.lost for consumer in (await bus.status()).consumers] == [0]


async def test_a_new_consumer_has_lost_nothing(bus: EventBus) -> None:
    """A new consumer at the oldest event begins after the removed events."""
    await fill(bus, 6)
    await bus.prune(KEEP_TWO, now=NOW)
    start = await bus.subscribe("new", start=Start.OLDEST)

    assert start == 4
    assert (await bus.read("new", after=start, limit=9)).gap is None


async def test_positions_are_never_used_again(open_bus: OpenBus) -> None:
    """After all events were removed, and a restart, the next event gets the next position."""
    bus = await open_bus()
    await fill(bus, 3)
    await bus.prune(Retention(events_count=0, events_hard_cap=0), now=NOW)
    assert (await bus.status()).oldest_position == 4
    await bus.close()
    bus = await open_bus()
    await bus.commit(events(9), timeout_seconds=SOON)

    assert await log_of(bus) == [(4, "9")]


async def test_finished_runs_are_forgotten_after_their_end(bus: EventBus) -> None:
    """Runs that ended before the horizon are removed; active ones stay, however old."""
    stored = (
        run(1, Status.FAILED, finished_at=at(10)),
        run(2, Status.SUCCEEDED, finished_at=at(90)),
        run(3, Status.RUNNING, created_at=at(-9_999_999)),
    )
    await bus.commit(Change(runs=stored), timeout_seconds=SOON)
    pruned = await bus.prune(Retention(runs_seconds=50), now=at(100))

    assert pruned.runs == 1
    assert set(await bus.runs([stored_run.key for stored_run in stored])) == {key(2), key(3)}


async def test_any_number_of_runs_is_forgotten(bus: EventBus) -> None:
    """A single call of retention removes everything due, in as many steps as it needs."""
    due = tuple(run(number, Status.CANCELED, kind=RunKind.FLOW_RUN) for number in range(2_100))
    await bus.commit(Change(runs=due), timeout_seconds=SOON)

    assert (await bus.prune(Retention(runs_seconds=50), now=at(9_999))).runs == 2_100
    assert await bus.recent_runs(limit=9) == []


async def test_a_callback_expires_no_earlier_than_those_before_it(bus: EventBus) -> None:
    """One that a clock far in the past has dated stays as long as what had come before."""
    for number, seconds in ((1, 90), (2, -3_456_000), (3, 95)):
        arrived = callback(number, received_at=at(seconds))
        await bus.receive(arrived, inbox_bound=9, timeout_seconds=SOON)
    waiting = (await bus.inbox("marketing", limit=9)).callbacks
    retention = Retention(callbacks_seconds=50)
    assert (await bus.prune(retention, now=at(100))).callbacks == ()

    expired = (await bus.prune(retention, now=at(141))).callbacks
    assert {stored.id for stored in expired} == {waiting[0].id, waiting[1].id}


async def test_a_callback_from_the_future_keeps_no_other(bus: EventBus) -> None:
    """One that a clock far ahead has dated does not hold back what comes after it."""
    for number, seconds in ((1, 3_456_000), (2, 10)):
        arrived = callback(number, received_at=at(seconds))
        await bus.receive(arrived, inbox_bound=9, timeout_seconds=SOON)
    waiting = (await bus.inbox("marketing", limit=9)).callbacks

    expired = (await bus.prune(Retention(callbacks_seconds=50), now=at(100))).callbacks
    assert {stored.id for stored in expired} == {waiting[1].id}


async def test_callbacks_that_nothing_confirmed_are_returned(bus: EventBus) -> None:
    """Callbacks that waited too long leave the inbox, are returned, and count no longer."""
    await bus.receive(callback(1), inbox_bound=2, timeout_seconds=SOON)
    await bus.receive(callback(2, received_at=at(90)), inbox_bound=2, timeout_seconds=SOON)
    first, second = (await bus.inbox("marketing", limit=9)).callbacks
    pruned = await bus.prune(Retention(callbacks_seconds=50), now=at(100))

    assert pruned.callbacks == (first,)
    assert (await bus.inbox("marketing", limit=9)).callbacks == (second,)
    answer = await bus.receive(callback(3), inbox_bound=2, timeout_seconds=SOON)
    assert answer is Received.STORED


async def test_other_writes_pass_between_the_steps(bus: EventBus) -> None:
    """Commits succeed while a long retention runs, and nothing of them is lost."""
    await fill(bus, 5_000)
    await bus.subscribe("reader", start=Start.NEWEST)
    pruning = asyncio.ensure_future(bus.prune(Retention(events_count=0), now=NOW))
    await bus.commit(events(6_000), timeout_seconds=SOON)
    assert not pruning.done()
    await bus.commit(events(6_001), timeout_seconds=SOON)

    assert (await pruning).events == 5_000
    assert await log_of(bus) == [(5_001, "6000"), (5_002, "6001")]
