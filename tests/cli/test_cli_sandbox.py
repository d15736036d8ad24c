"""The command ``sandbox`` as a person types it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp

from tests.app.processes import running

_PEOPLE = {
    "Ada Lindqvist": "administrator",
    "Bruno Okafor": "member",
    "Chiyo Tanaka": "member",
    "Dana Novak": "member",
}


async def first_document(stream: asyncio.StreamReader | None) -> dict[str, Any]:
    """Return the JSON document that a command prints before it goes on."""
    assert stream is not None
    async with asyncio.timeout(30):
        text = await stream.readuntil(b"\n}\n")
    document: dict[str, Any] = json.loads(text)
    return document


async def test_everybody_gets_in_with_the_token_that_is_printed() -> None:
    """--tokens shows name, role and token of all people; the API knows each by that token."""
    async with running("sandbox", "--quiet", "--tokens", "--json") as process:
        access = await first_document(process.stdout)
        assert {person["name"]: person["role"] for person in access["people"]} == _PEOPLE
        assert access["people"][0]["token"] == access["token"]
        async with aiohttp.ClientSession(access["url"]) as session:
            for person in access["people"]:
                headers = {"Authorization": f"Bearer {person['token']}"}
                async with session.get("/v4/people/current", headers=headers) as response:
                    assert (await response.json())["email"] == person["email"]


async def test_the_people_are_a_table_below_the_token() -> None:
    """Without --json url and token come first, as without --tokens; each token is in one piece."""
    async with running("sandbox", "--quiet", "--tokens", "--token", "of-ada") as process:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            lines = [(await process.stdout.readline()).decode().split() for _ in range(7)]
    assert lines[0][0] == "url:"
    assert lines[1] == ["token:", "of-ada"]
    assert lines[2] == ["name", "role", "token"]
    assert lines[3] == ["Ada", "Lindqvist", "administrator", "of-ada"]
    assert [" ".join(line[:2]) for line in lines[3:]] == list(_PEOPLE)
