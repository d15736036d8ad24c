"""What the subscriber has received of each workspace; every message is read once."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.bus.shards import CLUSTER
from monitor.model.alerts import BRIDGE
from tests.app.mqtt_subscriber import ReceivedEvents, Subscriber
from tests.crash.cluster.watches import shard_of


class ReceivedByWorkspace:
    """The events so far, as of the last `read_new`."""

    def __init__(self, subscriber: Subscriber, workspaces: Iterable[str]) -> None:
        self._subscriber = subscriber
        self._read = 0
        self.of_runs = {workspace: ReceivedEvents() for workspace in workspaces}
        self.of_alerts = {shard: ReceivedEvents() for shard in (*workspaces, CLUSTER)}
        self.of_own_parts = ReceivedEvents()  # alerts about outputs and store of a shard

    def read_new(self) -> None:
        messages = self._subscriber.messages
        end = len(messages)
        for message in messages[self._read : end]:
            levels = message.topic.split("/")
            if "event" not in levels[3:]:
                continue
            if levels[2] in self.of_runs:
                kinds = self.of_alerts if levels[3] == "alert" else self.of_runs
                kinds[levels[2]].add(message)
            elif levels[2] == BRIDGE and shard_of(levels[3]) == CLUSTER:
                self.of_alerts[CLUSTER].add(message)
            elif levels[2] == BRIDGE:
                self.of_own_parts.add(message)
        self._read = end
