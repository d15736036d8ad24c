"""Any request gets its answer or one problem."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from monitor.model.runs import RunKind, Status
from monitor.model.secrets import Secret
from monitor.web.settings import ServerSettings
from tests.web.site import Answer, Site

GUARDED = ServerSettings(
    listen="127.0.0.1:0",
    token=Secret("token"),
    username="a",
    password=Secret("b"),
    wrong_credentials_delay_seconds=0,
)
UNLIMITED = ServerSettings(listen="127.0.0.1:0", read_cost_per_minute=10**9)
MANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
JSON = {"Content-Type": "application/json"}
NAMES = ("after", "since", "last", "limit", "kind", "status", "workspace", "other")
NUMBERS = st.integers(-(2**70), 2**70).map(str)
INSTANTS = st.sampled_from(
    ["2026-11-21T10:00:00Z", "2026-11-21", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59",
     "2026-W47-6T10Z", "2026-11-21T24:00:00Z", "2026-02-30T10:00Z", "2026-11-21T10:00:00+24:00"]
)  # fmt: skip
WORDS = (
    st.text(max_size=20)
    | NUMBERS
    | INSTANTS
    | st.sampled_from([*RunKind, *Status, "", "٣", "²", "1_0", " 1", "1e3", "0x1", "\0", "acme"])
)
QUERIES = st.lists(st.tuples(st.sampled_from(NAMES), WORDS), max_size=5)


def status_of(answer: Answer) -> int:
    """Return the status of an answer that is either valid or one problem."""
    if answer.status != 200:
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.document["status"] == answer.status
        assert len(answer.document["detail"]) < 300
        assert len(answer.document["detail"].splitlines()) == 1
    return answer.status


@MANY
@given(
    path=st.sampled_from(["runs", "events", "pipelines", "webhooks", "workspaces"]), query=QUERIES
)
@pytest.mark.parametrize("settings", [UNLIMITED], ids=["unlimited"])
async def test_no_query_is_a_failure(site: Site, path: str, query: list[tuple[str, str]]) -> None:
    """Any cursor, limit or word leads to data or to 400; tasks of no workspace to 409."""
    text = "&".join(f"{name}={quote(word, safe='')}" for name, word in query)
    answer = await site.get(f"/api/v1/{path}?{text}")

    if status_of(answer) == 200:
        # The store is empty; there is one workspace, and one task as the site has it.
        assert len(answer.document["data"]) == (path in ("webhooks", "workspaces"))
    else:
        assert answer.status in ((400, 409) if path == "webhooks" else (400,))


@MANY
@given(segments=st.lists(WORDS | st.binary(max_size=6), min_size=1, max_size=4), api=st.booleans())
async def test_no_path_is_a_failure(site: Site, *, segments: list[str | bytes], api: bool) -> None:
    """Any segments lead to a page, to data or to 404."""
    path = "/".join(quote(segment, safe="") for segment in segments)
    answer = await site.get(f"/api/v1/runs/{path}" if api else f"/{path}")

    assert answer.status in (200, 404, 405)
    if api:
        assert status_of(answer) in (200, 404, 405)


@MANY
@given(where=WORDS | st.integers(0, 3).map(str))
@example(where="\udcff")
async def test_no_position_in_the_stream_is_a_failure(site: Site, where: str) -> None:
    """The stream begins after the event that is named, or is refused with 400."""
    head = where.encode("utf-8", "surrogateescape")
    line = b"Last-Event-ID: " + head.translate(None, b"\r\n\0")
    answer = await sent(site, b"GET /api/v1/events/stream HTTP/1.1", line, until=b"\r\n\r\n")

    assert answer.split(b" ")[1] in (b"200", b"400")


@MANY
@given(line=st.binary(max_size=60), target=st.binary(max_size=40))
async def test_no_bytes_are_a_failure(
    site: Site,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    line: bytes,
    target: bytes,
) -> None:
    """Bytes that are no HTTP are 400 or silence, and the next request is served."""
    for first in (target, b"GET /" + target + b" HTTP/1.1"):
        answer = await sent(site, first, line, leaves=True)
        assert not answer or int(answer.split(b" ")[1]) in (100, 200, 400, 404, 405, 501)
    assert (await site.get("/healthz")).status == 200
    assert caplog.records == []
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err


VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS.map(int) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
FIELDS = st.dictionaries(
    st.sampled_from(["kind", "id", "workspace", "action", "flow", "more"]),
    st.sampled_from(["flow_run", "job_group", "sync", "test", "delete", "7", "../7", "", "\0"])
    | VALUES,
)


@MANY
@given(path=st.sampled_from(["track", "webhooks"]), body=FIELDS | VALUES)
@example(path="track", body={"\x1e": None})
@example(path="track", body={"x" * 9_000: None})
@example(path="webhooks", body={"action": "sync"})
@example(path="webhooks", body={"action": "sync", "workspace": "acme", "flow": "7"})
@example(path="webhooks", body={"action": "sync", "workspace": "other"})
@example(path="track", body={"kind": "flow_run", "id": "7"})
@example(path="track", body={"kind": "flow_run", "id": "7", "workspace": "other"})
async def test_no_document_is_a_failure(site: Site, path: str, body: object) -> None:
    """An accepted request reaches the daemon in the words that were sent; others are refused.

    The only workspace need not be named; one that is not configured is 409.
    """
    del site.requested[:]
    answer = await site.post(f"/api/v1/{path}", data=json.dumps(body), headers=JSON)

    if answer.status == 400:
        assert status_of(answer) == 400
        assert site.requested == []
        return
    assert isinstance(body, dict)
    named = body.get("workspace")
    if named not in (None, "acme"):
        assert status_of(answer) == 409
        assert site.requested == []
    else:
        assert answer.status == (202 if path == "track" else 200)
        first = "kind" if path == "track" else "action"
        last = "id" if path == "track" else "flow"
        assert site.requested[-1:] == [("acme", body[first], body.get(last))]


@MANY
@given(body=st.binary(max_size=100))
@example(body=b"[" * 60_000)
@example(body=b'{"id":' * 9_000)
@example(body=b'{"kind":"job_group","id":"\\ud800"}')
async def test_no_body_is_a_failure(site: Site, body: bytes) -> None:
    """Bytes that are no such document are 400 and call nothing."""
    for path in ("track", "webhooks"):
        assert status_of(await site.post(f"/api/v1/{path}", data=body, headers=JSON)) == 400
    assert site.requested == []


@pytest.mark.parametrize(
    "run_id", ["", "..", "../7", "7/8", "7?a=1", "7#", "%2e%2e", " 7", "\0", "é", "7" * 65]
)
async def test_an_id_that_would_change_a_path_is_not_followed(site: Site, run_id: str) -> None:
    """A request that could read something else of the workspace is 400 and goes no further."""
    answer = await site.post("/api/v1/track", json={"kind": "job_group", "id": run_id})

    assert status_of(answer) == 400
    refused = f"id: {run_id[:40]!r} is not the id of a job_group; "
    assert answer.document["detail"].startswith(refused)
    assert site.requested == []


@pytest.mark.parametrize("settings", [GUARDED])
@MANY
@given(
    credentials=st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=40)
)
async def test_no_credentials_are_a_failure(
    site: Site, settings: ServerSettings, credentials: str
) -> None:
    """Any other text than the token is 401."""
    assert settings.has_auth
    for scheme in ("", "Basic ", "Bearer ", "basic  "):
        line = f"Authorization: {scheme}{credentials}".encode("latin-1")
        answer = await sent(site, b"GET /api/v1/runs HTTP/1.1", line, until=b"\r\n\r\n")
        assert answer.split(b" ")[1] in (b"401", b"400", b"429")


async def sent(
    site: Site, first: bytes, line: bytes, *, until: bytes = b"", leaves: bool = False
) -> bytes:
    """Send a request as raw bytes and return the first bytes of the answer."""
    port = int(site.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(
            b"\r\n".join([first, b"Host: localhost", line, b"Connection: close", b"", b""])
        )
        await writer.drain()
        if leaves:
            writer.write_eof()
        async with asyncio.timeout(10):
            return await (reader.readuntil(until) if until else reader.read())
    except ConnectionResetError:
        return b""
    finally:
        writer.close()
