"""Alerts as a subscriber at the broker has heard them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.app.hearing import Subscriber

Alarm = tuple[str, str, str]  # rule, workspace or instance, key


def alarms(subscriber: Subscriber) -> dict[Alarm, list[str]]:
    """Return for each alert the words of its events, each id once, as they first came."""
    words: defaultdict[Alarm, list[str]] = defaultdict(list)
    for alarm, event in alert_events(subscriber):
        words[alarm].append(event["type"].split(".")[-2])
    return dict(words)


def alert_events(subscriber: Subscriber) -> Iterator[tuple[Alarm, dict[str, Any]]]:
    """Yield every alert event once, in order; an id that came with two contents is a failure."""
    contents: dict[str, bytes] = {}
    for message in list(subscriber.messages):
        alarm = _alarm(message.topic, "event")
        if alarm is None:
            continue
        event = json.loads(message.payload)
        if event["id"] not in contents:
            contents[event["id"]] = message.payload
            yield alarm, event
        assert contents[event["id"]] == message.payload, f"{event['id']} was told with two contents"


def retained_alerts(subscriber: Subscriber) -> dict[Alarm, str]:
    """Return the last status of each alert's retained topic; a cleared one is not there."""
    states: dict[Alarm, str] = {}
    for message in list(subscriber.messages):
        alarm = _alarm(message.topic, "state")
        if alarm is None:
            continue
        states.pop(alarm, None)
        if message.payload:
            states[alarm] = json.loads(message.payload)["status"]
    return states


def _alarm(topic: str, last: str) -> Alarm | None:
    levels = topic.split("/")
    if levels[-1] != last or levels[-4:-3] != ["alert"]:
        return None
    return levels[-3], levels[-5], levels[-2]
