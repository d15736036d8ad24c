"""Health of a pipeline follows from how its runs ended, whatever was seen of that and when."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.ends import RunEnd, newest_success, open_failures, run_end
from monitor.model.live_state import PipelineHealth
from monitor.model.observations import Observation
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunState
from monitor.tracking.live_state import LiveState
from monitor.tracking.pipeline_health import PipelineHealthTracker
from tests.tracking.histories import (
    History,
    World,
    distorted_observations,
    final_observations,
    histories,
)

PIPELINE = Pipeline(kind=PipelineKind.FLOW, id="7")
RUNS = (1, 2, 3, 4)


@st.composite
def pipelines(draw: st.DrawFn) -> list[History]:
    """Draw runs of one pipeline and one kind, whose ends fall into the same few seconds."""
    first = draw(histories(number=RUNS[0]))
    others = [draw(histories(kind=first.key.kind, number=number)) for number in RUNS[1:]]
    return [first, *others]


def monitored(observations: list[Observation]) -> tuple[World, PipelineHealthTracker, LiveState]:
    """Run a monitor over the observations, one commit each."""
    live_state = LiveState(["acme"])
    tracker = PipelineHealthTracker(live_state)
    world = World()
    for observation in observations:
        known = world.states.get(observation.key)
        before: dict[RunKey, RunState] = {} if known is None else {known.key: known}
        world.observe(msgspec.structs.replace(observation, pipeline=PIPELINE))
        if (state := world.states.get(observation.key)) is not None:
            tracker.learn([state], before)
    return world, tracker, live_state


def of(ends: list[RunEnd]) -> tuple[object, ...]:
    """Return what health must say of these ends."""
    last = max(ends, key=lambda end: end.order)
    success, failures = newest_success(ends), open_failures(ends)
    return (
        last.run_id,
        last.status,
        last.at,
        None if success is None else success.at,
        tuple(failure.at for failure in failures),
        len(failures),
    )


def said(health: PipelineHealth) -> tuple[object, ...]:
    return (
        health.last_run_id,
        health.last_status,
        health.last_finished_at,
        health.last_success_at,
        tuple(failure.at for failure in health.open_failures),
        health.consecutive_failures,
    )


@given(data=st.data(), runs=pipelines())
def test_health_is_that_of_the_final_states(data: st.DataObject, runs: list[History]) -> None:
    """Late, repeated and lying observations, equal seconds and absent times: one health."""
    seen = [
        observation
        for history in runs
        for observation, _ in data.draw(distorted_observations(history, lies=True))
    ]
    last = [observation for history in runs for observation in final_observations(history)]
    world, _, live_state = monitored([*data.draw(st.permutations(seen)), *last])

    ends = [
        end
        for state in world.states.values()
        if state.unconfirmed_end is None and (end := run_end(state)) is not None
    ]
    healths = live_state.view.pipeline_health()
    if ends:
        (health,) = healths
        assert said(health) == of(ends)
    else:
        assert all(health.last_status is None for health in healths)


@given(data=st.data(), runs=pipelines())
def test_health_does_not_depend_on_the_order_of_what_was_seen(
    data: st.DataObject, runs: list[History]
) -> None:
    """Two monitors that saw the same runs differently show the same health of timed ends."""
    last = [observation for history in runs for observation in final_observations(history)]
    timed = [observation for observation in last if observation.updated_at is not None]
    shuffled = data.draw(st.permutations(timed))
    _, _, first = monitored(timed)
    _, _, second = monitored([*shuffled, *timed])

    assert [said(health) for health in first.view.pipeline_health()] == [
        said(health) for health in second.view.pipeline_health()
    ]
