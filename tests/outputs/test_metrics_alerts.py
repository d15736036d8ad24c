"""Alerting's state, as the metrics page shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor.model.alerts import (
    Alert,
    AlertingSnapshot,
    AlertState,
    LearnedLimit,
    Severity,
    Silence,
    fingerprint,
)
from monitor.model.runs import Pipeline, PipelineKind, RunKind, Status
from monitor.outputs.metrics.families import SERIES_OF_PIPELINE
from monitor.outputs.metrics.settings import MetricsSettings
from tests.outputs.metrics_daemon import Daemon, a_daemon
from tests.outputs.metrics_examples import (
    NOON,
    flow,
    history,
    named,
    plan,
    run,
    samples,
    series,
)
from tests.outputs.metrics_parts import Metrics

MONITOR = "dataprep_monitor"
LIMIT = "dataprep_run_duration_limit_seconds"
AGE_LIMIT = "dataprep_success_age_limit_seconds"
EXPECTED = "dataprep_expected_start_timestamp_seconds"
MISSED = "dataprep_missed_runs_total"


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with a_daemon(tmp_path / "state.db") as made:
        made.reachable()
        yield made


def alert(name: str, state: AlertState, *, severity: Severity = Severity.WARNING) -> Alert:
    return Alert(
        fingerprint=fingerprint(name, {"state": state}),
        name=name,
        rule="run_failed",
        severity=severity,
        state=state,
        labels={},
        templates={},
        starts_at=NOON,
        workspace="one",
    )


def silence(number: int, starts_at: datetime, ends_at: datetime) -> Silence:
    return Silence(
        id=str(number),
        matchers=("workspace=one",),
        author="me",
        comment="upgrade",
        starts_at=starts_at,
        ends_at=ends_at,
        origin="api",
    )


def limit(pipeline: Pipeline, seconds: float, kind: RunKind = RunKind.PLAN_RUN) -> LearnedLimit:
    return LearnedLimit(workspace="one", kind=kind, pipeline=pipeline, seconds=seconds, runs=12)


async def test_alerts_are_counted_by_rule_severity_and_state(daemon: Daemon) -> None:
    """An enabled rule is shown at 0; an alert of a removed rule is shown while it exists."""
    daemon.alerting = AlertingSnapshot(
        rules=(("nightly failed", Severity.CRITICAL), ("late", Severity.WARNING)),
        alerts=(
            alert("nightly failed", AlertState.FIRING, severity=Severity.CRITICAL),
            alert("nightly failed", AlertState.FIRING, severity=Severity.CRITICAL),
            alert("nightly failed", AlertState.PENDING, severity=Severity.CRITICAL),
            alert("removed", AlertState.RESOLVED),
        ),
    )
    counts = {
        (labels["rule"], labels["severity"], labels["state"]): value
        for pairs, value in named(await daemon.page(), f"{MONITOR}_alerts").items()
        if (labels := dict(pairs))
    }
    assert counts == {
        ("nightly failed", "critical", "firing"): 2,
        ("nightly failed", "critical", "pending"): 1,
        ("nightly failed", "critical", "resolved"): 0,
        ("late", "warning", "firing"): 0,
        ("late", "warning", "pending"): 0,
        ("late", "warning", "resolved"): 0,
        ("removed", "warning", "resolved"): 1,
    }


async def test_transitions_and_failures_are_counted_from_0(daemon: Daemon) -> None:
    """Each enabled rule has every transition and its failures, so that the first is visible."""
    daemon.alerting = AlertingSnapshot(
        rules=(("late", Severity.WARNING),),
        transitions={("late", "fired"): 3, ("gone", "resolved"): 1},
        failures={"late": 2},
    )
    page = await daemon.page()
    transitions = {
        (labels["rule"], labels["to"]): value
        for pairs, value in named(page, f"{MONITOR}_alert_transitions_total").items()
        if (labels := dict(pairs))
    }
    assert transitions == {
        ("gone", "resolved"): 1,
        ("late", "fired"): 3,
        ("late", "reminded"): 0,
        ("late", "resolved"): 0,
        ("late", "silenced"): 0,
        ("late", "flapping"): 0,
        ("late", "acknowledged"): 0,
    }
    failures = series(f"{MONITOR}_rule_evaluation_failures_total", rule="late")
    assert samples(page)[failures] == 2


async def test_active_silences_are_distinguished_from_pending_ones(daemon: Daemon) -> None:
    """A silence is active from its start to its end, by the time of the page."""
    now, hour = daemon.clock.now(), timedelta(hours=1)
    daemon.alerting = AlertingSnapshot(
        silences=(
            silence(1, now - hour, now + hour),
            silence(2, now, now + hour),
            silence(3, now + hour, now + 2 * hour),
            silence(4, now - hour, now),
        )
    )
    active = series(f"{MONITOR}_silences", state="active")
    pending = series(f"{MONITOR}_silences", state="pending")
    page = samples(await daemon.page())
    assert (page[active], page[pending]) == (2, 1)
    await daemon.clock.advance(3_600)
    page = samples(await daemon.page())
    assert (page[active], page[pending]) == (1, 0)


async def test_learned_limits_have_the_pipelines_labels(daemon: Daemon) -> None:
    """A limit has the labels of the runs it applies to, so that both can be compared."""
    daemon.live_state.name_pipeline("one", PipelineKind.PLAN, "7", "nightly")
    daemon.live_state.name_pipeline("one", PipelineKind.FLOW, "3", "orders")
    daemon.alerting = AlertingSnapshot(
        limits=(limit(plan(7), 900.0), limit(flow(3), 60.5, RunKind.JOB_GROUP)),
        cadences=(limit(plan(7), 259_200.0),),
    )
    page = samples(await daemon.page())
    nightly = {"workspace": "one", "kind": "plan_run", "pipeline": "nightly"}
    orders = {"workspace": "one", "kind": "job_group", "pipeline": "orders"}
    assert page[series(LIMIT, **nightly)] == 900
    assert page[series(LIMIT, **orders)] == 60.5
    assert page[series(AGE_LIMIT, **nightly)] == 259_200


async def test_starts_are_expected_and_missed_from_0(daemon: Daemon) -> None:
    """A scheduled pipeline has its next start and a count, which is 0 before the first miss."""
    daemon.live_state.name_pipeline("one", PipelineKind.PLAN, "7", "nightly")
    daemon.live_state.name_pipeline("one", PipelineKind.FLOW, "3", "orders")
    at = NOON + timedelta(hours=9)
    daemon.alerting = AlertingSnapshot(
        expected={("one", RunKind.PLAN_RUN, "7"): at},
        missed={("one", RunKind.FLOW_RUN, "3"): 2},
    )
    page = await daemon.page()
    nightly = {"workspace": "one", "pipeline": "nightly"}
    assert samples(page)[series(EXPECTED, **nightly)] == at.timestamp()
    assert len(named(page, EXPECTED)) == 1
    assert samples(page)[series(MISSED, **nightly)] == 0
    assert samples(page)[series(MISSED, workspace="one", pipeline="orders")] == 2


async def test_a_flow_and_a_plan_of_one_name_share_their_starts(daemon: Daemon) -> None:
    """The labels name no kind, so the page has the earlier start and both misses, once."""
    daemon.live_state.name_pipeline("one", PipelineKind.PLAN, "7", "daily")
    daemon.live_state.name_pipeline("one", PipelineKind.FLOW, "3", "daily")
    early, late = NOON + timedelta(hours=1), NOON + timedelta(hours=2)
    keys = (("one", RunKind.PLAN_RUN, "7"), ("one", RunKind.FLOW_RUN, "3"))
    daemon.alerting = AlertingSnapshot(
        expected=dict(zip(keys, (late, early), strict=True)),
        missed=dict(zip(keys, (1, 2), strict=True)),
    )
    page = samples(await daemon.page())
    daily = {"workspace": "one", "pipeline": "daily"}
    assert page[series(EXPECTED, **daily)] == early.timestamp()
    assert page[series(MISSED, **daily)] == 3


async def test_a_removed_workspace_is_not_shown(daemon: Daemon) -> None:
    """The limits and starts of a removed workspace are removed."""
    daemon.alerting = AlertingSnapshot(
        limits=(
            LearnedLimit(
                workspace="two", kind=RunKind.PLAN_RUN, pipeline=plan(7), seconds=9, runs=10
            ),
        ),
        expected={("two", RunKind.PLAN_RUN, "7"): NOON},
        missed={("two", RunKind.PLAN_RUN, "7"): 4},
    )
    page = await daemon.page()
    assert b'workspace="two"' not in page
    assert not named(page, EXPECTED)


async def test_the_budget_holds_for_learned_limits(tmp_path: Path) -> None:
    """A pipeline without series of its own has no limit, and its misses are under __other__."""
    cost = sum(SERIES_OF_PIPELINE.values())
    settings = MetricsSettings(series_budget=len(RunKind) * 2 * cost + cost)
    async with a_daemon(tmp_path / "state.db", settings) as daemon:
        daemon.reachable()
        numbers = range(1, 5)
        for number in numbers:
            name = f"plan {number}"
            daemon.live_state.name_pipeline("one", PipelineKind.PLAN, str(number), name)
            ended = run(number, Status.SUCCEEDED, pipeline=plan(number, name))
            await daemon.emit(*history(ended))
        keys = [("one", RunKind.PLAN_RUN, str(number)) for number in numbers]
        daemon.alerting = AlertingSnapshot(
            limits=tuple(limit(plan(number), 100.0 * number) for number in numbers),
            expected={key: NOON + timedelta(hours=int(key[2])) for key in keys},
            missed=dict.fromkeys(keys, 1),
        )
        page = await daemon.page()
    found = samples(page)
    assert {dict(pairs)["pipeline"] for pairs in named(page, LIMIT)} == {"plan 1"}
    shared = {"workspace": "one", "pipeline": "__other__"}
    assert found[series(MISSED, **shared)] == 3
    assert found[series(EXPECTED, **shared)] == (NOON + timedelta(hours=2)).timestamp()
    watched = [name for name, _ in found if name.startswith("dataprep_")]
    watched = [name for name in watched if not name.startswith(MONITOR)]
    assert found[series(f"{MONITOR}_series")] == len(watched) <= settings.series_budget


async def test_without_alerting_its_metrics_are_absent(daemon: Daemon) -> None:
    """Without rules the families are absent, and not 0."""
    metrics = Metrics(
        bus=daemon.bus,
        live_state=daemon.live_state.view,
        clock=daemon.clock,
        registry=CollectorRegistry(),
        settings=daemon.settings,
        version="1.2.3",
    )
    page, _ = await metrics.exposition.render("")
    await metrics.exposition.close()
    assert b"dataprep_monitor_build_info" in page
    assert b"dataprep_monitor_alert" not in page
    assert b"silences" not in page
