"""Prints recorded events page by page, and new ones from the daemon's stream."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from monitor.cli import times
from monitor.cli.admin import AdminClient

_PAGE = 1_000
_LAST = 100

Event = dict[str, Any]


async def print_events(config: Path, *, follow: bool, since: str | None, as_json: bool) -> None:
    """Print the events since an instant, or the last hundred; with ``follow`` then new ones."""

    def write(event: Event) -> None:
        sys.stdout.write((json.dumps(event) if as_json else event_line(event)) + "\n")
        sys.stdout.flush()

    async with AdminClient.of(config) as client:
        position = None
        if since is not None or not follow:
            position = await _print_recorded(client, since, write)
        if follow:
            async for event in client.events(position):
                write(event)


async def _print_recorded(
    client: AdminClient, since: str | None, write: Callable[[Event], None]
) -> int:
    """Return the position behind the last event that was printed."""
    query = {"limit": str(_PAGE), **({"last": str(_LAST)} if since is None else {"since": since})}
    while True:
        page = await client.get("/api/v1/events", query)
        for recorded in page["data"]:
            write(recorded["event"])
        if len(page["data"]) < _PAGE or "last" in query:
            return int(page["next"])
        query = {"limit": str(_PAGE), "after": str(page["next"])}


def event_line(event: Event) -> str:
    """Return an event as one line for people."""
    at = _time_of(event)
    if event["form"] == "run":
        run = event["run"]
        pipeline = (run.get("pipeline") or {}).get("name") or "unknown"
        key = run["key"]
        subject = f"{key['workspace']} {key['kind']} {key['id']} {pipeline!r}"
        error = run.get("error")
        return f"{at} {event['type']} {subject}" + (f": {error}" if error else "")
    if event["form"] == "alert":
        alert = event["alert"]
        subject = f"{alert['workspace']} {alert['name']} {alert['fingerprint']}"
        summary = alert["annotations"].get("summary")
        return f"{at} {event['type']} {subject}" + (f": {summary}" if summary else "")
    return f"{at} {event['type']} {event['workspace']} {event['what']}: {event['after']}"


def _time_of(event: Event) -> str:
    """Return when an event happened; marked where the workspace did not report that."""
    occurred_at = event.get("occurred_at")
    # Our own time may be after that of the next event, so it is never shown as the workspace's.
    if occurred_at is None:
        return f"{times.RECORDED}{event['recorded_at']}"
    run = event.get("run") or {}
    name = "started_at" if event["type"] == "run.started" else "finished_at"
    is_approximate = name in run.get("approximate", ()) and run.get(name) == occurred_at
    return f"{times.APPROXIMATE}{occurred_at}" if is_approximate else str(occurred_at)
