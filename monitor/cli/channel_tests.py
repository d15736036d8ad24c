"""Lists the configured channels, and sends marked test messages through them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from monitor import logs
from monitor.cli.row_layout import Column, Form, OutputForm
from monitor.cli.settings_files import load
from monitor.cli.tables import print_rows
from monitor.config import Configuration
from monitor.model.errors import ConfigurationError
from monitor.model.suggestions import did_you_mean
from monitor.outputs.notify.sample import send_samples
from monitor.outputs.notify.service import Service
from monitor.outputs.notify.settings import ChannelSettings, NotifySettings

_LISTED = (
    Column("name", "channel", Form.COPIED),
    Column("service", "service"),
    Column("events", "sends"),
    Column("match", "about", Form.TEXT),
    Column("group_by", "grouped by"),
    Column("mute", "muted", Form.TEXT),
)
_TESTED = (
    Column("channel", "channel", Form.COPIED),
    Column("result", "result"),
    Column("subject", "message", Form.TEXT),
    Column("answer", "answer", Form.TEXT),
)
_NONE = "no channel is configured; add [[notify]] with name and url_file"


def list_channels(config: Path, *, name: str | None, form: OutputForm) -> None:
    """Print the channels of a configuration."""
    rows = [_row(channel) for channel in _channels(load(config), name)]
    print_rows(rows, _LISTED, form, empty=_NONE)


def test_channels(config: Path, *, name: str | None, form: OutputForm) -> bool:
    """Send a test through each channel and print the answers; False where one was not taken."""
    configuration = load(config)
    logs.configure(level="critical", secrets=configuration.secrets())
    page_url = configuration.server.linked_url
    rows: list[dict[str, Any]] = []
    for channel in _channels(configuration, name):
        for subject, answer, words in send_samples(
            channel, now=datetime.now(UTC), page_url=page_url
        ):
            rows.append(
                {
                    "channel": channel.name,
                    "result": "failed" if answer is None else "sent",
                    "subject": subject,
                    "answer": words if answer is None else f"{words}: {answer}",
                }
            )
    print_rows(rows, _TESTED, form, empty=_NONE)
    return all(row["result"] == "sent" for row in rows)


def _channels(configuration: Configuration, name: str | None) -> Sequence[ChannelSettings]:
    settings = configuration.output(NotifySettings)
    channels = () if settings is None else settings.channels
    chosen = [channel for channel in channels if name in (None, channel.name)]
    if name is not None and not chosen:
        names = [channel.name for channel in channels]
        hint = did_you_mean(name, names) or f"; there are {', '.join(names) or 'none'}"
        raise ConfigurationError(f"{name!r} is no channel{hint}")
    return chosen


def _row(channel: ChannelSettings) -> dict[str, Any]:
    service = Service(channel.url, timeout_seconds=channel.timeout_seconds)
    match = msgspec.structs.asdict(channel.match)
    about = [f"{key} {', '.join(globs)}" for key, globs in match.items() if globs]
    return {
        "name": channel.name,
        "service": service.name,
        "events": ", ".join([*channel.events, *(f"report {name}" for name in channel.reports)]),
        "match": "; ".join(about) or "everything",
        "group_by": "each alert"
        if service.has_incidents
        else ", ".join(channel.group_by) or "everything",
        "mute": "; ".join(channel.mute),
    }
