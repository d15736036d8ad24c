"""How a workspace answered in the last days: what is shown, what is stored, and how much of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from monitor.bus.sqlite import SqliteBus
from monitor.model.live_state import Reachability, ReachabilityStretch, WorkspaceStatus
from monitor.tracking.clock_step import move
from monitor.tracking.live_state import LiveState
from monitor.tracking.reachability_history import left_alone, shown, with_status
from monitor.tracking.status_memory import StatusMemory
from tests.clocks import ManualClock

REACHABLE, DEGRADED = Reachability.REACHABLE, Reachability.DEGRADED
UNREACHABLE, UNWATCHED = Reachability.UNREACHABLE, Reachability.UNKNOWN
STALE_SECONDS = 120.0
HOUR = 3_600.0

Drawn = list[tuple[Reachability, float, float]]  # with begin and end in seconds after the start


class Life:
    """One life of a daemon: what it knows of workspace ``w``, and what it remembers of it."""

    def __init__(self, bus: SqliteBus, clock: ManualClock, start: datetime) -> None:
        self.live_state = LiveState(["w"])
        self.memory = StatusMemory("w", bus=bus, live_state=self.live_state, clock=clock)
        self._clock = clock
        self._start = start

    async def see(self, reachability: Reachability, *, seconds: float = 0.0) -> None:
        """Let the workspace answer so, as each poll writes it, and for so long."""
        await self._write(reachability)
        for _ in range(int(seconds // 15)):
            await self._clock.advance(15)
            await self._write(reachability)
        await self._clock.advance(seconds % 15)

    async def _write(self, reachability: Reachability) -> None:
        now = self._clock.now()
        status = self.live_state.workspaces["w"]
        self.live_state.update_workspace(
            "w",
            reachability=reachability,
            since=status.since if status.reachability is reachability else now,
            known_at=now,
            is_remembered=False,
            reason=None if reachability is REACHABLE else f"it is {reachability}",
        )
        await self.memory.store()

    def drawn(self) -> Drawn:
        stretches = self.live_state.view.reachability_history(
            "w", now=self._clock.now(), stale_after_seconds=STALE_SECONDS
        )
        return [
            (
                stretch.reachability,
                (stretch.since - self._start).total_seconds(),
                (stretch.until - self._start).total_seconds(),
            )
            for stretch in stretches
        ]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def bus(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteBus]:
    opened = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    yield opened
    await opened.close()


class Lives:
    """Lives of daemons one after the other, over one store."""

    def __init__(self, bus: SqliteBus, clock: ManualClock) -> None:
        self._bus = bus
        self._clock = clock
        self._start = clock.now()

    async def begin(self) -> Life:
        life = Life(self._bus, self._clock, self._start)
        await life.memory.restore()
        return life


@pytest.fixture
def lives(bus: SqliteBus, clock: ManualClock) -> Lives:
    return Lives(bus, clock)


async def test_stretches_follow_each_other_without_holes(lives: Lives) -> None:
    """Each begins when the workspace changed, and the last one reaches until now."""
    life = await lives.begin()
    assert life.drawn() == []
    await life.see(REACHABLE, seconds=60)
    await life.see(DEGRADED, seconds=30)
    await life.see(UNREACHABLE, seconds=45)
    await life.see(REACHABLE, seconds=10)

    assert life.drawn() == [
        (REACHABLE, 0, 60),
        (DEGRADED, 60, 90),
        (UNREACHABLE, 90, 135),
        (REACHABLE, 135, 145),
    ]


async def test_it_begins_with_the_first_answer(lives: Lives, clock: ManualClock) -> None:
    """And not with the first time that the status is stored, some seconds later."""
    life = await lives.begin()
    life.live_state.update_workspace(
        "w", reachability=REACHABLE, since=clock.now(), known_at=clock.now()
    )
    await clock.advance(14)
    await life.see(REACHABLE, seconds=15)

    assert life.drawn() == [(REACHABLE, 0, 29)]


async def test_a_stretch_says_why(lives: Lives, clock: ManualClock) -> None:
    """Its reason is one sentence of bounded length."""
    life = await lives.begin()
    await life.see(UNREACHABLE)
    life.live_state.update_workspace("w", reason="x" * 5_000)
    (stretch,) = life.live_state.view.reachability_history(
        "w", now=clock.now(), stale_after_seconds=STALE_SECONDS
    )
    assert stretch.reason == "x" * 300


async def test_a_time_without_a_daemon_is_shown_as_unwatched(
    lives: Lives, clock: ManualClock
) -> None:
    """It is unknown how the workspace answered then, also where it answers as it did before."""
    life = await lives.begin()
    await life.see(REACHABLE, seconds=60)
    await clock.advance(HOUR)
    life = await lives.begin()
    before_its_answer = life.drawn()
    await life.see(REACHABLE, seconds=30)

    assert before_its_answer == [(REACHABLE, 0, 60), (UNWATCHED, 60, 60 + HOUR)]
    assert life.drawn() == [*before_its_answer, (REACHABLE, 60 + HOUR, 90 + HOUR)]


async def test_a_quick_restart_is_not_shown(lives: Lives, clock: ManualClock) -> None:
    """Two minutes are nothing in a week."""
    life = await lives.begin()
    await life.see(REACHABLE, seconds=60)
    await clock.advance(100)
    life = await lives.begin()
    await life.see(REACHABLE, seconds=30)
    await life.see(DEGRADED, seconds=15)

    assert life.drawn() == [(REACHABLE, 0, 190), (DEGRADED, 190, 205)]


async def test_restarts_without_an_answer_are_one_time_without_a_daemon(
    lives: Lives, clock: ManualClock
) -> None:
    """Starting often draws no more."""
    life = await lives.begin()
    await life.see(REACHABLE, seconds=60)
    for _ in range(3):
        await clock.advance(HOUR)
        life = await lives.begin()
        await life.memory.store()

    assert life.drawn() == [(REACHABLE, 0, 60), (UNWATCHED, 60, 60 + 3 * HOUR)]


async def test_a_machine_that_slept_watched_nothing(lives: Lives, clock: ManualClock) -> None:
    """The daemon goes on as if nothing had been; the strip says what it cannot know."""
    life = await lives.begin()
    await life.see(REACHABLE, seconds=60)
    clock.set_wall(clock.now() + timedelta(hours=5))
    assert life.drawn()[-1][0] is UNWATCHED  # nothing has confirmed it since
    await life.see(REACHABLE, seconds=30)

    assert life.drawn() == [
        (REACHABLE, 0, 60),
        (UNWATCHED, 60, 60 + 5 * HOUR),
        (REACHABLE, 60 + 5 * HOUR, 90 + 5 * HOUR),
    ]


async def test_a_clock_that_is_set_forward_hides_nothing(lives: Lives, clock: ManualClock) -> None:
    """It was watched all the time, though the clock shows five hours more."""
    life = await lives.begin()
    await life.see(REACHABLE, seconds=60)
    clock.set_wall(clock.now() + timedelta(hours=5))
    move(life.live_state, timedelta(hours=5), now=clock.now())
    await life.see(REACHABLE, seconds=30)

    assert life.drawn() == [(REACHABLE, 0, 90 + 5 * HOUR)]


async def test_seven_days_are_shown_and_hardly_more_is_kept(
    lives: Lives, bus: SqliteBus, clock: ManualClock
) -> None:
    """An older beginning is cut off at the edge; an older end is forgotten."""
    life = await lives.begin()
    await life.see(UNREACHABLE, seconds=15)
    await life.see(REACHABLE, seconds=15)
    await clock.advance(6 * 24 * HOUR)
    life = await lives.begin()
    await life.see(REACHABLE, seconds=15)
    await clock.advance(3 * 24 * HOUR)
    life = await lives.begin()
    await life.see(DEGRADED, seconds=15)

    end = 9 * 24 * HOUR + 60
    assert life.drawn() == [
        (UNWATCHED, end - 7 * 24 * HOUR, 6 * 24 * HOUR + 30),
        (REACHABLE, 6 * 24 * HOUR + 30, 6 * 24 * HOUR + 45),
        (UNWATCHED, 6 * 24 * HOUR + 45, end - 15),
        (DEGRADED, end - 15, end),
    ]
    stored = (await bus.state_entries("w", "reachability"))["last"]
    assert len(msgspec.json.decode(stored)) == 4


async def test_a_stretch_that_goes_on_is_not_written_again(lives: Lives, bus: SqliteBus) -> None:
    """A commit of the status carries the stretches only when another one begins."""
    life = await lives.begin()
    await life.see(REACHABLE, seconds=15)
    first = await bus.state_entries("w", "reachability")
    await life.see(REACHABLE, seconds=600)
    assert await bus.state_entries("w", "reachability") == first
    await life.see(DEGRADED)
    assert await bus.state_entries("w", "reachability") != first


async def test_a_workspace_that_is_not_watched_has_no_history(lives: Lives) -> None:
    """Nor has one that was removed."""
    life = await lives.begin()
    await life.see(REACHABLE, seconds=15)
    life.live_state.remove_workspace("w")
    assert life.drawn() == []


START = datetime.fromisoformat("2026-11-21T10:00:00Z")
steps = st.lists(
    st.tuples(
        st.sampled_from((REACHABLE, DEGRADED, UNREACHABLE, UNWATCHED)),
        st.integers(-7_200, 86_400),
    ),
    max_size=30,
)


@given(steps=steps, times=st.integers(1, 20))
def test_any_history_is_bounded_ordered_and_without_holes(
    steps: list[tuple[Reachability, int]], times: int
) -> None:
    """However often it changes, and though our clock is set back, it reaches from past to now."""
    stretches: tuple[ReachabilityStretch, ...] = ()
    now, status = START, WorkspaceStatus(workspace="w")
    for reachability, seconds in steps * times:
        now += timedelta(seconds=seconds)
        if reachability is UNWATCHED:
            stretches = left_alone(stretches)
            continue
        since = status.since if status.reachability is reachability else now
        status = WorkspaceStatus(
            workspace="w", reachability=reachability, since=since, known_at=now
        )
        stretches = with_status(stretches, status)
        assert len(stretches) <= 200
        assert (stretches[-1].reachability, stretches[-1].until) == (reachability, now)
    drawn = shown(stretches, status, now=now, stale_after=timedelta(seconds=STALE_SECONDS))
    for stretch, behind in pairwise(drawn):
        assert stretch.since <= stretch.until == behind.since
    if drawn:
        assert drawn[0].since >= now - timedelta(days=7)
        assert drawn[-1].until >= now


def test_a_workspace_that_flaps_for_days_keeps_its_outages() -> None:
    """Where the bound is reached, short stretches become part of the worse one beside them."""
    stretches: tuple[ReachabilityStretch, ...] = ()
    for number in range(1_000):
        now = START + timedelta(seconds=60 * number)
        reachability = DEGRADED if number % 2 else REACHABLE
        if 500 <= number < 520:
            reachability = UNREACHABLE
        status = WorkspaceStatus(workspace="w", reachability=reachability, since=now, known_at=now)
        stretches = with_status(stretches, status)

    assert 150 < len(stretches) <= 200
    (outage,) = [stretch for stretch in stretches if stretch.reachability is UNREACHABLE]
    assert outage.since <= START + timedelta(seconds=60 * 500)
    assert outage.until >= START + timedelta(seconds=60 * 520)
