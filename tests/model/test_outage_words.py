"""Reasons of outages in words."""

from __future__ import annotations

import pytest

from monitor.model.outage_words import reason_in_words


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (None, None),
        ("", None),
        ("changes: no connection: connection refused: Cannot connect to host a:443 ssl:default",
         "connection refused"),
        ("no connection: Cannot connect to host a:443 ssl:default [Name or service not known]",
         "unknown host name"),
        ("changes: no whole answer in time", "no answer in time"),
        ("changes: the connection broke: Server disconnected", "the connection broke"),
        ("changes: listJobLibrary answered 503, but not as the API: an HTML page",
         "HTTP 503 Service Unavailable"),
        ("changes: listJobLibrary answered 599: nothing", "HTTP 599"),
        ("plan_runs: something else; names: another", "something else"),
        ("x" * 200, "x" * 80 + "…"),
    ],
)  # fmt: skip
def test_a_reason_is_a_few_words(reason: str | None, words: str | None) -> None:
    """What operators know is named as they do, the rest stays, up to a line."""
    assert reason_in_words(reason) == words
