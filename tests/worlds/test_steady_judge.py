"""The judge of what did not change: silent where nothing goes to and fro, and only there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from tests.worlds.findings import Kind
from tests.worlds.impairments import ClockSet, Hiding, ListName, Refusal, Span, Withdrawal
from tests.worlds.play import Played
from tests.worlds.received import Arrival, Received
from tests.worlds.run_judge import lost_findings
from tests.worlds.script import End, JobGroup, Pipeline, World
from tests.worlds.steady_judge import steady_findings

_ZERO = datetime(2026, 11, 21, 10, tzinfo=UTC)
_FLOW, _FAILED = 1, 3
_WORLD = World(seed=0, ingredients=(), flows=(Pipeline(id=_FLOW, name="Flow"),))
_WITH_RUN = msgspec.structs.replace(
    _WORLD,
    job_groups=(
        JobGroup(
            id=_FAILED,
            flow=_FLOW,
            recipe=2,
            created=10,
            started=11,
            ended=300,
            end=End.COMPLETE,
            shown_from=10,
            end_shown_from=300,
            deleted_at=60,
        ),
    ),
)
_REFUSED = msgspec.structs.replace(
    _WORLD,
    withdrawals=(
        Withdrawal(
            span=Span(100, 300),
            lists=frozenset({ListName.JOB_GROUPS}),
            refusal=Refusal.FORBIDDEN,
        ),
    ),
)


def _alert(
    at: float,
    word: str,
    rule: str = "run_failed",
    *,
    start: float = 0,
    is_over: bool = False,
    failed: Sequence[int] = (_FAILED,),
) -> Arrival:
    labels = {"workspace": "world-0"}
    if rule != "workspace_unreachable":
        labels |= {"kind": "job_group", "pipeline_id": str(_FLOW)}
    event = {
        "id": f"{rule}:{start}:{word}",
        "type": f"dataprep.alert.{word}.v1",
        "data": {
            "labels": labels,
            "startsAt": (_ZERO + timedelta(seconds=start)).isoformat(),
            "evidence": [f"world-0:job_group:{run}:failed" for run in failed],
            "over_when_seen": is_over,
        },
    }
    return Arrival(at, f"dataprep/v1/world-0/alert/{rule}/0123/event", json.dumps(event).encode())


def _state(at: float, state: str) -> Arrival:
    topic = f"dataprep/v1/world-0/job_group/{_FLOW}/state"
    return Arrival(at, topic, json.dumps({"state": state}).encode())


def _change(what: str) -> Arrival:
    event = {"id": what, "data": {"workspace": "world-0", "what": what}}
    return Arrival(50, "dataprep/v1/world-0/event/changed", json.dumps(event).encode())


def _kinds(arrivals: Sequence[Arrival], world: World = _WORLD) -> list[Kind]:
    played = Played(
        zero=_ZERO,
        until=400.0,
        arrivals=list(arrivals),
        delivered={world.name: []},
        blind={world.name: []},
        faces={},
    )
    received = Received(played.arrivals, world.name)
    return [finding.kind for finding in steady_findings(world, received, played)]


def test_a_failure_that_fires_twice_is_found() -> None:
    """An alert that resolved may not come back by the same run, unless it was over when seen."""
    once = [_alert(20, "fired"), _alert(50, "resolved")]
    assert _kinds(once) == []
    assert _kinds([*once, _alert(60, "fired", start=55)]) == [Kind.FIRED_AGAIN]
    assert _kinds([*once, _alert(60, "fired", start=55, is_over=True)]) == []


def test_a_row_that_fires_twice_by_the_same_failures_is_found() -> None:
    """A row of failures that was over fires again only with a failure that it did not have."""
    rule = "failing_repeatedly"
    once = [
        _alert(20, "fired", rule, failed=(3, 4, 5)),
        _alert(50, "resolved", rule, failed=(3, 4, 5)),
    ]
    assert _kinds([*once, _alert(60, "fired", rule, start=55, failed=(4, 5, 6))]) == []
    assert _kinds([*once, _alert(60, "fired", rule, start=55, failed=(4, 5))]) == [Kind.FIRED_AGAIN]


def test_an_unreachable_workspace_that_recovers_too_early_is_found() -> None:
    """While a list is refused its alert stays; ended before, it would fire again."""
    rule = "workspace_unreachable"
    fired = _alert(150, "fired", rule)
    assert _kinds([fired, _alert(320, "resolved", rule)], _REFUSED) == []
    assert _kinds([fired, _alert(200, "resolved", rule)], _REFUSED) == [Kind.FIRED_AGAIN]
    outage = [_alert(101, "fired", rule), _alert(119, "resolved", rule)]
    assert _kinds(outage, _REFUSED) == []  # the list was not refused for as long as it takes


def test_a_workspace_that_recovers_while_a_flow_is_hidden_is_not_found() -> None:
    """A flow that the token may not read has an alert of its own rule."""
    hidden = msgspec.structs.replace(
        _WORLD,
        flows=(Pipeline(id=_FLOW, name="Flow"), Pipeline(id=2, name="Other")),
        hidings=(Hiding(span=Span(100, 300), flows=frozenset({2}), refusal=Refusal.FORBIDDEN),),
    )
    rule = "workspace_unreachable"
    assert _kinds([_alert(150, "fired", rule), _alert(200, "resolved", rule)], hidden) == []


def test_a_state_that_is_unknown_without_a_cause_is_found() -> None:
    """Retained states are unknown only while something hides what they are about."""
    states = [_state(10, "known"), _state(150, "unknown"), _state(200, "known")]
    assert _kinds(states, _REFUSED) == []
    assert _kinds(states) == [Kind.GAUGES]
    unknown = _state(150, "unknown")
    assert _kinds([unknown, Arrival(152, unknown.topic, b"")]) == []  # a short one, then removed
    clock = msgspec.structs.replace(_WORLD, our_clock_sets=(ClockSet(at=150, seconds=60),))
    assert _kinds([_state(150, "unknown"), _state(170, "known")], clock) == [Kind.GAUGES]


def test_a_capability_that_did_not_change_is_found() -> None:
    """No event says that a capability changed where nothing was withdrawn."""
    change = [_change("capability:list_changes")]
    assert _kinds(change, _REFUSED) == []
    assert _kinds(change) == [Kind.EVENTS]
    assert _kinds([_change("schedule")]) == []


def test_a_lost_run_has_an_alert_and_no_other_has_one() -> None:
    """A lost run is reported in time; an alert about one that is not lost is a false red."""
    event = {
        "id": "lost",
        "type": "dataprep.run.lost.v1",
        "data": {"run": {"id": str(_FAILED)}},
    }
    topic = f"dataprep/v1/world-0/job_group/{_FLOW}/event/lost"
    lost = Arrival(100, topic, json.dumps(event).encode())
    fired, late = _alert(105, "fired", "run_lost"), _alert(190, "fired", "run_lost")
    for arrivals, kinds in (
        ([lost, fired], []),
        ([lost], [Kind.FALSE_GREEN]),
        ([lost, late], [Kind.FALSE_GREEN]),
        ([fired], [Kind.FALSE_RED]),
    ):
        found = lost_findings(_WITH_RUN, Received(arrivals, _WORLD.name), [], 400.0)
        assert [finding.kind for finding in found] == kinds
