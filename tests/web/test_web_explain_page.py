"""The page that explains an alert, and alerts that cannot be judged."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from monitor.model.live_state import PollStatus
from monitor.model.poll_outcomes import PollOutcome
from tests.web.site import Site

EVIL = '<script>alert("1")</script>'


async def test_an_alert_whose_list_fails_cannot_be_judged(site: Site) -> None:
    """However the list of its runs fails: the success that would end it cannot be seen."""
    site.alerting.show(site.alerting.alert())
    for outcome, why in (
        ("unauthorized", "changes cannot be read (unauthorized)"),
        ("unreadable", "changes cannot be read (unreadable)"),
        ("budget", None),
        ("ok", None),
    ):
        now = site.clock.now()
        poll = PollStatus(
            workspace="acme",
            poll="changes",
            last_attempt_at=now,
            last_success_at=now,
            last_outcome=PollOutcome(outcome),
        )
        site.live_state.record_poll(poll)
        (alert,) = json.loads((await site.get("/api/v1/alerts")).text)["data"]
        assert alert["unjudged"] == why


@pytest.mark.parametrize(
    ("question", "status", "text"),
    [
        ("alert=9f86d081884c7d66", 404, "&#39;9f86d081884c7d66&#39; is not known; did you mean"),
        ("run=acme/job_group/9", 404, "Run acme/job_group/9 is not known: it is neither"),
        ("run=acm/job_group/9", 400, "workspace: &#39;acm&#39; is not known; did you mean acme?"),
        ("run=17", 400, "run: &#39;17&#39; is not WORKSPACE/KIND/ID."),
        ("", 400, "Name one of name=NAME, alert=FINGERPRINT"),
        (f"alert={quote(EVIL)}", 404, "&lt;script&gt;alert("),
    ],
)
async def test_an_impossible_explanation_is_a_page_too(
    site: Site, question: str, status: int, text: str
) -> None:
    """An old link shows in the browser why there is nothing, and leads home."""
    site.alerting.show(site.alerting.alert())
    answer = await site.get(f"/explain?{question}")
    assert (answer.status, answer.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert text in answer.text
    assert EVIL not in answer.text
    assert '<a href="/">' in answer.text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
