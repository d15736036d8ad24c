"""Any operation of the catalogue: named, refused before it is sent, started once, read in rows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from monitor.catalogue.operations import Edition, Operation, operations
from monitor.model.errors import NotAvailableError, RequestRejectedError, UnreadableAnswerError
from monitor.model.secrets import Secret
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorldOptions
from monitor.sandbox.world.records.objects import Flow
from monitor.workspace import calling
from monitor.workspace.calling import resolve
from monitor.workspace.client import Priority
from monitor.workspace.decoding import Rows, decode_rows
from monitor.workspace.list_reads import read_pages
from tests.clocks import ManualClock
from tests.workspace.scripted import answer, client_of, refusal, serving

# Characters that mean something in a path, or are none in a URL.
ODD = "a/b %41?ü@x.example#1"


def values_of(operation: Operation) -> tuple[str, ...]:
    return tuple(str(11 + number) for number in range(len(operation.parameters)))


@pytest.mark.parametrize("operation", operations(), ids=lambda operation: operation.operation_id)
def test_an_operation_is_named_by_id_or_by_method_and_path(operation: Operation) -> None:
    """Both names lead to the same operation with the same values, with or without ``/v4``."""
    values = values_of(operation)
    by_id = resolve([operation.operation_id, *values])
    assert (by_id.operation, by_id.values) == (operation, values)
    path = operation.fill(*values)
    assert resolve([operation.method, path]) == by_id
    assert resolve([operation.method.lower(), path.removeprefix("/v4/")]) == by_id


async def test_every_operation_is_sent_as_the_catalogue_has_it() -> None:
    """All 186 reach the workspace by their method and path; a value stays one segment of it."""
    async with serving(answer({})) as workspace, client_of(workspace.url) as client:
        for operation in operations():
            values = [ODD for _ in operation.parameters]
            await client.requester.request(
                operation.operation_id, *values, priority=Priority.CHANGES
            )
    sent = [(request.method, request.path.count("/")) for request in workspace.requests]
    raw = [request.raw_path for request in workspace.requests]
    assert len(raw) == 186
    assert [operation.method for operation in operations()] == [method for method, _ in sent]
    for operation, raw_path in zip(operations(), raw, strict=True):
        called = resolve([operation.method, raw_path])
        assert called.values == tuple(ODD for _ in operation.parameters)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["getFlw", "1"], "did you mean getFlow"),
        (["getFlow"], "getFlow takes id after its name, not 0 values"),
        (["listFlows", "1"], "listFlows takes nothing after its name, not 1 values"),
        (["GET"], "GET takes one path"),
        (["GET", "/v4/flows", "1"], "GET takes one path"),
        (["GET", "/v4/nothing"], "the catalogue has no GET /v4/nothing"),
        (["PUT", "/v4/flows/11"], "the catalogue has no PUT /v4/flows/11; it has GET, PATCH"),
        (["GET", "/v4/flows?limit=1"], "-q NAME=VALUE"),
        (["GET", "/v4/flows/:id"], "':id' is no id of getFlow"),
        (["getFlow", ".."], "'..' is no id of getFlow"),
        (["getFlow", ""], "'' is no id of getFlow"),
    ],
)
def test_an_unknown_operation_is_refused_with_a_hint(words: list[str], sentence: str) -> None:
    """The error suggests the operation or names the missing value; no request is sent."""
    with pytest.raises(RequestRejectedError) as caught:
        resolve(words)
    assert sentence in str(caught.value)
    assert caught.value.status_code is None


@pytest.mark.parametrize("edition", [Edition.PC, Edition.PL, Edition.RL, Edition.LE])
async def test_an_operation_that_an_edition_lacks_is_refused_before_it_is_sent(
    edition: Edition,
) -> None:
    """Each refusal names the editions that have the operation, and nothing is sent."""
    lacking = [operation for operation in operations() if not operation.is_part_of(edition)]
    async with (
        serving(answer({})) as workspace,
        client_of(workspace.url, edition=edition) as client,
    ):
        for item in lacking:
            with pytest.raises(NotAvailableError) as caught:
                await client.requester.request(
                    item.operation_id, *values_of(item), priority=Priority.CHANGES
                )
            message = str(caught.value)
            assert message.startswith(f"{item.operation_id} is not part of edition {edition}; ")
            assert all(str(other) in message.split(";")[1] for other in item.editions)
    assert workspace.requests == []
    assert len(lacking) == 186 - {"PC": 5, "PL": 172, "RL": 173, "LE": 13}[edition]


@pytest.mark.parametrize("operation_id", ["runJobGroup", "runFlow", "runPlan"])
async def test_every_try_of_a_run_carries_one_execution_id(operation_id: str) -> None:
    """The id is made once for a call, another for the next, and one that is given stays."""
    values = [] if operation_id == "runJobGroup" else [1]
    ill, well = refusal(503, ""), answer({"id": 1}, 201)
    async with serving(ill, ill, well) as workspace, client_of(workspace.url) as client:
        for headers in (None, None, {"X-Execution-Id": "mine"}):
            await client.requester.request(
                operation_id, *values, body={}, headers=headers, priority=Priority.CHANGES
            )
    ids = [request.headers["x-execution-id"] for request in workspace.requests]
    assert ids[0] == ids[1] == ids[2] != ids[3]
    assert len(ids[0]) == 36
    assert ids[4:] == ["mine"]


async def test_a_run_whose_answer_was_lost_is_started_once() -> None:
    """The workspace starts the flow, the answer never comes, and the retry starts no second."""
    options = WorldOptions(dropped=1.0, only=frozenset({"runFlow"}))
    quiet = SandboxSettings(traffic=None, schedules_fire=False, options=options)
    sandbox = Sandbox(quiet, ManualClock())
    operation_ids: list[str] = []

    def record(operation_id: str, _: Mapping[str, str]) -> None:
        operation_ids.append(operation_id)
        if len(operation_ids) == 3:
            sandbox.world.options.dropped = 0.0

    sandbox.on_request(record)
    url = await sandbox.start()
    try:
        flow = next(iter(sandbox.world.flows.live()))
        async with client_of(url, token=Secret(sandbox.token)) as client:
            found = await client.requester.request(
                "runFlow", flow.id, body={}, priority=Priority.CHANGES
            )
        runs = len(list(sandbox.world.flow_runs.live()))
    finally:
        await sandbox.stop()
    assert operation_ids == ["runFlow"] * 3
    assert (found.status_code, found.body, runs) == (304, b"", 1)


def page(*ids: int, **more: Any) -> dict[str, Any]:
    """Return a page with rows of these ids."""
    return {"data": [{"id": id_, "createdAt": "2026-11-21T10:00:00.000Z", **more} for id_ in ids]}


async def test_a_thousand_rows_of_a_real_list_come_once_each() -> None:
    """Every flow of a sandbox is yielded once, in pages of the size that the settings name."""
    sandbox = Sandbox(SandboxSettings(traffic=None, schedules_fire=False), ManualClock())
    person = min(flow.creator_id for flow in sandbox.world.flows.live())
    for number in range(1_000):
        sandbox.world.create(Flow, by=person, name=f"flow {number}")
    operation_ids: list[str] = []
    sandbox.on_request(lambda operation_id, _: operation_ids.append(operation_id))
    url = await sandbox.start()
    try:
        async with client_of(url, token=Secret(sandbox.token), page_size=300) as client:
            query = {"flowsFilter": "all"}
            rows = [
                msgspec.json.decode(row)["id"]
                async for row in client.operations.rows(
                    "listFlows", query=query, priority=Priority.CHANGES
                )
            ]
        flow_ids = {flow.id for flow in sandbox.world.flows.live()}
    finally:
        await sandbox.stop()
    assert len(rows) == len(flow_ids) >= 1_000
    assert set(rows) == flow_ids
    assert operation_ids == ["listFlows"] * 4


@given(
    length=st.integers(0, 60),
    page_size=st.integers(2, 20),
    changes=st.lists(
        st.tuples(st.sets(st.integers(0, 70)), st.sets(st.integers(0, 70))), max_size=8
    ),
)
def test_a_row_comes_once_whatever_moves(
    length: int, page_size: int, changes: list[tuple[set[int], set[int]]]
) -> None:
    """Rows leave, come and change between pages: none comes twice, and none that stays is lost."""
    there, left = set(range(length)), list(changes)
    stays = there - {item for gone, _ in changes for item in gone}

    async def request_page(limit: int, offset: int) -> tuple[Rows[Raw], datetime | None]:
        ids = sorted(there)[offset : offset + limit]
        # A row's text is another each time, as that of a run in progress is.
        body = page(*ids, progress=len(left))
        if left:
            gone, come = left.pop()
            there.difference_update(gone)
            there.update(come)
        return decode_rows(msgspec.json.encode(body), calling._ROW), None

    async def read() -> list[int]:
        pages = read_pages(
            request_page, page_size=page_size, page_limit=400, operation_id="listFlows"
        )
        return [msgspec.json.decode(row)["id"] async for row in calling._each_once(pages)]

    found = asyncio.run(read())
    assert len(found) == len(set(found))
    assert stays <= set(found)


async def test_a_page_is_read_when_its_rows_are_needed() -> None:
    """Reading two rows of a long list costs one request."""
    async with (
        serving(answer(page(*range(10)))) as workspace,
        client_of(workspace.url, page_size=10) as client,
    ):
        rows = client.operations.rows("listFlows", priority=Priority.CHANGES)
        assert [await anext(rows) for _ in range(2)]
        assert len(workspace.requests) == 1
        assert dict(workspace.requests[0].query) == {"sort": "id", "limit": "10", "offset": "0"}
        await rows.aclose()


async def test_rows_of_two_kinds_may_share_an_id() -> None:
    """A library lists flows and folders: a folder with a flow's id is another row."""
    both = {"data": [*page(3)["data"], {"id": 3, "createdAt": "2026-11-21T11:00:00.000Z"}]}
    again = {"data": [*both["data"][1:], *page(4)["data"]]}
    async with (
        serving(answer(both), answer(again), answer(page())) as workspace,
        client_of(workspace.url, page_size=2) as client,
    ):
        rows = [
            row
            async for row in client.operations.rows("listFlowsLibrary", priority=Priority.CHANGES)
        ]
    assert [msgspec.json.decode(row)["id"] for row in rows] == [3, 3, 4]


async def test_a_list_without_ids_is_read_in_steps() -> None:
    """Equal rows are all yielded where ``fields`` leaves out what distinguishes them."""
    same, end = answer({"data": [{"name": "x"}] * 3}), answer({"data": [{"name": "x"}]})
    async with (
        serving(same, same, end) as workspace,
        client_of(workspace.url, page_size=3) as client,
    ):
        query = {"fields": "name"}
        rows = [
            row
            async for row in client.operations.rows(
                "listFlows", query=query, priority=Priority.NAMES
            )
        ]
    assert rows == [b'{"name":"x"}'] * 7
    assert [request.query["offset"] for request in workspace.requests] == ["0", "3", "6"]


async def test_a_list_without_ids_that_ignores_the_offset_ends() -> None:
    """Its only page, shorter than the limit, is yielded once."""
    async with (
        serving(answer({"data": [{"name": str(row)} for row in range(37)]})) as workspace,
        client_of(workspace.url) as client,
    ):
        rows = client.operations.rows(
            "listFlows", query={"fields": "name"}, priority=Priority.NAMES
        )
        assert len([row async for row in rows]) == 37
    assert len(workspace.requests) == 3


async def test_equal_pages_of_a_capped_list_without_ids_are_all_read() -> None:
    """Rows that nothing distinguishes are no sign of a list without an end."""

    async def handle(request: web.Request) -> web.StreamResponse:
        left = max(0, 37 * 3 - int(request.query["offset"]))
        return await answer({"data": [{"name": "x"}] * min(37, left)})(request)

    async with serving(handle) as workspace, client_of(workspace.url) as client:
        rows = client.operations.rows(
            "listFlows", query={"fields": "name"}, priority=Priority.NAMES
        )
        assert len([row async for row in rows]) == 37 * 3


async def test_the_callers_own_order_and_offset_are_kept() -> None:
    """``sort``, ``limit`` and ``offset`` of the query decide, whatever the count says."""
    first, end = answer({**page(9, 8, 7), "count": 5}), answer({**page(7), "count": 5})
    async with serving(first, end) as workspace, client_of(workspace.url) as client:
        query = {"sort": "-id", "limit": ["3"], "offset": "2", "includeCount": "true"}
        rows = [
            row
            async for row in client.operations.rows(
                "listFlows", query=query, priority=Priority.NAMES
            )
        ]
    assert [msgspec.json.decode(row)["id"] for row in rows] == [9, 8, 7]
    query_sent = dict(workspace.requests[0].query)
    assert query_sent == {**query, "limit": "3"}
    assert [request.query["offset"] for request in workspace.requests] == ["2", "4"]


async def test_a_workspace_that_refuses_the_order_is_read_in_its_own() -> None:
    """400 to ``sort=id`` is followed by the same page without it, for good."""
    async with (
        serving(refusal(400, "ValidationFailed"), answer(page(2, 1))) as workspace,
        client_of(workspace.url) as client,
    ):
        for _ in range(2):
            rows = client.operations.rows("listFlows", priority=Priority.CHANGES)
            assert len([row async for row in rows]) == 2
    assert ["sort" in request.query for request in workspace.requests] == [True, False, False]


async def test_a_list_without_pages_is_requested_once() -> None:
    """Without a ``limit`` in the catalogue none is sent, with an envelope or without."""
    for body in (page(1, 2), page(1, 2)["data"]):
        async with serving(answer(body)) as workspace, client_of(workspace.url) as client:
            rows = client.operations.rows("getJobsForJobGroup", 7, priority=Priority.CHANGES)
            assert len([row async for row in rows]) == 2
        assert [dict(request.query) for request in workspace.requests] == [{}]


@pytest.mark.parametrize(
    ("operation_id", "values", "query"),
    [
        ("countFlows", (), {}),
        ("createFlow", (), {}),
        ("getFlowPackage", (1,), {}),
        ("listFlows", (), {"limit": "many"}),
        ("listFlows", (), {"offset": "-1"}),
    ],
)
async def test_an_operation_that_is_no_list_is_refused_before_it_is_sent(
    operation_id: str, values: tuple[int, ...], query: dict[str, str]
) -> None:
    """Rows are asked for lists only, and from a place that is a number."""
    async with serving(answer({})) as workspace, client_of(workspace.url) as client:
        rows = client.operations.rows(operation_id, *values, query=query, priority=Priority.CHANGES)
        with pytest.raises(RequestRejectedError):
            await anext(rows)
    assert workspace.requests == []


async def test_an_answer_that_is_no_list_is_unreadable() -> None:
    """One object where rows were asked for is an error, not an empty list."""
    async with serving(answer({"files": []})) as workspace, client_of(workspace.url) as client:
        with pytest.raises(UnreadableAnswerError):
            await anext(client.operations.rows("getJobGroupOutputs", 7, priority=Priority.CHANGES))
    assert len(workspace.requests) == 1


async def test_details_reach_the_caller_without_secrets() -> None:
    """Structured details are given as text, apart from the message, and without the token."""
    token = Secret("made-up-token-3f9a")
    details = {"errors": [{"field": "name", "got": token.reveal()}]}
    envelope = {"exception": {"name": "ValidationFailed", "message": "bad", "details": details}}
    async with serving(answer(envelope, 400)) as workspace, client_of(workspace.url) as client:
        with pytest.raises(RequestRejectedError) as caught:
            await client.requester.request("createFlow", body={}, priority=Priority.CHANGES)
    assert caught.value.details == '{"errors":[{"field":"name","got":"***"}]}'
    assert "field" not in str(caught.value)


async def test_a_code_stands_before_the_details() -> None:
    """The error of a refused schedule names its code."""
    envelope = {"exception": {"name": "ValidationFailed", "code": "SCHEDULE_NAME_TOO_LONG"}}
    async with serving(answer(envelope, 400)) as workspace, client_of(workspace.url) as client:
        with pytest.raises(RequestRejectedError) as caught:
            await client.requester.request("createSchedule", body={}, priority=Priority.CHANGES)
    assert caught.value.details == "SCHEDULE_NAME_TOO_LONG"


async def test_a_file_is_requested_as_any_type() -> None:
    """Packages and PDFs are no JSON, and asking for JSON might be refused with 415."""

    async def pdf(request: web.Request) -> web.Response:
        is_file = request.path.endswith("pdfResults")
        return web.Response(body=b"%PDF" if is_file else b"{}")

    async with serving(pdf) as workspace, client_of(workspace.url) as client:
        await client.requester.request("getJobGroupPdfResults", 7, priority=Priority.CHANGES)
        await client.requester.request("getJobGroup", 7, priority=Priority.CHANGES)
    assert [other_request.headers["Accept"] for other_request in workspace.requests] == [
        "*/*",
        "application/json",
    ]
