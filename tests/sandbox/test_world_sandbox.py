"""The sandbox as a whole: traffic, schedules and the ledger over simulated hours."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest

from monitor.catalogue.operations import Edition
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, TrafficSettings, WorkSettings
from monitor.sandbox.world.ledger import DELETED, KINDS, RESULTS, Transition
from monitor.sandbox.world.records.runs import NativeStatus
from tests.clocks import ManualClock
from tests.sandbox.bench import advance_until

BUSY = SandboxSettings(work=WorkSettings(speed=10))
QUIET = SandboxSettings(traffic=None, schedules_fire=False)


@asynccontextmanager
async def started(settings: SandboxSettings) -> AsyncIterator[tuple[Sandbox, ManualClock]]:
    clock = ManualClock()
    sandbox = Sandbox(settings, clock)
    await sandbox.start(0)
    try:
        yield sandbox, clock
    finally:
        await sandbox.stop()


async def half_an_hour(settings: SandboxSettings) -> list[Transition]:
    async with started(settings) as (sandbox, clock):
        await clock.advance(1_800)
        return sandbox.ledger.transitions()


async def test_the_seed_decides_what_happens() -> None:
    """Two sandboxes of one seed live the same half hour; another seed lives another."""
    first = await half_an_hour(BUSY)
    assert len(first) > 500
    assert first == await half_an_hour(BUSY)
    other = await half_an_hour(msgspec.structs.replace(BUSY, seed=2))
    assert first != other


async def test_every_kind_of_run_and_result_happens() -> None:
    """Half an hour at ten times the speed shows all that a monitor must distinguish."""
    transitions = await half_an_hour(BUSY)
    observed = {(transition.kind, transition.after) for transition in transitions}
    ends = (NativeStatus.COMPLETE.value, NativeStatus.FAILED.value, NativeStatus.CANCELED.value)
    assert observed >= {(kind, end) for kind in KINDS for end in ends}
    origins = {(transition.kind, transition.ran_from) for transition in transitions}
    assert origins >= {("flow_run", "schedule"), ("flow_run", "ui"), ("plan_run", "schedule")}
    assert any(transition.is_sampling_like for transition in transitions)


async def test_the_ledger_shows_lawful_lives() -> None:
    """Every run is created once, only moves on and ends once; the counts are those of the lives."""
    async with started(BUSY) as (sandbox, clock):
        await clock.advance(900)
        sandbox.engine.delete_run(next(iter(sandbox.world.flow_runs)))
        ledger = sandbox.ledger
        lives: dict[tuple[str, int], list[str]] = defaultdict(list)
        for transition in ledger.transitions():
            before = lives[transition.kind, transition.run_id]
            assert transition.before == (before[-1] if before else None)
            before.append(transition.after)
    order = [NativeStatus.CREATED.value, NativeStatus.IN_PROGRESS.value]
    for life in lives.values():
        assert life[0] == NativeStatus.CREATED.value
        assert [item for item in life if item in order] == order[
            : len(life) - (life[-1] in RESULTS)
        ]
        assert sum(item in RESULTS for item in life[:-1]) == 0
    ended = Counter(
        (kind, RESULTS[life[-1]]) for (kind, _), life in lives.items() if life[-1] in RESULTS
    )
    counted = ledger.results(with_samples=True)
    assert {(kind, end): n for kind in KINDS for end, n in counted[kind].items() if n} == ended
    assert ledger.active(with_samples=True) == {
        run for run, life in lives.items() if life[-1] not in RESULTS
    }


async def test_the_ledger_and_the_world_agree() -> None:
    """A run shows its last entry in the ledger."""
    async with started(BUSY) as (sandbox, clock):
        await clock.advance(600)
        last = {
            (transition.kind, transition.run_id): transition
            for transition in sandbox.ledger.transitions()
        }
        world = sandbox.world
        shown = {("flow_run", run.id): run.status.value for run in world.flow_runs}
        shown |= {("job_group", run.id): run.status.value for run in world.job_groups}
        shown |= {("plan_run", run.id): run.status.value for run in world.plan_runs}
        assert {key: item.after for key, item in last.items()} == shown
        assert DELETED not in shown.values()


async def test_starting_stops_and_what_runs_comes_to_its_end() -> None:
    """After the stop nothing new is started by itself, and the sandbox becomes idle."""
    async with started(BUSY) as (sandbox, clock):
        await clock.advance(300)
        sandbox.stop_starting()
        roots = sum(
            transition.before is None for transition in sandbox.ledger.transitions("plan_run")
        )
        await advance_until(clock, lambda: not sandbox.ledger.active(with_samples=True))
        await clock.advance(600)
        assert (
            sum(transition.before is None for transition in sandbox.ledger.transitions("plan_run"))
            == roots
        )
        assert await sandbox.engine.idle(timeout_seconds=1)


async def test_it_waits_for_the_opening() -> None:
    """On request it starts nothing by itself before it is opened for work."""
    async with started(msgspec.structs.replace(BUSY, is_busy_at_once=False)) as (sandbox, clock):
        await clock.advance(600)
        assert sandbox.ledger.transitions() == []
        sandbox.open_for_work()
        await clock.advance(60)
        assert sandbox.ledger.transitions() != []


async def test_traffic_keeps_below_its_bound() -> None:
    """When much is running already, nothing is added."""
    traffic = TrafficSettings(job_groups_per_hour=36_000, active_runs=20)
    busy = SandboxSettings(traffic=traffic, schedules_fire=False)
    async with started(busy) as (sandbox, clock):
        await clock.advance(120)
        # Runs that were let in still make children of their own.
        assert 20 <= len(sandbox.ledger.active(with_samples=True)) < 30


async def test_speed_multiplies_the_traffic() -> None:
    """Ten times the speed starts about ten times as much in the same time."""
    counts = []
    for speed in (1, 10):
        settings = SandboxSettings(work=WorkSettings(speed=speed), schedules_fire=False)
        async with started(settings) as (sandbox, clock):
            await clock.advance(1_800)
            counts.append(sandbox.ledger.begun()["job_group"])
    assert 7 < counts[1] / counts[0] < 13


@pytest.mark.parametrize("edition", [Edition.LE, Edition.PC])
async def test_an_edition_without_plans_runs_none(edition: Edition) -> None:
    """Where plans cannot be run there are none, and the rest goes on."""
    async with started(msgspec.structs.replace(BUSY, edition=edition)) as (sandbox, clock):
        await clock.advance(300)
        assert sandbox.ledger.begun()["plan_run"] == 0
        assert sandbox.ledger.begun()["job_group"] > 0


async def test_a_frozen_sandbox_shows_what_was() -> None:
    """Nothing happens any more, whatever time passes; what stands can still be read."""
    async with started(BUSY) as (sandbox, clock):
        await clock.advance(300)
        sandbox.freeze()
        await clock.advance(0)
        count, active = len(sandbox.ledger.transitions()), sandbox.ledger.active()
        assert active
        await clock.advance(3_600)
        assert (len(sandbox.ledger.transitions()), sandbox.ledger.active()) == (count, active)
        headers = {"Authorization": f"Bearer {sandbox.token}"}
        async with aiohttp.ClientSession(sandbox.url, headers=headers) as session:
            answer = await session.get("/v4/jobLibrary/count", params={"runBy": "all"})
            assert (await answer.json())["count"] == len(sandbox.world.job_groups)


async def test_the_api_shows_what_runs() -> None:
    """A started job group is read over HTTP with the sandbox's own token."""
    async with started(QUIET) as (sandbox, clock):
        recipe = next(iter(sandbox.world.recipes))
        job_group = sandbox.engine.start_job_group(recipe, by=recipe.creator_id)
        await clock.advance(15)
        headers = {"Authorization": f"Bearer {sandbox.token}"}
        async with aiohttp.ClientSession(sandbox.url, headers=headers) as session:
            answer = await session.get(f"/v4/jobGroups/{job_group.id}")
            row = await answer.json()
        assert (row["id"], row["status"]) == (job_group.id, "InProgress")


async def test_a_port_in_use_is_reported() -> None:
    """The failure comes at once, and the sandbox can be started elsewhere."""
    async with started(QUIET) as (sandbox, clock):
        assert sandbox.url is not None
        port = int(sandbox.url.rpartition(":")[2])
        other = Sandbox(QUIET, clock)
        with pytest.raises(OSError, match="address already in use"):
            await other.start(port)
        assert await other.start(0) != sandbox.url
        await other.stop()
