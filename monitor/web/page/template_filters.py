"""Filters of the templates: instants, durations and counts in words with units, texts with links.

Instants are ``<time>`` elements: the server writes UTC or "12 min ago", and the browser's script
turns them into local time and lets them tick. Explanations are one text for the terminal and the
page; only the page can link the runs, alerts and silences that they name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

import msgspec
from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from monitor.model.words import (
    NOTHING,
    clock_time,
    counted,
    duration,
    iso,
    kind_words,
    percent,
    relative,
    rough_duration,
    utc,
)

_THOUSAND = 1_000
_KINDS = "flow_run|job_group|plan_run"
_ID = r"(?:config-)?[0-9a-f]{16}"
_NAMED = re.compile(
    rf"(?P<alert>alert (?P<rule>[A-Za-z0-9_-]+) \((?P<fingerprint>{_ID})\))"
    rf"|(?P<other>alert (?P<unnamed>{_ID})\b)"
    rf"|(?P<silence>silence (?P<silence_id>{_ID})\b)"
    # From the begin of a word only: one long word must not be tried from each of its letters.
    r"|(?P<run>(?:\brun )?(?<![a-z0-9-])(?P<workspace>[a-z0-9][a-z0-9-]{0,62})"
    rf":(?P<kind>{_KINDS}):(?P<id>[^\s,;:()]+))"
    r"|(?P<at>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?: UTC|Z))"
    r"|(?P<event>\b(?:run|alert|workspace)\.[a-z]+\b)"
    rf"|(?P<word>\b(?:{_KINDS}|inhibited|deduplicated)\b)"
)
_OTHER = Markup('<a href="/alerts/{}">another alert</a>')
_SILENCE = Markup('<a href="/silences#silence-{}">silence</a>')
_WORDS = {"inhibited": "suppressed", "deduplicated": "reported before"}


def run_path(workspace: str, kind: str, run_id: str) -> str:
    return _path("runs", workspace, kind, run_id)


def pipeline_path(workspace: str, kind: str, pipeline_id: str) -> str:
    return _path("pipelines", workspace, kind, pipeline_id)


def _path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def instant(at: datetime | None) -> str | Markup:
    """Return an instant in full; the browser shows it in local time, with UTC on hover."""
    if at is None:
        return NOTHING
    return Markup('<time datetime="{}" title="{}" data-local>{}</time>').format(
        iso(at), utc(at), at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    )


def instant_seconds(at: datetime | None) -> str | Markup:
    """Return an instant in full, with its seconds."""
    if at is None:
        return NOTHING
    return Markup('<time datetime="{}" title="{}" data-local="seconds">{}</time>').format(
        iso(at), utc(at), utc(at)
    )


def tick(at: datetime, zone: str) -> Markup:
    """Return an instant of an axis: ``Sat 06:30``; the browser shows it in local time."""
    return Markup('<time datetime="{}" title="{}" data-local="tick">{}</time>').format(
        iso(at), utc(at), at.astimezone(ZoneInfo(zone)).strftime("%a %H:%M")
    )


def wall_time(at: datetime, zone: str) -> str:
    """Return an instant as a form sends it for a time zone: ``2026-11-28 06:30``."""
    return at.astimezone(ZoneInfo(zone)).strftime("%Y-%m-%d %H:%M")


@pass_context
def ago(context: Context, at: datetime | None) -> str | Markup:
    """Return how long ago an instant was, or in how long it comes; it ticks in the browser."""
    if at is None:
        return NOTHING
    now: datetime = context["now"]
    return Markup('<time datetime="{}" title="{}" data-ago>{}</time>').format(
        iso(at), utc(at), relative((now - at).total_seconds())
    )


def sentence(text: str) -> str:
    """Return a problem as a sentence; one that begins with the name of a key keeps that."""
    begins_with_key = re.match(r"[\w.]+:", text)
    text = text if begins_with_key else text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."


def clock(at: datetime, zone: str) -> str:
    """Return the time of day in a time zone: ``06:30``."""
    return at.astimezone(ZoneInfo(zone)).strftime("%H:%M")


def zoned(at: datetime, zone: str) -> str:
    """Return a day and time in a time zone: ``Sat 28 Nov 2026 06:30 CET``."""
    return clock_time(at, ZoneInfo(zone))


def size(number: int) -> str:
    """Return a number of bytes in the unit that says enough: ``12.3 MB``."""
    amount = float(number)
    for unit in ("bytes", "kB", "MB"):
        if amount < _THOUSAND:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= _THOUSAND
    return f"{amount:.1f} GB"


def json_text(value: Any) -> str:
    """Return plain values as they are written in JSON."""
    return msgspec.json.encode(value).decode()


def path_part(text: str) -> str:
    """Return a text as one part of a path, whatever it holds."""
    return quote(text, safe="")


FILTERS: dict[str, Callable[..., Any]] = {
    "json_text": json_text,
    "ago": ago,
    "instant": instant,
    "instant_seconds": instant_seconds,
    "tick": tick,
    "wall_time": wall_time,
    "utc": utc,
    "iso": iso,
    "duration": duration,
    "rough_duration": rough_duration,
    "counted": counted,
    "clock": clock,
    "zoned": zoned,
    "size": size,
    "percent": percent,
    "sentence": sentence,
    "path_part": path_part,
    "kind_words": kind_words,
}


def linked(text: str) -> Markup:
    """Return a text with links; whatever else it contains is escaped."""
    pieces: list[str | Markup] = []
    end = 0
    for match in _NAMED.finditer(text):
        pieces += [escape(text[end : match.start()]), _LINKS[str(match.lastgroup)](match)]
        end = match.end()
    return Markup("").join([*pieces, escape(text[end:])])


def _alert(match: re.Match[str]) -> Markup:
    link = Markup('alert <a href="/alerts/{}">{}</a>')
    return link.format(match["fingerprint"], match["rule"])


def _run(match: re.Match[str]) -> Markup:
    words = (match["workspace"], match["kind"], quote(match["id"], safe=""))
    link = Markup('<a href="/runs/{}">{} <bdi>{}</bdi></a>')
    return link.format("/".join(words), kind_words(match["kind"]), match["id"])


def _instant(match: re.Match[str]) -> str | Markup:
    try:
        return instant(datetime.fromisoformat(match["at"].replace(" UTC", "Z")))
    except ValueError:  # the text of an error may look like one
        return match["at"]


# By the outer group, which is the one that was closed last.
_LINKS: Mapping[str, Callable[[re.Match[str]], str | Markup]] = MappingProxyType(
    {
        "alert": _alert,
        "other": lambda match: _OTHER.format(match["unnamed"]),
        "silence": lambda match: _SILENCE.format(match["silence_id"]),
        "run": _run,
        "at": _instant,
        "event": lambda match: match["event"].replace(".", " "),
        "word": lambda match: _WORDS.get(match["word"]) or kind_words(match["word"]),
    }
)
