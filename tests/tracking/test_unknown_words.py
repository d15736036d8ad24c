"""A status word that we do not know: what else a run shows tells whether it waits or works."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.events import EventType
from monitor.model.observations import Observation
from monitor.model.runs import JobCount, JobDetails, RunKey, RunKind, Source, Status
from tests.tracking.histories import START, World

KEY = RunKey("acme", RunKind.JOB_GROUP, "9")
LATER = START + timedelta(seconds=30)


def observed(word: str | None, **details: object) -> Observation:
    """Return an observation of the run that shows ``word``; without one, its job records."""
    source = Source.DETAIL if word is None else Source.POLL
    observation = Observation(key=KEY, source=source, observed_at=START, native_status=word)
    return msgspec.structs.replace(observation, **details)


def counted(status: str) -> JobDetails:
    return JobDetails(counts=(JobCount(job_type="wrangle", status=status, count=1),), read_at=LATER)


def types(world: World) -> list[EventType]:
    return [event.type for event in world.log]


WORK = {
    "progress": {"jobs": JobDetails(percent_complete=3.0, read_at=LATER)},
    "heartbeat": {"jobs": JobDetails(heartbeat_at=LATER, read_at=LATER)},
    "a running job": {"jobs": counted("running")},
    "an ended job": {"jobs": counted("succeeded")},
    "a start": {"started_at": LATER},
    "a run inside": {"has_children": True},
}
NO_WORK = {
    "no progress": {"jobs": JobDetails(percent_complete=0.0, read_at=LATER)},
    "a waiting job": {"jobs": counted("pending")},
    "a job of an unknown word": {"jobs": counted("Hibernating")},
    "a start taken from elsewhere": {"started_at": LATER, "approximate": ("started_at",)},
    "nothing": {},
}


@pytest.mark.parametrize("sign", WORK.values(), ids=WORK)
@pytest.mark.parametrize("is_read_apart", [False, True])
def test_an_unknown_word_with_a_sign_of_work_is_running(
    sign: dict[str, object], *, is_read_apart: bool
) -> None:
    """In whichever read the sign comes; it starts once, and its word is still shown."""
    world = World()
    if is_read_apart:
        world.observe(observed("Hibernating"))
        assert world.states[KEY].status is Status.PENDING
        world.observe(observed(None, **sign))
    else:
        world.observe(observed("Hibernating", **sign))
    assert types(world) == [EventType.RUN_QUEUED, EventType.RUN_STARTED]
    assert world.log[1].occurred_at == sign.get("started_at")
    assert world.states[KEY].native_status == "Hibernating"
    for word in ("Hibernating", "InProgress", "Hibernating", "Created"):
        world.observe(observed(word))
        assert world.states[KEY].status is Status.RUNNING
    world.observe(observed("Failed"))
    assert types(world)[2:] == [EventType.RUN_FAILED]


@pytest.mark.parametrize("sign", NO_WORK.values(), ids=NO_WORK)
def test_an_unknown_word_without_a_sign_of_work_moves_nothing(sign: dict[str, object]) -> None:
    """It counts as not finished, and a run that was not seen at work waits."""
    world = World()
    world.observe(observed("Hibernating"))
    world.observe(observed(None, **sign))

    assert types(world) == [EventType.RUN_QUEUED]
    assert world.states[KEY].native_status == "Hibernating"


@pytest.mark.parametrize("sign", WORK.values(), ids=WORK)
def test_a_known_word_decides(sign: dict[str, object]) -> None:
    """A run that the workspace reports as created waits, whatever its job records show."""
    world = World()
    world.observe(observed("Created", **sign))

    assert world.states[KEY].status is Status.PENDING


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Created", "InProgress", "Hibernating", "Resuming", None]),
            st.sampled_from([*WORK.values(), *NO_WORK.values()]),
        ),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(["Complete", "Failed", "Canceled"]),
)
def test_a_run_is_queued_and_started_once_whatever_it_shows(
    reads: list[tuple[str | None, dict[str, object]]], end: str
) -> None:
    """No order of words and signs goes back, or emits a transition twice."""
    world, statuses = World(), []
    for word, sign in reads:
        world.observe(observed(word, **sign))
        statuses.append(world.states[KEY].status)
    world.observe(observed(end))

    order = [Status.PENDING, Status.RUNNING]
    assert [order.index(status) for status in statuses] == sorted(map(order.index, statuses))
    assert types(world)[:2] == [EventType.RUN_QUEUED, EventType.RUN_STARTED]
    assert len(set(world.ids(KEY))) == len(world.log) == 3
