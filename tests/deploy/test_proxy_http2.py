"""HTTP/2 at the proxy, HTTP/1.1 behind it: a frame cannot carry what would be a second request."""

from __future__ import annotations

import asyncio
import struct

import structlog

from tests.deploy.proxies import NAME, READ_SECONDS, Fronted
from tests.web.people import token_of

FORGED = "192.0.2.66"
_JSON = '{"workspace":"acme","action":"sync"}'
# Whom it names the daemon believes of its proxy alone.
_HIDDEN = (
    f"POST /api/v1/webhooks HTTP/1.1\r\nHost: {NAME}\r\nX-Forwarded-For: {FORGED}\r\n"
    "X-Forwarded-User: admin-user@example.com\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(_JSON)}\r\n\r\n{_JSON}"
)
_DATA, _HEADERS, _RESET, _SETTINGS, _GOAWAY = 0, 1, 3, 4, 7
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
TO = {":method": "POST", ":scheme": "https", ":authority": NAME, ":path": "/api/v1/track"}
AS_READER = {"authorization": f"Bearer {token_of('read-user')}"}


def frame(kind: int, flags: int, payload: bytes, stream: int = 1) -> bytes:
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes([kind, flags])
        + struct.pack(">I", stream)
        + payload
    )


def text(value: str) -> bytes:
    """Return a text as HPACK has it, without compression."""
    data = value.encode("latin-1")
    length = bytes([len(data)]) if len(data) < 127 else b"\x7f" + _rest(len(data) - 127)
    return length + data


def _rest(number: int) -> bytes:
    pieces = bytearray()
    while number >= 128:
        pieces.append(number % 128 + 128)
        number //= 128
    pieces.append(number)
    return bytes(pieces)


def request(headers: dict[str, str], body: str) -> bytes:
    """Return the frames of a request, with any headers."""
    fields = b"".join(b"\0" + text(name) + text(value) for name, value in headers.items())
    return frame(_HEADERS, _END_HEADERS, fields) + frame(_DATA, _END_STREAM, body.encode())


async def answered(fronted: Fronted, sent: bytes) -> bool:
    """Send frames on a connection of their own; False where the proxy refuses the request."""
    reader, writer = await fronted.connect(protocol="h2")
    tls = writer.get_extra_info("ssl_object")
    assert tls.selected_alpn_protocol() == "h2"
    try:
        writer.write(_PREFACE + frame(_SETTINGS, 0, b"", 0) + sent)
        async with asyncio.timeout(READ_SECONDS):
            while True:
                head = await reader.readexactly(9)
                await reader.readexactly(int.from_bytes(head[:3], "big"))
                if head[3] == _SETTINGS and not head[4] & _ACK:
                    writer.write(frame(_SETTINGS, _ACK, b"", 0))
                if head[3] in (_RESET, _GOAWAY):
                    return False
                if head[4] & _END_STREAM and head[3] in (_DATA, _HEADERS):
                    return True
    except (asyncio.IncompleteReadError, ConnectionError):
        return False
    finally:
        writer.transport.abort()


ATTACKS = {
    "H2.CL": ({**TO, **AS_READER, "content-length": "0"}, _HIDDEN),
    "H2.TE": ({**TO, **AS_READER, "transfer-encoding": "chunked"}, f"0\r\n\r\n{_HIDDEN}"),
    "line in a value": ({**TO, "x": f"y\r\n\r\n{_HIDDEN}"}, ""),
    "line in a name": ({**TO, "x: y\r\n\r\n" + _HIDDEN: "z"}, ""),
    "line in the path": ({**TO, ":path": f"/ HTTP/1.1\r\nHost: {NAME}\r\n\r\n{_HIDDEN}"}, ""),
    "line in the method": ({**TO, ":method": f"GET / HTTP/1.1\r\nHost: x\r\n\r\n{_HIDDEN}"}, ""),
    "line in the host": ({**TO, ":authority": f"{NAME}\r\n\r\n{_HIDDEN}"}, ""),
    "bare lines": ({**TO, "x": f"y\n\n{_HIDDEN}"}, ""),
    "two hosts": ({**TO, **AS_READER, "host": "evil.example"}, "{}"),
    "a user": ({**TO, "x-forwarded-user": "admin-user@example.com"}, _JSON),
}


async def test_no_frame_hides_a_request(fronted: Fronted) -> None:
    """Lengths, encodings and line ends that HTTP/2 ignores make nothing of their own behind it."""
    others = {**TO, ":method": "GET", ":path": "/healthz"}
    for kind, (headers, body) in ATTACKS.items():
        with structlog.testing.capture_logs() as lines:
            await answered(fronted, request(headers, body))
            assert await answered(fronted, request(others, "")), kind
            await fronted.site.clock.advance(60)
        assert fronted.site.requested == [], kind
        assert FORGED not in str(lines), kind


async def test_frames_of_a_true_request_arrive(fronted: Fronted) -> None:
    """What the attacks are made of is a request, where nothing is wrong with it."""
    track = '{"workspace":"acme","kind":"job_group","id":"7"}'
    headers = {
        **TO,
        "authorization": f"Bearer {token_of('admin-user')}",
        "content-type": "application/json",
    }
    assert await answered(fronted, request(headers, track))
    assert [requested[-1] for requested in fronted.site.requested] == ["7"]
