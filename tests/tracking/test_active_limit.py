"""The bound of active runs of a workspace: what has no room is said, and known later."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from monitor.bus.sqlite.store import SqliteBus
from monitor.model.observations import ObservationOutcome
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from tests.clocks import ManualClock
from tests.tracking.test_observer import event_ids, key, observation_of, observer_of

CHANGED, NO_ROOM = ObservationOutcome.CHANGED, ObservationOutcome.NO_ROOM
RUNNING, COMPLETE = "InProgress", "Complete"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def bus(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteBus]:
    opened = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    yield opened
    await opened.close()


@pytest.fixture
async def limited(bus: SqliteBus, clock: ManualClock) -> tuple[Observer, LiveState]:
    """Three active runs may be known."""
    observer, live_state = observer_of(bus, clock)
    await observer.open("acme", active_runs_limit=3)
    await observer.follow_since("acme", clock.now())
    return observer, live_state


async def test_more_active_runs_than_the_limit_stay_unknown(
    limited: tuple[Observer, LiveState], clock: ManualClock, bus: SqliteBus
) -> None:
    """Memory, store and events have those that came first; the reason is shown, logged once."""
    observer, live_state = limited
    with capture_logs() as lines:
        outcomes = await observer.observe([observation_of(clock, n, RUNNING) for n in range(5)])
        again = await observer.observe([observation_of(clock, n, RUNNING) for n in range(5, 9)])
    found = live_state.workspaces["acme"].too_many_runs

    assert outcomes == [CHANGED] * 3 + [NO_ROOM] * 2
    assert again == [NO_ROOM] * 4
    assert set(live_state.active) == {key(0), key(1), key(2)}
    assert {event.split(":")[2] for event in await event_ids(bus)} == {"0", "1", "2"}
    assert found is not None
    assert found.unwatched == ("job_group",)
    assert found.reason == (
        "3 runs are active, and active_runs_limit is 3: further ones are not seen before some end"
    )
    assert [line["event"] for line in lines] == ["too many active runs"]


async def test_a_run_without_room_has_all_its_events_at_its_end(
    limited: tuple[Observer, LiveState], clock: ManualClock, bus: SqliteBus
) -> None:
    """An end needs no room: what was not seen before is filled in."""
    observer, _ = limited
    await observer.observe([observation_of(clock, number, RUNNING) for number in range(4)])
    await clock.advance(60)
    (outcome,) = await observer.observe([observation_of(clock, 3, COMPLETE)])

    assert outcome is CHANGED
    transitions = [event.split(":")[-1] for event in await event_ids(bus) if ":3:" in event]
    assert transitions[-1] == "succeeded"
    assert "started" in transitions


async def test_an_end_makes_room(limited: tuple[Observer, LiveState], clock: ManualClock) -> None:
    """Known runs go on beside those without room; the next look finds a place for one more."""
    observer, live_state = limited
    await observer.observe([observation_of(clock, number, RUNNING) for number in range(4)])
    began = clock.monotonic()
    await clock.advance(60)
    outcomes = await observer.observe(
        [observation_of(clock, 1, COMPLETE), observation_of(clock, 0, RUNNING)]
    )
    observer.active_limit.found_room("acme", since=began)
    still = live_state.workspaces["acme"].too_many_runs
    await observer.observe([observation_of(clock, 3, RUNNING)])
    observer.active_limit.found_room("acme", since=clock.monotonic())

    assert NO_ROOM not in outcomes
    assert still is not None
    assert set(live_state.active) == {key(0), key(2), key(3)}
    assert live_state.workspaces["acme"].too_many_runs is None


async def test_runs_of_before_a_restart_count(
    limited: tuple[Observer, LiveState], clock: ManualClock, bus: SqliteBus
) -> None:
    """What the store has stays known, also above a lower limit, and leaves no room for more."""
    await limited[0].observe([observation_of(clock, number, RUNNING) for number in range(3)])
    observer, live_state = observer_of(bus, clock)
    await observer.open("acme", active_runs_limit=2)
    (outcome,) = await observer.observe([observation_of(clock, 9, RUNNING)])
    (known,) = await observer.observe([observation_of(clock, 2, RUNNING)])

    assert (outcome, len(live_state.active)) == (NO_ROOM, 3)
    assert known is not NO_ROOM


async def test_a_workspace_that_is_left_and_watched_again_begins_at_0(
    limited: tuple[Observer, LiveState], clock: ManualClock
) -> None:
    """A reload that removes a workspace and one that adds it leave no wrong number behind."""
    observer, live_state = limited
    await observer.observe([observation_of(clock, number, RUNNING) for number in range(3)])
    observer.leave("acme")
    live_state.add_workspace("acme")
    await observer.open("acme", active_runs_limit=4)
    outcomes = await observer.observe([observation_of(clock, n, RUNNING) for n in range(3, 5)])

    assert outcomes == [CHANGED, NO_ROOM]
