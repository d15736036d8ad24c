"""What the daemon has said: every message at the broker, with when it arrived."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from msgspec import Struct
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from tests.app.eventually import eventually
from tests.worlds.script import RunKind
from tests.worlds.truth import Run, Subject

# Of one pipeline and kind of run each; all others are `OtherAlertWord`.
RULES_ABOUT_RUNS = ("run_failed", "run_failed_lasting", "failing_repeatedly", "run_lost")


class Arrival(Struct, frozen=True):
    """One message, and the seconds since the worlds began."""

    at: float
    topic: str
    payload: bytes


class RunWord(Struct, frozen=True, kw_only=True):
    """One event of a run."""

    at: float
    word: str
    id: str
    content: bytes


class AlertWord(Struct, frozen=True, kw_only=True):
    """One event of an alert."""

    at: float
    word: str
    subject: Subject
    starts_at: datetime
    evidence: frozenset[Run]
    is_over_when_seen: bool


class OtherAlertWord(Struct, frozen=True, kw_only=True):
    """One event of an alert that no run is the reason of: about a workspace, or a schedule."""

    at: float
    word: str
    labels: dict[str, str]
    starts_at: datetime
    reason: str | None


class WorldSubscriber:
    """Receives everything, in a thread of the library as a program of its own would."""

    def __init__(self, port: int, seconds: Callable[[], float]) -> None:
        self._port = port
        self._seconds = seconds
        self._is_subscribed = False
        self.arrivals: list[Arrival] = []
        self._client = Client(
            CallbackAPIVersion.VERSION2, client_id="worlds", protocol=MQTTProtocolVersion.MQTTv5
        )
        self._client.on_connect = self._subscribe
        self._client.on_subscribe = self._subscribed
        self._client.on_message = self._receive

    async def __aenter__(self) -> Self:
        self._client.connect("127.0.0.1", self._port)
        self._client.loop_start()
        await eventually(lambda: self._is_subscribed, why="the broker took no subscription")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _subscribe(self, client: Client, *_: Any) -> None:
        client.subscribe("dataprep/#", qos=1)

    def _subscribed(self, *_: Any) -> None:
        self._is_subscribed = True

    def _receive(self, _: Client, __: Any, message: MQTTMessage) -> None:
        self.arrivals.append(Arrival(self._seconds(), message.topic, bytes(message.payload)))


class Received:
    """The messages about one workspace, sorted by what they are about."""

    def __init__(self, arrivals: list[Arrival], workspace: str) -> None:
        self.runs: defaultdict[Run, list[RunWord]] = defaultdict(list)
        self.alerts: defaultdict[tuple[str, Subject], list[AlertWord]] = defaultdict(list)
        self.other_alerts: defaultdict[tuple[str, str], list[OtherAlertWord]] = defaultdict(list)
        self.states: dict[Subject, dict[str, Any]] = {}
        self.former_states: defaultdict[Subject, list[tuple[float, str]]] = defaultdict(list)
        self.workspace_states: list[tuple[float, str]] = []
        self.changes: list[tuple[float, str]] = []  # of the workspace itself
        self.ambiguous: dict[str, float] = {}  # ids that came with two contents; when first
        self._contents: dict[str, tuple[float, bytes]] = {}
        for arrival in arrivals:
            levels = arrival.topic.split("/")
            if levels[2] == workspace and arrival.payload:
                self._sort(arrival, levels[3:])
            elif levels[2] == workspace:
                self._remove(arrival, levels[3:])

    def _remove(self, arrival: Arrival, levels: list[str]) -> None:
        """Forget a retained state that is published no more."""
        match levels:
            case [kind, pipeline, "state"] if pipeline.isdigit():
                subject = Subject(RunKind(kind), int(pipeline))
                self.states.pop(subject, None)
                self.former_states[subject].append((arrival.at, "removed"))

    def _sort(self, arrival: Arrival, levels: list[str]) -> None:
        match levels:
            case ["alert", rule, fingerprint, "event"]:
                self._alert(arrival, rule, fingerprint)
            case ["state"]:
                state = json.loads(arrival.payload)["state"]
                self.workspace_states.append((arrival.at, state))
            case ["event", _]:
                self._change(arrival)
            case [kind, _, "event", _]:
                self._run(arrival, RunKind(kind))
            case [kind, pipeline, "state"] if pipeline.isdigit():
                subject, content = (
                    Subject(RunKind(kind), int(pipeline)),
                    json.loads(arrival.payload),
                )
                self.states[subject] = content
                self.former_states[subject].append((arrival.at, content.get("state", "known")))

    def _change(self, arrival: Arrival) -> None:
        event = json.loads(arrival.payload)
        if self._is_new(event, arrival):
            self.changes.append((arrival.at, json.dumps(event["data"])))

    def _is_new(self, event: dict[str, Any], arrival: Arrival) -> bool:
        at, content = self._contents.setdefault(event["id"], (arrival.at, arrival.payload))
        if content != arrival.payload:
            self.ambiguous[event["id"]] = at
        return content is arrival.payload

    def _run(self, arrival: Arrival, kind: RunKind) -> None:
        event = json.loads(arrival.payload)
        if self._is_new(event, arrival):
            word = event["type"].split(".")[-2]
            run = (kind, int(event["data"]["run"]["id"]))
            self.runs[run].append(
                RunWord(at=arrival.at, word=word, id=event["id"], content=arrival.payload)
            )

    def _alert(self, arrival: Arrival, rule: str, fingerprint: str) -> None:
        event = json.loads(arrival.payload)
        if not self._is_new(event, arrival):
            return
        data, word = event["data"], event["type"].split(".")[-2]
        labels, starts_at = data["labels"], datetime.fromisoformat(data["startsAt"])
        if "kind" not in labels or rule not in RULES_ABOUT_RUNS:
            self.other_alerts[rule, fingerprint].append(
                OtherAlertWord(
                    at=arrival.at,
                    word=word,
                    labels=labels,
                    starts_at=starts_at,
                    reason=data.get("facts", {}).get("reason"),
                )
            )
        elif labels.get("pipeline_id", "").isdigit():
            subject = Subject(RunKind(labels["kind"]), int(labels["pipeline_id"]))
            self.alerts[rule, subject].append(
                AlertWord(
                    at=arrival.at,
                    word=word,
                    subject=subject,
                    starts_at=starts_at,
                    evidence=frozenset(runs_of(data["evidence"])),
                    is_over_when_seen=bool(data.get("over_when_seen")),
                )
            )


def runs_of(event_ids: list[str]) -> list[Run]:
    """Return the runs that ids of events name."""
    parts = [event_id.split(":") for event_id in event_ids]
    return [(RunKind(kind), int(run)) for _, kind, run, *_ in parts]
