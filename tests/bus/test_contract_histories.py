"""Any history of commits, consumers, retention and restarts, compared with a simple model."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from monitor.bus.contract import EventBus, Retention, Start, Step
from tests.bus.conftest import Backend, open_sqlite
from tests.bus.examples import NOW, SOON, events
from tests.clocks import ManualClock
from tests.examples import examples

names = st.sampled_from(("metrics", "mqtt", "alerting"))


class Consumer:
    """The model's state of a consumer."""

    def __init__(self, position: int, counted_until: int) -> None:
        self.position = position
        self.counted_until = counted_until
        self.lost = 0


class Histories(RuleBasedStateMachine):
    """Drives a store and a list of the events that the log must have."""

    backend: ClassVar[Backend]
    begun: ClassVar[int]  # histories so far

    def __init__(self) -> None:
        super().__init__()
        type(self).begun += 1
        self.folder = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.log: list[int] = []  # the numbers of the events by position, from 1
        self.cut = 0  # positions up to here are removed
        self.consumers: dict[str, Consumer] = {}
        self.bus = self.open()

    def open(self) -> EventBus:
        opening = type(self).backend(Path(self.folder.name), ManualClock())
        return self.runner.run(opening)

    def teardown(self) -> None:
        self.runner.run(self.bus.close())
        self.runner.close()
        self.folder.cleanup()

    def append(self, numbers: list[int]) -> None:
        for number in numbers:
            if number not in self.log[self.cut :]:
                self.log.append(number)

    @rule(numbers=st.lists(st.integers(0, 30), max_size=6))
    def commit(self, numbers: list[int]) -> None:
        self.runner.run(self.bus.commit(events(*numbers), timeout_seconds=SOON))
        self.append(numbers)

    @rule(name=names, start=st.sampled_from(Start))
    def subscribe(self, name: str, start: Start) -> None:
        if name not in self.consumers:
            position = self.cut if start is Start.OLDEST else len(self.log)
            self.consumers[name] = Consumer(position, self.cut)
        found = self.runner.run(self.bus.subscribe(name, start=start))
        assert found == self.consumers[name].position

    @rule(name=names)
    def drop(self, name: str) -> None:
        kept = set(self.consumers) - {name}
        dropped = self.runner.run(self.bus.keep_only(kept))
        assert dropped == [consumer for consumer in self.consumers if consumer == name]
        self.consumers.pop(name, None)

    @rule(name=names, limit=st.integers(1, 5), appended=st.lists(st.integers(31, 40), max_size=2))
    def read_and_advance(self, name: str, limit: int, appended: list[int]) -> None:
        if (consumer := self.consumers.get(name)) is None:
            return
        after = consumer.position
        batch = self.runner.run(self.bus.read(name, after=after, limit=limit))
        if batch.gap is not None:
            assert (batch.gap.until, batch.gap.lost) == (self.cut, self.cut - after)
            consumer.lost += max(0, self.cut - max(after, consumer.counted_until))
            consumer.counted_until = max(self.cut, consumer.counted_until)
        assert (batch.gap is None) == (after >= self.cut)
        start = max(after, self.cut)
        read = [int(event.event.id.split(":")[2]) for event in batch.events]
        assert read == self.log[start : start + limit]
        consumer.position = start + len(read)
        step = Step(consumer=name, position=consumer.position, events=events(*appended).events)
        self.runner.run(self.bus.advance(step, timeout_seconds=SOON))
        self.append(appended)

    @rule(count=st.integers(0, 8), room=st.integers(0, 8))
    def prune(self, count: int, room: int) -> None:
        retention = Retention(events_count=count, events_hard_cap=count + room)
        pruned = self.runner.run(self.bus.prune(retention, now=NOW))
        slowest = min(
            (consumer.position for consumer in self.consumers.values()), default=len(self.log)
        )
        removable = min(len(self.log) - count, slowest)
        cut = max(self.cut, removable, len(self.log) - count - room)
        assert pruned.events == cut - self.cut
        self.cut = cut

    @rule()
    def restart(self) -> None:
        self.runner.run(self.bus.close())
        self.bus = self.open()

    @invariant()
    def the_log_is_as_it_should_be(self) -> None:
        stored = self.runner.run(self.bus.events(after=0, limit=1_000))
        assert [
            (recorded.position, int(recorded.event.id.split(":")[2])) for recorded in stored
        ] == list(enumerate(self.log[self.cut :], start=self.cut + 1))

    @invariant()
    def the_status_is_as_it_should_be(self) -> None:
        status = self.runner.run(self.bus.status())
        assert (status.oldest_position, status.newest_position) == (
            self.cut + 1,
            len(self.log),
        )
        reported = {
            consumer.consumer: (consumer.position, consumer.backlog, consumer.lost)
            for consumer in status.consumers
        }
        assert reported == {
            name: (
                consumer.position,
                len(self.log) - max(consumer.position, self.cut),
                consumer.lost,
            )
            for name, consumer in self.consumers.items()
        }


def test_any_history_agrees_with_the_model(backend: Backend) -> None:
    """After every step of any history the store has the model's state."""

    class OfBackend(Histories):
        pass

    OfBackend.backend, OfBackend.begun = staticmethod(backend), 0
    run_state_machine_as_test(
        OfBackend,
        settings=settings(
            # A restart costs a server much more than a file.
            max_examples=examples(20 if backend is open_sqlite else 6),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
    assert OfBackend.begun > 1
