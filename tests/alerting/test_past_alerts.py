"""Ended alerts: what is kept, by which filters they are found, and in which order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from monitor.alerting.alerts.instance import StepWord
from monitor.alerting.alerts.pending_step import ENDED, EndedAlert, PendingStep, Tables
from monitor.alerting.engine.alert_retention import sweep
from monitor.alerting.engine.committed_state import PastAlerts, place_of
from monitor.bus.contract import Retention
from monitor.model.alerts import Alert, AlertState, PastQuery, Severity
from monitor.model.runs import Pipeline, PipelineKind, Status
from tests.alerting.engine_scenario import EngineScenario, engine_scenario
from tests.alerting.sample_alerts import an_alert

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def ended(minute: int, fingerprint: str = "f", **more: object) -> EndedAlert:
    """Return an alert that lasted a minute and ended in that minute after noon."""
    ends_at = NOON + minute * MINUTE
    alert = replace(
        an_alert(state=AlertState.RESOLVED),
        fingerprint=fingerprint,
        starts_at=ends_at - MINUTE,
        ends_at=ends_at,
        **more,
    )
    return EndedAlert(alert=alert, word=StepWord.RESOLVED, at=ends_at)


async def kept(*rows: EndedAlert) -> PastAlerts:
    past = PastAlerts()
    await past.load({f"{number}": row for number, row in enumerate(rows)})
    return past


async def minutes(past: PastAlerts, **filters: object) -> list[int]:
    found = await past.find(PastQuery(**filters))  # type: ignore[arg-type]  # any filter
    return [int(((alert.ends_at or NOON) - NOON) / MINUTE) for alert in found]


@pytest.fixture
async def scenario(tmp_path: Path) -> AsyncIterator[EngineScenario]:
    async with engine_scenario(tmp_path) as scenario:
        yield scenario


async def test_the_newest_end_comes_first_and_the_limit_holds() -> None:
    """By their ends, not by their starts or by the order in which they were stored."""
    past = await kept(*(ended(minute, f"{minute}") for minute in (3, 1, 5, 2, 4)))

    assert await minutes(past) == [5, 4, 3, 2, 1]
    assert await minutes(past, limit=2) == [5, 4]


async def test_since_counts_and_before_does_not() -> None:
    """Two queries that meet in one instant show each alert once."""
    past = await kept(*(ended(minute, f"{minute}") for minute in range(1, 6)))
    at = NOON + 3 * MINUTE

    assert await minutes(past, since=at) == [5, 4, 3]
    assert await minutes(past, before=at) == [2, 1]


async def test_each_filter_selects() -> None:
    """By workspace, pipeline, rule and severity; several must all fit."""
    orders = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")
    past = await kept(
        ended(1, "a", workspace="acme", pipeline=orders, severity=Severity.INFO),
        ended(2, "b", workspace="other", name="night_failures", severity=Severity.CRITICAL),
        ended(3, "c", workspace="acme", pipeline=Pipeline(kind=PipelineKind.PLAN, id="7")),
    )

    assert await minutes(past, workspace="acme") == [3, 1]
    assert await minutes(past, pipeline=(PipelineKind.FLOW, "7")) == [1]
    assert await minutes(past, rule="night_failures") == [2]
    assert await minutes(past, severity=Severity.INFO, workspace="acme") == [1]
    assert await minutes(past, workspace="acme", rule="night_failures") == []


@given(
    ends=st.lists(st.integers(0, 5), max_size=30),
    dropped=st.sets(st.integers(0, 29)),
    limit=st.integers(1, 7),
)
async def test_pages_show_each_alert_once(ends: list[int], dropped: set[int], limit: int) -> None:
    """Page by page, also of many that ended together, and whatever was dropped between."""
    rows = {f"{number}": ended(minute, f"{number}") for number, minute in enumerate(ends)}
    past = PastAlerts()
    await past.load({})
    past.committed(rows)
    past.committed({f"{number}": None for number in dropped if f"{number}" in rows})
    left = {number for number in range(len(ends)) if number not in dropped}

    found: list[Alert] = []
    place = None
    while page := await past.find(PastQuery(limit=limit, after=place)):
        found += page
        place = place_of(page[-1])

    assert sorted(int(alert.fingerprint) for alert in found) == sorted(left)
    assert found == sorted(found, key=place_of, reverse=True)
    assert {int(row.alert.fingerprint) for row in past.all()} == left


async def test_ended_alerts_are_found_at_once_and_after_a_restart(
    scenario: EngineScenario,
) -> None:
    """It is read from what is stored; the log is not scanned, and a restart loses nothing."""
    await scenario.end_run(1)
    await scenario.round()
    await scenario.end_run(1, Status.SUCCEEDED)
    await scenario.round()

    (now,) = await scenario.engine.past.find(PastQuery())
    (later,) = await (await scenario.restarted()).engine.past.find(PastQuery())

    assert now == later
    assert (now.state, now.name) == (AlertState.RESOLVED, "run_failed")


async def test_ended_alerts_stay_as_long_as_the_log_keeps_their_events() -> None:
    """Twenty days by a log of thirty days, and at least a week by a shorter one."""
    for days, kept_days, stays in ((20, 30, True), (40, 30, False), (5, 1, True), (8, 1, False)):
        pending = PendingStep(Tables(), wall_now=NOON)
        pending.put(ENDED, "f", ended(-days * 24 * 60))
        await sweep(pending, now=NOON, kept=Retention(events_seconds=kept_days * 86_400))
        assert bool(list(pending.rows(ENDED))) is stays, (days, kept_days)


async def test_one_that_was_not_notified_has_an_end_too() -> None:
    """An alert that ended in silence is resolved; one that never fired stays pending."""
    alert = replace(an_alert(), starts_at=NOON)
    silent = EndedAlert(alert=alert, word=StepWord.ENDED_UNNOTIFIED, at=NOON + MINUTE)
    alert = replace(an_alert(state=AlertState.PENDING), starts_at=NOON)
    short = EndedAlert(alert=alert, word=StepWord.ENDED_PENDING, at=NOON + 2 * MINUTE)

    found = await (await kept(silent, short)).find(PastQuery())

    assert [(alert.state, alert.ends_at) for alert in found] == [
        (AlertState.PENDING, NOON + 2 * MINUTE),
        (AlertState.RESOLVED, NOON + MINUTE),
    ]
