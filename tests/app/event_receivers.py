"""One daemon with a receiver at each of its outputs, and what each of them has received."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types
from msgspec import Struct

from monitor.alerting.settings import AlertingSettings
from monitor.model.secrets import Secret
from monitor.outputs.file.settings import FileSettings
from monitor.outputs.webhook.settings import WebhookSettings
from monitor.sandbox.sandbox import Sandbox
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.mqtt_subscriber import EventInput, Subscriber, keeping_broker
from tests.outputs.receiving import PostReceiver

ALL = ("*",)
_KEY = f"whsec_{base64.b64encode(bytes(range(32))).decode()}"

CloudEvent = dict[str, Any]


class StreamReader:
    """Reads the daemon's stream of events until it is left."""

    def __init__(self, face: Face) -> None:
        self._url = f"{face.url}/api/v1/events/stream?after=0"
        self.events: list[CloudEvent] = []

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._read(), name="reader of the stream")
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _read(self) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(self._url) as response,
        ):
            async for line in response.content:
                if line.startswith(b"data: "):
                    self.events.append(json.loads(line[6:]))


class Receivers(Struct, frozen=True, kw_only=True):
    """All that a daemon publishes, by where it arrived."""

    face: Face
    workspace_url: str
    callbacks_port: int
    subscriber: Subscriber
    webhook: PostReceiver
    file: Path
    stream: StreamReader

    async def events(self) -> dict[str, list[CloudEvent]]:
        """Return the events that each receiver has, in the order of their arrival."""
        published = [
            json.loads(message.payload)
            for message in list(self.subscriber.messages)
            if "event" in message.topic.split("/")[-2:]
        ]
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return {
            "mqtt": published,
            "webhook": [request.json() for request in self.webhook.accepted],
            "file": [json.loads(line) for line in lines],
            "stream": list(self.stream.events),
            "api": (await self.face.json("/api/v1/events?limit=1000"))["data"],
        }

    async def of_run(self, run_id: str) -> dict[str, dict[str, CloudEvent]]:
        """Return the events of a run at each receiver, by the last word of their type."""
        return {
            receiver: {
                event["type"].split(".")[-2]: event
                for event in events
                if event["subject"] == f"run/{run_id}"
            }
            for receiver, events in (await self.events()).items()
        }

    def retained(self) -> list[EventInput]:
        """Return what was published on topics that keep their last message."""
        return [
            message
            for message in list(self.subscriber.messages)
            if "event" not in message.topic.split("/")[-2:] and message.payload
        ]


class ServedSchemas:
    """The schemas that a daemon serves, by type and by the retained topic that they describe."""

    def __init__(self, schemas: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> None:
        self.used: set[str] = set()
        self._by_type: dict[str, Draft202012Validator] = {}
        self._by_topic: list[tuple[re.Pattern[str], str]] = []
        checker = Draft202012Validator.FORMAT_CHECKER
        for row, schema in schemas:
            Draft202012Validator.check_schema(schema)
            self._by_type[row["type"]] = Draft202012Validator(schema, format_checker=checker)
            for topic in row["topics"]:
                pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(topic))
                self._by_topic.append((re.compile(f"dataprep/v1/{pattern}"), row["type"]))

    @classmethod
    async def of(cls, face: Face) -> ServedSchemas:
        rows = (await face.json("/schemas"))["data"]
        return cls(
            [(row, json.loads(await face.text(row["url"]))) for row in rows],
        )

    def validate_event(self, event: CloudEvent) -> None:
        """Raise where the event is not as the schema of its type says."""
        self._validate(event["type"], event)

    def validate_retained(self, message: EventInput) -> None:
        """Raise where a retained message has no schema, or is not as it says."""
        names = [name for topic, name in self._by_topic if topic.fullmatch(message.topic)]
        assert len(names) == 1, f"{message.topic} is described by {names}"
        self._validate(names[0], json.loads(message.payload))

    def _validate(self, name: str, document: object) -> None:
        self._by_type[name].validate(document)
        self.used.add(name)


@contextlib.asynccontextmanager
async def receivers(
    folder: Path,
    workspace: Sandbox,
    *,
    callbacks_port: int,
    events: tuple[str, ...] = ALL,
) -> AsyncIterator[Receivers]:
    """Run a daemon beside a workspace; its outputs send ``events``."""
    path = folder / "events.jsonl"
    async with (
        fixture.started(workspace) as url,
        PostReceiver() as webhook,
        keeping_broker(folder) as broker,
        Subscriber(broker.port) as subscriber,
    ):
        settings = fixture.configuration(
            folder,
            fixture.workspace_configuration(workspace, url, callbacks_port=callbacks_port),
            broker_url=broker.url,
            callbacks_port=callbacks_port,
            webhook=WebhookSettings(url=webhook.url, secret=Secret(_KEY), events=events),
            file=FileSettings(path=str(path), events=events),
        )
        mqtt = msgspec.structs.replace(
            settings.outputs["mqtt"], events=events, state_scan_seconds=1.0
        )
        settings = msgspec.structs.replace(
            settings,
            alerting=AlertingSettings(evaluation_interval_seconds=0.5),
            outputs={**settings.outputs, "mqtt": mqtt},
        )
        async with fixture.daemon(settings) as face:
            stream = StreamReader(face)
            async with stream.reading():
                yield Receivers(
                    face=face,
                    workspace_url=url,
                    callbacks_port=callbacks_port,
                    subscriber=subscriber,
                    webhook=webhook,
                    file=path,
                    stream=stream,
                )
