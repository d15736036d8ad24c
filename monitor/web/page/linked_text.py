"""Writes what explanations name for people: runs, alerts and silences as links, instants as times.

The explanations are one text for the terminal and the page; only the page can link.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from urllib.parse import quote

from markupsafe import Markup, escape

from monitor.model.words import kind_words
from monitor.web.page.template_filters import instant

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
