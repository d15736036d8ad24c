"""Prints the messages that channels to people would send about an alert."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
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
    text = harmless(str(row["text"]), longest=_LONGEST_TEXT, has_lines=True)
    lines = "".join(f"  {line}\n" if line else "\n" for line in text.splitlines())
    return f"{channel}{to}: {subject}\n{lines}"
