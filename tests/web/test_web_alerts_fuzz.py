"""Any request about alerts gets its answer or one problem."""

from __future__ import annotations

import json
from urllib.parse import quote

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from monitor.model.alerts import AlertState
from monitor.model.runs import RunKind
from tests.web.site import Answer, Site

MANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
JSON = {"Content-Type": "application/json"}
WORDS = st.text(max_size=20) | st.sampled_from(
    [
        "run_failed",
        "9f86d081884c7d65",
        "acme/job_group/17",
        "acme/flow_run/",
        "//",
        "\0",
        "٣",
        "acme",
        *AlertState,
        *RunKind,
    ]
)
NAMES = st.sampled_from(["state", "rule", "workspace", "alert", "run", "pipeline", "other"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
INSTANTS = st.sampled_from(
    ["2026-11-21T12:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59",
     "9999-12-31T23:59:59Z", "2026-02-30T10:00Z", "2026-11-21"]
)  # fmt: skip
FIELDS = st.dictionaries(
    st.sampled_from(
        ["matchers", "author", "comment", "starts_at", "ends_at", "for_seconds", "output", "since"]
    ),
    st.lists(st.sampled_from(["pipeline=a*", "rule!=x", "x=1", "[", "=", "\0=", "pipeline=["]))
    | INSTANTS
    | VALUES,
)


def status_of(answer: Answer) -> int:
    """Return the status of an answer that is either valid or one problem in one line."""
    if answer.status not in (200, 201):
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.document["status"] == answer.status
        assert len(answer.document["detail"].splitlines()) == 1
    return answer.status


@MANY
@given(
    path=st.sampled_from(["api/v1/alerts", "api/v1/silences", "api/v1/explain"]),
    query=st.lists(st.tuples(NAMES, WORDS), max_size=4),
)
async def test_no_question_about_alerts_is_a_failure(
    site: Site, path: str, query: list[tuple[str, str]]
) -> None:
    """Any words lead to data, to 400 or to 404."""
    site.alerting.show(site.alerting.alert())
    text = "&".join(f"{name}={quote(word, safe='')}" for name, word in query)
    assert status_of(await site.get(f"/{path}?{text}")) in (200, 400, 404)
    page = await site.get(f"/explain?{text}")
    assert (page.status in (200, 400, 404), "</html>" in page.text) == (True, True)


@MANY
@given(segment=WORDS | st.binary(max_size=8))
async def test_no_name_of_an_alert_or_silence_is_a_failure(
    site: Site, segment: str | bytes
) -> None:
    """Any path leads to what it names or to 404."""
    name = quote(segment, safe="")
    assert status_of(await site.get(f"/api/v1/alerts/{name}")) in (200, 404)
    assert status_of(await site.delete(f"/api/v1/silences/{name}")) in (404, 405)


@MANY
@given(
    path=st.sampled_from(["silences", "replay", "dead-letters/resend", "dead-letters/drop"]),
    body=FIELDS | VALUES,
)
@example(
    path="silences",
    body={
        "matchers": ["a=b"],
        "author": "a",
        "comment": "c",
        "starts_at": "9999-12-31T23:59:59-23:59",
        "for_seconds": 1.0,
    },
)
@example(
    path="silences",
    body={
        "matchers": ["pipeline=b"],
        "author": "a",
        "comment": "c",
        "ends_at": "0001-01-01T00:00:00+23:59",
    },
)
async def test_no_wish_is_a_failure(site: Site, path: str, body: object) -> None:
    """Any document is applied or refused, and a refused one changes nothing."""
    before = site.alerting.snapshot.silences
    del site.alerting.replayed[:]
    del site.alerting.processed_letters[:]
    status = status_of(await site.post(f"/api/v1/{path}", data=json.dumps(body), headers=JSON))
    assert status in (200, 201, 400, 404)
    if status in (400, 404):
        assert site.alerting.snapshot.silences == before
        assert site.alerting.replayed == []
        assert site.alerting.processed_letters == []
