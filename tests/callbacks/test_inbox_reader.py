"""Stored callbacks become events only when their runs are known, and none stays for ever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import StoredCallback
from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks.inbox import InboxReader
from monitor.callbacks.settings import CallbackSettings
from monitor.model.events import RunEvent
from monitor.model.runs import RunKey, RunKind
from monitor.model.sightings import Sighting
from monitor.tracking.observer import Observer
from tests.callbacks.conftest import polled
from tests.clocks import ManualClock


@dataclass
class Workspace:
    """What the polling side answers, and what it was asked."""

    exists: bool | None = None
    asked: list[RunKey] = field(default_factory=list)
    woken: int = 0

    async def complete(self, sightings: Sequence[Sighting]) -> list[Sighting]:
        return list(sightings)

    async def confirm(self, key: RunKey) -> bool | None:
        self.asked.append(key)
        return self.exists

    def wake(self) -> None:
        self.woken += 1


@pytest.fixture
def workspace() -> Workspace:
    return Workspace()


@pytest.fixture
def reader(
    bus: SqliteBus, observer: Observer, clock: ManualClock, workspace: Workspace
) -> InboxReader:
    return InboxReader(
        "acme",
        settings=CallbackSettings(give_up_seconds=3_600),
        bus=bus,
        observer=observer,
        clock=clock,
        complete=workspace.complete,
        confirm=workspace.confirm,
        wake=workspace.wake,
    )


async def arrive(bus: SqliteBus, clock: ManualClock, number: int, word: str = "Complete") -> None:
    """Store a callback as the listener does."""
    callback = StoredCallback(
        workspace="acme",
        kind=RunKind.JOB_GROUP,
        run_id=str(number),
        native_status=word,
        flow_id="11",
        received_at=clock.now(),
        fingerprint=f"job_group:{number}:{word.lower()}",
    )
    await bus.receive(callback, inbox_bound=100, timeout_seconds=5)


async def told(bus: SqliteBus) -> list[str]:
    """Return the ids of all events in the log."""
    return [one.event.id for one in await bus.events(after=0, limit=100)]


async def test_a_callback_ends_a_known_run(
    reader: InboxReader, observer: Observer, bus: SqliteBus, clock: ManualClock
) -> None:
    """The end of a known run is told, with the flow that the body named, and settled."""
    await observer.observe([polled(9, "InProgress", clock)])
    await arrive(bus, clock, 9)
    await reader.take_all()

    assert (await told(bus))[-1] == "acme:job_group:9:succeeded"
    assert await bus.inbox("acme", limit=10) == []
    event = (await bus.events(after=0, limit=100))[-1].event
    assert isinstance(event, RunEvent)
    assert event.run.pipeline is not None
    assert event.run.pipeline.id == "11"


async def test_a_forged_run_id_invents_nothing(
    reader: InboxReader,
    bus: SqliteBus,
    clock: ManualClock,
    workspace: Workspace,
    registry: CollectorRegistry,
) -> None:
    """A run that the workspace denies makes no event, leaves the inbox and is counted."""
    workspace.exists = False
    await arrive(bus, clock, 666)
    await reader.take_all()
    assert workspace.asked == []
    await clock.advance(3)
    await reader.take_all()

    assert await told(bus) == []
    assert await bus.inbox("acme", limit=10) == []
    labels = {"source": "callback", "outcome": "unconfirmed"}
    assert registry.get_sample_value("dataprep_monitor_sightings_total", labels) == 1


async def test_an_unknown_run_waits_for_the_poll(
    reader: InboxReader,
    observer: Observer,
    bus: SqliteBus,
    clock: ManualClock,
    workspace: Workspace,
) -> None:
    """The poll that the callback woke may show the run; then nothing is read by id."""
    await arrive(bus, clock, 9)
    await reader.take_all()
    await observer.observe([polled(9, "InProgress", clock)])
    await clock.advance(3)
    await reader.take_all()

    assert workspace.asked == []
    assert (await told(bus))[-1] == "acme:job_group:9:succeeded"


async def test_what_nobody_confirms_is_given_up(
    reader: InboxReader, bus: SqliteBus, clock: ManualClock, workspace: Workspace
) -> None:
    """While the workspace cannot be asked a callback waits, with growing waits, up to a bound."""
    await arrive(bus, clock, 9)
    await reader.take_all()
    for _ in range(8):
        await clock.advance(600)
        await reader.take_all()

    assert 0 < len(workspace.asked) <= 8
    assert await bus.inbox("acme", limit=10) == []
    assert await told(bus) == []


async def test_a_restart_takes_what_was_left(
    observer: Observer, reader: InboxReader, bus: SqliteBus, clock: ManualClock
) -> None:
    """A callback that was stored before a crash is taken by the next life."""
    await arrive(bus, clock, 9)
    await observer.observe([polled(9, "InProgress", clock)])
    await reader.take_all()

    assert (await told(bus))[-1] == "acme:job_group:9:succeeded"


async def test_each_stored_callback_asks_for_a_poll(
    reader: InboxReader, workspace: Workspace
) -> None:
    """A callback wakes the poller, which coalesces."""
    reader.notify()

    assert workspace.woken == 1
