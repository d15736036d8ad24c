"""Requests that proxy and daemon could divide differently: none of them hides a second one.

Whom the hidden request names, and where it says to come from, the daemon believes of its proxy
alone: it shows where it has arrived without the proxy having read it.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import aiohttp
import pytest
import structlog

from tests.deploy.proxies import NAME, READ_SECONDS, SECRET, Fronted
from tests.web.people import token_of

FORGED = "192.0.2.66"
_JSON = '{"workspace":"acme","action":"sync"}'
_HIDDEN = {
    "/api/v1/track": (
        f"POST /api/v1/webhooks HTTP/1.1\r\nHost: {NAME}\r\nX-Forwarded-For: {FORGED}\r\n"
        "X-Forwarded-User: admin-user@example.com\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(_JSON)}\r\n\r\n{_JSON}"
    ),
    "/hooks/acme": (
        f"POST /hooks/acme HTTP/1.1\r\nHost: {NAME}\r\nX-Forwarded-For: {FORGED}\r\n"
        "X-Monitor-Secret: wrong\r\nContent-Length: 0\r\n\r\n"
    ),
}
# Headers and body of the request that hides another; ``...`` is that one.
_AS_BODY = "\r\n\r\n..."
_CHUNKED = "\r\n\r\n0\r\n\r\n..."
_IN_A_CHUNK = "\r\n\r\n{size:x}\r\n...\r\n0\r\n\r\n"


def _hidden_encodings(body: str) -> list[str]:
    return [
        f"{length}{encoding}{body}"
        for length in ("", "Content-Length: {all}\r\n", "Content-Length: 4\r\n")
        for encoding in (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
            "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: chunked, identity",
            "Transfer-Encoding : chunked",
            "Transfer-Encoding:\x0bchunked",
            "Transfer-Encoding:\tchunked",
            "Transfer-Encoding: \x00chunked",
            'Transfer-Encoding: "chunked"',
            "Transfer_Encoding: chunked",
            "X: y\nTransfer-Encoding: chunked",
            "X: y\rTransfer-Encoding: chunked",
        )
    ]


ATTACKS = {
    "CL.TE": [
        "Content-Length: {all}\r\nTransfer-Encoding: chunked" + _CHUNKED,
        "Transfer-Encoding: chunked\r\nContent-Length: {all}" + _CHUNKED,
    ],
    "TE.CL": [
        "Content-Length: 4\r\nTransfer-Encoding: chunked" + _IN_A_CHUNK,
        "Transfer-Encoding: chunked\r\nContent-Length: 0" + _IN_A_CHUNK,
    ],
    "TE.TE": _hidden_encodings(_CHUNKED),
    "TE.TE in a chunk": _hidden_encodings(_IN_A_CHUNK),
    "CL.CL": [
        lengths + _AS_BODY
        for lengths in (
            "Content-Length: 0\r\nContent-Length: {size}",
            "Content-Length: {size}\r\nContent-Length: 0",
            "Content-Length: 0, {size}",
            "Content-Length: {size}, {size}",
            "Content-Length: +0",
            "Content-Length: -1",
            "Content-Length: 0x0",
            "Content-Length: 0 {size}",
            "Content-Length : 0",
            "Content-Length: 18446744073709551616",
            "Content-Length:",
        )
    ],
    "folded": [
        folded + body
        for body in (_AS_BODY, _CHUNKED, _IN_A_CHUNK)
        for folded in (
            "Content-Length:\r\n 0",
            "Content-Length: 0\r\n {size}",
            "X: y\r\n Transfer-Encoding: chunked",
            "Transfer-Encoding:\r\n chunked",
            "Content-Length: {all}\r\nTransfer-Encoding:\r\n\tchunked",
            "X: y\r\n\r Content-Length: {size}",
        )
    ],
    "chunks": [
        f"Transfer-Encoding: chunked\r\n\r\n{chunks}"
        for chunks in (
            "0;x=\n\n...",
            "0\n\n...",
            "0x0\r\n\r\n...",
            "00000000000000000\r\n\r\n...",
            "10000000000000000\r\n\r\n...",
            "-1\r\n\r\n...",
            "1\r\nxx\r\n0\r\n\r\n...",
            f"0\r\nX-Forwarded-For: {FORGED}\r\nContent-Length: 9\r\n\r\n...",
        )
    ],
    "none": [
        more + _AS_BODY
        for more in (
            "X: y",
            "Connection: Content-Length\r\nContent-Length: {size}",
            "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked",
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk",
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 777",
            "Expect: 100-continue\r\nContent-Length: {size}",
            "Expect: 100-continue\r\nContent-Length: {size}\r\nTransfer-Encoding: chunked",
        )
    ],
}
_POST = "POST {path} HTTP/1.1"
_OTHER_STARTS = ("GET {path} HTTP/1.1", "POST {path} HTTP/1.0")


def attack(form: str, path: str, start: str) -> bytes:
    """Return a request that hides another, and after it one that asks to hang up."""
    hidden = _HIDDEN[path]
    head, _, body = form.partition("\r\n\r\n")
    body = body.replace("{size:x}", f"{len(hidden):x}").replace("...", hidden)
    head = head.replace("{all}", str(len(body))).replace("{size}", str(len(hidden)))
    first = f"{start.format(path=path)}\r\nHost: {NAME}\r\n"
    if path == "/api/v1/track":
        first += f"Authorization: Bearer {token_of('read-user')}\r\n"
    last = f"GET /healthz HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n"
    return f"{first}{head}\r\n\r\n{body}{last}".encode("latin-1")


async def answered_well(fronted: Fronted, session: aiohttp.ClientSession) -> None:
    """Send what others send, and see that each has the answer to its own request."""
    for number in range(1, 6):
        url = f"{fronted.url}/api/v1/runs?limit=own-{number}"
        headers = {"Authorization": f"Bearer {token_of('read-user')}"}
        async with session.get(url, headers=headers) as answer:
            assert f"own-{number}" in await answer.text()
        async with session.post(
            f"{fronted.url}/hooks/acme",
            data=f'{{"job_id":"{number}","job_status":"Complete"}}',
            headers={"X-Monitor-Secret": SECRET, "Content-Type": "application/json"},
        ) as answer:
            assert answer.status == HTTPStatus.NO_CONTENT


@pytest.mark.parametrize("kind", ATTACKS)
async def test_no_request_hides_another(fronted: Fronted, kind: str) -> None:
    """What a request hides is never one of its own, and no client gets the answer of another."""
    attacks = [
        attack(form, path, start)
        for number, form in enumerate(ATTACKS[kind])
        for path in _HIDDEN
        for start in (_POST, _OTHER_STARTS[number % 2])
    ]
    with structlog.testing.capture_logs() as lines:
        async with fronted.session() as session:
            sent = [asyncio.create_task(fronted.sent(each)) for each in attacks]
            while not all(task.done() for task in sent):
                await answered_well(fronted, session)
            answers = [await task for task in sent]
            assert any(b" 40" in answer for answer in answers)
            await answered_well(fronted, session)
        await fronted.site.clock.advance(60)
    assert fronted.site.requested == []
    assert FORGED not in str(lines)


async def test_an_attack_that_succeeds_would_show(fronted: Fronted) -> None:
    """Sent to the daemon past the proxy, the hidden requests do what the attacks are to do."""
    port = int(fronted.site.url.rpartition(":")[2])
    with structlog.testing.capture_logs() as lines:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_HIDDEN["/api/v1/track"].encode())
        async with asyncio.timeout(READ_SECONDS):
            assert b" 200 " in await reader.readline()
        writer.close()
    assert ("acme", "sync", None) in fronted.site.requested
    assert FORGED in str(lines)
