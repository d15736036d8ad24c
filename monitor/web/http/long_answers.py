"""Writes long answers in pieces: one write of megabytes would hold the event loop."""

from __future__ import annotations

import asyncio

from aiohttp import hdrs, web

from monitor.web.http.problem_details import Handler

_PIECE_BYTES = 256 * 1024


@web.middleware
async def in_pieces(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Send a body of more than a piece in pieces, and let other tasks run between them."""
    answer = await handler(request)
    body = answer.body if isinstance(answer, web.Response) else None
    if (
        not isinstance(body, bytes | bytearray)
        or len(body) <= _PIECE_BYTES
        or request.method == hdrs.METH_HEAD
    ):
        return answer
    streamed = web.StreamResponse(status=answer.status, headers=answer.headers)
    streamed.cookies.load(answer.cookies)
    streamed.content_length = len(body)
    await streamed.prepare(request)
    for start in range(0, len(body), _PIECE_BYTES):
        await streamed.write(body[start : start + _PIECE_BYTES])
        await asyncio.sleep(0)
    await streamed.write_eof()
    return streamed
