"""The index of runs that alerts fire about: what it finds is what a full scan would find."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.alerts.pending_step import ALERT, PendingStep, Tables
from monitor.model.alerts import Alert, AlertState, Severity
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, RunState, Status
from tests.alerting.run_samples import END, state

STATES = st.sampled_from((AlertState.FIRING, AlertState.RESOLVED, AlertState.PENDING, None))
CHANGES = st.tuples(
    st.integers(0, 5), STATES, st.sampled_from(list(RunKind)), st.integers(0, 9), st.integers(0, 2)
)


def instance(name: int, kind: RunKind, run: int, flow: int, is_what: AlertState) -> AlertInstance:
    alert = Alert(
        fingerprint=str(name),
        name="run_failed",
        rule="run_failed",
        severity=Severity.CRITICAL,
        state=is_what,
        labels={},
        templates={},
        starts_at=END,
        workspace="acme",
        kind=kind,
        pipeline=Pipeline(kind=PipelineKind.FLOW, id=str(flow)),
        run=RunKey("acme", kind, str(run)),
    )
    return AlertInstance(alert=alert, since=END)


def asking(kind: RunKind, flow: int) -> RunState:
    pipeline = Pipeline(kind=PipelineKind.FLOW, id=str(flow))
    return msgspec.structs.replace(state(99, Status.FAILED, kind=kind), pipeline=pipeline)


def by_looking_at_all(instances: dict[str, AlertInstance], run: RunState) -> set[RunKey]:
    found = set()
    for held in instances.values():
        scenario = held.alert
        assert scenario.run is not None
        assert run.pipeline is not None
        is_near = scenario.run.kind is not run.key.kind and (
            RunKind.PLAN_RUN in (scenario.run.kind, run.key.kind)
            or scenario.pipeline == run.pipeline
        )
        if held.is_open and is_near:
            found.add(scenario.run)
    return found


@given(st.lists(st.lists(CHANGES, max_size=4), max_size=12))
def test_each_step_leaves_what_a_full_scan_finds(
    steps: list[list[tuple[int, AlertState | None, RunKind, int, int]]],
) -> None:
    """Whatever begins, changes, ends and is forgotten, and after a restart too."""
    tables, firing = Tables(), FiringRuns()
    for step in steps:
        pending = PendingStep(tables, wall_now=END)
        for name, is_what, kind, run, flow in step:
            row = None if is_what is None else instance(name, kind, run, flow, is_what)
            pending.put(ALERT, str(name), row)
        pending.apply()
        for fingerprint, row in pending.changed[ALERT].items():
            firing.take(fingerprint, row)
    restored = FiringRuns()
    for fingerprint, row in tables[ALERT].items():
        restored.take(fingerprint, row)
    nothing = PendingStep(tables, wall_now=END)
    by_rule = firing.of_rules(nothing, {"run_failed"})
    assert by_rule == sorted(tables[ALERT].items()) == restored.of_rules(nothing, {"run_failed"})
    assert firing.of_rules(nothing, {"canceled"}) == []
    for kind in RunKind:
        for flow in range(3):
            asked = asking(kind, flow)
            wanted = by_looking_at_all(tables[ALERT], asked)
            assert set(firing.candidates(asked)) == wanted == set(restored.candidates(asked))


def test_the_newest_are_asked_first_and_not_too_many() -> None:
    """A plan that fails after five hundred flow runs is held against the last two hundred."""
    firing = FiringRuns()
    runs = {
        str(number): instance(number, RunKind.FLOW_RUN, number, number, AlertState.FIRING)
        for number in range(500)
    }
    for name, row in runs.items():
        firing.take(name, row)
    near = firing.candidates(asking(RunKind.PLAN_RUN, 1))
    assert [item.id for item in near] == [str(number) for number in range(499, 299, -1)]
