"""Run as a process of its own: commits as fast as it can and prints what was acknowledged.

Arguments: the store's file, a prefix for the numbers of this life, and optionally ``full``.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

from prometheus_client import CollectorRegistry

from monitor.bus.contract import Change, EventBus, Start, Step
from monitor.bus.sqlite import SqliteBus
from monitor.model.clock import SystemClock
from monitor.model.errors import BusUnavailableError
from monitor.model.runs import Status
from tests.bus.examples import SOON, callback, event, run

COMMITTERS = 20


def report(word: str, number: int) -> None:
    sys.stdout.write(f"{word} {number}\n")
    sys.stdout.flush()


def change(number: int) -> Change:
    """Return a run's start, with its state and its event."""
    return Change(runs=(run(number, Status.RUNNING),), events=(event(number),))


async def commit_until_stopped(bus: EventBus, first: int) -> None:
    number = first
    while True:
        await bus.commit(change(number), timeout_seconds=SOON)
        report("commit", number)
        await bus.receive(callback(number), inbox_bound=10**9, timeout_seconds=SOON)
        report("receive", number)
        number += COMMITTERS


async def step_until_stopped(bus: EventBus) -> None:
    """Count the events that were read, in state that must never part from the position."""
    position = await bus.subscribe("counter", start=Start.OLDEST)
    while True:
        await bus.wait(position, timeout_seconds=SOON)
        batch = await bus.read("counter", after=position, limit=50)
        position = batch.events[-1].position
        step = Step(consumer="counter", position=position, state={"count": b"%d" % position})
        await bus.advance(step, timeout_seconds=SOON)
        report("step", position)


async def run_until_killed(path: Path, first: int) -> None:
    bus = await SqliteBus.open(path, clock=SystemClock(), registry=CollectorRegistry())
    async with asyncio.TaskGroup() as tasks:
        for number in range(COMMITTERS):
            tasks.create_task(commit_until_stopped(bus, first + number))
        tasks.create_task(step_until_stopped(bus))


async def fill_the_disk(path: Path, first: int) -> None:
    """Commit under a limit of file size until it is refused, then without the limit again."""
    bus = await SqliteBus.open(path, clock=SystemClock(), registry=CollectorRegistry())
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    for number in range(first, first + 200):
        try:
            await bus.commit(change(number), timeout_seconds=SOON)
            report("commit", number)
        except BusUnavailableError:
            report("refused", number)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await bus.commit(change(first + 200), timeout_seconds=SOON)
    report("commit", first + 200)
    await bus.close()


if __name__ == "__main__":
    work = fill_the_disk if sys.argv[3:] == ["full"] else run_until_killed
    asyncio.run(work(Path(sys.argv[1]), int(sys.argv[2])))
