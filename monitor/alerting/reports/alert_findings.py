"""Reads from alerts what a report says of starts that did not come, and of what is late.

Rules have judged that as of complete reads of the workspace, so a report repeats no such decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.model.alert_texts import texts_of
from monitor.model.alerts import ENDED_BECAUSE, Alert, AlertState
from monitor.model.reports import PipelineFields, ReportedDeadline, ReportedDelay, ReportedStart

# Of what goes on for too long only that which still does: what has ended is a slow run.
_LATE = (RuleKind.NOT_FRESH, RuleKind.RUN_OVERDUE)
KINDS = (RuleKind.SCHEDULE_MISSED, RuleKind.DEADLINE_MISSED, *_LATE)


LateLine = ReportedStart | ReportedDelay | ReportedDeadline


def late_line(
    alert: Alert, *, now: datetime, next_of: Callable[[Alert], datetime | None]
) -> LateLine | None:
    """Return what an alert of the stretch says; None where that is nothing, or said elsewhere.

    ``now`` is the present by its clock. ``next_of``: when the start after the missed one was
    expected, None where that is not known.
    """
    if alert.state is AlertState.PENDING or alert.pipeline is None:
        return None  # not true for long enough
    if alert.rule == RuleKind.SCHEDULE_MISSED:
        why = _why_no_start(alert, next_of)
        return _delay(alert, now) if why is None else _start(alert, why)
    if alert.rule == RuleKind.DEADLINE_MISSED:
        return _deadline(alert)
    is_over = alert.rule == RuleKind.RUN_OVERDUE and alert.ends_at is not None
    return None if is_over or alert.rule not in _LATE else _delay(alert, now)


def overlaps(alert: Alert, since: datetime, until: datetime) -> bool:
    """True where the alert was open at some time of the stretch, all by its own clock."""
    return alert.starts_at < until and (alert.ends_at is None or alert.ends_at >= since)


def unjudged(rules: Sequence[str]) -> Iterator[str]:
    """Yield that starts are not judged, where no rule at work does; ``rules`` are their kinds."""
    if RuleKind.SCHEDULE_MISSED not in rules:
        yield "no rule schedule_missed is at work: starts that did not come are not known"


def _why_no_start(alert: Alert, next_of: Callable[[Alert], datetime | None]) -> str | None:
    """Return why no run came for a start, "" while it is awaited; None where one came late."""
    if alert.ends_at is None:
        return ""
    if (because := alert.facts.get(ENDED_BECAUSE)) is not None:
        return str(because)
    next_at = next_of(alert)
    has_more = _missed(alert) > 1 or (next_at is not None and alert.ends_at >= next_at)
    return "the next start came" if has_more else None


def _missed(alert: Alert) -> int:
    missed = alert.facts.get("missed")
    return int(missed) if isinstance(missed, int | float) else 1


def _start(alert: Alert, why: str) -> ReportedStart:
    schedule = alert.facts.get("schedule")
    return ReportedStart(
        **_pipeline(alert),
        schedule=None if schedule is None else str(schedule),
        expected_at=alert.starts_at,
        missed=_missed(alert),
        over_at=alert.ends_at,
        why_over=why or None,
    )


def _deadline(alert: Alert) -> ReportedDeadline | None:
    """Return a missed deadline; None where it turned out that a success had met it."""
    if alert.ends_at is not None and alert.ends_at <= alert.starts_at:
        return None
    is_success = alert.ends_at is not None and ENDED_BECAUSE not in alert.facts
    return ReportedDeadline(
        **_pipeline(alert),
        deadline=alert.starts_at,
        succeeded_at=alert.ends_at if is_success else None,
    )


def _delay(alert: Alert, now: datetime) -> ReportedDelay:
    texts = texts_of(alert, now, is_kept=True)
    text = texts.get("description") or texts.get("summary") or alert.name
    return ReportedDelay(
        **_pipeline(alert),
        rule=alert.name,
        text=text,
        since=alert.starts_at,
        until=alert.ends_at,
    )


def _pipeline(alert: Alert) -> PipelineFields:
    pipeline = alert.pipeline
    return {
        "workspace": alert.workspace,
        "pipeline": alert.labels.get("pipeline") or "unknown",
        "pipeline_kind": None if pipeline is None else pipeline.kind,
        "pipeline_id": None if pipeline is None else pipeline.id,
    }
