"""What rules would have told is held against what was told, as of what was known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from monitor.alerting.backtest.comparison import NOT_RECORDED, BacktestFiring, compared
from monitor.alerting.backtest.replay import RecordingTimes, judged_again
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.settings import AlertingSettings

ZERO = datetime(2026, 11, 21, 10, tzinfo=UTC)
FAILED = RuleSettings(name="run_failed", rule=RuleKind.RUN_FAILED)
STUCK = RuleSettings(name="run_stuck", rule=RuleKind.RUN_STUCK)
LATEST = timedelta(hours=6)


def firing(seconds: float = 0, *, key: str = "aa", rule: str = "run_failed") -> BacktestFiring:
    return BacktestFiring(
        starts_at=ZERO + timedelta(seconds=seconds),
        rule=rule,
        fingerprint=key,
        workspace="acme",
        pipeline="orders",
        summary="",
    )


RECORDED = st.lists(
    st.tuples(st.integers(0, 200_000), st.integers(0, 40_000)).map(
        lambda item: (
            ZERO + timedelta(seconds=item[0]),
            ZERO + timedelta(seconds=item[0] - item[1]),
        )
    ),
    max_size=30,
).map(lambda events: sorted(events, key=lambda event: event[0]))


@given(recorded=RECORDED)
def test_nothing_is_known_before_it_was_recorded(
    recorded: list[tuple[datetime, datetime]],
) -> None:
    """What was noticed later was not known then; what was noticed very late holds up nothing."""
    noticed = RecordingTimes()
    for recorded_at, occurred_at in recorded:
        noticed.add(recorded_at, occurred_at)
    assert len(noticed) == len(recorded)
    known = noticed.known_until().of(0, len(recorded))
    assert known == sorted(known)
    for index, (recorded_at, _) in enumerate(recorded):
        later = [occurred for noticed, occurred in recorded[index:] if noticed - occurred <= LATEST]
        assert known[index] == min([recorded_at, *later])


def test_the_same_start_is_found_on_both_sides() -> None:
    """A start some seconds apart is the same; the same alert later, or another one, is not."""
    would = [firing(0), firing(3_600), firing(5, key="bb")]
    did = [firing(30), firing(7_200)]
    (row,) = compared([FAILED], would, did)
    assert (row.would_fire, row.did_fire) == (3, 2)
    assert row.only_new == (firing(5, key="bb"), firing(3_600))
    assert row.only_old == (firing(7_200),)


@given(
    would=st.lists(st.integers(0, 400), max_size=8), did=st.lists(st.integers(0, 400), max_size=8)
)
def test_every_start_is_counted_once(would: list[int], did: list[int]) -> None:
    """What both sides have is the rest on each side."""
    new, old = [firing(number) for number in would], [firing(number) for number in did]
    (row,) = compared([FAILED], new, old)
    assert row.would_fire - len(row.only_new) == row.did_fire - len(row.only_old)


def test_what_no_log_holds_is_not_zero() -> None:
    """A rule about the present is named as not recorded, and what it told then is no difference."""
    (row,) = compared([STUCK], [], [firing(rule="run_stuck")])
    assert (row.is_recorded, row.did_fire, row.only_old) == (False, 1, ())
    kept = judged_again(AlertingSettings()).rules
    assert {rule.rule for rule in kept}.isdisjoint(NOT_RECORDED)
    assert RuleKind.RUN_FAILED in {rule.rule for rule in kept}


def test_a_rule_that_is_gone_is_shown_with_what_it_told() -> None:
    """Rules of the file come first, in its order; what was told by others stands behind them."""
    rows = compared([STUCK, FAILED], [], [firing(rule="former")])
    assert [row.rule for row in rows] == ["run_stuck", "run_failed", "former"]
    assert len(rows[2].only_old) == 1
