"""One alert as an Alertmanager is posted it: labels, annotations, start and end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from monitor.model.alerts import Acknowledgement, Alert, AlertState
from monitor.outputs.alertmanager.posting import body_of
from tests.outputs.alert_histories import alert

NOW = datetime(2024, 11, 21, 10, tzinfo=UTC)


def posted(alert: Alert, *, now: datetime = NOW) -> dict[str, Any]:
    """Return the alert as the Alertmanager decodes it."""
    (read,) = msgspec.json.decode(
        body_of([alert], now=now, resend_seconds=60, time_of=lambda _: now)
    )
    assert isinstance(read, dict)
    return read


def test_a_firing_alert_lapses_unless_it_is_repeated() -> None:
    """Its `endsAt` lies four intervals ahead; labels and annotations are those of the alert."""
    read = posted(alert(1))
    assert read["startsAt"] == "2024-11-21T09:30:00Z"
    assert read["endsAt"] == "2024-11-21T10:04:00Z"
    assert read["labels"] == alert(1).labels
    assert read["annotations"] == {"summary": "orders 1 failed", "run": "91"}
    assert "generatorURL" not in read


def test_a_resolved_alert_carries_its_end() -> None:
    """`endsAt` is the time of the evidence, not the time of the notification."""
    assert posted(alert(1, AlertState.RESOLVED))["endsAt"] == "2024-11-21T09:40:00Z"


@pytest.mark.parametrize(
    ("starts_at", "ends_at"),
    [
        (NOW + timedelta(hours=1), NOW + timedelta(hours=2)),
        (NOW - timedelta(hours=1), NOW + timedelta(hours=1)),
        (NOW - timedelta(hours=1), NOW - timedelta(hours=2)),
        (NOW - timedelta(hours=1), None),
    ],
)
def test_an_end_is_never_ahead_nor_before_the_start(
    starts_at: datetime, ends_at: datetime | None
) -> None:
    """A workspace whose clock is ahead neither keeps an alert alive nor gets it refused."""
    read = posted(alert(1, AlertState.RESOLVED, starts_at=starts_at, ends_at=ends_at))
    times = [datetime.fromisoformat(read[text]) for text in ("startsAt", "endsAt")]
    assert times[0] <= times[1] <= NOW


def test_facts_beside_the_rule_become_annotations() -> None:
    """Flapping, local silences, who knows of it and the address are annotations, never labels."""
    by = Acknowledgement(author="Ada", comment="on it", at=NOW)
    assert posted(alert(1, acknowledged=by))["annotations"]["acknowledged_by"] == "Ada"
    assert "acknowledged_by" not in posted(alert(1))["annotations"]
    facts = {"url": "https://example.org/jobs/91"}
    read = posted(alert(1, is_flapping=True, muted_by=("silence:3",), facts=facts))
    assert read["annotations"]["flapping"] == "true"
    assert read["annotations"]["silenced_by"] == "silence:3"
    assert read["generatorURL"] == "https://example.org/jobs/91"
    assert read["labels"] == alert(1).labels


def test_texts_move_on_and_what_an_alert_is_known_by_does_not() -> None:
    """Alertmanager takes each repetition for the same alert, whatever its annotations read."""
    token = alert(
        templates={"summary": "{workspace}: token {expires_at:expires|expired}"},
        facts={"expires_at": "2024-11-21T10:11:00Z"},
    )
    later = NOW + timedelta(minutes=14)
    first, second = posted(token), posted(token, now=later)
    assert first["annotations"]["summary"] == "w: token expires in 11 min"
    assert second["annotations"]["summary"] == "w: token expired 3 min ago"
    assert (first["labels"], first["startsAt"]) == (second["labels"], second["startsAt"])
    over = posted(msgspec.structs.replace(token, state=AlertState.RESOLVED, ends_at=NOW), now=later)
    assert over["annotations"]["summary"] == "w: token expired at 2024-11-21T10:11:00Z"
