"""What an Alertmanager was sent, beside what fired: an alert that is over may not come back.

An alert is known by its labels, as one text, and its start.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tests.crash.cluster.watches import PublishedState, labels_of

RESEND_SECONDS = 15
_LAPSE_SECONDS = 4.0 * RESEND_SECONDS  # how long an alert stands at Alertmanager by one sending


def reopened(fired: Iterable[tuple[str, str]], notified: Iterable[dict[str, Any]]) -> list[str]:
    """Return alerts that Alertmanager reported as firing more often than they fired."""
    times_fired = Counter(labels for labels, _ in fired)
    firing = Counter(labels_of(alert) for alert in notified if alert["status"] == "firing")
    return [
        f"Alertmanager notified {times} times of {labels}, which fired {times_fired[labels]} times"
        for labels, times in firing.items()
        if times > times_fired[labels]
    ]


def sent_and_resent(sent: Iterable[PublishedState]) -> tuple[int, int]:
    """Return how many alerts were sent, and how many of them said what one before had said."""
    states: Counter[tuple[str, str, bool]] = Counter()
    for state in sent:
        alert = json.loads(state.what)
        is_over = _instant(alert["endsAt"]) <= state.at
        states[labels_of(alert), alert["startsAt"], is_over] += 1
    return states.total(), states.total() - len(states)


def taken_back(fired: Iterable[tuple[str, str]], sent: Iterable[PublishedState]) -> list[str]:
    """Return alerts that Alertmanager was sent as firing after their end, or after newer ones.

    Newer is what fired later: the evidence may say that it began before the one before it.
    """
    began: defaultdict[str, list[str]] = defaultdict(list)
    for labels, starts_at in fired:
        began[labels].append(starts_at)
    broken: Counter[str] = Counter()
    latest: dict[str, tuple[int, bool]] = {}
    for state in sent:
        alert = json.loads(state.what)
        if "over_when_seen" in alert["annotations"]:
            continue  # it is older than what was seen before
        labels, ends_at = labels_of(alert), _instant(alert["endsAt"])
        before = latest.get(labels, (0, False))
        places = [
            (number, ends_at <= state.at)
            for number, starts_at in enumerate(began[labels])
            if starts_at == alert["startsAt"] or _is_cut(alert, starts_at)
        ]
        # Two that began in the same second look alike.
        place = min((place for place in places if place >= before), default=None)
        if place is None:
            broken[f"{state.daemon} sent {alert} after {before} of {began[labels]}"] += 1
        else:
            latest[labels] = place
    return [f"{what} ({times} times)" for what, times in broken.items()]


def _is_cut(alert: dict[str, Any], starts_at: str) -> bool:
    """True where the start lay in the future for who sent it, whose present stands for it.

    That present stands for the end too where the alert was over by then.
    """
    begins_at, ends_at = _instant(alert["startsAt"]), _instant(alert["endsAt"])
    is_present = any(abs(begins_at - at) < 1e-3 for at in (ends_at - _LAPSE_SECONDS, ends_at))
    return is_present and _instant(starts_at) > begins_at


def _instant(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
