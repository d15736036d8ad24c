"""One request: what is sent, what is tried again, and which error each answer becomes."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from monitor import __version__
from monitor.catalogue.operations import Edition
from monitor.model.errors import (
    NoSuchObjectError,
    NotAvailableError,
    RequestRejectedError,
    ThrottledError,
    UnauthorizedError,
    WorkspaceError,
    WorkspaceUnreachableError,
)
from monitor.model.secrets import Secret
from monitor.workspace.client import Priority
from tests.workspace.scripted import (
    TOKEN,
    SkippingClock,
    answer,
    client_of,
    recorded,
    refusal,
    serving,
)

ROW = {"id": 7, "status": "Complete"}
ROUTE = refusal(404, "RouteNotFoundException")


async def test_a_request_carries_token_and_agent() -> None:
    """Every request names us and the token's bearer, below the configured base path."""
    async with serving(answer(ROW)) as workspace, client_of(workspace.url + "/gate/v4/") as client:
        await client.runs.job_group("7", priority=Priority.RECONCILIATION)
        request = workspace.requests[0]
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert request.headers["User-Agent"] == f"dataprep-monitor/{__version__}"
    assert request.path == "/gate/v4/jobGroups/7"


async def test_without_a_token_none_is_sent() -> None:
    """A workspace without a token gets no ``Authorization`` header."""
    async with serving(answer(ROW)) as workspace, client_of(workspace.url, token=None) as client:
        await client.runs.job_group("7", priority=Priority.RECONCILIATION)
    assert "Authorization" not in workspace.requests[0].headers


@pytest.mark.parametrize(
    ("status", "name", "kind"),
    [
        (400, "ValidationFailed", RequestRejectedError),
        (401, "", UnauthorizedError),
        (403, "AccessControlException", NotAvailableError),
        (404, "RouteNotFoundException", NotAvailableError),
        (404, "DataNotFoundException", NoSuchObjectError),
        (404, "SomethingElse", RequestRejectedError),
        (410, "GoneException", NoSuchObjectError),
        (415, "", RequestRejectedError),
        (429, "TooManyRequestsException", ThrottledError),
        (500, "IOException", WorkspaceUnreachableError),
        (503, "", WorkspaceUnreachableError),
    ],
)
async def test_each_answer_becomes_its_error(
    status: int, name: str, kind: type[WorkspaceError]
) -> None:
    """Status and exception name decide the type, which carries both and the operation."""
    async with (
        serving(refusal(status, name)) as workspace,
        client_of(workspace.url, retries=0) as client,
    ):
        with pytest.raises(WorkspaceError) as caught:
            await client.runs.job_group("7", priority=Priority.RECONCILIATION)
    assert type(caught.value) is kind
    assert caught.value.status_code == status
    assert caught.value.exception_name == name
    assert caught.value.operation_id == "getJobGroup"


@pytest.mark.parametrize(
    "name",
    ["error_400_profiling_live2026", "error_400_validation_reference", "error_404_route_live2026"],
)
async def test_recorded_errors_are_understood(name: str) -> None:
    """The recorded error bodies give an error that repeats their own name and reason."""
    recording = recorded(name)
    async with (
        serving(answer(recording["body"], recording["status"])) as workspace,
        client_of(workspace.url) as client,
    ):
        with pytest.raises((RequestRejectedError, NotAvailableError)) as caught:
            await client.runs.job_group("7", priority=Priority.RECONCILIATION)
    assert caught.value.exception_name == recording["body"]["exception"]["name"]
    assert recording["body"]["exception"]["message"] in str(caught.value)
    assert len(workspace.requests) == 1


async def test_a_server_error_is_tried_again() -> None:
    """A 503 and then an answer is an answer; the retry waits and is counted."""
    clock, registry = SkippingClock(), CollectorRegistry()
    async with (
        serving(refusal(503, ""), refusal(502, ""), answer(ROW)) as workspace,
        client_of(workspace.url, clock=clock, registry=registry) as client,
    ):
        row = await client.runs.job_group("7", priority=Priority.RECONCILIATION)
    assert row.id == "7"
    assert len(workspace.requests) == 3
    assert 0.25 <= clock.slept[0] <= 0.5 <= clock.slept[1] <= 1.0
    labels = {"workspace": "north", "reason": "server_error"}
    assert registry.get_sample_value("dataprep_monitor_api_retries_total", labels) == 2
    counted = {"workspace": "north", "operation": "getJobGroup", "code": "503"}
    assert registry.get_sample_value("dataprep_monitor_api_requests_total", counted) == 1


async def test_tries_are_bounded_by_count() -> None:
    """After the stated number of retries the last error stands."""
    async with (
        serving(refusal(500, "IOException")) as workspace,
        client_of(workspace.url, retries=2) as client,
    ):
        with pytest.raises(WorkspaceUnreachableError):
            await client.runs.job_group("7", priority=Priority.RECONCILIATION)
    assert len(workspace.requests) == 3


async def test_tries_are_bounded_by_time() -> None:
    """A wait that would pass the total time is not begun, however many retries are left."""
    clock = SkippingClock()
    async with (
        serving(refusal(500, "")) as workspace,
        client_of(workspace.url, clock=clock, retries=50, retry_total_seconds=20) as client,
    ):
        with pytest.raises(WorkspaceUnreachableError):
            await client.runs.job_group("7", priority=Priority.RECONCILIATION)
    assert sum(clock.slept) <= 20
    assert len(workspace.requests) < 12


async def test_other_refusals_are_never_tried_again() -> None:
    """A 4xx that is not 429 is final at once."""
    unkind = refusal(400, "ValidationFailed")
    async with serving(unkind) as workspace, client_of(workspace.url) as client:
        with pytest.raises(RequestRejectedError):
            await client.runs.job_group("7", priority=Priority.RECONCILIATION)
    assert len(workspace.requests) == 1


async def test_a_creation_that_may_have_happened_is_not_repeated() -> None:
    """A POST that met a 5xx is not sent twice, unless an execution id makes that harmless."""
    async with (
        serving(refusal(500, ""), refusal(500, ""), answer({"id": 1})) as workspace,
        client_of(workspace.url) as client,
    ):
        with pytest.raises(WorkspaceUnreachableError):
            await client.requester.request("createFlow", body={}, priority=Priority.RECONCILIATION)
        assert len(workspace.requests) == 1
        response = await client.requester.request(
            "runFlow", 1, body={}, priority=Priority.RECONCILIATION
        )
    assert response.status_code == 200
    assert len(workspace.requests) == 3


@pytest.mark.parametrize("header", ["x-retry-after", "Retry-After"])
async def test_a_throttled_request_waits_for_the_stated_time(header: str) -> None:
    """429 is tried again after the time that either header names."""
    clock = SkippingClock()
    async with (
        serving(refusal(429, "TooManyRequestsException", {header: "57"}), answer(ROW)) as workspace,
        client_of(workspace.url, clock=clock) as client,
    ):
        before = clock.monotonic()
        await client.runs.job_group("7", priority=Priority.RECONCILIATION)
    assert clock.monotonic() - before >= 57
    assert len(workspace.requests) == 2


async def test_the_recorded_429_names_the_wait() -> None:
    """The recorded quota answer becomes an error with its 57 seconds, if we may not wait."""
    recording = recorded("error_429_reference")
    async with (
        serving(answer(recording["body"], 429, recording["headers"])) as workspace,
        client_of(workspace.url, retry_total_seconds=30) as client,
    ):
        with pytest.raises(ThrottledError) as caught:
            await client.runs.job_group("7", priority=Priority.RECONCILIATION)
    assert caught.value.retry_after_seconds == 57
    assert caught.value.exception_name == "TooManyRequestsException"


async def test_a_repeated_execution_is_an_answer() -> None:
    """304 to a repeated execution id is no failure."""
    async with serving(answer(None, 304)) as workspace, client_of(workspace.url) as client:
        response = await client.requester.request(
            "runFlow", 1, body={}, headers={"x-execution-id": "x"}, priority=Priority.RECONCILIATION
        )
    assert (response.status_code, response.body) == (304, b"")


async def test_redirects_are_not_followed() -> None:
    """An answer that points elsewhere is refused, and nothing is sent there."""
    async with serving(answer(ROW)) as elsewhere:
        away = answer(None, 302, {"Location": elsewhere.url + "/login?secret=1"})
        async with serving(away) as workspace, client_of(workspace.url) as client:
            with pytest.raises(WorkspaceUnreachableError) as caught:
                await client.runs.job_group("7", priority=Priority.RECONCILIATION)
    assert elsewhere.requests == []
    assert "redirects" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_outside_the_edition_nothing_is_sent() -> None:
    """A known edition refuses what it lacks before sending; `open` and unknown refuse nothing."""
    async with (
        serving(answer({"data": []})) as workspace,
        client_of(workspace.url, edition=Edition.LE) as client,
    ):
        with pytest.raises(NotAvailableError) as caught:
            await client.requester.request("listJobLibrary", priority=Priority.CHANGES)
        assert workspace.requests == []
        assert caught.value.status_code is None
        assert str(caught.value) == ("listJobLibrary is not part of edition LE; PL and RL have it")
        client.requester.edition = Edition.OPEN
        await client.requester.request("listJobLibrary", priority=Priority.CHANGES)
        client.requester.edition = None
        await client.requester.request("listJobLibrary", priority=Priority.CHANGES)
        assert client.requester.unavailable == frozenset()
    assert len(workspace.requests) == 2


@pytest.mark.parametrize(
    ("handler", "operation_id", "values", "switched_off"),
    [
        (ROUTE, "getJobGroup", (7,), 1),
        (ROUTE, "listJobLibrary", (), 1),
        (refusal(403, "AccessControlException"), "listJobLibrary", (), 1),
        (refusal(410, "GoneException"), "listPerson", (), 1),
        (refusal(403, "AccessControlException"), "getJobGroup", (7,), 0),
        (refusal(403, "AccessControlException"), "createWebhookFlowTask", (), 0),
    ],
)
async def test_a_missing_route_is_remembered(
    handler: Any, operation_id: str, values: tuple[int, ...], switched_off: int
) -> None:
    """A missing route is not requested again until forgotten; a missing id proves nothing."""
    async with serving(handler) as workspace, client_of(workspace.url) as client:
        for _ in range(2):
            with pytest.raises(NotAvailableError):
                await client.requester.request(
                    operation_id, *values, priority=Priority.RECONCILIATION
                )
        assert client.requester.unavailable == (
            frozenset({operation_id}) if switched_off else frozenset()
        )
        assert len(workspace.requests) == 2 - switched_off
        client.requester.forget_unavailable()
        with pytest.raises(NotAvailableError):
            await client.requester.request(operation_id, *values, priority=Priority.RECONCILIATION)
    assert len(workspace.requests) == 3 - switched_off


@pytest.mark.parametrize("value", ["", ".", ".."])
async def test_an_id_never_changes_the_path(value: str) -> None:
    """Ids that would make another path are refused unsent; others are quoted."""
    async with serving(answer(ROW)) as workspace, client_of(workspace.url) as client:
        with pytest.raises(RequestRejectedError):
            await client.runs.job_group(value, priority=Priority.RECONCILIATION)
        assert workspace.requests == []
        await client.runs.job_group("a/../b?c#d", priority=Priority.RECONCILIATION)
    assert workspace.requests[0].raw_path == "/v4/jobGroups/a%2F..%2Fb%3Fc%23d"


async def test_no_error_repeats_a_secret() -> None:
    """An answer that echoes the token or a secret of the body gives an error without them."""

    async def echo(request: web.Request) -> web.Response:
        echoed = f"bad {request.headers['Authorization']} {await request.text()}"
        return web.json_response(
            {"exception": {"name": "ValidationFailed", "message": echoed, "details": echoed}},
            status=400,
        )

    async with serving(echo) as workspace, client_of(workspace.url) as client:
        with pytest.raises(RequestRejectedError) as caught:
            await client.webhook_tasks.test(
                url="https://example.org/hooks",
                headers={"X-Monitor-Secret": Secret("hush-hush")},
                secret_key=Secret("signing-key"),
                priority=Priority.INVENTORY,
            )
    shown = repr(caught.value) + str(caught.value)
    assert "bad" in shown
    for secret in (TOKEN, "hush-hush", "signing-key"):
        assert secret not in shown
    assert TOKEN not in repr(vars(client))
