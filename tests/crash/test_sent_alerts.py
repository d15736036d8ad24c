"""The judge of what an Alertmanager was sent: it finds lies, and knows clocks that were ahead."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from tests.crash.cluster.watches import PublishedState, labels_of
from tests.crash.sent_alerts import RESEND_SECONDS, taken_back

NOW = datetime(2026, 11, 28, 5, 6, tzinfo=UTC)
AHEAD = NOW + timedelta(minutes=5)  # by the clock of who fired it
LAPSE = timedelta(seconds=4 * RESEND_SECONDS)


def sent(at: datetime, starts_at: datetime, ends_at: datetime) -> PublishedState:
    alert = {
        "labels": {"alertname": "run_failed"},
        "annotations": {},
        "startsAt": starts_at.isoformat(),
        "endsAt": ends_at.isoformat(),
    }
    return PublishedState(shard="", daemon="one", at=at.timestamp(), what=json.dumps(alert))


def judged(*states: PublishedState, starts_at: datetime) -> list[str]:
    labels = labels_of(json.loads(states[0].what))
    return taken_back([(labels, starts_at.isoformat())], states)


def test_a_start_in_the_future_is_cut_to_the_present() -> None:
    """Who sends it has the right clock: while it fires, and once it is over, too."""
    later = NOW + timedelta(seconds=30)
    fires, is_over = sent(NOW, NOW, NOW + LAPSE), sent(later, later, later)

    assert judged(fires, is_over, starts_at=AHEAD) == []


def test_an_alert_that_comes_back_is_found() -> None:
    """As firing after its end, or with a start that never was."""
    ended = sent(NOW, NOW - LAPSE, NOW)
    again = sent(NOW, NOW - LAPSE, NOW + LAPSE)
    invented = sent(NOW, NOW - 2 * LAPSE, NOW)

    assert len(judged(ended, again, starts_at=NOW - LAPSE)) == 1
    assert len(judged(invented, starts_at=NOW - LAPSE)) == 1
