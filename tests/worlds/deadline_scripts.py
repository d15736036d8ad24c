"""Adds deadlines of the flows and plans, and the nights in which clocks change meanwhile."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from msgspec import Struct

from tests.worlds.draft import Draft
from tests.worlds.script import Deadline, DeadlineDays

LEAD_MINUTES = 5  # so long before clocks change the world begins
_ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/St_Johns",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
)
_MOST_DEADLINES = 4
_DUE_MINUTES = (2, 8)
_DUE_AFTER_MINUTES = (LEAD_MINUTES + 1, _DUE_MINUTES[1])
_USUAL_SECONDS = (40.0, 100.0, 100.0, 200.0)
_BATCHES_OF_A_ROUND = 4
_WITH_NIGHT = (0, 3)  # batches of a round, with and without stops and clocks that are set
_BEFORE_MINUTES = -20  # a window that opens so early has been open when the daemon starts


class Night(Struct, frozen=True, kw_only=True):
    """When the clocks of a zone change; ``region``: where that date is a public holiday."""

    zone: str
    changes_at: datetime
    region: str | None = None

    @property
    def begins_at(self) -> datetime:
        """When a world begins."""
        return self.changes_at - timedelta(minutes=LEAD_MINUTES)


# Clocks are set forward and back in each zone: by night, at midnight, and by half an hour.
NIGHTS = (
    Night(zone="Europe/Berlin", changes_at=datetime(2027, 3, 28, 1, tzinfo=UTC), region="DE-BB"),
    Night(zone="America/New_York", changes_at=datetime(2026, 11, 1, 6, tzinfo=UTC), region="DE-BY"),
    Night(zone="Asia/Beirut", changes_at=datetime(2027, 3, 27, 22, tzinfo=UTC), region="DE-BB"),
    Night(zone="Australia/Lord_Howe", changes_at=datetime(2027, 4, 3, 15, tzinfo=UTC)),
    Night(zone="Europe/Berlin", changes_at=datetime(2026, 10, 25, 1, tzinfo=UTC)),
    Night(zone="America/New_York", changes_at=datetime(2027, 3, 14, 7, tzinfo=UTC)),
    Night(zone="Asia/Beirut", changes_at=datetime(2026, 10, 24, 21, tzinfo=UTC)),
    Night(zone="Australia/Lord_Howe", changes_at=datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
)
# All of them within two days of a night. A rule has those of any place, whatever its zone is.
_NATIONAL = frozenset({date(2026, 10, 3), date(2027, 3, 26), date(2027, 3, 29)})
HOLIDAYS = {
    "DE": _NATIONAL,
    "DE-BB": _NATIONAL | {date(2026, 10, 31), date(2027, 3, 28)},  # Reformation, Easter Sunday
    "DE-BY": _NATIONAL | {date(2026, 11, 1)},  # All Saints
}


def night_of_batch(batch: int) -> Night | None:
    """Return the night in which the worlds of a batch lie: each in turn, none in every second."""
    round_number, place = divmod(batch, _BATCHES_OF_A_ROUND)
    if place not in _WITH_NIGHT:
        return None
    number = round_number * len(_WITH_NIGHT) + _WITH_NIGHT.index(place)
    return NIGHTS[number % len(NIGHTS)]


def add_deadlines(draft: Draft, night: Night | None) -> None:
    """Add deadlines, each of any pipeline, some before and some after the clocks change."""
    pipelines = [("flow", flow.id) for flow in draft.flows]
    pipelines += [("plan", plan.id) for plan in draft.plans]
    for number in range(draft.random.randint(1, _MOST_DEADLINES)):
        kind, pipeline = draft.random.choice(pipelines)
        zone = draft.random.choice(_ZONES)
        if night is not None and draft.happens(0.8):
            zone = night.zone
        opens, due = _window(draft, night)
        days = DeadlineDays.EVERY
        if draft.happens(0.4):
            days = draft.random.choice(tuple(DeadlineDays))
        if night is not None and night.region is not None and draft.happens(0.5):
            days = DeadlineDays.NO_HOLIDAYS
        draft.deadlines.append(
            Deadline(
                rule=f"deadline-{draft.seed}-{number}",
                kind=kind,
                pipeline=pipeline,
                zone=zone,
                due_minutes=due,
                opens_minutes=opens,
                is_by_shown_clock=draft.happens(0.5),
                counts=draft.random.choice(("started", "ended")),
                days=days,
                region=_region(draft, night) if days is DeadlineDays.NO_HOLIDAYS else None,
                usual_seconds=draft.random.choice(_USUAL_SECONDS) if draft.happens(0.6) else None,
            )
        )


def _window(draft: Draft, night: Night | None) -> tuple[int, int]:
    """Return from which minute to which: often while clocks change, or while all is unread."""
    if night is not None and draft.happens(0.5):
        return draft.random.randint(1, LEAD_MINUTES - 1), draft.random.randint(*_DUE_AFTER_MINUTES)
    minutes = list(range(_DUE_MINUTES[0], _DUE_MINUTES[1] + 1))
    unread = [*draft.outages, *(withdrawal.span for withdrawal in draft.withdrawals)]
    inside = [
        minute
        for minute in minutes
        if any(span.begin <= minute * 60.0 <= span.end for span in unread)
    ]
    due = draft.random.choice(inside if inside and draft.happens(0.7) else minutes)
    return _BEFORE_MINUTES if draft.happens(0.1) else draft.random.randint(1, due - 1), due


def _region(draft: Draft, night: Night | None) -> str | None:
    """Return a region whose holidays are known then."""
    if night is None:
        return None
    if night.region is not None and draft.happens(0.5):
        return night.region
    return draft.random.choice(tuple(HOLIDAYS))
