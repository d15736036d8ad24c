"""Prints the messages that channels to people would send about an alert."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from typing import Any

from monitor.cli.row_layout import Column, Form, OutputForm
from monitor.cli.tables import print_rows
from monitor.model.outside import LONGEST_ERROR, harmless

_COLUMNS = (
    Column("channel", "channel", Form.COPIED),
    Column("why_not", "not sent because", Form.TEXT),
    Column("to", "to", Form.COPIED),
    Column("form", "form"),
    Column("subject", "subject", Form.TEXT),
    Column("text", "text", Form.TEXT),
)
_NONE = "no channel is configured; add [[notify]] with name and url_file"
_LINES = frozenset({"p", "div", "h1", "h2", "h3", "tr", "li"})  # each ends a line
_HIDDEN = frozenset({"style", "script", "title"})
_LONGEST_TEXT = 100_000  # characters; a mail about twenty alerts has less


def print_previews(rows: Sequence[Mapping[str, Any]], form: OutputForm) -> None:
    """Print what each channel would send: for people as it would be read, else as rows."""
    if form is OutputForm.TABLE and rows:
        sys.stdout.write("\n".join(map(_message, rows)))
    else:
        print_rows(rows, _COLUMNS, form, empty=_NONE)


def _message(row: Mapping[str, Any]) -> str:
    channel = harmless(str(row["channel"]))
    if row["subject"] is None:
        why_not = harmless(str(row["why_not"]), longest=LONGEST_ERROR)
        return f"{channel}: sends nothing: {why_not}\n"
    to = f" to {harmless(str(row['to']))}" if row["to"] is not None else ""
    subject = harmless(str(row["subject"]), longest=LONGEST_ERROR)
    text = str(row["text"])
    if str(row["form"]).endswith(".html"):
        text = _read_of(text)
    text = harmless(text, longest=_LONGEST_TEXT, has_lines=True)
    lines = "".join(f"  {line}\n" if line else "\n" for line in text.splitlines())
    return f"{channel}{to}: {subject}\n{lines}"


class _Reader(HTMLParser):
    """Collects what people read of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self._hidden += tag in _HIDDEN
        if tag == "br":
            self.words.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in _HIDDEN
        if tag in _LINES:
            self.words.append("\n")
        elif tag == "th":
            self.words.append(": ")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words.append(data)


def _read_of(html: str) -> str:
    """Return the lines that people read of a mail, without those that are empty."""
    reader = _Reader()
    reader.feed(html)
    lines = (re.sub(r"[ \t]+", " ", line).strip() for line in "".join(reader.words).splitlines())
    return "\n".join(line for line in lines if line)
