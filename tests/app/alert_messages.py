"""Alerts as a subscriber at the broker has received them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.app.mqtt_subscriber import Subscriber

AlertKey = tuple[str, str, str]  # rule, workspace or instance, key


def alerts_by_key(subscriber: Subscriber) -> dict[AlertKey, list[str]]:
    """Return for each alert the words of its events, each id once, as they first came."""
    words: defaultdict[AlertKey, list[str]] = defaultdict(list)
    for alert_key, event in alert_events(subscriber):
        words[alert_key].append(event["type"].split(".")[-2])
    return dict(words)


def alert_events(subscriber: Subscriber) -> Iterator[tuple[AlertKey, dict[str, Any]]]:
    """Yield every alert event once, in order; an id that came with two contents is a failure."""
    contents: dict[str, bytes] = {}
    for message in list(subscriber.messages):
        alert_key = _alert_key(message.topic, "event")
        if alert_key is None:
            continue
        event = json.loads(message.payload)
        if event["id"] not in contents:
            contents[event["id"]] = message.payload
            yield alert_key, event
        assert contents[event["id"]] == message.payload, f"{event['id']} came with two contents"


def retained_alerts(subscriber: Subscriber) -> dict[AlertKey, str]:
    """Return the last status of each alert's retained topic; a cleared one is not there."""
    states: dict[AlertKey, str] = {}
    for message in list(subscriber.messages):
        alert_key = _alert_key(message.topic, "state")
        if alert_key is None:
            continue
        states.pop(alert_key, None)
        if message.payload:
            states[alert_key] = json.loads(message.payload)["status"]
    return states


def _alert_key(topic: str, last: str) -> AlertKey | None:
    levels = topic.split("/")
    if levels[-1] != last or levels[-4:-3] != ["alert"]:
        return None
    return levels[-3], levels[-5], levels[-2]
