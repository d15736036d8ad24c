"""The observer: live state follows the commit; what belongs together is one commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.bus.contract import Received, StateEntry, StoredCallback
from monitor.bus.sqlite.store import SqliteBus
from monitor.model.errors import BusUnavailableError
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import (
    Implausible,
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    Source,
    Status,
)
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from monitor.tracking.settings import TrackingSettings
from tests.clocks import ManualClock

FLOW = Pipeline(kind=PipelineKind.FLOW, id="11", name="Daily sales")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def bus(tmp_path: Path, clock: ManualClock) -> AsyncIterator[SqliteBus]:
    opened = await SqliteBus.open(tmp_path / "state.db", clock=clock, registry=CollectorRegistry())
    yield opened
    await opened.close()


def observer_of(bus: SqliteBus, clock: ManualClock) -> tuple[Observer, LiveState]:
    """Return an observer with empty live state, as after a start."""
    live_state = LiveState(["acme"])
    observer = Observer(
        bus=bus,
        live_state=live_state,
        clock=clock,
        registry=CollectorRegistry(),
        settings=TrackingSettings(),
    )
    return observer, live_state


def key(number: int) -> RunKey:
    return RunKey("acme", RunKind.JOB_GROUP, str(number))


def observation_of(clock: ManualClock, number: int, word: str, **details: object) -> Observation:
    """Return a poll's observation of a job group of the flow."""
    at = clock.now()
    fields: dict[str, object] = {"created_at": at, "updated_at": at, "pipeline": FLOW, **details}
    return Observation(
        key=key(number),
        observed_at=at,
        native_status=word,
        source=Source(str(fields.pop("source", Source.POLL))),
        **fields,  # type: ignore[arg-type]  # fields of an observation, chosen by the test
    )


async def event_ids(bus: SqliteBus) -> list[str]:
    return [event.event.id for event in await bus.events(after=0, limit=1_000)]


async def test_a_failed_commit_changes_nothing(bus: SqliteBus, clock: ManualClock) -> None:
    """When the store refuses the commit, the live state stays as it was."""
    observer, live_state = observer_of(bus, clock)
    await observer.observe([observation_of(clock, 1, "Created")])
    await bus.close()

    with pytest.raises(BusUnavailableError):
        await observer.observe(
            [observation_of(clock, 1, "Failed"), observation_of(clock, 2, "InProgress")]
        )
    assert live_state.active[key(1)].run.status is Status.PENDING
    assert key(2) not in live_state.active
    assert all(status.last_status is None for status in live_state.view.pipeline_health())


async def test_an_observation_repeated_after_a_crash_emits_once(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """A daemon that dies after the commit and observes again adds no event."""
    observer, _ = observer_of(bus, clock)
    await observer.observe([observation_of(clock, 1, "Complete")])
    before = await event_ids(bus)
    again, live_state = observer_of(bus, clock)
    await again.open("acme")
    outcomes = await again.observe([observation_of(clock, 1, "Complete")])

    assert outcomes == [ObservationOutcome.UNCHANGED]
    assert await event_ids(bus) == before
    assert live_state.active == {}


async def test_our_clock_set_back_makes_no_future_of_times_of_the_workspace(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """The skew counts as it is when a run is observed, and not as a poll showed it last."""
    observer, live_state = observer_of(bus, clock)
    live_state.update_workspace("acme", clock_skew_seconds=0.0)
    await observer.open("acme", clock_skew=lambda: 1_200.0)
    later = clock.now() + timedelta(minutes=20)
    await observer.observe([observation_of(clock, 1, "InProgress", created_at=later)])
    await observer.observe(
        [observation_of(clock, 2, "InProgress", created_at=later + timedelta(minutes=2))]
    )

    states = await observer.known([key(1), key(2)])
    assert [states[key(number)].implausible for number in (1, 2)] == [
        (),
        (Implausible.IN_THE_FUTURE,),
    ]


async def test_a_restart_knows_what_was_active(bus: SqliteBus, clock: ManualClock) -> None:
    """Active runs, pipeline health and the start of following are read back."""
    observer, _ = observer_of(bus, clock)
    since = await observer.follow_since("acme", clock.now())
    await observer.observe(
        [observation_of(clock, 1, "InProgress"), observation_of(clock, 2, "Failed")]
    )

    again, live_state = observer_of(bus, clock)
    assert await again.open("acme") == since
    assert set(live_state.active) == {key(1)}
    (status,) = live_state.view.pipeline_health()
    assert (status.last_status, status.consecutive_failures) == (Status.FAILED, 1)


async def test_the_begin_of_following_never_moves(bus: SqliteBus, clock: ManualClock) -> None:
    """Every later call returns the instant that was fixed first."""
    observer, _ = observer_of(bus, clock)
    first = await observer.follow_since("acme", clock.now())

    assert await observer.follow_since("acme", clock.now() + timedelta(days=1)) == first


async def test_concurrent_observations_of_one_run_emit_once(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """Two observations at the same time wait for each other; no transition comes out twice."""
    observer, _ = observer_of(bus, clock)
    words = ["Created", "InProgress", "Complete"] * 10
    await asyncio.gather(*(observer.observe([observation_of(clock, 1, word)]) for word in words))

    assert await event_ids(bus) == [
        "acme:job_group:1:queued",
        "acme:job_group:1:started",
        "acme:job_group:1:succeeded",
    ]


async def test_batches_that_share_runs_do_not_block_each_other(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """Batches with the same runs in opposite order all come to their end."""
    observer, _ = observer_of(bus, clock)
    forth = [observation_of(clock, number, "InProgress") for number in range(20)]
    async with asyncio.timeout(10):
        await asyncio.gather(*(observer.observe(forth[::step]) for step in (1, -1) * 5))

    assert len(await event_ids(bus)) == 40


async def test_state_events_entries_and_inbox_are_one_commit(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """A callback leaves the inbox with the very commit that shows its event."""
    observer, _ = observer_of(bus, clock)
    await observer.observe([observation_of(clock, 1, "InProgress")])
    callback = StoredCallback(
        workspace="acme",
        kind=RunKind.JOB_GROUP,
        run_id="1",
        native_status="Failed",
        received_at=clock.now(),
        fingerprint="job_group:1:failed",
    )
    assert await bus.receive(callback, inbox_bound=9, timeout_seconds=5) is Received.STORED
    (stored,) = (await bus.inbox("acme", limit=10)).callbacks
    watermark = StateEntry(workspace="acme", topic="watermark", key="changes", value=b"7")
    observation = observation_of(clock, 1, "Failed", source=Source.CALLBACK, inbox_id=stored.id)
    await observer.observe([observation], state_entries=[watermark])

    assert (await event_ids(bus))[-1] == "acme:job_group:1:failed"
    assert (await bus.inbox("acme", limit=10)).callbacks == ()
    assert await bus.state_entries("acme", "watermark") == {"changes": b"7"}


async def test_an_unconfirmed_callback_stays_in_the_inbox(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """A callback for an unknown run makes no event and is not processed."""
    observer, _ = observer_of(bus, clock)
    callback = StoredCallback(
        workspace="acme",
        kind=RunKind.JOB_GROUP,
        run_id="1",
        native_status="Failed",
        received_at=clock.now(),
        fingerprint="job_group:1:failed",
    )
    await bus.receive(callback, inbox_bound=9, timeout_seconds=5)
    (stored,) = (await bus.inbox("acme", limit=10)).callbacks
    observation = observation_of(clock, 1, "Failed", source=Source.CALLBACK, inbox_id=stored.id)

    assert await observer.observe([observation]) == [ObservationOutcome.UNCONFIRMED]
    assert await event_ids(bus) == []
    assert len((await bus.inbox("acme", limit=10)).callbacks) == 1


async def test_finished_runs_leave_memory(bus: SqliteBus, clock: ManualClock) -> None:
    """Memory holds what is active; a thousand ended runs are in the store alone."""
    observer, live_state = observer_of(bus, clock)
    await observer.observe([observation_of(clock, number, "Complete") for number in range(1_000)])
    await observer.observe([observation_of(clock, 5_000, "InProgress")])

    assert set(live_state.active) == {key(5_000)}
    assert (await observer.known([key(7)]))[key(7)].status is Status.SUCCEEDED


async def test_a_forgotten_run_that_is_edited_emits_nothing(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """A run older than the memory of runs is historical, whatever its last write shows."""
    observer, _ = observer_of(bus, clock)
    await observer.follow_since("acme", clock.now() - timedelta(days=400))
    old = clock.now() - timedelta(days=40)
    edited = observation_of(
        clock, 1, "Complete", created_at=old, is_detail_final=True, finished_at=old
    )

    assert await observer.observe([edited]) == [ObservationOutcome.HISTORICAL]
    assert await event_ids(bus) == []


async def test_the_first_value_is_no_change(bus: SqliteBus, clock: ManualClock) -> None:
    """The first edition seeds; each later one is published once, with its number."""
    observer, _ = observer_of(bus, clock)
    changes = [
        await observer.changes.learn("acme", "edition", edition)
        for edition in ("PL", "PL", "RL", "PL")
    ]

    assert changes == [False, False, True, True]
    assert await event_ids(bus) == ["acme:edition:1", "acme:edition:2"]


@pytest.mark.parametrize("has_workspace_time", [True, False])
@pytest.mark.parametrize("step", [1, 3_600, 40 * 86_400, -1, -3_600, -40 * 86_400])
async def test_an_end_observed_after_our_clock_was_set_is_an_event(
    bus: SqliteBus, clock: ManualClock, step: int, *, has_workspace_time: bool
) -> None:
    """The workspace's clock, which was not set here, decides if a run is history."""
    observer, _ = observer_of(bus, clock)
    theirs = clock.now() - timedelta(seconds=clock.monotonic())

    def skew() -> float:
        at = theirs + timedelta(seconds=clock.monotonic())
        return (at - clock.now()).total_seconds()

    await observer.open("acme", clock_skew=skew if has_workspace_time else lambda: None)
    await observer.follow_since("acme", clock.now())
    await clock.advance(60)
    clock.set_wall(clock.now() + timedelta(seconds=step))
    at = theirs + timedelta(seconds=clock.monotonic())
    observation = observation_of(
        clock, 1, "Failed", created_at=at, started_at=at, finished_at=at, updated_at=at
    )

    assert await observer.observe([observation]) == [ObservationOutcome.CHANGED]
    assert (await event_ids(bus))[-1] == "acme:job_group:1:failed"


async def test_an_old_end_stays_history_after_our_clock_was_set_back(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """A run that may have been forgotten makes no events again, whatever our clock shows."""
    observer, _ = observer_of(bus, clock)
    theirs = clock.now()

    def skew() -> float:
        return (theirs - clock.now()).total_seconds()

    await observer.open("acme", clock_skew=skew)
    await observer.follow_since("acme", theirs - timedelta(days=60))
    clock.set_wall(clock.now() - timedelta(days=40))
    at = theirs - timedelta(days=31)
    observation = observation_of(
        clock, 1, "Failed", created_at=at, started_at=at, finished_at=at, updated_at=at
    )

    assert await observer.observe([observation]) == [ObservationOutcome.HISTORICAL]
    assert await event_ids(bus) == []


async def test_nothing_is_confirmed_in_the_future(bus: SqliteBus, clock: ManualClock) -> None:
    """A date ahead of ours, or from before our clock was set back, is confirmed now.

    Else no later observation would be newer, and no poll would read the run again.
    """
    observer, live_state = observer_of(bus, clock)
    ahead = observation_of(clock, 1, "InProgress")
    ahead = msgspec.structs.replace(ahead, observed_at=clock.now() + timedelta(hours=1))
    await observer.observe([ahead])
    assert live_state.active[key(1)].confirmed_at == clock.now()

    clock.set_wall(clock.now() - timedelta(hours=1))
    again, live_state = observer_of(bus, clock)
    await again.open("acme")
    assert live_state.active[key(1)].confirmed_at == clock.now()
    await clock.advance(10)
    await again.observe([observation_of(clock, 1, "InProgress")])
    assert live_state.active[key(1)].confirmed_at == clock.now()


async def test_one_answer_of_a_clock_far_ahead_makes_no_failure_history(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """A run begins and fails between two polls; the answer that shows it passed a wrong proxy."""
    observer, _ = observer_of(bus, clock)
    skews = iter([0.0, 40 * 86_400.0])
    await observer.open("acme", clock_skew=lambda: next(skews))
    await observer.follow_since("acme", clock.now())
    await observer.observe([observation_of(clock, 1, "InProgress")])
    await clock.advance(60)
    await observer.observe([observation_of(clock, 2, "Failed")])

    assert f"{key(2)}:failed" in await event_ids(bus)


async def test_a_clock_far_ahead_forgets_no_pipeline(bus: SqliteBus, clock: ManualClock) -> None:
    """A pipeline is idle past the horizon only by the time that has passed here, too."""
    observer, _ = observer_of(bus, clock)
    await observer.open("acme", clock_skew=lambda: 40 * 86_400.0)
    await observer.observe([observation_of(clock, 1, "Complete", finished_at=clock.now())])
    later = clock.now() + timedelta(days=40)

    assert observer.pipeline_health.pipelines("acme")
    assert await observer.forget_idle("acme", now=later, listed=()) == 0


async def test_a_stamp_of_an_undated_workspace_can_lie_in_the_future(
    bus: SqliteBus, clock: ManualClock
) -> None:
    """It is judged by what was known of the clock before it."""
    observer, _ = observer_of(bus, clock)
    await observer.open("acme", clock_skew=lambda: None)
    await observer.observe([observation_of(clock, 1, "InProgress")])
    later = clock.now() + timedelta(minutes=50)
    await observer.observe([observation_of(clock, 2, "InProgress", updated_at=later)])

    assert (await observer.known([key(2)]))[key(2)].implausible == (Implausible.IN_THE_FUTURE,)
