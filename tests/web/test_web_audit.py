"""The audit: each write leaves a line with person, before and after, and result."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from monitor.model.errors import BusUnavailableError
from monitor.model.secrets import Secret
from monitor.web.http.access import READING
from monitor.web.settings import ServerSettings
from tests.app.eventually import eventually
from tests.web.form_client import Browser
from tests.web.people import PEOPLE, bearer, log_in, token_of
from tests.web.site import Site

OPEN = ServerSettings(listen="127.0.0.1:0", writes_per_minute=100_000)
GUARDED = msgspec.structs.replace(
    OPEN,
    token=Secret("a token for scripts"),
    username="ada",
    password=Secret("a password for people"),
)
TOKEN = {"Authorization": "Bearer a token for scripts"}
BASIC = {"Authorization": "Basic " + base64.b64encode(b"ada:a password for people").decode()}
SILENCE = {
    "matchers": ["pipeline=orders"],
    "author": "the CEO",
    "comment": "night",
    "for_seconds": 60,
}


async def lines(
    site: Site, headers: Mapping[str, str] | None = None, query: str = ""
) -> list[dict[str, Any]]:
    answer = await site.get(f"/api/v1/audit{query}", headers=dict(headers or {}))
    assert answer.status == 200, answer.text
    rows: list[dict[str, Any]] = answer.document["data"]
    return rows


def test_every_write_has_a_word_of_the_audit(site: Site) -> None:
    """No route changes anything without a line: each declares what it does, and no read does."""
    routes = list(site.server.routes())
    writes = [route for route in routes if route.method not in READING]
    assert len(writes) >= 14
    assert {route.path for route in writes if route.what is None} == {"/login"}  # makes its own
    assert {route.path for route in routes if route.method in READING and route.what} == set()


@pytest.mark.parametrize("settings", [GUARDED], ids=["guarded"])
async def test_a_silence_is_made_and_ended_by_a_person(site: Site) -> None:
    """Both lines say who it was and what changed; the silence carries the person too."""
    made = (await site.post("/api/v1/silences", json=SILENCE, headers=BASIC)).document
    async with site.session.delete(f"{site.url}/api/v1/silences/{made['id']}", headers=TOKEN):
        pass
    ended, begun = await lines(site, TOKEN)

    assert made["author"] == "ada"
    assert (begun["person"], begun["source"], begun["what"]) == ("ada", "127.0.0.1", "add_silence")
    assert (begun["result"], begun["reason"], begun["before"]) == ("done", None, None)
    assert begun["request"]["comment"] == "night"
    assert begun["after"] == made
    assert (ended["person"], ended["what"], ended["result"]) == ("token", "expire_silence", "done")
    assert ended["request"] == {"id": made["id"]}
    assert ended["before"]["state"] == "active"
    assert ended["after"]["state"] == "expired"


@pytest.mark.parametrize("settings", [OPEN, GUARDED], ids=["open", "guarded"])
async def test_an_acknowledgement_carries_the_person(site: Site, settings: ServerSettings) -> None:
    """What was typed counts only where no log-in is asked for; the former one is kept."""
    headers = BASIC if settings.has_auth else {}
    alert = site.alerting.alert()
    site.alerting.show(alert)
    named = {"fingerprint": alert.fingerprint, "starts_at": alert.starts_at.isoformat()}
    for author in ("the CEO", "the CTO"):
        body = {**named, "author": author, "comment": f"of {author}"}
        sent = await site.post("/api/v1/acknowledgements", json=body, headers=headers)
        assert sent.status == 201
    second, first = await lines(site, headers)
    (shown,) = site.alerting.snapshot.alerts
    authors = ("ada", "ada") if settings.has_auth else ("the CEO", "the CTO")

    assert first["before"] is None
    assert second["before"] == first["after"]
    assert (first["after"]["author"], second["after"]["author"]) == authors
    assert first["person"] == ("ada" if settings.has_auth else "anonymous")
    assert shown.acknowledged is not None
    assert shown.acknowledged.author == authors[1]


@pytest.mark.parametrize("settings", [GUARDED], ids=["guarded"])
async def test_forms_are_of_who_is_logged_in(site: Site) -> None:
    """They ask for no name, take none, and leave the same lines as the API."""
    site.alerting.show(site.alerting.alert())
    browser = Browser(site)
    browser.session.headers.update(BASIC)
    try:
        shown = await browser.get("/silences/new")
        fields = {"matcher": "pipeline=orders", "lasts": "2h", "author": "the CEO", "comment": "x"}
        token = await browser.token("/silences/new")
        await browser.send("/silences/new", {**fields, "token": token})
        await browser.send("/silences/new", {**fields, "comment": "", "token": token})
    finally:
        await browser.close()
    refused, done = await lines(site, BASIC)
    (silence,) = site.alerting.snapshot.silences

    assert 'name="author"' not in shown.raw
    assert "By ada, who is logged in." in shown.raw.replace("<bdi>", "").replace("</bdi>", "")
    assert silence.author == "ada"
    assert (done["what"], done["person"], done["result"]) == ("add_silence", "ada", "done")
    assert done["after"]["matchers"] == ["pipeline=orders"]
    assert (refused["result"], refused["after"]) == ("refused", None)
    assert refused["reason"].startswith("comment: is needed")
    assert token not in str([refused, done])


async def test_other_writes_say_what_they_did(site: Site) -> None:
    """Tasks by their state before and after, replays by their counts; refused ones say why."""
    await site.post("/api/v1/webhooks", json={"action": "sync", "flow": "7"})
    await site.post("/api/v1/track", json={"kind": "job_group", "id": "404"})
    await site.post("/api/v1/track", json={"kind": "job_group"})
    replayed = {"output": "mqtt", "since": "2026-11-20T00:00:00Z"}
    await site.post("/api/v1/replay", json=replayed)
    await site.post("/api/v1/dead-letters/drop", json={"output": "mqtt", "all": True})
    dropped, replay, malformed, untracked, sync = await lines(site)

    assert sync["before"] == sync["after"] == {"registered": ["7"]}
    assert sync["request"] == {"action": "sync", "flow": "7"}
    assert (untracked["what"], untracked["result"]) == ("track", "refused")
    assert untracked["reason"] == "there is no such run"
    assert (malformed["result"], malformed["request"]) == ("refused", None)
    assert "id" in malformed["reason"]
    assert (replay["request"], replay["after"]["sent"]) == (replayed, 3)
    assert (dropped["what"], dropped["after"]["output"]) == ("drop_dead_letters", "mqtt")


@pytest.mark.parametrize("settings", [GUARDED], ids=["guarded"])
async def test_no_secret_is_in_a_line(site: Site) -> None:
    """Not one that a person pastes into a text, and not what is too long to be masked."""
    pasted = {**SILENCE, "comment": "use a token for scripts", "matchers": ["pipeline=" + "x" * 90]}
    await site.post("/api/v1/silences", json=pasted, headers=TOKEN)
    long = {**SILENCE, "comment": "a token for scripts " * 600}
    refused = await site.post("/api/v1/silences", json=long, headers=TOKEN)
    page = await site.get("/monitor/audit", headers=TOKEN)
    stored = await site.bus.entries.newest("audit", limit=9)

    assert refused.status == 400
    assert len(stored) == 2
    assert "a token for scripts" not in str(stored) + page.text
    assert "use ***" in str(stored)
    assert "bytes, too long for the audit" in str(stored)


async def test_nothing_is_changed_without_its_line(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the store does not take the line, the write is refused, and may be tried again."""

    async def refuse(*_: Any, **__: Any) -> None:
        raise BusUnavailableError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(site.bus.entries, "put", refuse)
        refused = await site.post("/api/v1/silences", json=SILENCE)
    assert (refused.status, site.alerting.snapshot.silences) == (503, ())
    assert await lines(site) == []
    assert (await site.post("/api/v1/silences", json=SILENCE)).status == 201


async def test_a_line_without_a_result_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store went away after the change: what was asked stays, with the result unknown."""
    put, calls = site.bus.entries.put, list[int]()

    async def once(*given: Any, **more: Any) -> None:
        calls.append(1)
        if len(calls) > 1:
            raise BusUnavailableError("the disk is full")
        await put(*given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(site.bus.entries, "put", once)
        assert (await site.post("/api/v1/silences", json=SILENCE)).status == 201
    (line,) = await lines(site)
    assert (line["result"], line["what"], line["after"]) == ("unknown", "add_silence", None)
    assert line["request"]["matchers"] == ["pipeline=orders"]


async def test_a_full_audit_gives_up_its_oldest_lines(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is new always finds a place."""
    monkeypatch.setattr("monitor.bus.sqlite.entries.ENTRIES_BOUND", 4)
    for number in range(9):
        await site.clock.advance(60)
        body = {"kind": "job_group", "id": str(number + 1)}
        assert (await site.post("/api/v1/track", json=body)).status == 202
    kept = [line["request"]["id"] for line in await lines(site)]
    assert 1 <= len(kept) <= 4
    assert kept == [str(number) for number in range(9, 9 - len(kept), -1)]


async def test_lines_come_in_pages_and_since_a_time(site: Site) -> None:
    """The newest first, each once; the page shows them with a link to the older ones."""
    for number in range(5):
        await site.post("/api/v1/track", json={"kind": "job_group", "id": str(number + 1)})
        await site.clock.advance(600)
    shown: list[str] = []
    query = "?limit=2"
    while True:
        answer = (await site.get(f"/api/v1/audit{query}")).document
        shown += [line["request"]["id"] for line in answer["data"]]
        if answer["next"] is None:
            break
        query = f"?limit=2&cursor={answer['next']}"
    recent = await lines(site, query="?since=1h&limit=3")
    since = (site.clock.now() - timedelta(seconds=1_300)).isoformat().replace("+", "%2B")
    page = await site.get("/monitor/audit?limit=2")

    assert shown == ["5", "4", "3", "2", "1"]
    assert len(recent) == 3
    assert [line["request"]["id"] for line in await lines(site, query=f"?since={since}")] == [
        "5",
        "4",
    ]
    older = await lines(site, query=f"?until={since}&limit=2")
    assert [line["request"]["id"] for line in older] == ["3", "2"]
    assert (await site.get(f"/api/v1/audit?until={since}&since={since}")).status == 400
    assert page.status == 200
    assert "anonymous" in page.text
    assert "Older lines" in page.text
    assert "/monitor/audit" in (await site.get("/monitor")).text
    assert (await site.get("/api/v1/audit?cursor=x")).status == 400


@pytest.mark.parametrize("settings", [PEOPLE], ids=["people"])
async def test_logs_in_and_out_leave_lines(site: Site) -> None:
    """Of the person, with role and way in; a wrong secret leaves none at once, and is in none."""
    browser = Browser(site)
    try:
        form = {"username": "", "secret": "wrong-secret", "next": "/"}
        await browser.send("/login", {**form, "token": await browser.token("/login")})
        await log_in(browser, token_of("operate-user"))
        await browser.send("/logout", {"token": await browser.token("/account")})
    finally:
        await browser.close()
    left, entered = await lines(site, bearer(token_of("admin-user")))

    assert (entered["person"], entered["what"], entered["result"]) == (
        *("operate-user", "log_in"),
        "done",
    )
    assert entered["after"] == {"role": "operate", "way": "token"}
    assert (left["person"], left["what"], left["result"]) == ("operate-user", "log_out", "done")
    assert "secret" not in str([left, entered])


async def has_lines(site: Site) -> bool:
    return bool(await lines(site, bearer(token_of("admin-user"))))


@pytest.mark.parametrize("settings", [PEOPLE], ids=["people"])
async def test_what_a_role_forbids_leaves_a_line(site: Site) -> None:
    """Who tried, why it was refused and how often, in one line a day, which pushes none out."""
    reader = bearer(token_of("read-user"))
    refused = [await site.post("/api/v1/silences", json=SILENCE, headers=reader) for _ in range(30)]
    await site.clock.advance(60)
    await eventually(lambda: has_lines(site), why="there is no line")
    (line,) = await lines(site, bearer(token_of("admin-user")))

    assert {answer.status for answer in refused} == {403}
    assert line["request"]["times"] == 30
    assert (line["person"], line["what"], line["result"]) == ("read-user", "add_silence", "refused")
    assert line["reason"] == "read-user has the role read; this needs operate"
    for path in ("/api/v1/audit", "/monitor/audit"):
        assert (await site.get(path, headers=bearer(token_of("operate-user")))).status == 403
