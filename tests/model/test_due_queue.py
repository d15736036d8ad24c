"""The due queue against a simple model: order, bound, backoff and wake."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from monitor.model.due_queue import NEVER, DueQueue
from tests.clocks import ManualClock

_BOUND = 4
_BASE_SECONDS = 2.0
_CAP_SECONDS = 20.0

KEYS = st.sampled_from("abcdef")
SECONDS = st.sampled_from([0.0, 1.0, 2.0, 5.0, 60.0])


class SteppedClock(ManualClock):
    """No task sleeps by it."""

    def step(self, seconds: float) -> None:
        self._move_to(self._monotonic + seconds)


@dataclass
class Expected:
    """A key as the model knows it."""

    value: int
    due_at: float
    number: int  # of the operation that set ``due_at``
    attempts: int


class DueQueueAgainstAModel(RuleBasedStateMachine):
    """Does the same with a queue and with a dictionary that is searched as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = SteppedClock()
        self.queue: DueQueue[str, int] = DueQueue(
            self.clock, bound=_BOUND, base_seconds=_BASE_SECONDS, cap_seconds=_CAP_SECONDS
        )
        self.model: dict[str, Expected] = {}
        self.number = 0

    def set_due(self, key: str, after_seconds: float) -> None:
        self.number += 1
        expected = self.model[key]
        expected.number, expected.due_at = self.number, self.clock.monotonic() + after_seconds

    @rule(key=KEYS, after=SECONDS, attempts=st.integers(0, 2))
    def put(self, key: str, after: float, attempts: int) -> None:
        is_new, has_room = key not in self.model, len(self.model) < _BOUND
        self.number += 1
        is_kept = self.queue.put(key, self.number, after_seconds=after, attempts=attempts)
        assert is_kept is (has_room or not is_new)
        if not is_new:
            self.model[key].value = self.number
        elif has_room:
            self.model[key] = Expected(self.number, NEVER, 0, attempts)
            self.set_due(key, after)

    @rule(key=KEYS)
    def remove(self, key: str) -> None:
        expected = self.model.pop(key, None)
        assert self.queue.remove(key) == (None if expected is None else expected.value)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), after=st.one_of(SECONDS, st.just(NEVER)))
    def schedule(self, data: st.DataObject, after: float) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))
        self.queue.schedule(key, after_seconds=after)
        self.set_due(key, after)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), within=st.one_of(SECONDS, st.just(NEVER)))
    def retry(self, data: st.DataObject, within: float) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))
        self.queue.retry(key, within_seconds=within)
        self.model[key].attempts += 1
        wait = min(_BASE_SECONDS * 2 ** (self.model[key].attempts - 1), _CAP_SECONDS, within)
        self.set_due(key, wait)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def forgive(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))
        self.queue.forgive(key)
        self.model[key].attempts = 0

    @rule()
    def clear(self) -> None:
        self.queue.clear()
        self.model.clear()

    @rule(seconds=SECONDS)
    def let_time_pass(self, seconds: float) -> None:
        self.clock.step(seconds)

    @invariant()
    def holds_what_was_put(self) -> None:
        assert list(self.queue) == list(self.model)
        assert self.queue.values() == [expected.value for expected in self.model.values()]
        for key, expected in self.model.items():
            assert self.queue[key] == expected.value
            assert self.queue.due_at(key) == expected.due_at

    @invariant()
    def hands_out_what_is_longest_due_first(self) -> None:
        now = self.clock.monotonic()
        due = sorted(
            (expected.due_at, expected.number, key)
            for key, expected in self.model.items()
            if expected.due_at <= now
        )
        assert self.queue.due() == [key for *_, key in due]
        assert self.queue.due(2) == [key for *_, key in due[:2]]

    @invariant()
    def says_when_the_first_is_due(self) -> None:
        due_at = min((expected.due_at for expected in self.model.values()), default=NEVER)
        wait = None if due_at == NEVER else max(0.0, due_at - self.clock.monotonic())
        assert self.queue.seconds_until_due() == wait


TestDueQueueAgainstAModel = DueQueueAgainstAModel.TestCase


async def test_keys_that_may_be_due_earlier_wake_the_wait() -> None:
    """A new key, another time and a retry each end a wait; removing and pausing end none."""
    clock = ManualClock()
    queue: DueQueue[str, None] = DueQueue(clock, bound=2, base_seconds=1.0, cap_seconds=1.0)

    async def is_woken() -> bool:
        waiting = asyncio.create_task(queue.wake.wait(5))
        await clock.advance(5)
        return await waiting

    queue.put("a", None, after_seconds=60)
    assert await is_woken()
    queue.put("b", None, after_seconds=NEVER)
    assert not await is_woken()
    queue.schedule("a", after_seconds=30)
    assert await is_woken()
    queue.retry("b")
    assert await is_woken()
    queue.schedule("b", after_seconds=NEVER)
    queue.remove("a")
    assert not await is_woken()


def test_places_that_were_left_do_not_add_up() -> None:
    """A key that is scheduled again and again takes the room of a few."""
    queue: DueQueue[int, None] = DueQueue(ManualClock(), bound=None)
    for number in range(10_000):
        queue.put(number % 10, None)
        queue.schedule(number % 10, after_seconds=float(number))
    assert len(queue._heap) <= 64
    assert len(queue) == 10


def test_durable_keys_are_taken_beyond_the_bound() -> None:
    """Between the question for room and the answer of the store others may have come."""
    queue: DueQueue[str, int] = DueQueue(ManualClock(), bound=1)
    assert queue.put("a", 1)
    assert not queue.put("b", 1)
    assert queue.put("c", 1, is_durable=True)
    assert queue.due() == ["a", "c"]
    assert not queue.has_room()
