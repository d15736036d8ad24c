"""Recorded events as lines for people and rows for spreadsheets. Pure: the caller names the time.

And which events a command line asks for.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from monitor.cli import times
from monitor.cli.row_layout import Form, cell
from monitor.model.events import EventType
from monitor.model.runs import RunKind

Event = dict[str, Any]

FIELDS = (
    "occurred_at", "recorded_at", "type", "workspace", "kind", "run_id", "pipeline_id", "pipeline",
    "fingerprint", "text", "id",
)  # fmt: skip
_TIME, _TYPE = 19, 17  # characters; what is longer moves its line alone


class EventFilter(Struct, frozen=True, kw_only=True):
    """Which events are meant; None and the empty tuple are any."""

    workspace: str | None = None
    kind: RunKind | None = None
    pipeline: str | None = None  # name or id
    types: tuple[EventType, ...] = ()

    @property
    def is_any(self) -> bool:
        return self == EventFilter()

    def query(self) -> dict[str, str]:
        """Return the parameters for a daemon; of several types it knows nothing."""
        kind = None if self.kind is None else self.kind.value
        only = self.types[0].value if len(self.types) == 1 else None
        asked = {"workspace": self.workspace, "kind": kind, "pipeline": self.pipeline, "type": only}
        return {name: value for name, value in asked.items() if value is not None}

    def fits(self, event: Event) -> bool:
        row = event_row(event)
        return (
            self.workspace in (None, row["workspace"])
            and self.kind in (None, row["kind"])
            and self.pipeline in (None, row["pipeline"], row["pipeline_id"])
            and (not self.types or event["type"] in self.types)
        )


def event_row(event: Event) -> dict[str, Any]:
    """Return an event of any form as one flat row with the same fields."""
    row: dict[str, Any] = dict.fromkeys(FIELDS)
    row |= {name: event.get(name) for name in ("occurred_at", "recorded_at", "type", "id")}
    if event["form"] == "run":
        run = event["run"]
        key, pipeline = run["key"], run.get("pipeline") or {}
        row |= {"workspace": key["workspace"], "kind": key["kind"], "run_id": key["id"]}
        row |= {"pipeline_id": pipeline.get("id"), "pipeline": pipeline.get("name")}
        row["text"] = run.get("error")
    elif event["form"] == "alert":
        alert, texts = event["alert"], event["alert"].get("annotations") or {}
        pipeline = alert.get("pipeline") or {}
        row |= {name: alert.get(name) for name in ("workspace", "kind", "fingerprint")}
        row |= {"pipeline_id": pipeline.get("id"), "pipeline": pipeline.get("name")}
        reason = texts.get("description") or texts.get("summary")
        row["text"] = f"{alert['name']}: {reason}" if reason else alert["name"]
    else:
        row["workspace"] = event["workspace"]
        row["text"] = f"{event['what']}: {event['after']}"
    return row


def event_line(event: Event, *, has_instant: bool, is_wide: bool, now: datetime) -> str:
    """Return an event as one line: when, what, where, and why."""
    row = event_row(event)
    about = [row["workspace"]]
    if row["run_id"] is not None:
        about.append(f"{row['kind']}/{row['run_id']}")
    if row["fingerprint"] is not None:
        about.append(row["fingerprint"])
    if is_wide:
        about.append(row["id"])
    words = [cell(part, Form.COPIED, is_wide=is_wide, now=now) for part in about]
    if row["pipeline"] is not None or event["form"] == "run":
        name = "unknown" if row["pipeline"] is None else row["pipeline"]
        words.append(cell(name, Form.NAME, is_wide=is_wide, now=now))
    at = cell(_time_of(event), Form.INSTANT, is_wide=has_instant, now=now)
    line = f"{at:<{_TIME}}  {event['type']:<{_TYPE}}  {'  '.join(words)}"
    if row["text"]:
        line += f"  {cell(row['text'], Form.TEXT, is_wide=is_wide, now=now)}"
    return line


def _time_of(event: Event) -> str:
    """Return when an event happened; marked where the workspace did not report that."""
    occurred_at = event.get("occurred_at")
    # Our own time may be after that of the next event, so it is never shown as the workspace's.
    if occurred_at is None:
        return f"{times.RECORDED}{event['recorded_at']}"
    run = event.get("run") or {}
    names = {"run.queued": "created_at", "run.started": "started_at"}
    name = names.get(event["type"], "finished_at")
    is_approximate = name in run.get("approximate", ()) and run.get(name) == occurred_at
    return f"{times.APPROXIMATE}{occurred_at}" if is_approximate else str(occurred_at)
