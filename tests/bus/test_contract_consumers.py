"""The contract of the log and its consumers."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest
from msgspec.structs import replace

from monitor.bus.contract import Batch, DeadLetter, EventBus, Start, Step
from monitor.model.errors import BusUnavailableError
from tests.bus.conftest import OpenBus
from tests.bus.examples import NOW, SOON, at, event, events, log_of


def letter(position: int, *, refused_at: datetime = NOW) -> DeadLetter:
    return DeadLetter(
        position=position, event=event(position), reason="too large", refused_at=refused_at
    )


async def advance(bus: EventBus, step: Step) -> None:
    await bus.advance(step, timeout_seconds=SOON)


async def test_a_new_consumer_begins_where_it_subscribes(bus: EventBus) -> None:
    """The oldest start reads all stored events; the newest reads only later ones."""
    await bus.commit(events(1, 2, 3), timeout_seconds=SOON)

    assert await bus.subscribe("metrics", start=Start.OLDEST) == 0
    assert await bus.subscribe("mqtt", start=Start.NEWEST) == 3


async def test_a_known_consumer_keeps_its_position(open_bus: OpenBus) -> None:
    """Subscribing again, also after a restart, continues from the consumer's position."""
    bus = await open_bus()
    await bus.commit(events(1, 2, 3), timeout_seconds=SOON)
    await bus.subscribe("mqtt", start=Start.OLDEST)
    await advance(bus, Step(consumer="mqtt", position=2))
    await bus.close()
    bus = await open_bus()

    assert await bus.subscribe("mqtt", start=Start.NEWEST) == 2


async def test_dropped_consumers_leave_nothing(bus: EventBus) -> None:
    """Those not kept are returned and lose position, state and dead letters; the others stay."""
    await bus.commit(events(1), timeout_seconds=SOON)
    for name in ("a", "b", "c"):
        await bus.subscribe(name, start=Start.OLDEST)
        step = Step(consumer=name, position=1, state={"k": b"v"}, dead_letters=(letter(1),))
        await advance(bus, step)

    assert sorted(await bus.keep_only(["b", "never-seen"])) == ["a", "c"]
    assert [consumer.consumer for consumer in (await bus.status()).consumers] == ["b"]
    assert await bus.consumer_state("b") == {"k": b"v"}
    assert await bus.consumer_state("a") == {}
    assert await bus.dead_letters("a", limit=9) == []
    assert await bus.subscribe("a", start=Start.OLDEST) == 0


async def test_reading_goes_oldest_first_and_moves_nothing(bus: EventBus) -> None:
    """A batch has at most the limit, in order; reading it again gives the same."""
    await bus.commit(events(1, 2, 3), timeout_seconds=SOON)
    await bus.subscribe("mqtt", start=Start.OLDEST)
    batch = await bus.read("mqtt", after=1, limit=1)

    assert [(recorded.position, recorded.event) for recorded in batch.events] == [(2, event(2))]
    assert await bus.read("mqtt", after=1, limit=1) == batch
    assert await bus.subscribe("mqtt", start=Start.NEWEST) == 0


async def test_nothing_new_is_an_empty_batch(bus: EventBus) -> None:
    """At the end of the log, and in an empty one, there are neither events nor a gap."""
    assert await bus.read("mqtt", after=0, limit=9) == Batch()
    await bus.commit(events(1), timeout_seconds=SOON)
    assert await bus.read("mqtt", after=1, limit=9) == Batch()


async def test_a_reader_without_a_subscription_reads_the_same_log(bus: EventBus) -> None:
    """Events can be read without being a consumer."""
    await bus.commit(events(1, 2, 3), timeout_seconds=SOON)

    assert [event.position for event in await bus.events(after=1, limit=9)] == [2, 3]
    assert [event.position for event in await bus.events(after=0, limit=1)] == [1]


async def test_a_position_is_found_by_time(bus: EventBus) -> None:
    """The position lies before the first event recorded at or after the given time."""
    for number in (1, 2, 3):
        change = events(number, recorded_at=at(10 * number))
        await bus.commit(change, timeout_seconds=SOON)

    assert await bus.events_since(at(0)) == 0
    assert await bus.events_since(at(20)) == 1
    assert await bus.events_since(at(20.000001)) == 2
    assert await bus.events_since(at(99)) == 3


async def test_waiting_ends_when_the_log_has_grown(bus: EventBus) -> None:
    """A wait for a stored event ends at once, one for a later event ends with its commit."""
    waiting = [asyncio.ensure_future(bus.wait(0, timeout_seconds=SOON)) for _ in range(3)]
    await asyncio.sleep(0)
    await bus.commit(events(1), timeout_seconds=SOON)

    assert await asyncio.gather(*waiting) == [True] * 3
    assert await bus.wait(0, timeout_seconds=SOON)


async def test_waiting_ends_with_its_time(bus: EventBus) -> None:
    """An unfulfilled wait is False after its time; an event that is already stored ends none."""
    await bus.commit(events(1), timeout_seconds=SOON)
    waiting = asyncio.ensure_future(bus.wait(1, timeout_seconds=0.05))
    await bus.commit(events(1), timeout_seconds=SOON)

    assert not await waiting


async def test_a_wait_ends_with_events_from_before_a_restart(open_bus: OpenBus) -> None:
    """Events from before the restart end a wait at once."""
    bus = await open_bus()
    await bus.commit(events(1), timeout_seconds=SOON)
    await bus.close()
    bus = await open_bus()

    assert await bus.wait(0, timeout_seconds=SOON)


async def test_a_step_is_durable_as_a_whole(open_bus: OpenBus) -> None:
    """Position, state, appended events and dead letters of a step survive a restart together."""
    bus = await open_bus()
    await bus.commit(events(1), timeout_seconds=SOON)
    await bus.subscribe("metrics", start=Start.OLDEST)
    await advance(
        bus,
        Step(
            consumer="metrics",
            position=1,
            state={"runs": b"\x01", "gone": b""},
            events=(event(2),),
            dead_letters=(letter(1),),
        ),
    )
    await bus.close()
    bus = await open_bus()

    assert await bus.subscribe("metrics", start=Start.OLDEST) == 1
    assert await bus.consumer_state("metrics") == {"runs": b"\x01", "gone": b""}
    assert await log_of(bus) == [(1, "1"), (2, "2")]
    assert await bus.dead_letters("metrics", limit=9) == [letter(1)]


async def test_a_step_without_a_subscription_stores_nothing(bus: EventBus) -> None:
    """A consumer that has not subscribed, or was dropped, is refused together with its events."""
    step = Step(consumer="unknown", position=1, state={"k": b"v"}, events=(event(1),))
    with pytest.raises(BusUnavailableError, match="unknown"):
        await advance(bus, step)

    assert await log_of(bus) == []
    assert await bus.consumer_state("unknown") == {}


async def test_a_step_without_a_subscription_spoils_no_other(bus: EventBus) -> None:
    """Writes that wait together with a refused one are stored."""
    results = await asyncio.gather(
        bus.commit(events(1), timeout_seconds=SOON),
        advance(bus, Step(consumer="unknown", events=(event(2),))),
        bus.commit(events(3), timeout_seconds=SOON),
        return_exceptions=True,
    )

    assert isinstance(results[1], BusUnavailableError)
    assert (results[0], results[2]) == ((), ())
    assert await log_of(bus) == [(1, "1"), (2, "3")]


async def test_a_position_never_moves_back(bus: EventBus) -> None:
    """A step to an earlier position, or to none, leaves the position unchanged."""
    await bus.commit(events(1, 2, 3), timeout_seconds=SOON)
    await bus.subscribe("mqtt", start=Start.OLDEST)
    for position in (3, 1, None):
        await advance(bus, Step(consumer="mqtt", position=position))

    assert await bus.subscribe("mqtt", start=Start.OLDEST) == 3


async def test_state_is_kept_by_key(bus: EventBus) -> None:
    """A step overwrites the keys it names, deletes those it sets to None and leaves the rest."""
    await bus.subscribe("metrics", start=Start.OLDEST)
    await advance(bus, Step(consumer="metrics", state={"a": b"1", "b": b"2", "c": b"3"}))
    await advance(bus, Step(consumer="metrics", state={"a": b"9", "b": None, "z": None}))

    assert await bus.consumer_state("metrics") == {"a": b"9", "c": b"3"}


async def test_a_step_committed_twice_is_a_single_one(bus: EventBus) -> None:
    """A step that is repeated after a crash adds neither events nor dead letters."""
    await bus.subscribe("mqtt", start=Start.OLDEST)
    for _ in range(2):
        await advance(bus, Step(consumer="mqtt", events=(event(1),), dead_letters=(letter(1),)))

    assert len(await log_of(bus)) == 1
    assert len(await bus.dead_letters("mqtt", limit=9)) == 1


async def test_the_newest_dead_letters_come_first(bus: EventBus) -> None:
    """Dead letters are listed newest first up to the limit, and counted."""
    await bus.subscribe("mqtt", start=Start.OLDEST)
    for position in (1, 2, 3):
        await advance(bus, Step(consumer="mqtt", dead_letters=(letter(position),)))

    assert await bus.dead_letters("mqtt", limit=2) == [letter(3), letter(2)]
    assert (await bus.status()).consumers[0].dead_letters == 3


async def test_dead_letters_are_read_in_the_order_of_the_log(bus: EventBus) -> None:
    """Each page goes on after a position, whichever letter was stored first."""
    await bus.subscribe("mqtt", start=Start.OLDEST)
    await bus.subscribe("file", start=Start.OLDEST)
    for position in (3, -1, 2):
        await advance(bus, Step(consumer="mqtt", dead_letters=(letter(position),)))
    await advance(bus, Step(consumer="file", dead_letters=(letter(1),)))

    assert await bus.dead_letters_after("mqtt", None, limit=2) == [letter(-1), letter(2)]
    assert await bus.dead_letters_after("mqtt", 2, limit=2) == [letter(3)]


async def test_removed_letters_are_gone_with_their_step(open_bus: OpenBus) -> None:
    """They are counted no more, also after a restart; those of another consumer stay."""
    bus = await open_bus()
    for name in ("mqtt", "file"):
        await bus.subscribe(name, start=Start.OLDEST)
        letters = tuple(letter(position) for position in range(1, 5))
        await advance(bus, Step(consumer=name, dead_letters=letters))
    assert [status.dead_letters for status in (await bus.status()).consumers] == [4, 4]
    step = Step(consumer="mqtt", removed_letters=(1, 3, 99), state={"k": b"v"})
    for _ in range(2):
        await advance(bus, step)

    assert await bus.dead_letters("mqtt", limit=9) == [letter(4), letter(2)]
    assert [status.dead_letters for status in (await bus.status()).consumers] == [4, 2]
    await bus.close()
    bus = await open_bus()
    assert [status.dead_letters for status in (await bus.status()).consumers] == [4, 2]


async def test_a_letter_that_is_refused_again_has_the_new_reason(bus: EventBus) -> None:
    """It replaces the former one of its event, and others go in the same step."""
    await bus.subscribe("mqtt", start=Start.OLDEST)
    await advance(bus, Step(consumer="mqtt", dead_letters=(letter(1), letter(2), letter(3))))
    again = replace(letter(2), reason="not authorized", refused_at=at(60))
    await advance(bus, Step(consumer="mqtt", dead_letters=(again,), removed_letters=(1,)))

    assert await bus.dead_letters_after("mqtt", None, limit=9) == [again, letter(3)]


async def test_of_steps_that_are_stored_together_the_last_one_counts(bus: EventBus) -> None:
    """A letter that is stored, removed and stored again is there."""
    await bus.subscribe("mqtt", start=Start.OLDEST)
    steps = [
        Step(consumer="mqtt", dead_letters=(letter(1), letter(2))),
        Step(consumer="mqtt", removed_letters=(1, 2)),
        Step(consumer="mqtt", dead_letters=(letter(2),)),
    ]
    await asyncio.gather(*(advance(bus, step) for step in steps))

    assert await bus.dead_letters("mqtt", limit=9) == [letter(2)]


async def test_dead_letters_are_bounded(bus: EventBus) -> None:
    """Above ten thousand dead letters of a consumer the oldest are removed."""
    await bus.subscribe("mqtt", start=Start.OLDEST)
    letters = tuple(letter(position) for position in range(1, 10_006))
    await advance(bus, Step(consumer="mqtt", dead_letters=letters[:3]))
    await advance(bus, Step(consumer="mqtt", dead_letters=letters[3:]))
    kept = await bus.dead_letters("mqtt", limit=20_000)

    assert kept == list(letters[:4:-1])


async def test_the_status_shows_each_consumers_backlog(bus: EventBus) -> None:
    """Backlog and the age of the oldest unread event follow a consumer's position."""
    for number in (1, 2, 3):
        change = events(number, recorded_at=at(number))
        await bus.commit(change, timeout_seconds=SOON)
    await bus.subscribe("a", start=Start.OLDEST)
    await bus.subscribe("b", start=Start.NEWEST)
    await advance(bus, Step(consumer="a", position=1))
    status = await bus.status()

    assert (status.oldest_position, status.newest_position) == (1, 3)
    assert [
        (consumer.consumer, consumer.position, consumer.backlog) for consumer in status.consumers
    ] == [
        ("a", 1, 2),
        ("b", 3, 0),
    ]
    assert [consumer.oldest_at for consumer in status.consumers] == [at(2), None]
    assert status.store_bytes > 0


async def test_the_status_of_an_empty_store_is_empty(bus: EventBus) -> None:
    """Before the first event the oldest position is the one after the newest."""
    status = await bus.status()

    assert (status.oldest_position, status.newest_position) == (1, 0)
    assert status.consumers == ()
    assert status.inbox == {}


async def test_events_are_found_by_their_ids(bus: EventBus) -> None:
    """Each has its position in the log; an id that the log lacks is absent."""
    await bus.commit(events(1, 2, 3), timeout_seconds=SOON)

    found = await bus.events_by_id([event(3).id, "never-stored", event(1).id])

    assert {recorded.position: name for name, recorded in found.items()} == {
        1: event(1).id,
        3: event(3).id,
    }
    assert all(name == recorded.event.id for name, recorded in found.items())
    assert await bus.events_by_id([]) == {}
