"""A reader that is started again for the store's sake goes on where it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Arrivals, EventBus
from monitor.callbacks.inbox import InboxReader
from monitor.callbacks.settings import CallbackSettings
from monitor.model.observations import Observation
from monitor.supervisor import Supervisor
from monitor.tracking.observer import Observer
from tests.app.eventually import eventually
from tests.app.refusing_store import RefusingStore
from tests.callbacks.conftest import polled
from tests.callbacks.test_inbox_reader import Workspace, arrive, emitted
from tests.clocks import ManualClock


class CompleteWorkspace(Workspace):
    """Shows all details of each end at once."""

    completed: list[str]

    async def complete(self, observations: Sequence[Observation]) -> list[Observation]:
        self.completed += [run.key.id for run in observations if not run.is_detail_final]
        return [msgspec.structs.replace(run, is_detail_final=True) for run in observations]


class LateInbox:
    """Answers with the inbox as it was before ``answering``."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus
        self.answering = asyncio.Event()

    async def inbox(self, *where: Any, **limits: Any) -> Arrivals:
        batch = await self._bus.inbox(*where, **limits)
        await self.answering.wait()
        return batch


@pytest.fixture
def workspace() -> CompleteWorkspace:
    made = CompleteWorkspace(exists=False)
    made.completed = []
    return made


@asynccontextmanager
async def supervised(reader: InboxReader, clock: ManualClock) -> AsyncIterator[None]:
    supervisor = Supervisor(clock=clock, registry=CollectorRegistry())
    running = asyncio.create_task(supervisor.supervise("inbox", reader.run))
    yield
    running.cancel()
    await asyncio.wait({running})


async def test_no_details_are_read_again(
    bus: RefusingStore, observer: Observer, clock: ManualClock, workspace: CompleteWorkspace
) -> None:
    """The reason that the workspace has shown is kept until the store has taken it."""
    reader = InboxReader(
        "acme",
        settings=CallbackSettings(),
        bus=bus,
        observer=observer,
        clock=clock,
        follower=workspace,
    )
    await observer.observe([polled(9, "InProgress", clock)])
    await arrive(bus, clock, 9, "Failed")
    bus.refuse_to_all("commit")

    async def is_refused_again() -> bool:
        await clock.advance(1)
        return bus.refusals >= 3

    async def is_emitted() -> bool:
        await clock.advance(1)
        return "acme:job_group:9:failed" in await emitted(bus)

    async with supervised(reader, clock):
        await eventually(is_refused_again, why="the reader does not start again")
        bus.refuse_to_all()
        await eventually(is_emitted, why="the failure is not emitted")

    assert workspace.completed == ["9"]


async def test_a_run_denied_while_the_inbox_is_read_again_is_dismissed_once(
    bus: RefusingStore,
    observer: Observer,
    clock: ManualClock,
    workspace: CompleteWorkspace,
    registry: CollectorRegistry,
) -> None:
    """A run that the workspace denies does not come back by an answer from before."""
    inbox = LateInbox(bus)
    reader = InboxReader(
        "acme",
        settings=CallbackSettings(),
        bus=inbox,  # type: ignore[arg-type]  # the reader asks it for nothing else
        observer=observer,
        clock=clock,
        follower=workspace,
    )
    inbox.answering.set()
    await arrive(bus, clock, 9)
    await reader.take_all()
    inbox.answering.clear()

    async def is_dismissed() -> bool:
        await clock.advance(1)
        return (await bus.inbox("acme", limit=10)).callbacks == ()

    async with supervised(reader, clock):
        await eventually(is_dismissed, why="a denied run is kept")
        inbox.answering.set()
        await arrive(bus, clock, 10)
        reader.notify()
        await eventually(is_dismissed, why="the next denied run is kept")

    labels = {"source": "callback", "outcome": "unconfirmed"}
    assert registry.get_sample_value("dataprep_monitor_observations_total", labels) == 2
    assert [key.id for key in workspace.requested] == ["9", "10"]
