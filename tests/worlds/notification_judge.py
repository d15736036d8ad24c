"""Judges what an Alertmanager holds and has notified, where a batch has one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.worlds.alert_judge import RULE, active_spans
from tests.worlds.configuration import LASTING
from tests.worlds.findings import Finding, Kind
from tests.worlds.play import Played
from tests.worlds.received import Received
from tests.worlds.script import RunKind, World
from tests.worlds.truth import Subject

Key = tuple[str, Subject]


def notification_findings(world: World, received: Received, played: Played) -> Iterator[Finding]:
    """Yield every alert about failures that the Alertmanager has otherwise than the broker."""
    if played.notified is None:
        return
    published = {
        (rule, subject)
        for (rule, subject), words in received.alerts.items()
        for span in active_spans(words, played.until)
        if rule in (RULE, LASTING) and span.end == played.until
    }
    held = dict(_states(world, played.notified.active, "active")).keys()
    last = dict(_states(world, played.notified.notified, ""))  # the last of each stays
    notified = {key for key, status in last.items() if status == "firing"}
    for place, alerts in (("the Alertmanager holds", held), ("people know of", notified)):
        if alerts != published:
            text = f"{place} {_named(alerts)}, published are {_named(published)}"
            yield Finding(seed=world.seed, kind=Kind.NOTIFICATIONS, text=text)


def _states(
    world: World, alerts: Iterable[dict[str, Any]], status: str
) -> Iterator[tuple[Key, str]]:
    for alert in alerts:
        labels = alert["labels"]
        if labels.get("workspace") == world.name and labels["alertname"] in (RULE, LASTING):
            subject = Subject(RunKind(labels["kind"]), int(labels["pipeline_id"]))
            yield (labels["alertname"], subject), status or alert["status"]


def _named(keys: Iterable[Key]) -> list[str]:
    return sorted(f"{rule} {subject.kind} {subject.pipeline}" for rule, subject in keys)
