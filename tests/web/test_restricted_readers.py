"""Readers of some workspaces: whatever else there is, they get the same answers."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.model.runs import RunKey, RunKind
from monitor.web.access.routes import Route
from tests.web.hidden_workspace import HIDDEN, MASKED, OUTAGE_AT, made, world
from tests.web.people import bearer, token_of
from tests.web.site import Site

READER = bearer(token_of("reader"))
ADMIN = bearer(token_of("admin-user"))


def paths(route: Route, workspace: str) -> list[str]:
    """Return addresses of a route: what it shows of a workspace, and by a filter for it."""
    words = {
        "workspace": workspace,
        "kind": "flow" if "pipeline" in route.path else "job_group",
        "id": f"id-of-{workspace}" if "pipeline" in route.path else f"{workspace}-0",
        "pipeline_id": f"id-of-{workspace}",
        "fingerprint": f"fires-{workspace}",
        "type": "run.failed",
        "name": "page.css",
        "at": OUTAGE_AT.isoformat(),
        "event_id": f"{workspace}:job_group:{workspace}-0:failed",
    }
    if route.path.startswith("/silences"):
        words["id"] = f"silence-{workspace}"
    path = re.sub(r"\{(\w+)(:[^}]*)?\}", lambda match: words[match[1]], route.path)
    queries = ["", f"?workspace={workspace}", f"?q={workspace}", f"?id={workspace}-0"]
    queries += [f"?last=100&limit=1000&workspace={workspace}", "?last=100", "?since=7d"]
    queries += [f"?matcher=workspace%3D{workspace}", f"?pipeline=orders+of+{workspace}"]
    return [path + query for query in queries]


async def answers(site: Site, workspace: str) -> dict[str, tuple[int, str]]:
    """Return what a reader gets of every route that can be read, streams apart."""
    found: dict[str, tuple[int, str]] = {}
    for route in site.server.routes():
        if route.method != "GET" or route.path in ("/live", "/api/v1/events/stream"):
            continue
        for path in paths(route, workspace):
            answer = await site.get(path, headers=READER)
            found[path] = answer.status, MASKED.sub("", answer.text)
    return found


@pytest.mark.parametrize("workspace", ["acme", HIDDEN])
async def test_nothing_else_makes_a_difference(tmp_path: Path, workspace: str) -> None:
    """With another workspace beside theirs readers get, byte by byte, what they get without it."""
    async with world(made(tmp_path, "one"), has_more=False) as alone:
        expected = await answers(alone, workspace)
    async with world(made(tmp_path, "two"), has_more=True) as site:
        found = await answers(site, workspace)
    different = {
        path: (expected[path], answer) for path, answer in found.items() if answer != expected[path]
    }

    assert different == {}
    assert sum(status == 200 for status, _ in found.values()) > 100


async def test_what_is_hidden_is_there_for_others(tmp_path: Path) -> None:
    """The same questions of an admin without restrictions have it everywhere."""
    async with world(made(tmp_path, "two"), has_more=True) as site:
        for path in ("/", "/runs", "/alerts", "/silences", "/api/v1/pipelines", "/api/v1/events"):
            assert HIDDEN in (await site.get(path, headers=ADMIN)).text
            assert HIDDEN not in (await site.get(path, headers=READER)).text


async def test_what_is_about_everything_is_refused(tmp_path: Path) -> None:
    """Store, outputs, cluster, replays and dead letters have no part that is one workspace's."""
    async with world(made(tmp_path, "two"), has_more=True) as site:
        wholes = [route for route in site.server.routes() if route.is_whole]
        refused: list[int] = []
        for route in wholes:
            path = re.sub(r"\{[^}]+\}", "x", route.path)
            async with site.session.request(
                route.method, site.url + path, headers=READER
            ) as response:
                refused.append(response.status)
                assert "some workspaces only" in await response.text()
        menu = (await site.get("/", headers=READER)).text

    assert set(refused) == {403}
    assert len(wholes) >= 8
    assert 'href="/monitor"' not in menu


async def test_others_cannot_be_changed(tmp_path: Path) -> None:
    """Silences, acknowledgements and requests reach the workspaces that are seen, and no others."""
    async with world(made(tmp_path, "two"), has_more=True) as site:
        ends_at = (site.clock.now() + timedelta(hours=1)).isoformat()

        async def post(path: str, **body: Any) -> int:
            answer = await site.post(path, json=body, headers=READER)
            return answer.status

        def silence(*matchers: str) -> dict[str, Any]:
            return {"matchers": matchers, "ends_at": ends_at, "author": "x", "comment": "x"}

        own = await post("/api/v1/silences", **silence("workspace=acme", "pipeline=o*"))
        wide = await post("/api/v1/silences", **silence("severity=critical"))
        globbed = await post("/api/v1/silences", **silence("workspace=*"))
        other = await post("/api/v1/silences", **silence(f"workspace={HIDDEN}"))
        tracked = await post("/api/v1/track", workspace=HIDDEN, kind="job_group", id="1")
        async with site.session.delete(
            f"{site.url}/api/v1/silences/silence-{HIDDEN}", headers=READER
        ) as response:
            expired = response.status
        acknowledged = await post(
            "/api/v1/acknowledgements",
            fingerprint=f"fires-{HIDDEN}",
            starts_at=site.clock.now().isoformat(),
            author="x",
        )
        silences = {silence.id for silence in site.alerting.snapshot.silences}

    assert own == 201
    assert (wide, globbed) == (409, 409)
    assert other in (400, 409)
    assert tracked in (400, 404, 409)
    assert (expired, acknowledged) == (404, 404)
    assert f"silence-{HIDDEN}" in silences
    assert site.requested == []


async def test_a_stream_has_the_events_of_what_is_seen(tmp_path: Path) -> None:
    """What is recorded of others in between is passed over, without an end of the stream."""
    async with world(made(tmp_path, "two"), has_more=True) as site:
        url = f"{site.url}/api/v1/events/stream?after=0"
        async with site.session.get(url, headers=READER) as response:
            await site.observe(
                site.run("9", key=RunKey(HIDDEN, RunKind.JOB_GROUP, "9")), site.run("10")
            )
            text = ""
            async for line in response.content:
                text += line.decode()
                if "acme:job_group:10:" in text:
                    break

    assert "acme:job_group:acme-0:failed" in text
    assert HIDDEN not in text


async def test_metrics_have_the_series_of_what_is_seen(tmp_path: Path) -> None:
    """Of every family the series of those workspaces; sums over everything are left out."""
    async with world(made(tmp_path, "two"), has_more=True) as site:
        whole = (await site.get("/metrics", headers=ADMIN)).text
        own = (await site.get("/metrics", headers=READER)).text

    assert "some 1.0" in whole
    assert "some 1.0" not in own
