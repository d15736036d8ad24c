"""Whatever order, loss and repetition do to the observations, the published story is true."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.model.events import run_event_id
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import RunKind, Source, status_of
from monitor.tracking.transitions import Boundary
from tests.tracking.histories import (
    START,
    History,
    World,
    comparable,
    distorted_observations,
    final_observations,
    histories,
)


def monitored(history: History, observations: list[tuple[Observation, bool]]) -> World:
    """Run a monitor over what it observed, then over what polling guarantees in the end."""
    world = World()
    for observation, crash in observations:
        world.observe(observation, crash=crash)
        if crash:
            world.observe(observation)  # observed again after the restart
    for observation in final_observations(history):
        world.observe(observation)
    world.confirm_callbacks()
    return world


@settings(max_examples=400, deadline=None)
@given(data=st.data(), history=histories())
def test_any_distortion_of_a_history_gives_the_true_events_once(
    data: st.DataObject, history: History
) -> None:
    """Interleaved, repeated, late and lost observations give the true history's events."""
    world = monitored(history, data.draw(distorted_observations(history)))

    expected = [run_event_id(history.key, event_type_) for event_type_ in history.event_types()]
    assert [event.id for event in world.log] == expected


@settings(max_examples=400, deadline=None)
@given(data=st.data(), history=histories())
def test_any_distortion_of_a_history_leaves_the_same_final_state(
    data: st.DataObject, history: History
) -> None:
    """Two monitors that saw the same history differently end with the same live state."""
    first = monitored(history, data.draw(distorted_observations(history)))
    second = monitored(history, data.draw(distorted_observations(history)))

    assert comparable(first.states[history.key]) == comparable(second.states[history.key])


@settings(max_examples=300, deadline=None)
@given(data=st.data(), history=histories())
def test_no_run_leaves_its_end(data: st.DataObject, history: History) -> None:
    """Once a run is over its status never changes again, whatever arrives."""
    world = World()
    ended = None
    for observation, _ in data.draw(distorted_observations(history)):
        world.observe(observation)
        state = world.states.get(history.key)
        if state is not None and state.status.is_terminal:
            ended = ended or state.status
            assert state.status is ended


@settings(max_examples=200, deadline=None)
@given(data=st.data(), first=histories(number=1), second=histories(number=2))
def test_runs_do_not_disturb_each_other(
    data: st.DataObject, first: History, second: History
) -> None:
    """Observations of two runs in any interleaving show for each run what they show alone."""
    mixed = data.draw(
        st.permutations(
            [*data.draw(distorted_observations(first)), *data.draw(distorted_observations(second))]
        ),
    )
    world = World()
    for observation, _ in mixed:
        world.observe(observation)
    for history in (first, second):
        for observation in final_observations(history):
            world.observe(observation)
        ids = [event.id for event in world.log if event.run.key == history.key]
        assert ids == [
            run_event_id(history.key, event_type_) for event_type_ in history.event_types()
        ]


@settings(max_examples=200, deadline=None)
@given(data=st.data(), history=histories(), edits=st.integers(0, 3))
def test_a_run_that_ended_before_we_followed_emits_nothing(
    data: st.DataObject, history: History, edits: int
) -> None:
    """An old run is historical however and whenever it is first observed, also after edits."""
    last = history.views[-1]
    status = status_of(last.native_status)
    if status is None or not status.is_terminal or last.updated_at is None:
        return
    followed_since = START + timedelta(days=1)
    world = World(boundary=Boundary(followed_since=followed_since))
    detail = history.detail or last
    for edit in range(edits + 1):
        edited_at = followed_since + timedelta(hours=edit) if edit else last.updated_at
        source = data.draw(st.sampled_from([Source.POLL, Source.RECONCILIATION, Source.CALLBACK]))
        row = msgspec.structs.replace(last, source=source, updated_at=edited_at)
        if history.key.kind is RunKind.FLOW_RUN:
            # A flow run is never published without the ends of its job groups.
            row = msgspec.structs.replace(
                row, finished_at=last.updated_at, approximate=("finished_at",)
            )
        if world.observe(row) is ObservationOutcome.NEEDS_DETAIL:
            world.observe(
                msgspec.structs.replace(
                    detail,
                    updated_at=edited_at,
                    finished_at=detail.finished_at or last.updated_at,
                    approximate=(),
                    is_detail_final=True,
                )
            )
    assert world.log == []


@settings(max_examples=200, deadline=None)
@given(history=histories(kind=RunKind.JOB_GROUP))
def test_an_unreported_start_is_never_invented(history: History) -> None:
    """A job group's start stays None until its job records show it."""
    world = World()
    for view in history.views:
        world.observe(view)

    assert all(event.run.started_at is None for event in world.log)
    assert world.states[history.key].started_at is None
