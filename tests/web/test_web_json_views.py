"""What every view has as JSON: entity tags, compression, HEAD, long lists."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import aiohttp
import msgspec
import pytest
from aiohttp import web
from msgspec import Struct

from monitor.web.access.routes import Routes
from monitor.web.api.json_api import JsonApi
from monitor.web.http.problem_details import StoreOutage, errors_as_problems
from monitor.web.http.response_writing import encode_in_slices, in_pieces
from monitor.web.settings import ServerSettings
from monitor.web.views.view import View
from tests.clocks import ManualClock
from tests.full_size import LINES_IN_A_STEP, counting_steps

AT = datetime(2026, 11, 21, 10, tzinfo=UTC)


class Row(Struct, frozen=True, rename="camel"):
    row_number: int
    at: datetime = AT
    name: str = "Orders \N{SNOWMAN} <b>"


class Rows(Struct, frozen=True):
    data: tuple[Row, ...]
    next: str | None = None


class RowsQuery(Struct, frozen=True, kw_only=True):
    workspace: str
    rows: int = 3


async def read(query: RowsQuery) -> Rows:
    return Rows(tuple(Row(number) for number in range(query.rows)), next=query.workspace)


VIEW = View(
    name="rows", summary="Rows.", api="/rows/{workspace}", query=RowsQuery, answer=Rows, read=read
)


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a client of a server that has one view."""
    app = web.Application(middlewares=[in_pieces, errors_as_problems(StoreOutage(ManualClock()))])
    routes = Routes()
    JsonApi(views=[VIEW], writes=(), raw=(), settings=ServerSettings()).add_routes(routes)
    routes.register(app.router)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with aiohttp.ClientSession(
        f"http://127.0.0.1:{runner.addresses[0][1]}", auto_decompress=False
    ) as session:
        yield session
    await runner.cleanup()


async def test_a_long_answer_keeps_its_cookies() -> None:
    """A form longer than a piece can be sent, too: its cookie comes with it."""

    async def form(_: web.Request) -> web.Response:
        answer = web.Response(text="x" * 1_000_000)
        answer.set_cookie("form", "1", httponly=True, samesite="Strict")
        return answer

    app = web.Application(middlewares=[in_pieces])
    app.router.add_get("/", form)
    runner = web.AppRunner(app)
    await runner.setup()
    await (site := web.TCPSite(runner, "127.0.0.1", 0)).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert len(await answer.text()) == 1_000_000
        assert answer.headers["Set-Cookie"] == "form=1; HttpOnly; Path=/; SameSite=Strict"
    await site.stop()
    await runner.cleanup()


async def ask(
    client: aiohttp.ClientSession, path: str, *, method: str = "GET", **headers: str
) -> tuple[aiohttp.ClientResponse, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client.request(method, path, headers=named) as response:
        return response, await response.read()


async def test_an_answer_that_a_client_holds_is_not_sent_again(
    client: aiohttp.ClientSession,
) -> None:
    """304 for any form of the entity tag, alone or among others; 200 for another answer's."""
    first, body = await ask(client, "/rows/acme", Accept_Encoding="identity")
    tag = first.headers["ETag"]
    strong = tag.removeprefix("W/")
    for held in (tag, strong, f'"other", {tag}', "*"):
        again, nothing = await ask(client, "/rows/acme", If_None_Match=held)
        assert (again.status, nothing, again.headers["ETag"]) == (304, b"", tag)
    for held in ('"other"', strong.strip('"'), "W/", f'"{strong[2:]}', "x" * 5_000):
        again, whole = await ask(
            client, "/rows/acme", If_None_Match=held, Accept_Encoding="identity"
        )
        assert (again.status, whole) == (200, body)
    other, _ = await ask(client, "/rows/acme?rows=4", If_None_Match=tag)
    assert other.status == 200
    assert other.headers["ETag"] != tag


@pytest.mark.parametrize("rows", [3, 100, 2_000], ids=["short", "one slice", "long"])
async def test_an_answer_is_compressed_where_the_client_takes_that(
    client: aiohttp.ClientSession, rows: int
) -> None:
    """Plain and compressed it is the same text, with the same tag; very short ones stay plain."""
    path = f"/rows/acme?rows={rows}"
    for refused in ("identity", "br", "gzip;q=0", "gzip; q=0.0, br", "x-gzipped"):
        plain, body = await ask(client, path, Accept_Encoding=refused)
        assert "Content-Encoding" not in plain.headers
    assert body == msgspec.json.encode(await read(RowsQuery(workspace="acme", rows=rows)))
    for taken in ("gzip", "deflate, GZIP;q=0.5, br", "*"):
        response, packed = await ask(client, path, Accept_Encoding=taken)
        assert response.headers["ETag"] == plain.headers["ETag"]
        assert response.headers["Vary"] == "Accept-Encoding"
        if rows == 3:
            assert packed == body
        else:
            assert gzip.decompress(packed) == body
            assert len(packed) < len(body) / 4


async def test_head_has_the_headers_alone(client: aiohttp.ClientSession) -> None:
    """A script learns size and tag of an answer without it."""
    whole, body = await ask(client, "/rows/acme?rows=2000", Accept_Encoding="identity")
    head, nothing = await ask(
        client, "/rows/acme?rows=2000", method="HEAD", Accept_Encoding="identity"
    )
    assert (head.status, nothing) == (200, b"")
    for name in ("ETag", "Content-Type", "Content-Length"):
        assert head.headers[name] == whole.headers[name]
    assert int(head.headers["Content-Length"]) == len(body)


async def test_a_problem_has_no_tag(client: aiohttp.ClientSession) -> None:
    """A problem of now may be right later, so it is not cached."""
    response, body = await ask(client, "/rows/acme?row=3", If_None_Match="*")
    assert response.status == 400
    assert b"did you mean rows?" in body
    assert "ETag" not in response.headers


async def test_a_long_list_does_not_hold_the_loop() -> None:
    """Its rows are encoded few at a time, to what they are in one go."""
    answer = Rows(tuple(Row(number) for number in range(20_000)), next="x")
    with counting_steps() as longest:
        body = await encode_in_slices(answer)
    assert body == msgspec.json.encode(answer)
    assert longest.lines <= LINES_IN_A_STEP
