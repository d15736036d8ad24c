"""The command ``sandbox`` as a person types it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from monitor.cli.main import main
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


async def count(session: aiohttp.ClientSession, access: dict[str, Any], path: str) -> int:
    """Return how much a list shows to the administrator, who sees what everybody owns."""
    headers = {"Authorization": f"Bearer {access['token']}"}
    query = (
        "includeCount=true&flowsFilter=all" if path == "flows" else "includeCount=true&runBy=all"
    )
    async with session.get(f"/v4/{path}?{query}", headers=headers) as response:
        number: int = (await response.json())["count"]
    return number


async def test_everybody_gets_in_with_the_token_that_is_printed() -> None:
    """--tokens shows name, role and token of all people; the API knows each by that token."""
    hurried = ("--speed", "10000")  # so that what started by itself would be there at once
    async with running("sandbox", "--quiet", "--tokens", "--json", *hurried) as process:
        access = await first_document(process.stdout)
        assert {person["name"]: person["role"] for person in access["people"]} == _PEOPLE
        assert access["people"][0]["token"] == access["token"]
        async with aiohttp.ClientSession(access["url"]) as session:
            for person in access["people"]:
                headers = {"Authorization": f"Bearer {person['token']}"}
                async with session.get("/v4/people/current", headers=headers) as response:
                    assert (await response.json())["email"] == person["email"]
            assert await count(session, access, "jobLibrary") == 0  # it is quiet


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


async def test_a_token_may_stand_in_a_file(tmp_path: Path) -> None:
    """Then no list of processes shows it."""
    path = tmp_path / "token"
    path.write_text("of-ada\n")
    async with running("sandbox", "--quiet", "--token-file", str(path)) as process:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            lines = [(await process.stdout.readline()).decode().split() for _ in range(2)]
    assert lines[1] == ["token:", "of-ada"]


async def test_a_past_and_many_flows_are_there_from_the_start() -> None:
    """--flows and --history give so many flows, and runs that took no real time."""
    options = ("--quiet", "--flows", "40", "--history", "90m", "--json")
    async with running("sandbox", *options) as process:
        access = await first_document(process.stdout)
        assert access.keys() == {"url", "token"}
        assert process.stderr is not None
        building, built = [(await process.stderr.readline()).decode() for _ in range(2)]
        assert building == "building 40 flows with 90m of history\n"
        pattern = (
            r"edition RL, seed 1: 40 flows, 4 plans, \d+ schedules, 4 people; [\d,]+ job groups"
        )
        assert re.match(rf"{pattern} since 20\d\d-\d\d-\d\d \d\d:\d\d UTC\n", built), built
        async with aiohttp.ClientSession(access["url"]) as session:
            assert await count(session, access, "flows") == 40
            assert await count(session, access, "jobLibrary") > 100


async def test_oauth_prints_what_a_program_needs_to_refresh() -> None:
    """URL, client and refresh token are printed; the pair works until it is revoked."""
    options = ("--quiet", "--oauth", "--access-token-seconds", "30", "--client-secret", "s3cret")
    async with running("sandbox", *options, "--tokens", "--json") as process:
        access = await first_document(process.stdout)
        assert list(access)[:4] == ["url", "token_url", "client_id", "client_secret"]
        assert access["people"][0]["refresh_token"] == access["refresh_token"]
        assert "token" not in access
        form = {name: access[name] for name in ("client_id", "client_secret", "refresh_token")}
        form["grant_type"] = "refresh_token"
        async with aiohttp.ClientSession() as session:
            async with session.post(access["token_url"], data=form) as response:
                answer = await response.json()
            assert (response.status, answer["expires_in"]) == (200, 30)
        async with aiohttp.ClientSession(access["url"]) as session:
            assert await count(session, {"token": answer["access_token"]}, "flows") == 8


async def test_oauth_is_printed_in_lines() -> None:
    """Without --json each value is a line, and the table shows refresh tokens of people."""
    async with running("sandbox", "--quiet", "--oauth", "--tokens") as process:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            lines = [(await process.stdout.readline()).decode().split() for _ in range(9)]
    assert [line[0] for line in lines[:4]] == ["url:", "token_url:", "client_id:", "refresh_token:"]
    assert lines[4] == ["name", "role", "refresh", "token"]
    assert lines[5][-1] == lines[3][1]
    assert [" ".join(line[:2]) for line in lines[5:]] == list(_PEOPLE)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--history -1d", "--history: '-1d' is no length of time; write one as 90s, 30m, 2h"),
        ("--history 7x", "--history: '7x' is no length of time"),
        ("--history 0d", "--history: '0d' is no length of time"),
        ("--history 400d", "--history: '400d' is too long; at most 30d are possible"),
        ("--flows 0", "Invalid value for '--flows'"),
        ("--oauth --token mine", "with --oauth no access token can be chosen"),
        ("--oauth --token-file mine", "with --oauth no access token can be chosen"),
        ("--token-file /nonexistent/token", "--token-file: '/nonexistent/token' cannot be read"),
        ("--oauth --access-token-seconds 0", "Invalid value for '--access-token-seconds'"),
        ("--flows 10001", "Invalid value for '--flows'"),
    ],
)
def test_a_value_that_cannot_be_is_one_error(
    options: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused with its name before anything starts, by exit code 2."""
    assert main(["sandbox", *options.split()]) == 2
    err = capsys.readouterr().err
    assert err.count(problem) == 1
    assert "Traceback" not in err
