"""Whether alerts fired and ended once each: as received, and as a real Alertmanager has them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from monitor.bus.shards import CLUSTER
from tests.crash import sent_alerts
from tests.crash.cluster.scenario import Cluster
from tests.crash.cluster.watches import labels_of

# One that flaps has fired again.
_FIRED = ("dataprep.alert.fired.v1", "dataprep.alert.flapping.v1")


def open_alerts(scenario: Cluster) -> list[str]:
    """Return what is still open, although nothing fails any more and every daemon is back."""
    return [
        f"{key} is still open: {words}"
        for key, words in _words(scenario).items()
        if words[-1:] == ["fired"]
    ] + [
        f"{alert['labels']} is still open at Alertmanager"
        for alert in {alert["fingerprint"]: alert for alert in _notified(scenario)}.values()
        if alert["status"] == "firing"
    ]


def fired_in_turn(scenario: Cluster) -> list[str]:
    """Return alerts that fired or resolved twice in a row."""
    return [
        f"{key}: {words}"
        for key, words in _words(scenario).items()
        if words != ["fired", "resolved"] * (len(words) // 2)
    ]


def fired_count(scenario: Cluster) -> int:
    return sum(words.count("fired") for words in _words(scenario).values())


def reopened(scenario: Cluster) -> list[str]:
    """Return alerts that Alertmanager reported as firing more often than they fired."""
    fired = Counter(labels for labels, _ in _fired(scenario))
    return sent_alerts.reopened(_fired(scenario), _notified(scenario)) + [
        f"{labels}, which failed all the time, fired {fired[labels]} times"
        for labels in scenario.lasting
        if fired[labels] != 1
    ]


def taken_back(scenario: Cluster) -> list[str]:
    return sent_alerts.taken_back(_fired(scenario), scenario.alertmanager_watch.sent)


def interrupted(scenario: Cluster) -> list[str]:
    """Return alerts that Alertmanager's API did not show all the time with their first start."""
    reads = [
        read for read in scenario.alertmanager_reads.reads if read.at <= scenario.load.lasting_until
    ]
    broken = Counter(
        f"Alertmanager had {labels} since {read.since.get(labels)} in place of {since}"
        for read in reads
        if read.at >= scenario.lasting_since
        for labels, since in scenario.lasting.items()
        if read.since.get(labels) != since
    )
    return [f"{what} ({times} of {len(reads)} times)" for what, times in broken.items()]


def _words(scenario: Cluster) -> dict[tuple[str, str], list[str]]:
    """Return fired and resolved for each alert, each id once."""
    words: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for shard, events in scenario.received.of_alerts.items():
        for event in events.events.values():
            name = event["data"]["fingerprint"]
            if shard == CLUSTER:
                name = event["data"]["labels"].get("part", "")
                if not name.startswith(("daemon:", "shard:")):
                    continue  # of its own outputs and store, which faults touch
            word = event["type"].split(".")[-2]
            if word in {"fired", "resolved"}:
                words[shard, name].append(word)
    return words


def _fired(scenario: Cluster) -> Iterator[tuple[str, str]]:
    """Yield labels and start of each alert, in the order in which they fired."""
    for events in (*scenario.received.of_alerts.values(), scenario.received.of_own_parts):
        for event in events.events.values():
            if event["type"] in _FIRED:
                yield labels_of(event["data"]), event["data"]["startsAt"]


def _notified(scenario: Cluster) -> list[dict[str, Any]]:
    """Return what Alertmanager has said of the workspaces' alerts, in order."""
    return [
        alert
        for request in scenario.notified.requests
        for alert in json.loads(request.body)["alerts"]
        if alert["labels"].get("workspace") in scenario.workspaces
    ]
