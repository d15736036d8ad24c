"""nginx and Caddy with the configurations of ``deploy/proxies``, in front of both listeners."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

import aiohttp
import pytest
import structlog

from monitor.web.http.form_bodies import SECURE_COOKIE
from tests.deploy.proxies import (
    NAME,
    PASSWORD,
    READ_SECONDS,
    SECRET,
    SOURCE,
    USER,
    Fronted,
)
from tests.web.form_client import Reply
from tests.web.people import basic, bearer, token_of

TRACK = {"workspace": "acme", "kind": "job_group", "id": "7"}
FORGED = "192.0.2.66"
ADMIN = bearer(token_of("admin-user"))
CALLBACK = b'{"job_id":"9","job_status":"Complete"}'


async def tracked_by(fronted: Fronted, headers: dict[str, str]) -> dict[str, object]:
    """Write with these headers, and return the line of the log about that."""
    with structlog.testing.capture_logs() as lines:
        async with (
            fronted.session() as session,
            session.post(f"{fronted.url}/api/v1/track", json=TRACK, headers=headers) as answer,
        ):
            assert answer.status == HTTPStatus.ACCEPTED, await answer.text()
    (line,) = [line for line in lines if line["event"] == "admin write"]
    return dict(line)


async def test_a_person_logs_in_through_the_proxy(fronted: Fronted) -> None:
    """The cookies are for this very host and TLS only, and the page is that of who logged in."""
    origin = {"Origin": fronted.url}
    async with fronted.session() as session:
        async with session.get(f"{fronted.url}/login") as answer:
            page = Reply(answer, await answer.text())
        fields = {"username": "", "secret": token_of("operate-user"), "next": "/account"}
        async with session.post(
            f"{fronted.url}/login", data={**fields, "token": page.token()}, headers=origin
        ) as answer:
            shown = await answer.text()
            set_here = [
                *page.headers.getall("Set-Cookie"),
                *answer.history[0].headers.getall("Set-Cookie"),
            ]
    assert "operate-user" in shown
    assert len(set_here) == 2
    assert all(cookie.startswith("__Host-") for cookie in set_here)
    assert all({"Secure", "HttpOnly", "Path=/"} <= set(cookie.split("; ")) for cookie in set_here)
    assert set_here[0].startswith(f"{SECURE_COOKIE}=")
    assert "max-age=" in page.headers["Strict-Transport-Security"]


async def test_clear_text_leads_to_tls(fronted: Fronted) -> None:
    """What is asked in clear text is not answered there: the daemon does not see it."""
    connections = fronted.to_server.connections
    url = f"http://{NAME}:{fronted.ports.clear}/runs?status=failed"
    async with (
        fronted.session() as session,
        session.get(url, headers=ADMIN, allow_redirects=False) as answer,
    ):
        assert answer.status in (HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.PERMANENT_REDIRECT)
        assert answer.headers["Location"].startswith(f"https://{NAME}")
        assert answer.headers["Location"].endswith("/runs?status=failed")
    assert fronted.to_server.connections == connections


async def test_a_callback_arrives_through_the_proxy(fronted: Fronted) -> None:
    """It is stored and answered 204; one with a wrong secret is not, and nothing else is there."""
    async with fronted.session() as session:
        statuses = []
        for path, secret in (
            ("/hooks/acme", SECRET),
            ("/hooks/acme", "wrong"),
            (f"/hooks/acme/{SECRET}", ""),
        ):
            url, headers = fronted.url + path, {"X-Monitor-Secret": secret}
            headers["Content-Type"] = "application/json"
            async with session.post(url, data=CALLBACK, headers=headers) as answer:
                statuses.append(answer.status)
    assert statuses == [204, 404, 204]
    assert (fronted.callbacks("accepted"), fronted.callbacks("duplicate")) == (1, 1)


async def test_the_source_is_who_connects_to_the_proxy(fronted: Fronted) -> None:
    """Whatever a client says of where it comes from, limits and log have its true address."""
    for forged in (
        {"X-Forwarded-For": FORGED},
        {"X-Forwarded-For": f"{FORGED}, 127.0.0.1"},
        {"Forwarded": f"for={FORGED}", "X-Real-IP": FORGED},
        {"X-Forwarded-For": FORGED, "Connection": "X-Forwarded-For"},
        {"X_Forwarded_For": FORGED},
    ):
        line = await tracked_by(fronted, {**ADMIN, **forged})
        assert (line["source"], line["who"]) == (SOURCE, "admin-user"), forged


async def test_a_wrong_callback_is_counted_for_who_sends_it(fronted: Fronted) -> None:
    """The log of refused requests has the true address of who guesses a secret."""
    forged = {"X-Forwarded-For": FORGED, "X-Monitor-Secret": "wrong"}
    with structlog.testing.capture_logs() as lines:
        async with (
            fronted.session() as session,
            session.post(f"{fronted.url}/hooks/acme", data=CALLBACK, headers=forged) as answer,
        ):
            assert answer.status == HTTPStatus.NOT_FOUND
        await fronted.site.clock.advance(60)
        await fronted.site.logged(lines)
    assert [line["sources"] for line in lines] == [{SOURCE: 1}]


async def test_a_client_says_nothing_about_tls(fronted: Fronted) -> None:
    """A claim that there is none takes neither the cookie's protection nor HSTS away."""
    for more in ({}, {"Connection": "X-Forwarded-Proto"}):
        headers = {"X-Forwarded-Proto": "http", **more}
        async with (
            fronted.session() as session,
            session.get(f"{fronted.url}/login", headers=headers) as answer,
        ):
            assert answer.headers["Set-Cookie"].startswith(f"{SECURE_COOKIE}=")
            assert "Strict-Transport-Security" in answer.headers


async def test_a_client_cannot_name_a_user(fronted: Fronted) -> None:
    """Where the daemon believes the proxy, and the proxy has no users, no client is one."""
    url = f"{fronted.url}/api/v1/runs"
    async with fronted.session() as session:
        for name in ("X-Forwarded-User", "x-forwarded-USER", "X_Forwarded_User"):
            headers = {name: "admin-user@example.com", "X-Forwarded-Groups": "group-admin-user"}
            async with session.get(url, headers=headers) as answer:
                assert answer.status == HTTPStatus.UNAUTHORIZED, name


async def test_no_other_host_reaches_the_daemon(fronted: Fronted) -> None:
    """By SNI, Host, two of them, or an absolute target: no request under another name passes."""
    seen = fronted.to_server.connections
    for head in (
        "GET / HTTP/1.1\r\nHost: evil.example\r\n",
        f"GET / HTTP/1.1\r\nHost: {NAME}\r\nHost: evil.example\r\n",
        f"GET https://evil.example/ HTTP/1.1\r\nHost: {NAME}\r\n",
        f"GET / HTTP/1.1\r\nHost: {NAME}@evil.example\r\n",
        "GET / HTTP/1.1\r\nHost:\r\n",
        "GET / HTTP/1.1\r\n",
    ):
        answer = await fronted.sent(f"{head}Connection: close\r\n\r\n".encode())
        assert b"dataprep-monitor" not in answer, head
    assert fronted.to_server.connections == seen
    with pytest.raises(aiohttp.ClientSSLError):
        async with fronted.session() as session:
            await session.get(f"https://evil.example:{fronted.ports.tls}/")


async def test_the_daemon_sees_the_host_that_the_proxy_serves(fronted: Fronted) -> None:
    """A target with a host wins over the header, for the daemon too."""
    head = f"GET https://{NAME}/login HTTP/1.1\r\nHost: evil.example\r\n"
    answer = await fronted.sent(f"{head}Connection: close\r\n\r\n".encode())
    assert b" 200 " in answer.partition(b"\r\n")[0]


async def test_users_of_the_proxy_are_those_of_the_daemon(with_users: Fronted) -> None:
    """Whom the proxy has authenticated writes under that name, and may what his entry says."""
    ada = basic(USER, PASSWORD)
    line = await tracked_by(with_users, ada)
    assert (line["who"], line["source"]) == (USER, SOURCE)
    async with (
        with_users.session() as session,
        session.post(f"{with_users.url}/api/v1/replay", json={}, headers=ada) as answer,
    ):
        assert answer.status == HTTPStatus.FORBIDDEN


async def test_a_user_of_the_proxy_cannot_be_another(with_users: Fronted) -> None:
    """Neither a name nor a group that the client adds counts, and a password is needed."""
    ada = basic(USER, PASSWORD)
    for forged in (
        {"X-Forwarded-User": "admin-user@example.com"},
        {"X-Forwarded-Groups": "group-admin-user"},
        {"X-Forwarded-User": "admin-user@example.com", "Connection": "X-Forwarded-User"},
        {"X_Forwarded_User": "admin-user@example.com"},
    ):
        line = await tracked_by(with_users, {**ada, **forged})
        assert line["who"] == USER, forged
    url = f"{with_users.url}/api/v1/runs"
    async with with_users.session() as session:
        for credentials in ({}, ADMIN, basic(USER, "wrong password")):
            headers = {**credentials, "X-Forwarded-User": "admin-user@example.com"}
            async with session.get(url, headers=headers) as answer:
                assert answer.status == HTTPStatus.UNAUTHORIZED


async def test_callbacks_need_no_user_of_the_proxy(with_users: Fronted) -> None:
    """The workspace has the secret alone."""
    headers = {"X-Monitor-Secret": SECRET, "Content-Type": "application/json"}
    async with (
        with_users.session() as session,
        session.post(f"{with_users.url}/hooks/acme", data=CALLBACK, headers=headers) as answer,
    ):
        assert answer.status == HTTPStatus.NO_CONTENT


@pytest.mark.parametrize("path", ["/api/v1/events/stream", "/live"])
async def test_events_pass_at_once(fronted: Fronted, path: str) -> None:
    """A stream is not held back, and outlasts the time that a request may take to arrive."""
    headers = {**ADMIN, "Accept": "text/event-stream"}
    async with (
        fronted.session() as session,
        session.get(fronted.url + path, headers=headers) as stream,
    ):
        # The proxy gives up on this one when the time of a request is over.
        await fronted.sent(f"GET / HTTP/1.1\r\nHost: {NAME}\r\n".encode())
        for number in range(3):
            await fronted.site.observe(fronted.site.run(str(number)))
            await fronted.site.clock.advance(20)
            async with asyncio.timeout(READ_SECONDS):
                assert await stream.content.readuntil(b"\n\n")


@pytest.mark.parametrize("kilobytes", [65, 512])
async def test_a_body_that_is_too_large_is_refused(fronted: Fronted, kilobytes: int) -> None:
    """Whether its length is announced or not, nothing of it is taken for a whole request."""
    body = b'{"workspace":"acme"' + b" " * (kilobytes * 1_024)

    async def pieces() -> AsyncIterator[bytes]:
        yield body

    headers = {**ADMIN, "Content-Type": "application/json", "X-Monitor-Secret": SECRET}
    for path in ("/api/v1/track", "/hooks/acme"):
        for data in (body, pieces()):
            async with (
                fronted.session() as session,
                session.post(fronted.url + path, data=data, headers=headers) as answer,
            ):
                # The second is what Caddy says where it was announced.
                assert answer.status in (
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    HTTPStatus.BAD_GATEWAY,
                )
    assert fronted.callbacks("accepted") == 0
    assert fronted.site.requested == []
