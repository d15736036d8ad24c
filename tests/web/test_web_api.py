"""The JSON API: responses, requests, and problems."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from monitor.model.runs import Parents, RunKey, RunKind, Status
from tests.web.site import Answer, Site

JSON = {"Content-Type": "application/json"}


def problem(answer: Answer) -> tuple[int, str]:
    """Return status and detail of an answer that must be a problem as RFC 9457 has it."""
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert set(answer.document) == {"type", "title", "status", "detail"}
    assert answer.document["status"] == answer.status
    return answer.status, answer.document["detail"]


@pytest.mark.parametrize(
    ("path", "status", "detail"),
    [
        ("/api/v1/runs?limit=many", 400, "limit: 'many' is not a number from 1 to 1000"),
        ("/api/v1/runs?limit=-1", 400, "limit: '-1' is not a number from 1 to 1000"),
        ("/api/v1/runs?limit=1001", 400, "limit: '1001' is not a number from 1 to 1000"),
        ("/api/v1/runs?workspace=acm", 400, "workspace: 'acm' is not known; did you mean acme?"),
        ("/api/v1/pipelines?workspace=other", 400, "workspace: 'other' is not known; known: acme"),
        ("/api/v1/schedules?workspace=x", 400, "workspace: 'x' is not known; known: acme"),
        ("/api/v1/runs/acm/job_group/9", 404, "workspace: 'acm' is not known; did you mean acme?"),
        ("/api/v1/runs?kind=flow", 400, "kind: 'flow' is none of flow_run, job_group, plan_run"),
        ("/api/v1/runs?status=ok", 400, "status: 'ok' is none of active, pending, running, "),
        ("/api/v1/runs?since=noon", 400, "since: 'noon' is not an ISO 8601 instant, nor a time"),
        ("/api/v1/runs?cursor=x", 400, "cursor: 'x' is not one of this list"),
        ("/api/v1/events?after=x", 400, "after: 'x' is not a number from 0 to "),
        ("/api/v1/events?after=99999999999999999999", 400, "after: '99999999999999999999' is"),
        ("/api/v1/events?since=today", 400, "since: 'today' is not an ISO 8601 instant"),
        ("/api/v1/events?since=2026-11-21T10:00", 400, "since: '2026-11-21T10:00' names no time"),
        ("/api/v1/runs/acme/flow/1", 404, "kind: 'flow' is none of flow_run, job_group, plan_run"),
        ("/api/v1/runs/acme/job_group/9", 404, "run acme:job_group:9 is not known, or was"),
        ("/api/v1/nothing", 404, "there is nothing under this address; /api/v1/openapi.json"),
        ("/api/v1/track", 405, "GET is not allowed here, only POST"),
    ],
)
async def test_an_invalid_query_names_the_problem(
    site: Site, path: str, status: int, detail: str
) -> None:
    """The answer is a problem that names the parameter, its value and what would be right."""
    answered, text = problem(await site.get(path))
    assert answered == status
    assert text.startswith(detail)


async def test_runs_are_listed_and_chosen(site: Site) -> None:
    """The newest first, by kind, status and workspace, at most ``limit``."""
    await site.observe(site.run("1", Status.FAILED))
    await site.clock.advance(1)
    await site.observe(site.run("2"), site.run("3", key=RunKey("acme", RunKind.PLAN_RUN, "3")))

    async def ids(query: str) -> list[str]:
        return [run["id"] for run in (await site.get(f"/api/v1/runs{query}")).document["data"]]

    assert set(await ids("")) == {"1", "2", "3"}
    assert (await ids(""))[-1] == "1"
    assert await ids("?status=failed") == ["1"]
    assert await ids("?kind=plan_run") == ["3"]
    assert len(await ids("?limit=2")) == 2
    assert await ids("?workspace=acme&status=lost") == []


async def test_runs_of_a_workspace_that_was_followed_once_are_listed(site: Site) -> None:
    """It is no longer configured, and its runs can still be read."""
    key = RunKey("former", RunKind.JOB_GROUP, "4")
    await site.observe(site.run("4", Status.FAILED, key=key))
    answer = await site.get("/api/v1/runs?workspace=former")
    assert [run["id"] for run in answer.document["data"]] == ["4"]


async def test_a_run_is_shown_with_its_children(site: Site) -> None:
    """A flow run's page holds the job groups that it is made of."""
    parent = site.run("5", key=RunKey("acme", RunKind.FLOW_RUN, "5"))
    await site.observe(parent, site.run("6", parents=Parents(flow_run="5")), site.run("7"))
    document = (await site.get("/api/v1/runs/acme/flow_run/5")).document
    assert document["run"]["pipeline"] == "orders"
    assert [child["id"] for child in document["children"]] == ["6"]


async def test_a_status_is_never_older_than_its_stamp(site: Site) -> None:
    """Past the limit an active run is unknown and keeps its last status; an end stays."""
    await site.observe(site.run("1"), site.run("2", Status.SUCCEEDED))
    await site.clock.advance(601)
    shown = {run["id"]: run for run in (await site.get("/api/v1/runs")).document["data"]}
    assert (shown["1"]["status"], shown["1"]["last_status"]) == ("unknown", "running")
    assert shown["2"]["status"] == "succeeded"
    (running,) = (await site.get("/api/v1/running")).document["data"]
    assert (running["status"], running["last_status"]) == ("unknown", "running")
    assert "last running, confirmed" in (await site.get("/")).text


async def test_events_are_read_page_by_page(site: Site) -> None:
    """The cursor leads through the whole log once, and ``last`` and ``since`` begin later."""
    for number in range(5):
        await site.observe(site.run(str(number)))
        await site.clock.advance(10)

    run_ids: list[str] = []
    cursor = 0
    while page := (await site.get(f"/api/v1/events?after={cursor}&limit=2")).document["data"]:
        run_ids.extend(row["data"]["run"]["id"] for row in page)
        cursor = int(page[-1]["sequence"])
    assert run_ids == ["0", "1", "2", "3", "4"]

    async def begin(query: str) -> str:
        page = (await site.get(f"/api/v1/events?{query}")).document["data"]
        return str(page[0]["data"]["run"]["id"])

    assert await begin("last=2") == "3"
    assert await begin("since=2026-11-21T10:00:20Z") == "2"
    assert await begin("since=2026-11-21T11:00:15%2B01:00") == "2"


async def test_workspaces_and_pipelines_are_shown(site: Site) -> None:
    """A workspace that has not answered yet is shown as unknown, not as well."""
    (shown,) = (await site.get("/api/v1/workspaces")).document["data"]
    assert (shown["workspace"], shown["reachability"], shown["active_runs"]) == (
        "acme",
        "unknown",
        0,
    )
    assert (await site.get("/api/v1/pipelines")).document["data"] == []


async def test_a_track_request_reaches_the_daemon(site: Site) -> None:
    """The request reaches the left side, and its sentence comes back with 202."""
    answer = await site.post("/api/v1/track", json={"kind": "flow_run", "id": "12"})
    assert (answer.status, answer.document) == (202, {"detail": "following 12"})
    assert site.requested == [("acme", RunKind.FLOW_RUN, "12")]
    denied = await site.post("/api/v1/track", json={"kind": "flow_run", "id": "404"})
    assert problem(denied) == (404, "there is no such run")


@pytest.mark.parametrize(
    ("body", "problem_text"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`"),
        (b'{"kind":"flow_run"}', "missing required field `id`"),
        (b'{"kind":"flow","id":"1"}', "Invalid enum value 'flow'"),
        (b'{"kind":"flow_run","id":1}', "Expected `str`"),
        (b'{"kind":"flow_run","id":"1","more":1}', "unknown field `more`"),
        (b'{"kind":"flow_run","id":"\xff"}', "body: "),
    ],
)
async def test_an_invalid_body_requests_nothing(site: Site, body: bytes, problem_text: str) -> None:
    """A missing, unknown or mistyped field is named, and nothing is done."""
    status, detail = problem(await site.post("/api/v1/track", data=body, headers=JSON))
    assert status == 400
    assert problem_text in detail
    assert site.requested == []


async def test_a_foreign_page_cannot_steer_the_daemon(site: Site) -> None:
    """A browser's cross-site request without preflight is no JSON, and is refused."""
    body = json.dumps({"kind": "flow_run", "id": "1"})
    for content_type in ("text/plain", "application/x-www-form-urlencoded"):
        sent = await site.post("/api/v1/track", data=body, headers={"Content-Type": content_type})
        assert problem(sent)[0] == 415
    assert site.requested == []


async def test_a_body_in_pieces_is_read_whole(site: Site) -> None:
    """A body arrives as the network has it; one that is too large is refused."""

    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b'{"action":', b'"sync","flow"', b':"7"}'):
            yield piece

    answer = await site.post("/api/v1/webhooks", data=pieces(), headers=JSON)
    assert [row["flow_id"] for row in answer.document["data"]] == ["7"]
    large = b'{"action":"' + b"x" * 70_000 + b'"}'
    assert problem(await site.post("/api/v1/webhooks", data=large, headers=JSON))[0] == 413


async def test_an_unknown_action_is_refused(site: Site) -> None:
    """Listing changes nothing and is a GET; other actions are named."""
    answer = await site.post("/api/v1/webhooks", json={"action": "list"})
    assert problem(answer) == (
        400,
        "body: Invalid enum value 'list' - at `$.action`, which is none of sync, test, delete",
    )
    (row,) = (await site.get("/api/v1/webhooks?workspace=acme")).document["data"]
    assert (row["workspace"], row["flow"], row["state"]) == ("acme", "orders", "registered")
    assert site.requested == [("acme", "list", None)]
