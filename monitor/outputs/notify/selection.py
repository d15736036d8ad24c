"""Selects what a channel sends: events by their type, and by what they are about. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from monitor.model.alerts import Alert
from monitor.model.events import AlertEvent, Event, EventType, RunEvent
from monitor.model.globs import Globs, parse_globs
from monitor.model.runs import Parents
from monitor.outputs.notify.settings import TYPES, ChannelEvent, ChannelMatch, ChannelSettings
from monitor.tracking.live_state import LiveStateView

Sendable = AlertEvent | RunEvent


class Selection:
    """The events of one channel."""

    def __init__(self, settings: ChannelSettings, view: LiveStateView) -> None:
        self._words = frozenset(ChannelEvent(word) for word in settings.events)
        self._globs = _parsed(settings.match)
        self._view = view

    def takes(self, event: Event) -> Sendable | None:
        """Return the event where the channel sends it, else None."""
        if isinstance(event, AlertEvent):
            return event if self._takes_alert(event) and self._fits_alert(event.alert) else None
        if isinstance(event, RunEvent):
            return event if self._takes_run(event) and self._fits_run(event) else None
        return None

    def fits(self, alert: Alert) -> bool:
        """True where the channel is about the alert, whatever happened to it."""
        return self._fits_alert(alert)

    def _takes_alert(self, event: AlertEvent) -> bool:
        if event.alert.over_when_seen:
            return ChannelEvent.OVER_WHEN_SEEN in self._words
        return any(
            event.type in TYPES[word] for word in self._words - {ChannelEvent.OVER_WHEN_SEEN}
        )

    def _takes_run(self, event: RunEvent) -> bool:
        # What is part of another run is reported with that.
        is_root = event.run.parents == Parents()
        return is_root and any(event.type in TYPES[word] for word in self._words)

    def _fits_alert(self, alert: Alert) -> bool:
        folder = owner = None
        pipeline = alert.pipeline
        if pipeline is not None:
            folder, owner = self._view.place(alert.workspace, pipeline)
        run_owner = alert.facts.get("owner")
        return self._match(
            workspace=(alert.workspace,),
            pipeline=(alert.labels.get("pipeline"), None if pipeline is None else pipeline.id),
            folder=(folder,),
            owner=(owner, run_owner if isinstance(run_owner, str) else None),
            kind=(alert.kind,),
            rule=(alert.name, alert.rule),
            severity=(alert.severity,),
        )

    def _fits_run(self, event: RunEvent) -> bool:
        run, folder, owner = event.run, None, None
        if run.pipeline is not None:
            folder, owner = self._view.place(event.workspace, run.pipeline)
        named = (None, None) if run.pipeline is None else (run.pipeline.name, run.pipeline.id)
        return self._match(
            workspace=(event.workspace,),
            pipeline=named,
            folder=(folder,),
            owner=(owner, run.owner),
            kind=(run.key.kind,),
        )

    def _match(self, **words: tuple[str | None, ...]) -> bool:
        return all(
            globs.match([word for word in words[name] if word])
            for name, globs in self._globs.items()
            if name in words
        )


def _parsed(match: ChannelMatch) -> Mapping[str, Globs]:
    return {
        name: parse_globs(texts) for name, texts in msgspec.structs.asdict(match).items() if texts
    }


def is_start(event: Sendable) -> bool:
    """True where people learn of something that goes on."""
    return event.type in (EventType.ALERT_FIRED, EventType.ALERT_FLAPPING)
