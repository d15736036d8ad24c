"""The contract of changes: runs, events and state entries are stored together."""

from __future__ import annotations

import asyncio

import pytest

from monitor.bus.contract import Change, EventBus, StateEntry
from monitor.model.errors import BusUnavailableError
from monitor.model.runs import Parents, RunKind, Status
from tests.bus.conftest import OpenBus
from tests.bus.examples import SOON, at, callback, event, events, key, log_of, run


def entry(name: str, value: bytes | None, *, topic: str = "watermark") -> StateEntry:
    return StateEntry(workspace="marketing", topic=topic, key=name, value=value)


async def test_a_change_is_durable_when_commit_returns(open_bus: OpenBus) -> None:
    """After a restart every part of a committed change is stored unchanged."""
    bus = await open_bus()
    change = Change(
        runs=(run(1),), events=(event(1),), state_entries=(entry("job_group", b"\x00\xff"),)
    )
    await bus.commit(change, timeout_seconds=SOON)
    await bus.close()
    bus = await open_bus()

    assert await bus.runs([key(1)]) == {key(1): run(1)}
    assert [recorded.event for recorded in await bus.events(after=0, limit=10)] == [event(1)]
    assert await bus.state_entries("marketing", "watermark") == {"job_group": b"\x00\xff"}


async def test_the_same_change_again_changes_nothing(bus: EventBus) -> None:
    """A change that is committed twice, as a retry does, is in the store once."""
    change = Change(runs=(run(1),), events=(event(1), event(2)), state_entries=(entry("a", b"1"),))
    await bus.commit(change, timeout_seconds=SOON)
    await bus.commit(change, timeout_seconds=SOON)

    assert await log_of(bus) == [(1, "1"), (2, "2")]
    assert await bus.recent_runs(limit=10) == [run(1)]


async def test_a_change_processes_its_callbacks(bus: EventBus) -> None:
    """A callback that a change processed leaves the inbox; processing it again is harmless."""
    for number in (1, 2):
        await bus.receive(callback(number), inbox_bound=10, timeout_seconds=SOON)
    waiting = (await bus.inbox("marketing", limit=10)).callbacks
    for _ in range(2):
        await bus.commit(Change(processed=(waiting[0].id,)), timeout_seconds=SOON)

    assert (await bus.inbox("marketing", limit=10)).callbacks == (waiting[1],)
    assert (await bus.status()).inbox == {"marketing": 1}


async def test_an_event_id_of_the_log_is_not_added_again(bus: EventBus) -> None:
    """A repeated id takes no position, whether it comes later or in the same change."""
    await bus.commit(events(1, 2, 1), timeout_seconds=SOON)
    await bus.commit(events(2, 3), timeout_seconds=SOON)

    assert await log_of(bus) == [(1, "1"), (2, "2"), (3, "3")]


async def test_changes_of_many_callers_are_kept_in_their_order(bus: EventBus) -> None:
    """Concurrent commits lose nothing, and events keep the order of the calls."""
    numbers = list(range(300))
    await asyncio.gather(*(bus.commit(events(number), timeout_seconds=SOON) for number in numbers))

    assert await log_of(bus) == [(number + 1, str(number)) for number in numbers]


async def test_concurrent_changes_of_one_run_leave_the_later(bus: EventBus) -> None:
    """Of two concurrent states of a run, the later one is stored."""
    first, second = run(1, Status.PENDING), run(1, Status.RUNNING)
    await asyncio.gather(
        bus.commit(Change(runs=(first,)), timeout_seconds=SOON),
        bus.commit(Change(runs=(second,)), timeout_seconds=SOON),
    )

    assert await bus.runs([key(1)]) == {key(1): second}


async def test_an_unknown_run_is_absent(bus: EventBus) -> None:
    """Only stored runs are returned; an empty request returns none."""
    await bus.commit(Change(runs=(run(1),)), timeout_seconds=SOON)

    assert await bus.runs([key(1), key(2), key(1, RunKind.PLAN_RUN)]) == {key(1): run(1)}
    assert await bus.runs([]) == {}


async def test_any_number_of_runs_can_be_read(bus: EventBus) -> None:
    """A request for thousands of runs, of several kinds and workspaces, finds them all."""
    stored = {
        state.key: state
        for number in range(700)
        for kind in RunKind
        for state in [run(number, kind=kind, workspace=f"w{number % 2}")]
    }
    await bus.commit(Change(runs=tuple(stored.values())), timeout_seconds=SOON)

    assert await bus.runs(stored) == stored


async def test_active_runs_are_those_that_have_not_ended(bus: EventBus) -> None:
    """Active runs of one workspace come oldest first; ended ones and other workspaces do not."""
    stored = (
        run(3, Status.PENDING),
        run(1, kind=RunKind.FLOW_RUN),
        run(2, Status.FAILED),
        run(4, Status.LOST),
        run(5, workspace="other"),
    )
    await bus.commit(Change(runs=stored), timeout_seconds=SOON)

    assert await bus.active_runs("marketing") == [stored[1], stored[0]]
    await bus.commit(Change(runs=(run(3, Status.SUCCEEDED),)), timeout_seconds=SOON)
    assert await bus.active_runs("marketing") == [stored[1]]


async def test_recent_runs_come_newest_creation_first(bus: EventBus) -> None:
    """Without a filter all workspaces, kinds and statuses are merged by their creation."""
    kinds, statuses = list(RunKind), list(Status)
    stored = [
        run(number, statuses[number % 6], kind=kinds[number % 3], workspace=f"w{number % 4}")
        for number in range(48)
    ]
    await bus.commit(Change(runs=tuple(stored)), timeout_seconds=SOON)

    assert await bus.recent_runs(limit=100) == stored[::-1]
    assert await bus.recent_runs(limit=5) == stored[:-6:-1]


async def test_recent_runs_can_be_narrowed(bus: EventBus) -> None:
    """Workspace, kind and status each leave only the runs that fit, up to the limit."""
    matching = run(1, Status.FAILED, kind=RunKind.FLOW_RUN, workspace="w")
    others = (
        run(2, Status.FAILED, kind=RunKind.FLOW_RUN),
        run(3, Status.FAILED, workspace="w"),
        run(4, Status.RUNNING, kind=RunKind.FLOW_RUN, workspace="w"),
    )
    await bus.commit(Change(runs=(matching, *others)), timeout_seconds=SOON)

    narrowed = await bus.recent_runs(
        workspaces=["w"], kind=RunKind.FLOW_RUN, statuses=[Status.FAILED], limit=9
    )
    assert narrowed == [matching]
    assert await bus.recent_runs(workspaces=["w"], limit=2) == [others[2], others[1]]
    assert await bus.recent_runs(kind=RunKind.FLOW_RUN, limit=1) == [others[2]]
    assert await bus.recent_runs(statuses=[Status.FAILED], limit=1) == [others[1]]


async def test_recent_runs_of_a_time(bus: EventBus) -> None:
    """Those created from the one instant on and before the other, page after page, any filter."""
    stored = [run(number) for number in range(8)]
    await bus.commit(Change(runs=tuple(stored)), timeout_seconds=SOON)
    since, until = stored[2].created_at, stored[6].created_at

    assert await bus.recent_runs(since=since, until=until, limit=9) == stored[5:1:-1]
    first = await bus.recent_runs(until=until, limit=2)
    assert first == [stored[5], stored[4]]
    assert await bus.recent_runs(until=until, before=first[-1].key, limit=2) == stored[3:1:-1]
    assert await bus.recent_runs(until=until, before=stored[7].key, limit=1) == [stored[5]]
    assert await bus.recent_runs(workspaces=["marketing"], until=until, limit=1) == [stored[5]]
    assert await bus.recent_runs(until=stored[0].created_at, limit=9) == []


async def test_children_are_the_runs_whose_parent_it_is(bus: EventBus) -> None:
    """The children of a flow run and of a plan run are found; a job group has none."""
    of_flow = run(1, parents=Parents(flow_run="7"))
    of_both = run(2, Status.FAILED, parents=Parents(flow_run="7", plan_run="8"))
    elsewhere = run(3, workspace="other", parents=Parents(flow_run="7"))
    await bus.commit(Change(runs=(of_both, of_flow, elsewhere)), timeout_seconds=SOON)

    assert await bus.children(key(7, RunKind.FLOW_RUN)) == [of_flow, of_both]
    assert await bus.children(key(8, RunKind.PLAN_RUN)) == [of_both]
    assert await bus.children(key(7)) == []


async def test_a_state_entry_is_overwritten_and_deleted(bus: EventBus) -> None:
    """The last value of an entry is kept, and None deletes it; other topics are left alone."""
    await bus.commit(
        Change(
            state_entries=(
                entry("a", b"1"),
                entry("a", b"2"),
                entry("b", b"3"),
                entry("a", b"4", topic="t"),
            )
        ),
        timeout_seconds=SOON,
    )
    assert await bus.state_entries("marketing", "watermark") == {"a": b"2", "b": b"3"}

    await bus.commit(
        Change(state_entries=(entry("a", None), entry("c", None))), timeout_seconds=SOON
    )
    assert await bus.state_entries("marketing", "watermark") == {"b": b"3"}
    assert await bus.state_entries("marketing", "t") == {"a": b"4"}
    assert await bus.state_entries("other", "watermark") == {}


async def test_accepted_writes_are_finished_at_close(open_bus: OpenBus) -> None:
    """Commits that wait when the store is closed are stored, and their callers are answered."""
    bus = await open_bus()
    waiting = [
        asyncio.ensure_future(bus.commit(events(number), timeout_seconds=SOON))
        for number in range(50)
    ]
    await asyncio.sleep(0)
    await bus.close()
    await asyncio.gather(*waiting)
    bus = await open_bus()

    assert len(await log_of(bus)) == 50


async def test_a_closed_store_refuses(bus: EventBus) -> None:
    """After close, which may be repeated, reads, writes and waits raise."""
    waiting = asyncio.ensure_future(bus.wait(0, timeout_seconds=SOON))
    await asyncio.sleep(0)
    await bus.close()
    await bus.close()

    with pytest.raises(BusUnavailableError):
        await waiting
    with pytest.raises(BusUnavailableError):
        await bus.commit(events(1), timeout_seconds=SOON)
    with pytest.raises(BusUnavailableError):
        await bus.events(after=0, limit=1)
    with pytest.raises(BusUnavailableError):
        await bus.wait(0, timeout_seconds=SOON)
    with pytest.raises(BusUnavailableError):
        await bus.events_since(at(0))


async def test_a_probe_is_stored_and_never_read(bus: EventBus) -> None:
    """It emits no event, starts no run, and is no trouble of the store."""
    before = await bus.status()
    await bus.probe(timeout_seconds=SOON)
    await bus.probe(timeout_seconds=SOON)
    after = await bus.status()

    assert (after.newest_position, after.inbox, after.write_failures) == (
        before.newest_position,
        {},
        None,
    )
    assert await bus.recent_runs(limit=10) == []
