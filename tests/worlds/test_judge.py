"""The judge itself: silent where all is true, and not where it is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.worlds.configuration import LASTING
from tests.worlds.final_faces import FinalFaces, Sample
from tests.worlds.findings import Kind
from tests.worlds.impairments import Refusal, Span, Withdrawal
from tests.worlds.judge import judge
from tests.worlds.play import Notifications, Played
from tests.worlds.reason_judge import link_findings, reason_findings
from tests.worlds.received import Arrival
from tests.worlds.script import NEVER, End, FlowRun, JobGroup, Pipeline, PlanRun, RunKind, World
from tests.worlds.truth import Run, own_ends

_ZERO = datetime(2026, 11, 21, 10, tzinfo=UTC)
_FLOW, _RECIPE, _FAILED, _SUCCEEDED = 1, 2, 3, 4
_UNTIL = 400.0
_ERROR = "The file was not found"


def _group(group_id: int, end: End, *, ended: float, shown_from: float = 0.0) -> JobGroup:
    return JobGroup(
        id=group_id,
        flow=_FLOW,
        recipe=_RECIPE,
        created=ended - 10,
        started=ended - 9,
        ended=ended,
        end=end,
        shown_from=shown_from or ended - 10,
        end_shown_from=max(shown_from, ended),
        error=_ERROR if end is End.FAILED else None,
    )


# It fails at 20; in `_RECOVERED` it succeeds at 200.
_FAILING = World(
    seed=0,
    ingredients=(),
    flows=(Pipeline(id=_FLOW, name="Flow", parts=(_RECIPE,)),),
    job_groups=(_group(_FAILED, End.FAILED, ended=20),),
)
_RECOVERED = msgspec.structs.replace(
    _FAILING,
    job_groups=(*_FAILING.job_groups, _group(_SUCCEEDED, End.COMPLETE, ended=200)),
)


def _run(at: float, group: int, word: str) -> Arrival:
    event = {
        "id": f"world-0:job_group:{group}:{word}",
        "type": f"dataprep.run.{word}.v1",
        "data": {"run": {"id": str(group)}},
    }
    topic = f"dataprep/v1/world-0/job_group/{_FLOW}/event/{word}"
    return Arrival(at, topic, json.dumps(event).encode())


def _alert(
    at: float, word: str, *, rule: str = "run_failed", start: float = 20.0, is_over: bool = False
) -> Arrival:
    starts_at = _ZERO + timedelta(seconds=start)
    event = {
        "id": f"alert:{rule}:{start}:{word}",
        "type": f"dataprep.alert.{word}.v1",
        "data": {
            "labels": {"kind": "job_group", "pipeline_id": str(_FLOW)},
            "startsAt": starts_at.isoformat(),
            "over_when_seen": is_over,
            "evidence": [f"world-0:job_group:{_FAILED}:failed"],
        },
    }
    topic = f"dataprep/v1/world-0/alert/{rule}/0123/event"
    return Arrival(at, topic, json.dumps(event).encode())


def _state(at: float, status: str, failures: int) -> Arrival:
    state = {"last_run": {"status": status}, "consecutive_failures": failures}
    topic = f"dataprep/v1/world-0/job_group/{_FLOW}/state"
    return Arrival(at, topic, json.dumps(state).encode())


_FAILURE = [_run(12, _FAILED, "queued"), _run(13, _FAILED, "started"), _run(21, _FAILED, "failed")]
_SUCCESS = [
    _run(192, _SUCCEEDED, "queued"),
    _run(193, _SUCCEEDED, "started"),
    _run(202, _SUCCEEDED, "succeeded"),
]
_STARTS = [_alert(22, "fired"), _alert(53, "fired", rule=LASTING)]
_ENDS = [_alert(203, "resolved"), _alert(204, "resolved", rule=LASTING)]
_RED = [*_FAILURE, *_STARTS, _state(30, "failed", 1)]
_GREEN = [*_FAILURE, *_STARTS, *_SUCCESS, *_ENDS, _state(210, "succeeded", 0)]


def _faces(world: World, *, reason: str | None = None, error: str | None = _ERROR) -> FinalFaces:
    is_red = world is _FAILING
    result, failures = ("failed", 1) if is_red else ("succeeded", 0)
    labels = {"kind": "job_group", "pipeline": "Flow"}
    ends = {"failed": 1} if is_red else {"failed": 1, "succeeded": 1}
    row: dict[str, Any] = {
        "kind": "flow",
        "run_kind": "job_group",
        "pipeline_id": str(_FLOW),
        "pipeline": "Flow",
        "last_status": result,
        "consecutive_failures": failures,
    }
    explanation: dict[str, Any] = {"reason": reason, "alerts": [], "answer": "..."}
    return FinalFaces(
        samples=[
            *(
                Sample("dataprep_runs_total", labels | {"result": word}, count)
                for word, count in ends.items()
            ),
            Sample("dataprep_last_run_result", labels | {"result": result}, 1),
            Sample("dataprep_consecutive_failures", labels, failures),
        ],
        pipelines=[row],
        alerts=[],
        explanations={(RunKind.JOB_GROUP, _FAILED): explanation},
        runs={(RunKind.JOB_GROUP, _FAILED): {"error": error}},
    )


def _kinds(
    world: World,
    arrivals: Sequence[Arrival],
    faces: FinalFaces | None = None,
    notified: Notifications | None = None,
    forgotten: Sequence[Span] = (),
) -> set[Kind]:
    played = Played(
        zero=_ZERO,
        until=_UNTIL,
        arrivals=sorted(arrivals, key=lambda arrival: arrival.at),
        delivered={"world-0": []},
        blind={"world-0": []},
        faces={"world-0": faces or _faces(world)},
        notified=notified,
        forgotten=list(forgotten),
    )
    return {finding.kind for finding in judge([world], played).findings}


def _without(arrivals: Sequence[Arrival], *left_out: Arrival) -> list[Arrival]:
    return [arrival for arrival in arrivals if arrival not in left_out]


def test_true_alerts_are_not_found() -> None:
    """A failure that fires, and its recovery that resolves, agree with the truth."""
    assert _kinds(_FAILING, _RED) == set()
    assert _kinds(_RECOVERED, _GREEN) == set()
    followed = [*_RED, _run(50, _FAILED, "confirmed"), _run(51, _FAILED, "detailed")]
    assert _kinds(_FAILING, followed) == set()


def test_a_failure_without_an_alert_is_a_false_green() -> None:
    """Without its alert a failure is a false green, and a silence unless there is a reason."""
    silent = _without(_RED, *_STARTS)
    muted = _faces(_FAILING, reason="muted")
    assert _kinds(_FAILING, silent, muted) == {Kind.FALSE_GREEN}
    for reason in (None, "condition not met"):
        denied = _faces(_FAILING, reason=reason)
        assert _kinds(_FAILING, silent, denied) == {Kind.FALSE_GREEN, Kind.SILENCE}


def test_an_alert_that_resolves_too_early_is_a_false_green() -> None:
    """A resolved alert of what still fails hides it."""
    assert _kinds(_FAILING, [*_RED, _alert(100, "resolved")]) == {Kind.FALSE_GREEN}


def test_an_alert_that_stays_is_a_false_red() -> None:
    """An alert that is still active long after the success is a false red."""
    assert _kinds(_RECOVERED, _without(_GREEN, *_ENDS)) == {Kind.FALSE_RED}


def test_an_alert_that_only_a_deleted_store_knew_may_stay() -> None:
    """The older copy of a store cannot resolve what fired since, and no other alert may stay."""
    open_alert = _without(_GREEN, *_ENDS)
    assert _kinds(_RECOVERED, open_alert, forgotten=[Span(15, 60)]) == set()
    assert _kinds(_RECOVERED, open_alert, forgotten=[Span(100, 150)]) == {Kind.FALSE_RED}


def test_an_end_that_only_a_deleted_store_knew_is_not_corrected() -> None:
    """The older copy of a store reports what the workspace shows; any other end is corrected."""
    (failing,) = _FAILING.job_groups
    group = msgspec.structs.replace(failing, end=End.COMPLETE, ended=80, end_shown_from=80)
    world = msgspec.structs.replace(_FAILING, job_groups=(group,))
    words = [*_FAILURE, _run(85, _FAILED, "succeeded")]
    assert Kind.EVENTS in _kinds(world, words)
    assert Kind.EVENTS not in _kinds(world, words, forgotten=[Span(15, 60)])
    assert Kind.EVENTS in _kinds(world, words, forgotten=[Span(40, 60)])


def test_an_alert_about_nothing_is_a_false_red() -> None:
    """An alert before anything failed is a false red about something that does not fail."""
    early = [*_without(_RED, _STARTS[0]), _alert(5, "fired", start=4)]
    assert _kinds(_FAILING, early) == {Kind.FALSE_RED, Kind.WRONG_START}


def test_an_alert_about_a_part_of_a_plan_run_is_found() -> None:
    """A failure inside a plan run that names it belongs to the plan."""
    group = msgspec.structs.replace(_FAILING.job_groups[0], flow_run=5, plan_run=6)
    inside = msgspec.structs.replace(_FAILING, job_groups=(group,))
    assert Kind.WRONG_SUBJECT in _kinds(inside, _RED)


def test_an_older_failure_that_is_seen_late_must_not_stay_active() -> None:
    """A failure that is shown after a newer success may fire and resolve at once, no more."""
    late = msgspec.structs.replace(
        _RECOVERED,
        job_groups=(
            _group(_FAILED, End.FAILED, ended=20, shown_from=210),
            _group(_SUCCEEDED, End.COMPLETE, ended=100),
        ),
    )
    shown = [
        *(_run(at, _SUCCEEDED, word) for at, word in ((92, "queued"), (93, "started"))),
        _run(102, _SUCCEEDED, "succeeded"),
        *(_run(212, _FAILED, word) for word in ("queued", "started", "failed")),
    ]
    state = _state(220, "succeeded", 0)
    at_once = [_alert(213, "fired", is_over=True), _alert(213.5, "resolved", is_over=True)]
    assert _kinds(late, [*shown, state, *at_once]) == set()
    unmarked = [_alert(213, "fired"), _alert(213.5, "resolved")]
    assert _kinds(late, [*shown, state, *unmarked]) == {Kind.WRONG_MARK}
    assert _kinds(late, [*shown, state, _alert(213, "fired")]) == {Kind.FALSE_RED}


def test_a_start_of_another_time_is_found() -> None:
    """An alert starts at the end of its oldest open failure."""
    moved = [*_without(_RED, _STARTS[0]), _alert(22, "fired", start=12)]
    assert _kinds(_FAILING, moved) == {Kind.WRONG_START}


def test_a_denial_is_found() -> None:
    """Evidence of an alert must not be explained by a rule that was not met."""
    denied = _faces(_FAILING, reason="no matching rule")
    assert _kinds(_FAILING, _RED, denied) == {Kind.DENIAL}


@pytest.mark.parametrize(
    "arrivals",
    [
        _without(_RED, _FAILURE[1]),
        [*_RED, _run(30, _FAILED, "succeeded")],
        [*_without(_RED, _FAILURE[2]), _run(300, _FAILED, "failed")],
        [*_RED, _run(30, 99, "queued")],
        [*_RED, _run(30, _FAILED, "detailed"), _run(31, _FAILED, "confirmed")],
        [*_without(_RED, _FAILURE[2]), _run(20, _FAILED, "detailed"), _FAILURE[2]],
    ],
    ids=["missing", "two ends", "late", "invented", "confirmed behind details", "details first"],
)
def test_events_that_are_not_the_runs_are_found(arrivals: list[Arrival]) -> None:
    """Each transition is published once, in order, in time, of runs that are there."""
    assert Kind.EVENTS in _kinds(_FAILING, arrivals)


def test_a_state_that_is_not_true_is_found() -> None:
    """Retained states, page data and metrics show the newest end."""
    assert _kinds(_FAILING, [*_RED, _state(40, "succeeded", 0)]) == {Kind.GAUGES}
    removed = Arrival(40, _state(40, "failed", 1).topic, b"")
    assert _kinds(_FAILING, [*_RED, removed]) == {Kind.GAUGES}
    assert _kinds(_FAILING, _RED, _faces(_RECOVERED)) == {Kind.GAUGES}


def test_failures_in_a_row_without_an_alert_are_found() -> None:
    """Three failures of a recipe in a row have an alert of their own."""
    thrice = msgspec.structs.replace(
        _FAILING,
        job_groups=tuple(_group(3 + n, End.FAILED, ended=20 + 20 * n) for n in range(3)),
    )
    repeated = _alert(62, "fired", rule="failing_repeatedly")
    assert Kind.FALSE_GREEN in _kinds(thrice, _RED)
    assert Kind.FALSE_GREEN not in _kinds(thrice, [*_RED, repeated])
    assert Kind.FALSE_RED in _kinds(_FAILING, [*_RED, repeated])


def test_a_missing_reason_is_found() -> None:
    """A failed run shows the error of its jobs."""
    assert _kinds(_FAILING, _RED, _faces(_FAILING, error=None)) == {Kind.NO_REASON}
    assert _kinds(_FAILING, _RED, _faces(_FAILING, error="another")) == {Kind.NO_REASON}


@pytest.mark.parametrize(
    ("blind_from", "error", "kinds"),
    [
        (NEVER, "another", set()),
        (NEVER, "broken", {Kind.NO_REASON}),  # of no run that the alert is about
        (150.0, "another", set()),  # the newer failure need not be known, and is
        (150.0, None, {Kind.NO_REASON}),
        (5.0, "another", set()),
        (5.0, None, set()),  # neither need be known
        (5.0, "broken", {Kind.NO_REASON}),
    ],
)
def test_an_alert_has_the_error_of_a_run_that_it_is_about(
    blind_from: float, error: str | None, kinds: set[Kind]
) -> None:
    """Also of one that need not be known yet: it may be."""
    (group,) = _FAILING.job_groups
    newer = msgspec.structs.replace(_group(_FAILED + 1, End.FAILED, ended=160), error="another")
    world = msgspec.structs.replace(_FAILING, job_groups=(group, newer))
    evidence = [f"world-0:job_group:{failed.id}:failed" for failed in world.job_groups]
    alert = {
        "name": "run_failed",
        "state": "firing",
        "facts": {"error": error},
        "evidence": evidence,
    }
    faces = msgspec.structs.replace(_faces(world), alerts=[alert], runs={})
    ends = own_ends(world, [Span(blind_from, NEVER)])
    found = reason_findings(world, ends, faces, until=_UNTIL)
    assert {finding.kind for finding in found} == kinds
    refused = Withdrawal(
        span=Span(161, NEVER), lists=frozenset(), refusal=Refusal.GONE, with_objects=True
    )
    world = msgspec.structs.replace(world, withdrawals=(refused,))
    found = reason_findings(world, ends, faces, until=_UNTIL)
    assert {finding.kind for finding in found} == kinds, "its job records need not be readable"


def test_a_missing_link_is_found() -> None:
    """A failed flow run of a plan run is shown as part of it, where the plan run is known."""
    flow_run = FlowRun(
        id=5,
        flow=_FLOW,
        job_groups=(_FAILED,),
        created=10,
        ended=20,
        end=End.FAILED,
        end_shown_from=20,
        plan_run=6,
    )
    plan_run = PlanRun(
        id=6,
        plan=7,
        snapshot=8,
        flow_runs=(5,),
        created=10,
        started=10,
        ended=20,
        end=End.FAILED,
        shown_from=10,
        end_shown_from=20,
        children_named_from={5: 10},
    )
    inside = msgspec.structs.replace(_FAILING, flow_runs=(flow_run,), plan_runs=(plan_run,))
    refused = Withdrawal(
        span=Span(15, NEVER), lists=frozenset(), refusal=Refusal.GONE, with_objects=True
    )
    cases: tuple[tuple[str | None, bool, World, set[Kind]], ...] = (
        ("6", True, inside, set()),
        (None, True, inside, {Kind.NO_LINK}),
        (None, False, inside, set()),
        (None, True, msgspec.structs.replace(inside, withdrawals=(refused,)), set()),
    )
    for named, is_known, world, kinds in cases:
        shown: dict[Run, dict[str, Any]] = {(RunKind.FLOW_RUN, 5): {"plan_run": named}}
        if is_known:
            shown[RunKind.PLAN_RUN, 6] = {}
        faces = msgspec.structs.replace(_faces(_FAILING), runs=shown)
        assert {finding.kind for finding in link_findings(world, faces)} == kinds


def test_an_alertmanager_that_differs_is_found() -> None:
    """The Alertmanager holds and has notified what the broker's subscribers know."""
    labels = {"workspace": "world-0", "kind": "job_group", "pipeline_id": str(_FLOW)}
    alerts = [
        {"labels": {**labels, "alertname": rule}, "status": "firing"}
        for rule in ("run_failed", LASTING)
    ]
    both = Notifications(active=alerts, notified=alerts)
    assert _kinds(_FAILING, _RED, notified=both) == set()
    for partial in (
        Notifications(active=alerts[:1], notified=alerts),
        Notifications(active=alerts, notified=alerts[1:]),
    ):
        assert _kinds(_FAILING, _RED, notified=partial) == {Kind.NOTIFICATIONS}
