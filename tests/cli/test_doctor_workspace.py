"""``doctor`` reports on each workspace, healthy and broken."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from monitor.catalogue.operations import Edition
from monitor.model.secrets import Secret
from tests.cli.doctor_scenario import EditionWorkspace, Report, outcomes, run_checks, workspace_at
from tests.clocks import ManualClock
from tests.polling.tiny_workspace import FORBIDDEN, OVERLOADED, stamp


@pytest.fixture
async def workspace() -> AsyncIterator[EditionWorkspace]:
    """A workspace of edition RL with two people's flows and one schedule."""
    made = EditionWorkspace(ManualClock())
    made.become(Edition.RL)
    made.put_flow(1, owner_id=4)
    made.put_flow(2, owner_id=5)
    made.put_schedule(1)
    await made.start()
    yield made
    await made.stop()


async def report_on(workspace: EditionWorkspace, folder: Path, **settings: Any) -> Report:
    return await run_checks(folder, workspace_at(workspace.url, **settings), clock=workspace.clock)


async def test_a_healthy_workspace_is_ok_line_by_line(
    workspace: EditionWorkspace, tmp_path: Path
) -> None:
    """Each check of a workspace has its line, in one order, and none needs a hint."""
    report = await report_on(workspace, tmp_path)
    ours = [subject for subject in report if subject.startswith("acme ")]
    assert ours == [
        "acme reachability",
        "acme TLS",
        "acme clock",
        "acme token",
        "acme token expiry",
        "acme edition",
        "acme capabilities",
        "acme schedules",
        "acme flows and plans",
        "acme rate limits",
        "acme callbacks",
        "acme webhook tasks",
    ]
    assert set(outcomes(report).values()) == {"ok"}
    assert report["acme token"].found == "accepted; it belongs to ada@example.com"
    assert report["acme edition"].found.startswith("RL is found: ")
    assert report["acme capabilities"].found == ("switched off: not part of edition RL: read_usage")
    assert report["acme schedules"].found == (
        "1 visible, 0 of them disabled; all of ada@example.com, those of others are not watched"
    )
    assert "2 flows of 2 owners" in report["acme flows and plans"].found
    assert "sends none; our own budget is 120" in report["acme rate limits"].found


async def test_a_workspace_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    """Nothing listens: that is the failure; what rests on it has no line of its own."""
    for url in ("http://127.0.0.1:9", "https://127.0.0.1:9"):
        report = await run_checks(tmp_path, workspace_at(url))
        ill = {subject: line for subject, line in report.items() if line.outcome != "ok"}
        assert list(ill) == ["acme reachability"]
        assert "nothing listens on port 9" in ill["acme reachability"].found
        assert "the other checks need this" in str(ill["acme reachability"].hint)


async def test_a_workspace_that_answers_503_fails(
    workspace: EditionWorkspace, tmp_path: Path
) -> None:
    """An overloaded workspace is reported by its status."""
    workspace.faults = {".*": OVERLOADED}
    report = await report_on(workspace, tmp_path)
    assert report["acme reachability"].outcome == "failed"
    assert "503" in report["acme reachability"].found


@pytest.mark.parametrize("status", [200, 302, 404])
async def test_the_address_of_a_page_is_no_api(tmp_path: Path, status: int) -> None:
    """A url that leads to a web page is distinguished from a workspace that is down."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(
            text="<html>", content_type="text/html", status=status, headers={"Location": "/"}
        )

    app = web.Application()
    app.router.add_get("/{path:.*}", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        report = await run_checks(tmp_path, workspace_at(url))
    finally:
        await runner.cleanup()
    (line,) = [line for line in report.values() if line.outcome != "ok"]
    assert (line.subject, line.outcome) == ("acme reachability", "failed")
    assert "answers, but not as the API does" in line.found
    assert "not the page's" in str(line.hint)


@pytest.mark.parametrize(
    ("seconds", "outcome", "words"),
    [
        (0, "ok", "differs from ours by 0 s"),
        (29, "ok", "differs from ours by"),
        (60, "warning", "s ahead of ours"),
        (-300, "warning", "s behind ours"),
    ],
)
async def test_a_clock_that_is_off_is_a_warning(
    workspace: EditionWorkspace, tmp_path: Path, seconds: int, outcome: str, words: str
) -> None:
    """A clock more than 30 seconds off in either direction is a warning."""
    workspace.offset = timedelta(seconds=seconds)
    line = (await report_on(workspace, tmp_path))["acme clock"]
    assert (line.outcome, words in line.found) == (outcome, True), line


async def test_a_workspace_that_reports_no_time_is_a_warning(
    workspace: EditionWorkspace, tmp_path: Path
) -> None:
    """Watermarks rest on the Date header, so its absence is reported."""
    workspace.sends_date = False
    assert (await report_on(workspace, tmp_path))["acme clock"].outcome == "warning"


async def test_a_refused_token_fails_and_is_not_shown(
    workspace: EditionWorkspace, tmp_path: Path
) -> None:
    """The hint is a new token; what rests on it has no line of its own."""
    workspace.faults = {".*": (401, "AuthenticationException")}
    report = await report_on(workspace, tmp_path, token=Secret("the-token-itself"))
    assert outcomes(report)["acme reachability"] == "ok"
    assert report["acme token"].outcome == "failed"
    assert report["acme token"].found.startswith("refused: ")
    assert "make a new token" in str(report["acme token"].hint)
    assert [subject for subject, outcome in outcomes(report).items() if outcome != "ok"] == [
        "acme token"
    ]
    assert "the-token-itself" not in str(report)


async def test_a_missing_token_that_is_required_fails(
    workspace: EditionWorkspace, tmp_path: Path
) -> None:
    """A token that is missing is distinguished from one that is refused."""
    workspace.faults = {".*": (401, "AuthenticationException")}
    line = (await report_on(workspace, tmp_path, token=None))["acme token"]
    assert (line.outcome, line.found[:18]) == ("failed", "none is configured")


async def test_a_token_of_a_disabled_person_fails(
    workspace: EditionWorkspace, tmp_path: Path
) -> None:
    """A person who was disabled will lose the token next."""
    workspace.person["isDisabled"] = True
    assert (await report_on(workspace, tmp_path))["acme token"].outcome == "failed"


def jwt(expires_at: datetime) -> Secret:
    parts = ({"alg": "none"}, {"exp": int(expires_at.timestamp())})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts]
    return Secret(b".".join([*encoded, b"signature"]).decode())


@pytest.mark.parametrize(
    ("days", "outcome", "words"),
    [
        (300, "ok", "valid until "),
        (3, "warning", "3 days from now"),
        (-1, "failed", "it expired on"),
    ],
)
async def test_a_token_that_reports_its_end_is_believed(
    workspace: EditionWorkspace, tmp_path: Path, days: int, outcome: str, words: str
) -> None:
    """The end stands in a JWT; soon is a warning, past is a failure, also with no answer."""
    token = jwt(workspace.clock.now() + timedelta(days=days, hours=1))
    for url in (workspace.url, "http://127.0.0.1:9"):
        report = await run_checks(tmp_path, workspace_at(url, token=token), clock=workspace.clock)
        line = report["acme token expiry"]
        assert (line.outcome, words in line.found) == (outcome, True), line


async def test_an_expired_token_that_is_refused_is_one_line(
    workspace: EditionWorkspace, tmp_path: Path
) -> None:
    """It is refused because it has expired: one fault, one line."""
    workspace.faults = {".*": (401, "AuthenticationException")}
    report = await report_on(workspace, tmp_path, token=jwt(workspace.clock.now() - timedelta(1)))
    (line,) = [line for line in report.values() if line.outcome != "ok"]
    assert (line.subject, line.outcome) == ("acme token expiry", "failed")


@pytest.mark.parametrize(
    ("token", "ids", "outcome"),
    [
        ("opaque", ["one"], "warning"),  # the only one must be ours
        (base64.b64encode(b'{"tokenId":"two"}').decode(), ["one", "two"], "warning"),
        ("opaque", ["one", "two"], "ok"),  # which is ours is unknown
        ("opaque", [], "ok"),
    ],
)
async def test_the_workspace_may_report_when_the_token_ends(
    workspace: EditionWorkspace, tmp_path: Path, token: str, ids: list[str], outcome: str
) -> None:
    """Where the edition lists tokens, ours is found by its id or because there is one only."""
    ends = stamp(workspace.clock.now() + timedelta(days=2))
    workspace.tokens = [{"tokenId": id_, "expiredAt": ends} for id_ in ids]
    report = await report_on(workspace, tmp_path, token=Secret(token))
    assert outcomes(report)["acme token expiry"] == outcome


async def test_a_token_without_an_end_is_ok(workspace: EditionWorkspace, tmp_path: Path) -> None:
    """A token that never ends is listed without a date."""
    workspace.tokens = [{"tokenId": "one", "expiredAt": None}]
    line = (await report_on(workspace, tmp_path))["acme token expiry"]
    assert (line.outcome, line.found) == ("ok", "the workspace shows no expiry")


@pytest.mark.parametrize(
    ("served", "configured", "outcome", "words"),
    [
        (Edition.RL, Edition.RL, "ok", "RL, as configured"),
        (Edition.LE, None, "ok", "LE is found"),
        (Edition.LE, Edition.RL, "failed", "RL is configured and has"),
        (Edition.RL, Edition.LE, "warning", "LE is configured; RL fits best"),
        (Edition.RL, Edition.OPEN, "warning", "open is configured; RL fits best"),
    ],
)
async def test_the_edition_found_stands_beside_the_configured_one(
    workspace: EditionWorkspace,
    tmp_path: Path,
    served: Edition,
    configured: Edition | None,
    outcome: str,
    words: str,
) -> None:
    """An edition with missing operations fails, one that leaves some out is a warning."""
    workspace.become(served)
    report = await report_on(workspace, tmp_path, edition=configured)
    line = report["acme edition"]
    assert (line.outcome, words in line.found) == (outcome, True), line
    assert ("acme capabilities" in report) == (outcome != "failed"), "one fault, one line"
    if outcome != "ok":
        assert f'edition = "{served}" or "auto"' in str(line.hint)


async def test_an_edition_that_is_partly_visible_is_a_warning(
    workspace: EditionWorkspace, tmp_path: Path
) -> None:
    """A read that fails for now proves nothing, so the edition is not certain."""
    workspace.refuse("listPlans", OVERLOADED)
    line = (await report_on(workspace, tmp_path))["acme edition"]
    assert (line.outcome, line.hint) == ("warning", "run doctor again later")


@pytest.mark.parametrize(
    ("edition", "refused", "outcome", "words"),
    [
        (Edition.RL, "listPlans", "warning", "refused to this token: list_plans"),
        (Edition.RL, "listJobLibrary", "failed", "refused to this token: list_changes"),
        (Edition.LE, None, "warning", "not part of edition LE: "),
        (Edition.PC, None, "failed", "not part of edition PC: "),
    ],
)
async def test_switched_off_capabilities_are_reported_with_their_reason(
    workspace: EditionWorkspace,
    tmp_path: Path,
    edition: Edition,
    refused: str | None,
    outcome: str,
    words: str,
) -> None:
    """Missing rights are distinguished from operations that no token has there."""
    workspace.become(edition)
    if refused is not None:
        workspace.refuse(refused, FORBIDDEN)
    line = (await report_on(workspace, tmp_path, edition=edition))["acme capabilities"]
    assert (line.outcome, words in line.found) == (outcome, True), line


async def test_schedules_and_flows_that_are_not_shared_are_warnings(
    workspace: EditionWorkspace, tmp_path: Path
) -> None:
    """A token without access to these lists is a warning that names the possible owners."""
    workspace.tables["schedules"].clear()
    workspace.tables["flows"].clear()
    report = await report_on(workspace, tmp_path)
    assert outcomes(report)["acme schedules"] == "warning"
    assert "a token of the person who owns" in str(report["acme schedules"].hint)
    assert outcomes(report)["acme flows and plans"] == "warning"
    queries = [query for path, query in workspace.requests if path == "flows" and "sort" in query]
    assert [query["flowsFilter"] for query in queries] == ["all"]


async def test_lists_that_are_not_served_are_no_problem(
    workspace: EditionWorkspace, tmp_path: Path
) -> None:
    """An edition without schedules, plans and person is reported, once each."""
    workspace.become(Edition.LE)
    report = await report_on(workspace, tmp_path)
    assert report["acme schedules"].found.startswith("not offered")
    assert report["acme token"].found == "accepted; this edition does not show whose it is"


@pytest.mark.parametrize(("left", "outcome"), [(40, "ok"), (0, "warning")])
async def test_quotas_are_reported_as_the_workspace_reports_them(
    workspace: EditionWorkspace, tmp_path: Path, left: int, outcome: str
) -> None:
    """Limit and rest stand beside our own budget; a quota that is used up is a warning."""
    quota_headers = {
        "x-rate-limit-user-limit": "60",
        "x-rate-limit-user-remaining": str(left),
        "x-rate-limit-user-reset": str(int(workspace.clock.now().timestamp()) + 30),
    }
    workspace.before_answer = lambda path, query: (
        workspace.headers.update(quota_headers) if path == "plans" and "sort" in query else None
    )
    line = (await report_on(workspace, tmp_path))["acme rate limits"]
    assert (line.outcome, "user 60 a minute" in line.found) == (outcome, True), line
