"""Alerts that would have fired are compared with those that fired, by what was known then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import BytesIO

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.backtest.recorded_log import RecordedLog
from monitor.alerting.backtest.replay import recorded_rules
from monitor.alerting.backtest.rule_comparison import BacktestFiring, compare
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Recorded
from monitor.model.events import EventType, RunEvent, run_event_id
from monitor.model.runs import RunKey, RunKind, RunState, Source, Status

ZERO = datetime(2026, 11, 21, 10, tzinfo=UTC)
FAILED = RuleSettings(name="run_failed", rule=RuleKind.RUN_FAILED)
STUCK = RuleSettings(name="run_stuck", rule=RuleKind.RUN_STUCK)
LATEST = timedelta(hours=6)
IN_TIME = timedelta(minutes=1)


def firing(seconds: float = 0, *, key: str = "aa", rule: str = "run_failed") -> BacktestFiring:
    return BacktestFiring(
        starts_at=ZERO + timedelta(seconds=seconds),
        rule=rule,
        fingerprint=key,
        workspace="acme",
        pipeline="orders",
        summary="",
    )


def event_at(recorded_at: datetime, occurred_at: datetime) -> RunEvent:
    run = RunState(
        key=RunKey("acme", RunKind.JOB_GROUP, "1"),
        status=Status.FAILED,
        confirmed_at=recorded_at,
        confirmed_by=Source.POLL,
    )
    return RunEvent(
        id=run_event_id(run.key, EventType.RUN_FAILED),
        type=EventType.RUN_FAILED,
        run=run,
        before=None,
        occurred_at=occurred_at,
        recorded_at=recorded_at,
        observed_by=Source.POLL,
    )


RECORDED = st.lists(
    st.tuples(st.integers(0, 200_000), st.integers(0, 40_000)).map(
        lambda seconds: (
            ZERO + timedelta(seconds=seconds[0]),
            ZERO + timedelta(seconds=seconds[0] - seconds[1]),
        )
    ),
    max_size=30,
).map(lambda events: sorted(events, key=lambda event: event[0]))


@given(recorded=RECORDED)
def test_nothing_is_known_before_it_was_recorded(
    recorded: list[tuple[datetime, datetime]],
) -> None:
    """The replay knows a fact from its record on, or from when others noticed it meanwhile."""
    log = RecordedLog(BytesIO())
    log.append(Recorded(position, event_at(*times)) for position, times in enumerate(recorded, 1))
    assert len(log) == len(recorded)
    assert [row.position for part in log.slices() for row in part.events] == [
        position for position, _ in enumerate(recorded, 1)
    ]
    was_in_time: datetime | None = None
    hidden_until = list[tuple[datetime, datetime]]()  # when each was noticed, and since when not
    for at, occurred in recorded:
        if at - occurred <= IN_TIME:
            was_in_time = at
            hidden_until.append((at, occurred))
        elif at - occurred <= LATEST:
            hidden_until.append((at, max(occurred, was_in_time or occurred)))
    for at, _ in recorded:
        expected = min([at, *(since for noticed_at, since in hidden_until if noticed_at >= at)])
        assert log.known_until.at("acme", at) == expected


def known_in(log: RecordedLog, *seconds: float, workspace: str = "acme") -> list[float]:
    """Return until when everything was known at each of these times."""
    instants = [ZERO + timedelta(seconds=second) for second in seconds]
    return [(log.known_until.at(workspace, at) - ZERO).total_seconds() for at in instants]


def log_of(*events: tuple[float, float]) -> RecordedLog:
    """Return the log of events: when each was recorded, and when it happened, in seconds."""
    log = RecordedLog(BytesIO())
    log.append(
        Recorded(
            position, event_at(ZERO + timedelta(seconds=at), ZERO + timedelta(seconds=occurred))
        )
        for position, (at, occurred) in enumerate(events, 1)
    )
    return log


def test_a_row_that_comes_late_is_no_outage() -> None:
    """Others were noticed in time meanwhile, so all that they could show was judged."""
    log = log_of((5, 3), (900, 898), (1_000, 100), (1_100, 1_098))
    assert known_in(log, 4, 500, 899, 950, 1_099) == [3, 500, 898, 900, 1_098]


def test_an_outage_is_until_what_happened_in_it_is_noticed() -> None:
    """Nothing was noticed in time, and everything came at once; another workspace went on."""
    log = log_of((5, 3), (3_600, 700), (3_600, 1_900), (3_610, 3_608))
    assert known_in(log, 100, 800, 3_599, 3_605) == [100, 700, 700, 3_605]
    assert known_in(log, 800, workspace="other") == [800]


def test_details_that_come_late_are_no_outage() -> None:
    """The end itself was noticed in time; what is added to it an hour later hides nothing."""
    ended = event_at(ZERO + timedelta(seconds=2), ZERO)
    late = ZERO + timedelta(hours=1)
    added = [
        msgspec.structs.replace(event_at(late, ZERO), type=event_type)
        for event_type in (EventType.RUN_DETAILED, EventType.RUN_CONFIRMED)
    ]
    log = RecordedLog(BytesIO())
    log.append(Recorded(position, event) for position, event in enumerate([ended, *added], 1))
    assert known_in(log, 2, 3_600) == [0, 3_600]


def test_the_same_start_is_found_on_both_sides() -> None:
    """A start some seconds apart is the same; the same alert later, or another one, is not."""
    would = [firing(0), firing(3_600), firing(5, key="bb")]
    did = [firing(30), firing(7_200)]
    (row,) = compare([FAILED], would, did)
    assert (row.would_fire, row.did_fire) == (3, 2)
    assert row.only_new == (firing(5, key="bb"), firing(3_600))
    assert row.only_old == (firing(7_200),)


def test_the_nearest_starts_are_the_same_alert() -> None:
    """Where an alert begins again soon, each start is found on the other side."""
    (row,) = compare([FAILED], [firing(0), firing(60)], [firing(62)])
    assert (row.only_new, row.only_old) == ((firing(0),), ())


@given(
    would=st.lists(st.integers(0, 400), max_size=8), did=st.lists(st.integers(0, 400), max_size=8)
)
def test_every_start_is_counted_once(would: list[int], did: list[int]) -> None:
    """Of the starts that both sides have, the rest is counted on each side."""
    new, old = [firing(number) for number in would], [firing(number) for number in did]
    (row,) = compare([FAILED], new, old)
    assert row.would_fire - len(row.only_new) == row.did_fire - len(row.only_old)


def test_facts_that_no_log_holds_are_not_zero() -> None:
    """A rule about the present is marked as not recorded, and what it fired is no difference."""
    (row,) = compare([STUCK], [], [firing(rule="run_stuck")])
    assert (row.not_recorded, row.did_fire, row.only_old) == (
        "the event log does not hold the progress of jobs",
        1,
        (),
    )
    rules = tuple(default_rule(kind) for kind in RuleKind)
    kept = {rule.rule for rule in recorded_rules(AlertingSettings(rules=rules)).rules}
    assert set(RuleKind) - kept == {
        RuleKind.RUN_STUCK,
        RuleKind.SCHEDULE_DISABLED,
        RuleKind.WORKSPACE_UNREACHABLE,
        RuleKind.PIPELINES_UNSHARED,
        RuleKind.TOKEN_EXPIRING,
        RuleKind.CALLBACKS_MISSED,
        RuleKind.QUALITY_DROPPED,
        RuleKind.BUDGET_EXHAUSTED,
        RuleKind.MONITOR_DEGRADED,
    }


def test_a_removed_rule_is_shown_with_what_it_fired() -> None:
    """Rules of the file come first, in its order; those that only the log knows follow."""
    rows = compare([STUCK, FAILED], [], [firing(rule="former")])
    assert [row.rule for row in rows] == ["run_stuck", "run_failed", "former"]
    assert len(rows[2].only_old) == 1
