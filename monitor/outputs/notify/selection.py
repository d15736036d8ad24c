"""Selects what a channel sends: events by their type, and by what they are about. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from monitor.model.events import REPORT, AlertEvent, Event, EventType, RunEvent, WorkspaceEvent
from monitor.model.globs import Globs, parse_globs
from monitor.model.runs import Parents, Pipeline
from monitor.outputs.notify.settings import TYPES, ChannelEvent, ChannelMatch, ChannelSettings
from monitor.tracking.live_state import LiveStateView

Sendable = AlertEvent | RunEvent
Chosen = Sendable | WorkspaceEvent  # that a report is due
# Whatever is sent there and resolves nothing triggers the incident again.
_WITHOUT_ACKNOWLEDGEMENT = "pagerduty://"


class Selection:
    """The events of one channel."""

    def __init__(self, settings: ChannelSettings, view: LiveStateView) -> None:
        self._words = frozenset(ChannelEvent(word) for word in settings.events)
        self._reports = frozenset(settings.reports)
        self._globs = _parsed(settings.match)
        self._view = view
        url = settings.url.reveal().lower()
        self._cannot_acknowledge = url.startswith(_WITHOUT_ACKNOWLEDGEMENT)

    def takes(self, event: Event) -> Chosen | None:
        """Return the event where the channel sends it, else None."""
        return event if self.why_not(event) is None else None

    def why_not(self, event: Event) -> str | None:
        """Return why the channel does not send the event; None where it does."""
        if isinstance(event, AlertEvent):
            return self._why_not_alert(event)
        if isinstance(event, RunEvent):
            return self._why_not_run(event)
        if event.type is not EventType.REPORT_DUE:
            return "it is about the workspace as such"
        is_named = event.what.removeprefix(f"{REPORT}:") in self._reports
        return None if is_named else "the report does not name it among its channels"

    def _why_not_alert(self, event: AlertEvent) -> str | None:
        alert = event.alert
        if alert.over_when_seen and ChannelEvent.OVER_WHEN_SEEN not in self._words:
            return "it had ended before it was observed"
        words = self._words if alert.over_when_seen else self._words - {ChannelEvent.OVER_WHEN_SEEN}
        if not any(event.type in TYPES[word] for word in words):
            return f"its events do not name {event.type.removeprefix('alert.')}"
        if event.type is EventType.ALERT_ACKNOWLEDGED:
            if not alert.is_notified:
                return "no notification that it fires has gone out"
            if self._cannot_acknowledge:
                return "the library cannot acknowledge incidents of this service"
        folder, owner = self._place(event.workspace, alert.pipeline)
        run_owner = alert.facts.get("owner")
        pipeline_id = None if alert.pipeline is None else alert.pipeline.id
        return self._why_not_matched(
            workspace=(alert.workspace,),
            pipeline=(alert.labels.get("pipeline"), pipeline_id),
            folder=(folder,),
            owner=(owner, run_owner if isinstance(run_owner, str) else None),
            kind=(alert.kind,),
            rule=(alert.name, alert.rule),
            severity=(alert.severity,),
        )

    def _why_not_run(self, event: RunEvent) -> str | None:
        run = event.run
        if not any(event.type in TYPES[word] for word in self._words):
            return f"its events do not name {event.type.removeprefix('run.')}"
        if run.parents != Parents():
            return "it is part of another run"
        folder, owner = self._place(event.workspace, run.pipeline)
        named = (None, None) if run.pipeline is None else (run.pipeline.name, run.pipeline.id)
        return self._why_not_matched(
            workspace=(event.workspace,),
            pipeline=named,
            folder=(folder,),
            owner=(owner, run.owner),
            kind=(run.key.kind,),
        )

    def _place(self, workspace: str, pipeline: Pipeline | None) -> tuple[str | None, str | None]:
        return (None, None) if pipeline is None else self._view.place(workspace, pipeline)

    def _why_not_matched(self, **words: tuple[str | None, ...]) -> str | None:
        for name, globs in self._globs.items():
            if name in words:
                known = [word for word in words[name] if word]
                if not globs.match(known):
                    return f"match {name}: {globs.why_not(known)}"
        return None


def _parsed(match: ChannelMatch) -> Mapping[str, Globs]:
    return {
        name: parse_globs(texts) for name, texts in msgspec.structs.asdict(match).items() if texts
    }
