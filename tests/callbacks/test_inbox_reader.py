"""Stored callbacks become events only when their runs are known, and none stays forever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from monitor.bus.contract import StoredCallback
from monitor.bus.sqlite.store import SqliteBus
from monitor.callbacks.inbox import InboxReader
from monitor.callbacks.settings import CallbackSettings
from monitor.model.errors import WorkspaceError, WorkspaceUnreachableError
from monitor.model.events import RunEvent
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, RunState
from monitor.supervisor import Supervisor
from monitor.tracking.observer import Observer
from tests.app.eventually import eventually
from tests.callbacks.conftest import job_group, polled
from tests.clocks import ManualClock


@dataclass
class Workspace:
    """The answers of the polling side, and the requests it got."""

    exists: bool | None = None
    requested: list[RunKey] = field(default_factory=list)
    woken: int = 0
    failure: WorkspaceError | None = None
    answering: asyncio.Event | None = None

    def must_wait(self, observation: Observation, known: RunState) -> bool:  # noqa: ARG002
        return True

    def complete_later(self, observations: Sequence[Observation]) -> None:  # noqa: ARG002
        raise AssertionError("every end has waited")

    async def complete(self, observations: Sequence[Observation]) -> list[Observation]:
        if self.failure is not None:
            raise self.failure
        return list(observations)

    async def confirm(self, key: RunKey) -> bool | None:
        self.requested.append(key)
        if self.failure is not None:
            raise self.failure
        if self.answering is not None:
            await self.answering.wait()
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
        follower=workspace,
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


async def until(condition: Callable[[], bool], clock: ManualClock) -> None:
    """Advance the clock until ``condition`` holds."""
    async with asyncio.timeout(10):
        while not condition():
            await clock.advance(0.5)


async def emitted(bus: SqliteBus) -> list[str]:
    """Return the ids of all events in the log."""
    return [event.event.id for event in await bus.events(after=0, limit=100)]


async def test_a_callback_ends_a_known_run(
    reader: InboxReader, observer: Observer, bus: SqliteBus, clock: ManualClock
) -> None:
    """The end of a known run is emitted, with the flow of the body, and the callback processed."""
    await observer.observe([polled(9, "InProgress", clock)])
    await arrive(bus, clock, 9)
    await reader.take_all()

    assert (await emitted(bus))[-1] == "acme:job_group:9:succeeded"
    assert (await bus.inbox("acme", limit=10)).callbacks == ()
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
    assert not await reader.ask_one()
    await clock.advance(3)
    assert await reader.ask_one()

    assert await emitted(bus) == []
    assert (await bus.inbox("acme", limit=10)).callbacks == ()
    labels = {"source": "callback", "outcome": "unconfirmed"}
    assert registry.get_sample_value("dataprep_monitor_observations_total", labels) == 1


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
    await reader.ask_one()

    assert workspace.requested == []
    assert (await emitted(bus))[-1] == "acme:job_group:9:succeeded"


async def test_an_unconfirmed_callback_is_given_up(
    reader: InboxReader, bus: SqliteBus, clock: ManualClock, workspace: Workspace
) -> None:
    """While the workspace fails a callback waits, with growing waits, up to a bound."""
    await arrive(bus, clock, 9)
    await reader.take_all()
    for _ in range(8):
        await clock.advance(600)
        await reader.ask_one()

    assert 0 < len(workspace.requested) <= 8
    assert (await bus.inbox("acme", limit=10)).callbacks == ()
    assert await emitted(bus) == []


@pytest.mark.parametrize("days", [40, -40])
async def test_no_callback_is_given_up_because_a_clock_was_set(
    reader: InboxReader,
    bus: SqliteBus,
    clock: ManualClock,
    workspace: Workspace,
    days: int,
) -> None:
    """A callback from before the step, or from the wrong time, waits its whole time."""
    await arrive(bus, clock, 9)
    await reader.take_all()
    clock.set_wall(clock.now() + timedelta(days=days))
    await arrive(bus, clock, 10)
    await reader.take_all()
    for _ in range(2):
        await clock.advance(300)
        await reader.ask_one()
        await reader.ask_one()
        clock.set_wall(clock.now() - timedelta(days=days))

    assert {key.id for key in workspace.requested} == {"9", "10"}
    waiting = (await bus.inbox("acme", limit=10)).callbacks
    assert [callback.run_id for callback in waiting] == ["9", "10"]


async def test_a_restart_processes_stored_callbacks(
    observer: Observer, reader: InboxReader, bus: SqliteBus, clock: ManualClock
) -> None:
    """A callback that was stored before a crash is processed after the restart."""
    await arrive(bus, clock, 9)
    await observer.observe([polled(9, "InProgress", clock)])
    await reader.take_all()

    assert (await emitted(bus))[-1] == "acme:job_group:9:succeeded"


async def test_a_burst_of_unknown_runs_is_read_one_by_one(
    reader: InboxReader, bus: SqliteBus, clock: ManualClock, workspace: Workspace
) -> None:
    """Fifty forged ids are not fifty concurrent reads: each turn reads one of them."""
    workspace.exists = False
    for number in range(50):
        await arrive(bus, clock, number)
    await reader.take_all()
    await clock.advance(3)
    await reader.take_all()
    requested_by_processing = list(workspace.requested)
    await reader.ask_one()
    await reader.ask_one()

    assert requested_by_processing == []
    assert len(workspace.requested) == 2
    assert len((await bus.inbox("acme", limit=100)).callbacks) == 48


async def test_a_run_shown_meanwhile_costs_no_read(
    reader: InboxReader,
    observer: Observer,
    bus: SqliteBus,
    clock: ManualClock,
    workspace: Workspace,
) -> None:
    """A run that live state knows by now is not read by its id."""
    await arrive(bus, clock, 9)
    await reader.take_all()
    await clock.advance(3)
    await observer.observe([polled(9, "InProgress", clock)])

    assert await reader.ask_one()
    assert workspace.requested == []
    assert (await bus.inbox("acme", limit=10)).callbacks == ()


async def test_a_workspace_that_fails_to_answer_delays_nothing(
    reader: InboxReader,
    observer: Observer,
    bus: SqliteBus,
    clock: ManualClock,
    workspace: Workspace,
) -> None:
    """When neither run nor job records can be read, known ends are emitted and the rest waits."""
    workspace.failure = WorkspaceUnreachableError("no answer")
    await observer.observe([polled(9, "InProgress", clock)])
    await arrive(bus, clock, 9)
    await arrive(bus, clock, 10)
    await reader.take_all()
    await clock.advance(3)

    assert await reader.ask_one()
    assert (await emitted(bus))[-1] == "acme:job_group:9:succeeded"
    assert [stored.run_id for stored in (await bus.inbox("acme", limit=10)).callbacks] == ["10"]


async def test_a_slow_answer_about_one_run_delays_no_other(
    reader: InboxReader,
    observer: Observer,
    bus: SqliteBus,
    clock: ManualClock,
    workspace: Workspace,
) -> None:
    """While a run is being read, the callback of a known run becomes an event."""
    workspace.answering = asyncio.Event()
    await arrive(bus, clock, 9)
    running = asyncio.create_task(reader.run())
    await until(lambda: bool(workspace.requested), clock)
    await observer.observe([polled(10, "InProgress", clock)])
    await arrive(bus, clock, 10)
    reader.notify()
    async with asyncio.timeout(10):
        while (await emitted(bus))[-1:] != ["acme:job_group:10:succeeded"]:  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)

    assert workspace.requested == [job_group(9)]
    running.cancel()
    await asyncio.wait({running})


async def test_a_run_that_never_becomes_known_is_given_up_too(
    reader: InboxReader, bus: SqliteBus, clock: ManualClock, workspace: Workspace
) -> None:
    """A run that exists and cannot be observed does not keep its callback without limit."""
    workspace.exists = True
    await arrive(bus, clock, 9)
    await reader.take_all()
    for _ in range(8):
        await clock.advance(600)
        await reader.ask_one()

    assert (await bus.inbox("acme", limit=10)).callbacks == ()


async def test_a_store_that_cannot_be_read_ends_the_reader(
    reader: InboxReader, bus: SqliteBus, clock: ManualClock
) -> None:
    """The supervisor says why, and starts the reader again and again."""
    supervisor = Supervisor(clock=clock, registry=CollectorRegistry())
    await bus.close()
    with capture_logs() as logs:
        running = asyncio.create_task(supervisor.supervise("inbox", reader.run))

        async def is_restarted() -> bool:
            await clock.advance(1)
            return [line.get("reason") for line in logs].count("the store is closed") >= 2

        await eventually(is_restarted, why="a reader without a store starts again")

    assert not running.done()
    running.cancel()
    await asyncio.wait({running})


async def test_a_restart_for_the_store_does_not_begin_the_wait_of_a_callback_again(
    reader: InboxReader, bus: SqliteBus, clock: ManualClock
) -> None:
    """A callback that has waited for most of its time is given up in time, however often."""
    await arrive(bus, clock, 9)
    await reader.take_all()
    await clock.advance(3_000)
    running = asyncio.create_task(reader.run())

    async def is_given_up() -> bool:
        await clock.advance(10)
        return (await bus.inbox("acme", limit=10)).callbacks == ()

    await eventually(is_given_up, why="the callback is not given up")
    assert clock.monotonic() < 3_000 + 1_500
    running.cancel()
    await asyncio.wait({running})


async def test_each_stored_callback_requests_a_poll(
    reader: InboxReader, workspace: Workspace
) -> None:
    """A callback wakes the poller, which coalesces."""
    reader.notify()

    assert workspace.woken == 1
