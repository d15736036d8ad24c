"""Whatever order, loss and repetition do to the observations, the published history is true."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.events import STATUS_EVENTS, EventType, run_event_id
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

ENDS = frozenset(event for status, event in STATUS_EVENTS.items() if status.is_terminal)


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


@given(data=st.data(), history=histories())
def test_any_distortion_of_a_history_gives_the_true_events_once(
    data: st.DataObject, history: History
) -> None:
    """Interleaved, repeated, late and lost observations give the true history's events."""
    world = monitored(history, data.draw(distorted_observations(history)))

    expected = [run_event_id(history.key, event_type_) for event_type_ in history.event_types()]
    assert world.ids(history.key) == expected


@given(data=st.data(), history=histories())
def test_any_distortion_of_a_history_leaves_the_same_final_state(
    data: st.DataObject, history: History
) -> None:
    """Two monitors that saw the same history differently end with the same live state."""
    first = monitored(history, data.draw(distorted_observations(history)))
    second = monitored(history, data.draw(distorted_observations(history)))

    assert comparable(first.states[history.key]) == comparable(second.states[history.key])


@given(data=st.data(), history=histories())
def test_no_run_leaves_its_end(data: st.DataObject, history: History) -> None:
    """Once the workspace has ended a run nothing but the workspace changes its status again."""
    world = World()
    ended = None
    for observation, _ in data.draw(distorted_observations(history, lies=True)):
        world.observe(observation)
        state = world.states.get(history.key)
        if state is not None and state.status.is_terminal:
            ended = ended or state.status
            assert state.status is ended


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
        assert world.ids(history.key) == [
            run_event_id(history.key, event_type_) for event_type_ in history.event_types()
        ]


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


@given(history=histories(kind=RunKind.JOB_GROUP))
def test_an_unreported_start_is_never_invented(history: History) -> None:
    """A job group's start stays None until its job records show it."""
    world = World()
    for view in history.views:
        world.observe(view)

    assert all(event.run.started_at is None for event in world.log)
    assert world.states[history.key].started_at is None


@given(data=st.data(), history=histories())
def test_callbacks_that_lie_leave_the_true_state(data: st.DataObject, history: History) -> None:
    """Whatever callbacks claim, a run that the workspace can still show ends as it shows."""
    if history.is_deleted:
        return
    honest = monitored(history, [])
    lied_to = monitored(history, data.draw(distorted_observations(history, lies=True)))

    state = lied_to.states[history.key]
    assert history.end is None or state.unconfirmed_end is None
    state = msgspec.structs.replace(state, unconfirmed_end=None)
    assert comparable(state) == comparable(honest.states[history.key])


@given(data=st.data(), history=histories())
def test_callbacks_by_the_task_of_another_flow_change_nothing(
    data: st.DataObject, history: History
) -> None:
    """Events and state are those of a monitor that no such call has reached."""
    drawn = data.draw(distorted_observations(history, lies=True))
    reads = [pair for pair in drawn if pair[0].source is not Source.CALLBACK]
    foreign = [
        (msgspec.structs.replace(observation, only_of_flow="another"), crash)
        if observation.source is Source.CALLBACK
        else (observation, crash)
        for observation, crash in drawn
    ]
    called, quiet = monitored(history, foreign), monitored(history, reads)
    assert called.ids(history.key) == quiet.ids(history.key)
    assert called.states == quiet.states


@given(data=st.data(), history=histories())
def test_callbacks_that_lie_add_one_end_and_its_correction(
    data: st.DataObject, history: History
) -> None:
    """Beside the true events there is at most one claimed end; the true one corrects it."""
    world = monitored(history, data.draw(distorted_observations(history, lies=True)))
    ids = world.ids(history.key)
    assert len(ids) == len(set(ids))

    ends = [event for event in world.log if event.type in ENDS]
    corrections = [event for event in world.log if event.type is EventType.RUN_CORRECTED]
    if history.end is None or history.is_deleted:
        assert len(ends) <= 1
        assert corrections == []
        return
    assert ends[-1].run.status is history.end
    assert set(ids) >= {
        run_event_id(history.key, event_type) for event_type in history.event_types()
    }
    assert len(corrections) == len(ends) - 1
    for claimed, correction, true in zip(ends, corrections, ends[1:], strict=False):
        assert claimed.run.unconfirmed_end is claimed.run.status
        assert (correction.before, true.before) == (claimed.run.status, claimed.run.status)
        assert correction.run == true.run
        assert world.log.index(true) == world.log.index(correction) + 1


@given(data=st.data(), history=histories())
def test_an_end_that_only_a_callback_reported_says_so(
    data: st.DataObject, history: History
) -> None:
    """Until the workspace reports an end, every event of the end is unconfirmed; then none is."""
    world = World()
    is_reported = False
    for observation, _ in data.draw(distorted_observations(history, lies=True)):
        before = len(world.log)
        world.observe(observation)
        status = status_of(observation.native_status)
        is_end = status is not None and status.is_terminal
        is_reported = is_reported or (is_end and observation.source is not Source.CALLBACK)
        for event in world.log[before:]:
            if event.run.status.is_terminal:
                assert (event.run.unconfirmed_end is None) is is_reported
