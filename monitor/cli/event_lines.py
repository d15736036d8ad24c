"""Recorded events as lines for people and rows for spreadsheets. Pure: the caller names the time.

And which events a command line asks for.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from monitor.cli import time_options
from monitor.cli.row_layout import Form, cell
from monitor.model.events import EventType
from monitor.model.runs import RunKind

Event = dict[str, Any]  # a CloudEvent

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
        """Return False for what only several types leave out: the daemon has judged the rest."""
        return not self.types or event_type(event) in self.types


def event_type(event: Event) -> str:
    """Return the type as people write it, such as ``run.failed``."""
    return str(event["type"]).removeprefix("dataprep.").removesuffix(".v1")


def event_row(event: Event) -> dict[str, Any]:
    """Return an event of a run, an alert or a workspace as one flat row with the same fields."""
    row: dict[str, Any] = dict.fromkeys(FIELDS)
    row |= {"occurred_at": event.get("time"), "recorded_at": event["recordedtime"]}
    row |= {"type": event_type(event), "id": event["id"]}
    data = event["data"]
    if (run := data.get("run")) is not None:
        row |= {"workspace": data["workspace"], "kind": run["kind"], "run_id": run["id"]}
        if (pipeline := data["pipeline"])["kind"] is not None:
            row |= {"pipeline_id": pipeline["id"], "pipeline": pipeline["name"]}
        row["text"] = run["error"]
    elif (labels := data.get("labels")) is not None:
        names = ("workspace", "kind", "pipeline_id", "pipeline")
        row |= {name: labels.get(name) for name in names}
        row["fingerprint"] = data["fingerprint"]
        name, texts = labels["alertname"], data["annotations"]
        reason = texts.get("description") or texts.get("summary")
        row["text"] = f"{name}: {reason}" if reason else name
    else:
        row["workspace"] = data["workspace"]
        row["text"] = f"{data['what']}: {data['after']}"
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
    if row["pipeline"] is not None or row["run_id"] is not None:
        name = "unknown" if row["pipeline"] is None else row["pipeline"]
        words.append(cell(name, Form.NAME, is_wide=is_wide, now=now))
    at = cell(_time_of(event), Form.INSTANT, is_wide=has_instant, now=now)
    line = f"{at:<{_TIME}}  {row['type']:<{_TYPE}}  {'  '.join(words)}"
    if row["text"]:
        line += f"  {cell(row['text'], Form.TEXT, is_wide=is_wide, now=now)}"
    return line


def _time_of(event: Event) -> str:
    """Return when an event happened; marked where the workspace did not report that."""
    occurred_at = event.get("time")
    # Our own time may be after that of the next event, so it is never shown as the workspace's.
    if occurred_at is None:
        return f"{time_options.RECORDED}{event['recordedtime']}"
    run = event["data"].get("run") or {}
    names = {"run.queued": "created", "run.started": "started"}
    name = names.get(event_type(event), "finished")
    is_approximate = name in run.get("approximate", ()) and run.get(name) == occurred_at
    return f"{time_options.APPROXIMATE}{occurred_at}" if is_approximate else str(occurred_at)
