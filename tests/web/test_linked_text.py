"""Texts of explanations on the page: what they name becomes links and times."""

from __future__ import annotations

import re
from collections.abc import Sequence

from monitor.web.page.template_filters import linked


def test_names_in_an_explanation_are_linked() -> None:
    """Runs, alerts and silences are links, instants are times; all else is escaped."""
    said = linked(
        "run acme:job_group:17: not notified, inhibited: alert run_failed (9f86d081884c7d65), "
        "firing since 2026-11-21 10:00:00 UTC: silence 5d3c5d3c5d3c5d3c by <b>: run.failed; "
        "inhibited by alert aaaaaaaaaaaaaaaa; 2026-99-99 10:00:00 UTC"
    )
    assert _parts(said) == [
        '<a href="/runs/acme/job_group/17">job group <bdi>17</bdi></a>: not notified, ',
        'suppressed: alert <a href="/alerts/9f86d081884c7d65">run_failed</a>, firing since ',
        '<time datetime="2026-11-21T10:00:00Z"',
        '<a href="/silences#silence-5d3c5d3c5d3c5d3c">silence</a> by &lt;b&gt;: run failed; ',
        'suppressed by <a href="/alerts/aaaaaaaaaaaaaaaa">another alert</a>; 2026-99-99',
    ]


def _parts(said: str) -> Sequence[str]:
    """Return the pieces that the test names, in their order, as far as they are there."""
    pieces = (
        r"^<a .*?notified, ",
        r"suppressed: alert.*?since ",
        r'<time datetime="[^"]*"',
        r"<a href=./silences.*?failed; ",
        r"suppressed by.*?99-99",
    )
    return [found[0] for piece in pieces if (found := re.search(piece, said))]
