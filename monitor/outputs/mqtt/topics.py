"""The topics of events and states. They hold ids, never names, so that a rename moves nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable

from monitor.model.alerts import BRIDGE, Alert
from monitor.model.events import AlertEvent, Event, RunEvent
from monitor.model.runs import RunKind
from monitor.outputs.cloudevents import pipeline_id_of

# Wildcards, the level separator, and what MQTT forbids or frowns upon; also the escape itself.
_ILLEGAL_IN_LEVEL = re.compile(r"[+#/%\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_LEVEL_CHARACTERS = 200  # an id longer than this is not one that a workspace hands out


def instance_of(instance: str, shard: str) -> str:
    """Return the client id and topic level of a shard; a broker ends its session elsewhere."""
    return f"{instance}-{shard}" if shard else instance


class Topics:
    """The topics of one instance of the monitor, or of a shard of it, on one broker."""

    def __init__(self, *, prefix: str, instance: str) -> None:
        self._prefix = prefix
        self._bridge = f"{prefix}/bridge/{instance}"
        self.bridge_state = f"{self._bridge}/state"
        self.bridge_info = f"{self._bridge}/info"
        self.bridge_doctor = f"{self._bridge}/doctor"

    def retained_filters(self, workspaces: Iterable[str]) -> tuple[str, ...]:
        """Subscriptions to every retained topic, and perhaps to those of other instances."""
        return (
            *(
                f"{self._prefix}/{workspace}/{rest}"
                for workspace in workspaces
                for rest in ("state", "+/+/state", "alert/+/+/state")
            ),
            f"{self._bridge}/state",
            f"{self._bridge}/info",
            f"{self._bridge}/alert/+/+/state",
        )

    def workspace_state(self, workspace: str) -> str:
        return f"{self._prefix}/{level(workspace)}/state"

    def pipeline_state(self, workspace: str, kind: RunKind, pipeline_id: str) -> str:
        return f"{self._prefix}/{level(workspace)}/{kind}/{level(pipeline_id)}/state"

    def event(self, event: Event) -> str:
        """Return the topic of the event."""
        if isinstance(event, AlertEvent):
            return f"{self._alert(event.alert)}/event"
        workspace = level(event.workspace)
        if isinstance(event, RunEvent):
            pipeline = f"{event.run.key.kind}/{level(pipeline_id_of(event.run))}"
            return f"{self._prefix}/{workspace}/{pipeline}/event/{event.type.removeprefix('run.')}"
        # "capability:list_changes" is published under "capability"; the rest is in the payload.
        above = self._bridge if event.workspace == BRIDGE else f"{self._prefix}/{workspace}"
        return f"{above}/event/{level(event.what.partition(':')[0])}"

    def alert_state(self, alert: Alert) -> str:
        return f"{self._alert(alert)}/state"

    def _alert(self, alert: Alert) -> str:
        is_own = alert.workspace == BRIDGE
        above = self._bridge if is_own else f"{self._prefix}/{level(alert.workspace)}"
        return f"{above}/alert/{level(alert.name)}/{alert.fingerprint}"

    def is_alert(self, topic: str) -> bool:
        """True for the topics of an alert, be it about a workspace or about the daemon."""
        _, _, rest = topic.removeprefix(f"{self._prefix}/").partition("/")
        if topic.startswith(f"{self._bridge}/"):
            rest = topic.removeprefix(f"{self._bridge}/")
        return rest.startswith("alert/")

    def workspace_of(self, topic: str) -> str | None:
        """Return the workspace level of one of our topics, None for any other topic."""
        rest = topic.removeprefix(f"{self._prefix}/")
        if rest == topic or topic.startswith(f"{self._prefix}/bridge/"):
            return None
        return rest.partition("/")[0]


def level(text: str) -> str:
    """Return the text as one topic level; what is not allowed there is written as ``%XX``."""
    if text.isalnum() and text.isascii() and len(text) <= _LEVEL_CHARACTERS:
        return text  # as most ids are
    escaped = _ILLEGAL_IN_LEVEL.sub(lambda match: _percent(match[0]), text[:_LEVEL_CHARACTERS])
    return escaped or "%"


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
