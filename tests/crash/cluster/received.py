"""What the subscriber has received of each workspace; every message is read once."""

from __future__ import annotations

from collections.abc import Iterable

from tests.app.mqtt_subscriber import ReceivedEvents, Subscriber


class ReceivedByWorkspace:
    """The events so far, as of the last `read_new`."""

    def __init__(self, subscriber: Subscriber, workspaces: Iterable[str]) -> None:
        self._subscriber = subscriber
        self._read = 0
        self.of_runs = {workspace: ReceivedEvents() for workspace in workspaces}
        self.of_alerts = {workspace: ReceivedEvents() for workspace in workspaces}

    def read_new(self) -> None:
        messages = self._subscriber.messages
        end = len(messages)
        for message in messages[self._read : end]:
            levels = message.topic.split("/")
            if levels[2] not in self.of_runs or "event" not in levels[3:]:
                continue
            kinds = self.of_alerts if levels[3] == "alert" else self.of_runs
            kinds[levels[2]].add(message)
        self._read = end
