"""Channels for tests: their settings, and services as the library reaches them."""

from __future__ import annotations

from typing import Any

from monitor.model.secrets import Secret
from monitor.outputs.notify.output import ChannelOutput
from monitor.outputs.notify.settings import ChannelSettings
from tests.outputs.output_scenario import QUICK, OutputScenario
from tests.outputs.receiving import PostReceiver

GROUPED = 0.05  # seconds, enough for what one test emits at once


def channel_settings(url: str, **more: Any) -> ChannelSettings:
    """Return the settings of a channel whose waits suit a test."""
    quick = {**QUICK, "window": 5_000, "stores_answers_at_once": True}
    values = {"name": "team", "group_wait_seconds": GROUPED, "timeout_seconds": 2.0, **quick}
    return ChannelSettings(url=Secret(url), **{**values, **more})


def channel(scenario: OutputScenario, url: str, **more: Any) -> ChannelOutput:
    """Return the output of a channel."""
    return ChannelOutput(channel_settings(url, **more), scenario.parts)


def status_of(scenario: OutputScenario) -> str:
    """Return what the channel says of itself."""
    assert isinstance(scenario.output, ChannelOutput)
    return scenario.output.status


def gotify(receiver: PostReceiver) -> str:
    """Return the URL of a Gotify server, whose token is a secret."""
    return f"gotify://127.0.0.1:{receiver.port}/s3cr3t-t0ken"


def titles(receiver: PostReceiver) -> list[str]:
    """Return the titles of the messages that a Gotify server accepted."""
    return [request.json()["title"] for request in receiver.accepted]


def texts(receiver: PostReceiver) -> list[str]:
    """Return the texts of the messages that a Gotify server accepted."""
    return [request.json()["message"] for request in receiver.accepted]
