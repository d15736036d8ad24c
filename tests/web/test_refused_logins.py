"""Wrong log-ins in the audit: in sum for each source, never a line for each guess."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import structlog

from monitor.model.errors import BusUnavailableError
from monitor.web.settings import ServerSettings
from tests.app.eventually import eventually
from tests.web.people import PEOPLE, bearer, token_of
from tests.web.serving import serving
from tests.web.site import Site

pytestmark = pytest.mark.parametrize("settings", [PEOPLE], ids=["people"])


async def guess(site: Site, number: int, *, source: str = "192.0.2.1") -> None:
    for _ in range(number):
        sent = {**bearer("read-user.a-wrong-secret"), "X-Forwarded-For": source}
        assert (await site.get("/api/v1/pipelines", headers=sent)).status in (401, 429)


async def audit(site: Site) -> list[dict[str, Any]]:
    answer = await site.get("/api/v1/audit", headers=bearer(token_of("admin-user")))
    assert answer.status == 200, answer.text
    rows: list[dict[str, Any]] = answer.document["data"]
    return rows


async def stored(site: Site, number: int, *, times: int) -> list[dict[str, Any]]:
    """Return the lines when there are so many, which count so many guesses together."""

    async def are_there() -> bool:
        rows = await audit(site)
        counted = sum(row["request"]["times"] for row in rows)
        return (len(rows), counted) == (number, times)

    await eventually(are_there, why="the audit has other lines", within_seconds=5)
    return await audit(site)


async def test_guesses_of_a_source_are_one_line_with_their_number(site: Site) -> None:
    """Those that were not looked at too; the line has no name, and nothing of what was sent."""
    await guess(site, 9)
    await site.clock.advance(60)
    (line,) = await stored(site, 1, times=9)

    assert (line["person"], line["source"], line["what"]) == ("stranger", "192.0.2.1", "log_in")
    assert line["result"] == "refused"
    assert line["request"]["last_at"] == line["at"]
    assert line["reason"] == "credentials were wrong, or not looked at after too many wrong ones"
    assert "a-wrong-secret" not in str(line)


async def test_the_line_of_a_day_grows_and_the_next_day_has_its_own(site: Site) -> None:
    """A guess a minute later is in the same line, one two days later in another."""
    await guess(site, 2)
    await site.clock.advance(60)
    (first,) = await stored(site, 1, times=2)
    await guess(site, 1)
    await site.clock.advance(60)
    (grown,) = await stored(site, 1, times=3)
    await site.clock.advance(172_800)
    await guess(site, 1)
    await site.clock.advance(60)
    later, same = await stored(site, 2, times=4)

    assert (grown["id"], same["id"]) == (first["id"], first["id"])
    assert later["request"]["times"] == 1


async def test_many_sources_fill_no_audit(site: Site) -> None:
    """Twenty of a day have lines of their own, and all others share one."""
    for number in range(42):
        await guess(site, 1, source=f"192.0.2.{number + 1}")
    await site.clock.advance(60)
    lines = await stored(site, 21, times=42)

    assert {line["source"]: line["request"]["times"] for line in lines}["others"] == 22


async def test_what_was_counted_last_is_stored_at_the_stop(
    tmp_path: Path, settings: ServerSettings
) -> None:
    """A daemon that ends within the minute loses no count."""
    async with serving(tmp_path, settings) as before:
        await guess(before, 3)
    async with serving(tmp_path, settings) as after:
        (line,) = await audit(after)
    assert line["request"]["times"] == 3


async def test_the_count_outlasts_an_outage_of_the_store(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the store takes nothing, a log line says so; later the line has all guesses."""

    async def refuse(*_: Any, **__: Any) -> None:
        raise BusUnavailableError("the disk is full")

    await guess(site, 2)
    with monkeypatch.context() as patched, structlog.testing.capture_logs() as lines:
        patched.setattr(site.bus.entries, "put", refuse)
        await site.clock.advance(60)
        await site.logged(lines)
    await guess(site, 1)
    await site.clock.advance(60)
    (line,) = await stored(site, 1, times=3)

    assert [line["event"] for line in lines] == ["refused writes wait for the audit"]
    assert line["request"]["times"] == 3
