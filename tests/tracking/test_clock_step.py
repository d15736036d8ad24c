"""Live state keeps its ages while our clock is set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from monitor.model.inventory import ConnectionKnown, Figures, Inventory
from monitor.model.live_state import (
    DoubtedList,
    PollStatus,
    Reachability,
    RefusedCapability,
    TokenStatus,
    UnreadableRun,
    UnsharedPipeline,
    UnwatchedCause,
)
from monitor.model.observations import Observation
from monitor.model.poll_outcomes import PollOutcome
from monitor.model.runs import (
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)
from monitor.tracking.clock_step import dated, move
from monitor.tracking.live_state import LiveState, active_of

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
KEY = RunKey("acme", RunKind.JOB_GROUP, "1")


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


@pytest.fixture
def live_state() -> LiveState:
    """A workspace with all values that are dated by our clock."""
    live_state = LiveState(["acme"])
    run = RunState(
        key=KEY,
        status=Status.RUNNING,
        confirmed_at=ago(7),
        confirmed_by=Source.POLL,
        created_at=ago(90),
    )
    live_state.active[KEY] = active_of(run)
    live_state.confirm("acme", RunKind.JOB_GROUP, ago(8), complete_at=ago(9))
    live_state.record_poll(
        PollStatus(
            workspace="acme",
            poll="changes",
            last_attempt_at=ago(5),
            last_success_at=ago(6),
            last_outcome=PollOutcome.OK,
        )
    )
    live_state.update_workspace(
        "acme",
        reachability=Reachability.DEGRADED,
        since=ago(70),
        known_at=ago(4),
        last_callback_at=ago(60),
        clock_skew_seconds=2.0,
        followed_since=ago(500),
        refused=(RefusedCapability(capability="read_schedules", since=ago(30), reason="no"),),
        doubted=(DoubtedList(name="flows", since=ago(20), reason="short"),),
        unreadable=(UnreadableRun(kind=RunKind.FLOW_RUN, id="31", tried_at=ago(40), reason="500"),),
        unshared={
            "flow/20": UnsharedPipeline(
                pipeline=Pipeline(kind=PipelineKind.FLOW, id="20"),
                since=ago(50),
                hidden_from=ago(350),
                reason="403",
            )
        },
        token=TokenStatus(
            refreshed_at=ago(80),
            expires_at=ago(-1_000),
            pair_expires_at=ago(-9_000),
        ),
        inventory=Inventory(
            objects=Figures(values={}, until=ago(-10)),
            usage=Figures(values={}, until=ago(-11)),
            connections=(ConnectionKnown(id="1", name="s3", is_up=True, until=ago(-12)),),
        ),
    )
    return live_state


@pytest.mark.parametrize("seconds", [1.0, -1.0, 3_600.0, -3_600.0])
def test_our_times_move_and_those_of_the_workspace_stay(
    live_state: LiveState, seconds: float
) -> None:
    """Each age is the same before and after; the workspace's time is, too."""
    step = timedelta(seconds=seconds)
    there = live_state.workspaces["acme"].time_there(NOW)
    move(live_state, step, now=NOW + step)
    now, status, active = NOW + step, live_state.workspaces["acme"], live_state.active[KEY]
    poll = live_state.polls["acme", "changes"]
    causes: tuple[UnwatchedCause, ...] = (*status.refused, *status.doubted)
    (unreadable,), (unshared,), token = (
        status.unreadable,
        status.unshared.values(),
        status.token or TokenStatus(),
    )
    inventory = status.inventory
    moved = (
        poll.last_attempt_at,
        poll.last_success_at,
        active.confirmed_at,
        active.run.confirmed_at,
        live_state.confirmed["acme", RunKind.JOB_GROUP],
        status.known_at,
        status.since,
        status.last_callback_at,
        *(cause.since for cause in causes),
        unreadable.tried_at,
        unshared.since,
        token.refreshed_at,
        token.expires_at,
        *(figures.until for figures in (inventory.objects, inventory.usage) if figures),
        *(connection.until for connection in inventory.connections),
    )

    ages = [(now - at).total_seconds() for at in moved if at is not None]
    assert ages == [5, 6, 7, 7, 8, 4, 70, 60, 30, 20, 40, 50, 80, -1_000, -10, -11, -12]
    assert (unshared.hidden_from, token.pair_expires_at) == (ago(350), ago(-9_000))
    assert live_state.complete["acme", RunKind.JOB_GROUP] == ago(9)
    assert (active.run.created_at, status.followed_since) == (ago(90), ago(500))
    assert status.time_there(now) == there


def test_dates_of_a_former_life_stay(live_state: LiveState) -> None:
    """It is unknown by which clock a remembered status was written."""
    before = live_state.update_workspace("acme", is_remembered=True, token=None)
    move(live_state, timedelta(hours=1), now=NOW)

    assert live_state.workspaces["acme"] == before
    assert msgspec.structs.asdict(before)["known_at"] == ago(4)


def test_the_token_of_this_life_moves_in_a_status_of_a_former_one(live_state: LiveState) -> None:
    """The workspace was not reached since the start; its token was refreshed since."""
    live_state.update_workspace("acme", is_remembered=True)
    move(live_state, timedelta(hours=1), now=NOW + timedelta(hours=1))

    token = live_state.workspaces["acme"].token
    assert token is not None
    assert token.expires_at == NOW + timedelta(hours=1, seconds=1_000)


@pytest.mark.parametrize("seconds", [180.0, -180.0])
def test_observations_after_a_step_are_dated_by_then(live_state: LiveState, seconds: float) -> None:
    """Only what was under way at the step is moved by it; nothing is of a time to come."""
    step = timedelta(seconds=seconds)
    stepped = NOW + step
    move(live_state, step, now=stepped)
    for age in (10, 40, 70):
        at = stepped + timedelta(seconds=age)
        observation = Observation(key=KEY, source=Source.POLL, observed_at=at)
        assert dated(observation, live_state, at + timedelta(seconds=1)).observed_at == at
    before = Observation(key=KEY, source=Source.POLL, observed_at=ago(1))
    assert dated(before, live_state, stepped).observed_at == stepped - timedelta(seconds=1)
