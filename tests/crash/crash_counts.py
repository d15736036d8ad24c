"""The received transitions of each run, counted as messages come, so that a check is cheap."""

from __future__ import annotations

import json

from tests.app.mqtt_subscriber import ENDS, End, Run, Subscriber


class TransitionCounts:
    """Reads each message of a subscriber once."""

    def __init__(self, subscriber: Subscriber) -> None:
        self._subscriber = subscriber
        self._read = 0
        self._transitions: set[tuple[Run, str]] = set()

    def missing(self, word: str, runs: set[Run]) -> set[Run]:
        """Return the runs without this transition so far."""
        self._read_new()
        return {run for run in runs if (run, word) not in self._transitions}

    def ends(self) -> set[End]:
        """Return every end received so far."""
        self._read_new()
        return {(*run, word) for run, word in self._transitions if word in ENDS}

    def _read_new(self) -> None:
        messages = self._subscriber.messages
        end = len(messages)
        for message in messages[self._read : end]:
            if "/event/" in message.topic:
                event = json.loads(message.payload)
                if (run := event["data"].get("run")) is not None:
                    self._transitions.add(((run["kind"], run["id"]), event["type"].split(".")[-2]))
        self._read = end
