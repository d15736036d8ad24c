"""Answers with more rows or values than were asked for: refused before any of them is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from monitor.model.errors import PayloadError, UnreadableAnswerError
from monitor.workspace import row_kinds
from monitor.workspace.client import Priority, WorkspaceClient
from monitor.workspace.decoding import MOST_ROWS, decode_rows
from tests.workspace.scripted import answer, client_of, sending_bytes, serving

PRIORITY = Priority.CHANGES
LISTS: dict[str, Callable[[WorkspaceClient], AsyncIterator[Any]]] = {
    "listJobLibrary": lambda client: client.runs.job_library(priority=PRIORITY),
    "listPlanSnapshotRuns": lambda client: client.runs.plan_runs(priority=PRIORITY),
    "listFlows": lambda client: client.pipelines.flows(priority=PRIORITY),
    "listSchedules": lambda client: client.pipelines.schedules(priority=PRIORITY),
    "listConnections": lambda client: client.inventory.connections(priority=PRIORITY),
    "listJobGroups": lambda client: client.operations.rows("listJobGroups", priority=PRIORITY),
}


def rows(count: int) -> dict[str, Any]:
    return {"data": [{"id": number, "status": "Complete"} for number in range(1, count + 1)]}


@pytest.mark.parametrize("operation_id", LISTS)
async def test_a_page_holds_no_more_rows_than_were_asked_for(operation_id: str) -> None:
    """A page of 250 is asked for, and one of 251 is unreadable: none of its rows is handled."""
    async with serving(answer(rows(251))) as workspace, client_of(workspace.url) as client:
        with pytest.raises(UnreadableAnswerError, match="has 251 rows where 250 at most") as caught:
            await anext(LISTS[operation_id](client))

    assert caught.value.operation_id == operation_id
    assert len(workspace.requests) == 1


async def test_a_page_of_job_records_holds_no_more_rows_than_were_asked_for() -> None:
    """The list of all job groups with their jobs has the same bound."""
    async with serving(answer(rows(251))) as workspace, client_of(workspace.url) as client:
        with pytest.raises(UnreadableAnswerError, match="has 251 rows where 250 at most"):
            await client.runs.jobs_of_many({"1"}, offset=0, priority=PRIORITY)


async def test_a_list_without_pages_has_a_bound() -> None:
    """Where no number of rows is asked for, more than ten thousand are unreadable."""
    flood = answer(rows(MOST_ROWS + 1))
    async with serving(flood) as workspace, client_of(workspace.url) as client:
        with pytest.raises(UnreadableAnswerError, match=f"{MOST_ROWS} at most"):
            await client.runs.flow_run_job_groups("7", priority=PRIORITY)
        with pytest.raises(UnreadableAnswerError, match=f"{MOST_ROWS} at most"):
            await client.runs.jobs("7", priority=PRIORITY)


async def test_a_list_within_an_answer_has_a_bound() -> None:
    """A plan with more than ten thousand nodes is unreadable, and its nodes stay unread."""
    nodes = [{"id": number} for number in range(MOST_ROWS + 1)]
    async with (
        serving(answer({"id": 3, "planNodes": {"data": nodes}})) as workspace,
        client_of(workspace.url) as client,
    ):
        with pytest.raises(UnreadableAnswerError, match=f"a list of {MOST_ROWS + 1} rows"):
            await client.pipelines.plan_full("3", priority=PRIORITY)


def test_a_text_of_very_many_escapes_is_not_mended() -> None:
    """Half a character is replaced in a page, and not searched for in millions of escapes."""
    half = rb'{"id": 1, "name": "a\ud83d'
    row = decode_rows(b"[" + half + rb'"}]', row_kinds.FLOW).rows[0]

    assert row.name == "a\ufffd"
    with pytest.raises(PayloadError):
        decode_rows(b"[" + half + rb"\n" * 200_001 + rb'"}]', row_kinds.FLOW)


async def test_an_answer_of_very_many_values_is_cut_off() -> None:
    """A million values are refused while they arrive, though their bytes are far below the limit.

    Each of them would cost ten times its bytes or more.
    """
    body = b"[" + b"1," * 1_000_000 + b"1]"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    async with sending_bytes(head % len(body) + body) as url, client_of(url, retries=0) as client:
        with pytest.raises(UnreadableAnswerError, match="more than 1000000 values") as caught:
            await client.runs.job_group("7", priority=PRIORITY)
    assert caught.value.operation_id == "getJobGroup"
