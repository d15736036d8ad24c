"""A subscriber that keeps its session at the broker, and the events that it received."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec import Struct
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from monitor.sandbox.world.ledger import RESULTS, Ledger
from tests.app.eventually import eventually
from tests.servers import Mosquitto

ENDS = frozenset(RESULTS.values())
# What comes after an end, once each: the workspace confirms it, and more becomes known of it.
AFTER_END = ((), ("confirmed",), ("detailed",), ("confirmed", "detailed"))
_KEEP_SECONDS = 3_600

Run = tuple[str, str]  # kind, id
End = tuple[str, str, str]  # kind, id, result


def keeping_broker(folder: Path) -> Mosquitto:
    """Return a broker that keeps sessions and what waits for them over its own restart."""
    store = folder / "broker"
    store.mkdir()
    options = ("persistence true", f"persistence_location {store}/", "max_queued_messages 0")
    return Mosquitto(folder, options=options)


class EventInput(Struct, frozen=True):
    """One message, as it came."""

    topic: str
    payload: bytes
    is_retained: bool


class Subscriber:
    """Receives everything at QoS 1 in a session that outlives every loss of the link.

    It stands for a program that the monitor knows nothing of, so it runs apart from the test's
    loop: in a thread of its library, which also connects again.
    """

    def __init__(self, port: int, *, name: str = "listener") -> None:
        self._port = port
        self.messages: list[EventInput] = []
        self._is_subscribed = False
        self._client = Client(
            CallbackAPIVersion.VERSION2, client_id=name, protocol=MQTTProtocolVersion.MQTTv5
        )
        self._client.reconnect_delay_set(min_delay=1, max_delay=1)
        self._client.on_connect = self._subscribe
        self._client.on_subscribe = self._subscribed
        self._client.on_message = self._receive

    async def __aenter__(self) -> Self:
        keep = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho's
        keep.SessionExpiryInterval = _KEEP_SECONDS
        self._client.connect("127.0.0.1", self._port, clean_start=False, properties=keep)
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
        self.messages.append(EventInput(message.topic, bytes(message.payload), message.retain))

    def states(self, topic_end: str) -> list[Any]:
        """Return the states that were published on a retained topic, oldest first."""
        return self.values(topic_end, "state")

    def values(self, topic_end: str, field: str) -> list[Any]:
        """Return one field of the messages on a topic, oldest first, without repetitions."""
        values: list[Any] = []
        for message in list(self.messages):
            # An empty message deletes the retained one.
            if message.topic.endswith(topic_end) and message.payload:
                value = json.loads(message.payload)[field]
                if values[-1:] != [value]:
                    values.append(value)
        return values

    def received(self, part: str = "/event/") -> ReceivedEvents:
        """Return the events whose topic has this part; by default those of runs and workspaces."""
        return ReceivedEvents([message for message in list(self.messages) if part in message.topic])


class ReceivedEvents:
    """The events in a stretch of messages, each id once."""

    def __init__(self, messages: Iterable[EventInput] = ()) -> None:
        self.contents: defaultdict[str, set[bytes]] = defaultdict(set)
        self.events: dict[str, dict[str, Any]] = {}  # by id, in the order of their first arrival
        for message in messages:
            self.add(message)

    def add(self, message: EventInput) -> None:
        event = json.loads(message.payload)
        self.contents[event["id"]].add(message.payload)
        self.events.setdefault(event["id"], event)

    def ambiguous(self) -> list[str]:
        """Return ids that came with two contents."""
        return [content for content, contents in self.contents.items() if len(contents) > 1]

    def transitions(self) -> dict[Run, list[str]]:
        """Return for each run the words of its events, in the order of their first arrival."""
        words: defaultdict[Run, list[str]] = defaultdict(list)
        for event in self.events.values():
            if (run := event["data"].get("run")) is not None:
                words[run["kind"], run["id"]].append(event["type"].split(".")[-2])
        return dict(words)

    def ends(self) -> set[End]:
        """Return every end that was received."""
        return {
            (*run, word)
            for run, words in self.transitions().items()
            for word in words
            if word in ENDS
        }

    def out_of_order(self) -> dict[Run, list[str]]:
        """Return runs whose events are not queued, started, an end, and what follows an end."""
        return {
            run: words
            for run, words in self.transitions().items()
            if words[:2] != ["queued", "started"][: len(words)]
            or (len(words) > 2 and words[2] not in ENDS)
            or tuple(words[3:]) not in AFTER_END
        }


def ends_in(ledger: Ledger, kinds: tuple[str, ...]) -> set[End]:
    """Return every end that really came about, of what is no sample."""
    return {
        (transition.kind, str(transition.run_id), RESULTS[transition.after])
        for transition in ledger.transitions()
        if transition.after in RESULTS
        and transition.kind in kinds
        and not transition.is_sampling_like
    }


def counted(ends: set[End]) -> Counter[tuple[str, str]]:
    """Return how many runs of each kind ended in each way."""
    return Counter((kind, result) for kind, _, result in ends)
