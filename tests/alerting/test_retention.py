"""What is kept for how long, and what goes with the rules that remembered it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from monitor.alerting.alerts.instance import AlertSpan, FingerprintHistory
from monitor.alerting.alerts.pending_step import (
    FIRST,
    MEMORY,
    PAST,
    RULE,
    FirstEvaluated,
    PendingStep,
    Tables,
)
from monitor.alerting.engine.alert_retention import forget_rules, sweep
from monitor.alerting.rules.compiled import Compiled
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.rules.table import default_rule
from monitor.bus.contract import Retention

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


def ended(at: datetime) -> FingerprintHistory:
    """Return what is left of an alert that ended then."""
    return FingerprintHistory(spans=(AlertSpan(starts_at=at - timedelta(minutes=1), ends_at=at),))


def named(name: str, kind: RuleKind) -> RuleSettings:
    rule = default_rule(kind)
    return RuleSettings(name=name, rule=kind, severity=rule.severity)


def remembering(*names: str) -> PendingStep:
    """Return a pending step in which each of these rules has evaluated something."""
    pending = PendingStep(Tables(), wall_now=NOW)
    for name in names:
        pending.put(MEMORY, f"{name}:pipeline:marketing:job_group:1:", b"{}")
        pending.put(FIRST, f"{name}:marketing:job_group", FirstEvaluated(at=NOW))
    return pending


def names_in(pending: PendingStep, letter: str) -> set[str]:
    return {key.partition(":")[0] for key, _ in pending.rows(letter)}


def test_a_rule_that_is_removed_or_another_kind_by_now_remembers_nothing() -> None:
    """So that one of its name, later, does not begin with what another one remembered."""
    pending = remembering("stays", "goes", "changes")
    before = [named(text, RuleKind.RUN_FAILED) for text in ("stays", "goes", "changes")]
    forget_rules(pending, Compiled(before).rules)
    assert names_in(pending, MEMORY) == {"stays", "goes", "changes"}

    after = [named("stays", RuleKind.RUN_FAILED), named("changes", RuleKind.CANCELED)]
    forget_rules(pending, Compiled(after).rules)

    assert names_in(pending, MEMORY) == names_in(pending, FIRST) == {"stays"}
    assert names_in(pending, RULE) == {"stays", "changes"}


async def test_the_rest_of_alerts_goes_after_thirty_days() -> None:
    """Until then their starts may stand in the log, and no other alert may have the same one."""
    pending = PendingStep(Tables(), wall_now=NOW)
    for days in (29, 31):
        pending.put(PAST, f"{days}", ended(NOW - timedelta(days=days)))

    await sweep(pending, now=NOW, kept=Retention())

    assert names_in(pending, PAST) == {"29"}


async def test_of_too_much_the_oldest_goes() -> None:
    """Above the bound as many go as there are too many, whatever the order they came in."""
    tables = Tables()
    seconds = [number * 7 % 100_003 for number in range(100_003)]
    tables[PAST] = {f"{second}": ended(NOW - timedelta(seconds=second)) for second in seconds}
    pending = PendingStep(tables, wall_now=NOW)

    await sweep(pending, now=NOW, kept=Retention())

    assert set(pending.changed[PAST]) == {"100000", "100001", "100002"}


async def test_kept_rows_are_compared_with_nothing_but_the_limit() -> None:
    """Very many rows that all stay delay no other work: each is evaluated once."""

    class Counted(datetime):
        """An instant that counts how often it is compared."""

        compared = 0

        def __lt__(self, other: date, /) -> bool:
            Counted.compared += 1
            return isinstance(other, datetime) and super().__lt__(other)

    at = Counted(2026, 11, 21, 9, tzinfo=UTC)
    tables = Tables()
    tables[PAST] = {f"{number}": ended(at) for number in range(1_000)}

    await sweep(PendingStep(tables, wall_now=NOW), now=NOW, kept=Retention())

    assert Counted.compared == 1_000
