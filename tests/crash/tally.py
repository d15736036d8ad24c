"""Which words were told of which runs, counted as messages come: cheap to ask again and again."""

from __future__ import annotations

import json

from tests.app.hearing import ENDS, End, Run, Subscriber


class Tally:
    """Reads each message of a subscriber once."""

    def __init__(self, subscriber: Subscriber) -> None:
        self._subscriber = subscriber
        self._read = 0
        self._told: set[tuple[Run, str]] = set()

    def missing(self, word: str, runs: set[Run]) -> set[Run]:
        """Return those of the runs of which this was not told yet."""
        self._catch_up()
        return {run for run in runs if (run, word) not in self._told}

    def ends(self) -> set[End]:
        """Return every end that was told yet."""
        self._catch_up()
        return {(*run, word) for run, word in self._told if word in ENDS}

    def _catch_up(self) -> None:
        messages = self._subscriber.messages
        end = len(messages)
        for message in messages[self._read : end]:
            if "/event/" in message.topic:
                event = json.loads(message.payload)
                if (run := event["data"].get("run")) is not None:
                    self._told.add(((run["kind"], run["id"]), event["type"].split(".")[-2]))
        self._read = end
