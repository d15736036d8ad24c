"""The judges of what cannot be followed, and of schedules: silent where all is true, only there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tests.worlds.blind_judge import blind_findings
from tests.worlds.findings import Kind
from tests.worlds.glimpses import Glimpse
from tests.worlds.impairments import (
    Hiding,
    ListName,
    QueryKind,
    Refusal,
    ShortList,
    Span,
    Withdrawal,
)
from tests.worlds.play import Played
from tests.worlds.received import Arrival, Received
from tests.worlds.schedule_judge import schedule_findings
from tests.worlds.script import End, JobGroup, Pipeline, Schedule, World

_ZERO = datetime(2026, 11, 21, 10, tzinfo=UTC)
_UNTIL = 700.0
_FLOW, _RECIPE, _GROUP, _SCHEDULE = 1, 2, 3, 4
_STATE = f"dataprep/v1/world-0/job_group/{_FLOW}/state"
_REASON = "403 to the list of job groups"

_WORLD = World(seed=0, ingredients=(), flows=(Pipeline(id=_FLOW, name="Flow", parts=(_RECIPE,)),))
# Its runs cannot be listed from 100 to 300.
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
# At 100 and 220 it should start; nothing starts at 100.
_SCHEDULED = msgspec.structs.replace(
    _WORLD,
    schedules=(Schedule(id=_SCHEDULE, flow=_FLOW, due=(100.0, 220.0), starts={220.0: _GROUP}),),
    job_groups=(
        JobGroup(
            id=_GROUP,
            flow=_FLOW,
            recipe=_RECIPE,
            created=221,
            started=222,
            ended=240,
            end=End.COMPLETE,
            shown_from=221,
            end_shown_from=240,
        ),
    ),
)


def _alert(at: float, word: str, rule: str, *, reason: str | None = _REASON) -> Arrival:
    labels = {"workspace": "world-0", "alertname": rule}
    if rule == "schedule_missed":
        labels |= {"kind": "job_group", "pipeline_id": str(_FLOW)}
    event = {
        "id": f"{rule}:{at}:{word}",
        "type": f"dataprep.alert.{word}.v1",
        "data": {
            "labels": labels,
            "startsAt": (_ZERO + timedelta(seconds=at)).isoformat(),
            "evidence": [],
            "facts": {"reason": reason},
        },
    }
    return Arrival(at, f"dataprep/v1/world-0/alert/{rule}/0123/event", json.dumps(event).encode())


def _retained(at: float, topic: str, state: str) -> Arrival:
    return Arrival(at, topic, json.dumps({"state": state}).encode())


def _played(arrivals: Sequence[Arrival], world: World, *glimpses: Glimpse) -> Played:
    return Played(
        zero=_ZERO,
        until=_UNTIL,
        arrivals=sorted(arrivals, key=lambda arrival: arrival.at),
        delivered={world.name: []},
        blind={world.name: []},
        faces={},
        glimpses=list(glimpses),
    )


def _blind(arrivals: Sequence[Arrival], *glimpses: Glimpse, world: World = _REFUSED) -> list[Kind]:
    played = _played(arrivals, world, *glimpses)
    received = Received(played.arrivals, world.name)
    return [finding.kind for finding in blind_findings(world, received, played)]


def _glimpse(reachability: str, *kinds: str, judged: str = "plan_run") -> Glimpse:
    return Glimpse(
        at=250.0,
        reachability={"world-0": reachability},
        active_kinds={"world-0": set(kinds)},
        judged_alerts={"world-0": {(judged, "run_failed")}},
    )


_FIRED = _alert(140, "fired", "workspace_unreachable")
_RESOLVED = _alert(340, "resolved", "workspace_unreachable")
_STATES = [
    _retained(10, _STATE, "known"),
    _retained(170, _STATE, "unknown"),
    _retained(330, _STATE, "known"),
    _retained(10, "dataprep/v1/world-0/state", "reachable"),
    _retained(120, "dataprep/v1/world-0/state", "degraded"),
]
_TRUE = [*_STATES, _FIRED, _RESOLVED]


def test_true_words_about_a_refused_list_are_not_found() -> None:
    """An alert with a reason, unknown states and no number of active runs agree with the truth."""
    assert _blind(_TRUE, _glimpse("degraded", "plan_run")) == []


@pytest.mark.parametrize(
    "arrivals",
    [
        _STATES,
        [*_STATES, _FIRED, _alert(200, "resolved", "workspace_unreachable")],
        [*_STATES, _alert(140, "fired", "workspace_unreachable", reason=None), _RESOLVED],
        [*_STATES[:1], *_STATES[2:], _FIRED, _RESOLVED],
        [*_STATES[:-1], _FIRED, _RESOLVED],
    ],
    ids=["no alert", "resolved too early", "no reason", "runs known", "workspace reachable"],
)
def test_blind_but_green_is_found(arrivals: list[Arrival]) -> None:
    """A blind part has an alert with its reason, and is shown as known nowhere."""
    assert _blind(arrivals) == [Kind.BLIND]


def test_an_end_that_an_older_store_does_not_know_ends_nothing() -> None:
    """Where an older store took over, an alert that is open in it goes on without another start."""
    arrivals = [*_STATES, _FIRED, _alert(200, "resolved", "workspace_unreachable"), _RESOLVED]
    for lost, found in ((Span(190, 230), []), (Span(100, 150), [Kind.BLIND])):
        played = _played(arrivals, _REFUSED)
        played = msgspec.structs.replace(played, forgotten=[lost])
        received = Received(played.arrivals, _REFUSED.name)
        assert [finding.kind for finding in blind_findings(_REFUSED, received, played)] == found


def test_faces_that_go_on_counting_are_found() -> None:
    """Page data and metrics may not show what nothing confirms any more."""
    assert _blind(_TRUE, _glimpse("reachable")) == [Kind.BLIND]
    assert _blind(_TRUE, _glimpse("degraded", "job_group")) == [Kind.BLIND]
    assert _blind(_TRUE, _glimpse("degraded", judged="job_group")) == [Kind.BLIND]


def test_an_unreachable_workspace_without_a_cause_is_a_false_red() -> None:
    """An alert about a workspace in which all is served is a false red, and one that stays, too."""
    assert _blind([_FIRED, _RESOLVED], world=_WORLD) == [Kind.FALSE_RED]
    assert _blind([*_STATES, _FIRED]) == [Kind.FALSE_RED]


def test_an_alert_of_a_rule_without_a_cause_is_a_false_red() -> None:
    """Rules about the workspace that nothing in its world can be a reason for stay silent."""
    assert _blind([*_TRUE, _alert(50, "fired", "budget_exhausted")]) == [Kind.FALSE_RED]


def test_a_list_of_flows_without_rows_must_be_reported() -> None:
    """A list that lacks what was in it, and what still has its id, is no empty workspace."""
    short = ShortList(
        span=Span(100, 300), list_name=ListName.FLOWS, queries=frozenset(), share_kept=0.0
    )
    every = msgspec.structs.replace(short, queries=frozenset(QueryKind))
    for served, kinds in ((short, []), (every, [Kind.BLIND])):
        world = msgspec.structs.replace(_WORLD, short_lists=(served,))
        assert _blind([], world=world) == kinds


@pytest.mark.parametrize(("hidden_until", "kinds"), [(120.0, [Kind.BLIND]), (295.0, [])])
def test_a_flow_that_is_hidden_is_missed_in_no_list(hidden_until: float, kinds: list[Kind]) -> None:
    """A list that lacks it owes an alert only once it could be read again for long enough."""
    short = ShortList(
        span=Span(100, 300),
        list_name=ListName.FLOWS,
        queries=frozenset(QueryKind),
        share_kept=0.0,
    )
    hiding = Hiding(
        span=Span(90, hidden_until), flows=frozenset({_FLOW}), refusal=Refusal.FORBIDDEN
    )
    world = msgspec.structs.replace(_WORLD, short_lists=(short,), hidings=(hiding,))
    assert _blind([], world=world) == kinds


@pytest.mark.parametrize(("refused_until", "kinds"), [(140.0, [Kind.BLIND]), (390.0, [])])
def test_alerts_of_a_refused_list_are_missed_once_the_list_is_back(
    refused_until: float, kinds: list[Kind]
) -> None:
    """While the list is refused, which has an alert of its own, nothing else can be found out."""
    groups = tuple(
        JobGroup(
            id=number,
            flow=_FLOW,
            recipe=_RECIPE,
            created=20,
            started=21,
            ended=600,
            end=End.COMPLETE,
            shown_from=20,
            end_shown_from=600,
        )
        for number in (11, 12, 13)
    )
    world = msgspec.structs.replace(
        _WORLD,
        job_groups=groups,
        hidings=(Hiding(span=Span(110, 400), flows=None, refusal=Refusal.NO_DATA),),
        withdrawals=(
            Withdrawal(
                span=Span(100, refused_until),
                lists=frozenset({ListName.JOB_GROUPS}),
                refusal=Refusal.FORBIDDEN,
            ),
        ),
    )
    told = [_alert(130, "fired", "workspace_unreachable")]
    told.append(_alert(refused_until + 5, "resolved", "workspace_unreachable"))
    found = [kind for kind in _blind(told, world=world) if kind is Kind.BLIND]
    assert found[:1] == kinds


_OTHER = 5
# The first of two flows is hidden from 100 to 500, by rights.
_HIDDEN = msgspec.structs.replace(
    _WORLD,
    flows=(*_WORLD.flows, Pipeline(id=_OTHER, name="Other", parts=(6,))),
    hidings=(Hiding(span=Span(100, 500), flows=frozenset({_FLOW}), refusal=Refusal.FORBIDDEN),),
)
_UNSHARED = [
    _retained(10, _STATE, "known"),
    _retained(10, f"dataprep/v1/world-0/job_group/{_OTHER}/state", "known"),
    _retained(10, "dataprep/v1/world-0/state", "reachable"),
    _retained(150, _STATE, "unknown"),
    _retained(520, _STATE, "known"),
    _alert(210, "fired", "pipelines_unshared"),
    _alert(520, "resolved", "pipelines_unshared"),
]


def test_true_words_about_a_flow_hidden_by_rights_are_not_found() -> None:
    """Its own alert and its own state agree with the truth, and so do active runs of others."""
    assert _blind(_UNSHARED, _glimpse("reachable", "job_group"), world=_HIDDEN) == []


def test_a_flow_that_is_hidden_by_rights_and_green_is_found() -> None:
    """It is owed its alert in time and until it is shown, and a state that is not known."""
    for left_out in (slice(3, 5), slice(5, 7)):
        said = [*_UNSHARED]
        del said[left_out]
        assert _blind(said, world=_HIDDEN) == [Kind.BLIND]
    early = [*_UNSHARED[:-1], _alert(300, "resolved", "pipelines_unshared")]
    assert _blind(early, world=_HIDDEN) == [Kind.BLIND]


@pytest.mark.parametrize(
    "excused",
    [
        {"stops": (Span(0, 480),)},
        {
            "withdrawals": (
                Withdrawal(
                    span=Span(90, 480),
                    lists=frozenset({ListName.FLOWS}),
                    refusal=Refusal.FORBIDDEN,
                ),
            )
        },
        {"flows": (Pipeline(id=_FLOW, name="Flow", parts=(_RECIPE,), deleted_at=300.0),)},
        {"other_person_from": 110.0},
    ],
    ids=[
        "no list has shown it",
        "flows are not listed",
        "deleted",
        "another person may not see it",
    ],
)
def test_a_flow_that_cannot_be_missed_is_owed_nothing(excused: dict[str, object]) -> None:
    """Only who has seen it, and reads the list that lacks it, can say that it is hidden."""
    world = msgspec.structs.replace(_HIDDEN, **excused)
    found = _blind([], world=world)
    assert found == ([Kind.BLIND] if world.withdrawals else [])  # that of the withdrawal


def test_an_outage_stands_for_the_only_flow() -> None:
    """Where no other flow is shown, nothing tells its rights from those to the workspace."""
    outage = [
        *(arrival for arrival in _UNSHARED if "pipelines_unshared" not in arrival.topic),
        _alert(210, "fired", "workspace_unreachable"),
        _alert(520, "resolved", "workspace_unreachable"),
    ]
    only = msgspec.structs.replace(_HIDDEN, flows=_WORLD.flows)
    assert _blind(outage, world=only) == []
    assert Kind.BLIND in _blind(outage, world=_HIDDEN)


def _missed(*arrivals: Arrival, world: World = _SCHEDULED) -> list[Kind]:
    played = _played(arrivals, world)
    received = Received(played.arrivals, world.name)
    return [finding.kind for finding in schedule_findings(world, received, played)]


def test_a_missed_start_is_reported_until_the_next_start() -> None:
    """An alert from after its grace until the next start is seen agrees with the truth."""
    fired, resolved = (
        _alert(150, "fired", "schedule_missed"),
        _alert(230, "resolved", "schedule_missed"),
    )
    assert _missed(fired, resolved) == []
    assert _missed() == [Kind.MISSED]
    assert _missed(fired) == [Kind.MISSED]


def test_a_start_that_came_is_not_missed() -> None:
    """An alert about a start that came in time is found."""
    kept = Schedule(id=_SCHEDULE, flow=_FLOW, due=(220.0,), starts={220.0: _GROUP})
    world = msgspec.structs.replace(_SCHEDULED, schedules=(kept,))
    assert _missed(world=world) == []
    assert _missed(_alert(250, "fired", "schedule_missed"), world=world) == [Kind.MISSED]


def test_a_missed_start_may_stay_unreported_while_schedules_cannot_be_read() -> None:
    """Neither silence nor an alert is wrong where nothing shows what is scheduled."""
    withdrawal = Withdrawal(
        span=Span(90, 400), lists=frozenset({ListName.SCHEDULES}), refusal=Refusal.GONE
    )
    world = msgspec.structs.replace(_SCHEDULED, withdrawals=(withdrawal,))
    assert _missed(world=world) == []
    assert _missed(_alert(150, "fired", "schedule_missed"), world=world) == []


def test_runs_that_were_never_shown_are_not_missed() -> None:
    """Runs that vanish are owed an alert where enough of them were followed until then."""
    runs = tuple(
        msgspec.structs.replace(
            _SCHEDULED.job_groups[0],
            id=number,
            created=40,
            shown_from=40,
            ended=400,
            end_shown_from=400,
        )
        for number in (11, 12, 13)
    )
    hiding = Hiding(span=Span(100, 300), flows=None, refusal=Refusal.NO_DATA)
    vanished = msgspec.structs.replace(_WORLD, job_groups=runs, hidings=(hiding,))
    assert _blind([], world=vanished) == [Kind.BLIND]
    down = msgspec.structs.replace(vanished, stops=(Span(30, 95),))
    assert _blind([], world=down) == []
    few = msgspec.structs.replace(vanished, job_groups=runs[:2])
    assert _blind([], world=few) == []
