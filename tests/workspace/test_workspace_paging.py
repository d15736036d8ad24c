"""Lists are read to their end, whatever happens to them meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from monitor.model.errors import RequestRejectedError, UnreadableAnswerError
from monitor.workspace.client import Priority, WorkspaceClient
from monitor.workspace.decoding import Rows
from monitor.workspace.list_reads import read_pages
from tests.workspace.scripted import answer, client_of, refusal, serving


def rows_of(ids: Iterable[int], *, count: int | None = None) -> Rows[str]:
    row_ids = tuple(str(id_) for id_ in ids)
    return Rows(rows=row_ids, bad_rows=(), ids=frozenset(row_ids), length=len(row_ids), count=count)


class ShiftingList:
    """A list in ascending ids from which rows leave and to which rows come between pages."""

    def __init__(self, length: int, *, cap: int = 10_000) -> None:
        self.ids = list(range(0, length * 10, 10))
        self.cap = cap
        self.changes: list[tuple[list[int], list[int]]] = []
        self.request_count = 0

    async def request_page(self, limit: int, offset: int) -> tuple[Rows[str], datetime | None]:
        self.request_count += 1
        page = self.ids[offset : offset + min(limit, self.cap)]
        if self.changes:
            gone, come = self.changes.pop(0)
            self.ids = sorted({*self.ids, *come} - set(gone))
        return rows_of(page), None


async def read(shifting: ShiftingList, *, page_size: int, page_limit: int = 400) -> set[int]:
    found: set[int] = set()
    async for page in read_pages(
        shifting.request_page, page_size=page_size, page_limit=page_limit, operation_id="listFlows"
    ):
        found.update(int(row) for row in page.rows)
    return found


@given(
    length=st.integers(0, 120),
    page_size=st.integers(2, 40),
    changes=st.lists(
        st.tuples(st.lists(st.integers(0, 1300)), st.lists(st.integers(0, 1300))), max_size=12
    ),
    leaving=st.lists(st.integers(0, 120), max_size=12),
)
def test_a_row_that_stays_is_read(
    length: int,
    page_size: int,
    changes: list[tuple[list[int], list[int]]],
    leaving: list[int],
) -> None:
    """Whatever leaves or comes between two pages, what is there all the time is read."""
    shifting = ShiftingList(length)
    begin = set(shifting.ids)
    blocks = [list(range(0, count * 10, 10)) for count in leaving]
    shifting.changes = [(block, []) for block in blocks] + changes
    stays = begin - {item for gone, _ in shifting.changes for item in gone}
    assert stays <= asyncio.run(read(shifting, page_size=page_size))


async def test_many_leaving_at_once_hide_nothing() -> None:
    """Even when a whole page's worth of rows leaves, the reading steps back and finds the rest."""
    shifting = ShiftingList(1000)
    gone = shifting.ids[:300]
    shifting.changes = [(gone, [])]
    begin = set(shifting.ids)
    assert begin - set(gone) <= await read(shifting, page_size=100)


@pytest.mark.parametrize("cap", [10, 25, 100])
async def test_a_capped_page_is_not_the_end(cap: int) -> None:
    """A workspace that returns fewer rows than the limit is still read to its end."""
    shifting = ShiftingList(240, cap=cap)
    assert len(await read(shifting, page_size=250)) == 240


async def test_a_short_list_costs_one_request() -> None:
    """A short page ends the reading without a second request."""
    shifting = ShiftingList(7)
    await read(shifting, page_size=250)
    assert shifting.request_count == 1


async def test_a_served_count_keeps_the_reading_going() -> None:
    """When the answer counts more rows, a short page of any length is not the end."""
    ids = list(range(97))

    async def request_page(limit: int, offset: int) -> tuple[Rows[str], datetime | None]:
        return rows_of(ids[offset : offset + min(limit, 37)], count=97), None

    found = [
        row
        async for page in read_pages(
            request_page, page_size=50, page_limit=40, operation_id="listFlows"
        )
        for row in page.rows
    ]
    assert set(found) == {str(id_) for id_ in ids}


async def test_a_list_that_ignores_the_offset_is_given_up() -> None:
    """The same full page again and again is an error, not an endless reading."""
    offsets = []

    async def request_page(limit: int, offset: int) -> tuple[Rows[str], datetime | None]:
        offsets.append(offset)
        return rows_of(range(limit)), None

    with pytest.raises(UnreadableAnswerError):
        async for _ in read_pages(
            request_page, page_size=50, page_limit=400, operation_id="listFlows"
        ):
            pass
    assert len(offsets) < 10


async def test_the_number_of_pages_is_bounded() -> None:
    """A list without end is an error after the stated number of pages."""
    shifting = ShiftingList(10_000)
    with pytest.raises(UnreadableAnswerError, match="more than 5 pages"):
        await read(shifting, page_size=50, page_limit=5)
    assert shifting.request_count == 5


async def test_pages_are_requested_by_id_and_for_everybody() -> None:
    """Every request carries limit, offset, order, the count and the widened owner filters."""
    async with (
        serving(answer({"data": []})) as workspace,
        client_of(workspace.url) as client,
    ):
        for pages in (
            client.runs.job_library(priority=Priority.CHANGES),
            client.runs.plan_runs(priority=Priority.CHANGES),
            client.pipelines.plans(priority=Priority.NAMES),
            client.pipelines.flows(priority=Priority.NAMES),
            client.pipelines.schedules(priority=Priority.INVENTORY),
        ):
            assert [page.rows async for page in pages] == [()]
        queries = [dict(request.query) for request in workspace.requests]
    first = {"sort": "id", "limit": "250", "offset": "0", "includeCount": "true"}
    assert queries == [
        {**first, "runBy": "all"},
        {**first, "runBy": "all"},
        {**first, "ownershipFilter": "all"},
        {**first, "flowsFilter": "all"},
        first,
    ]


async def test_an_order_that_is_refused_is_given_up() -> None:
    """A workspace that cannot sort by id is read in its own order, without another try."""

    async def handle(request: web.Request) -> web.StreamResponse:
        respond = refusal(400, "ValidationFailed") if "sort" in request.query else answer([])
        return await respond(request)

    async with serving(handle) as workspace, client_of(workspace.url) as client:
        for _ in range(2):
            assert [
                page.rows async for page in client.pipelines.flows(priority=Priority.NAMES)
            ] == [()]
        assert ["sort" in other_request.query for other_request in workspace.requests] == [
            True,
            False,
            False,
        ]


async def test_a_refusal_of_the_list_itself_is_raised() -> None:
    """400 whatever is left out is an error, and order and count are tried again next time."""
    async with (
        serving(refusal(400, "ApiValidationFailed")) as workspace,
        client_of(workspace.url) as client,
    ):
        for _ in range(2):
            with pytest.raises(RequestRejectedError):
                async for _page in client.pipelines.flows(priority=Priority.NAMES):
                    pass
        assert len(workspace.requests) == 8


async def test_a_count_that_is_refused_is_given_up() -> None:
    """A workspace that cannot count is read without, still in the order of ids."""

    async def handle(request: web.Request) -> web.StreamResponse:
        is_refused = "includeCount" in request.query
        respond = refusal(400, "ValidationFailed") if is_refused else answer([])
        return await respond(request)

    async with serving(handle) as workspace, client_of(workspace.url) as client:
        for _ in range(2):
            assert [
                page.rows async for page in client.pipelines.flows(priority=Priority.NAMES)
            ] == [()]
        last = workspace.requests[-1].query
        assert ("includeCount" in last, last["sort"]) == (False, "id")
        assert len(workspace.requests) == 4


async def test_the_first_page_is_counted_and_the_count_holds_for_all() -> None:
    """An unusual cap ends no list early; later pages are not counted again."""
    rows = [{"id": number, "name": f"flow {number}"} for number in range(1, 98)]

    async def handle(request: web.Request) -> web.StreamResponse:
        offset = int(request.query["offset"])
        counted = {"count": len(rows)} if "includeCount" in request.query else {}
        return await answer({"data": rows[offset : offset + 37], **counted})(request)

    async with serving(handle) as workspace, client_of(workspace.url) as client:
        pages = [page async for page in client.pipelines.flows(priority=Priority.NAMES)]
        assert {row.id for page in pages for row in page.rows} == {str(row["id"]) for row in rows}
        counted = ["includeCount" in request.query for request in workspace.requests]
        assert counted == [True] + [False] * (len(counted) - 1)


class CappedWorkspace:
    """Lists so many flows, without a count, in pages that something caps."""

    def __init__(self, length: int, *, cap: int) -> None:
        self.length = length
        self.cap = cap

    async def handle(self, request: web.Request) -> web.StreamResponse:
        offset, limit = int(request.query["offset"]), int(request.query["limit"])
        rows = [{"id": number, "name": f"flow {number}"} for number in range(1, self.length + 1)]
        return await answer({"data": rows[offset : offset + min(limit, self.cap)]})(request)


async def flows_of(client: WorkspaceClient) -> int:
    """Return how many flows a reading of the list has shown."""
    pages = [page async for page in client.pipelines.flows(priority=Priority.NAMES)]
    return len({row.id for page in pages for row in page.rows})


@pytest.mark.parametrize("cap", [11, 37, 90])
async def test_a_count_of_the_page_alone_ends_no_reading_early(cap: int) -> None:
    """It is no proof of the end; a list that is read whole at once costs one more request."""
    ids, requested = list(range(90)), []

    async def request_page(limit: int, offset: int) -> tuple[Rows[str], datetime | None]:
        requested.append(offset)
        page = ids[offset : offset + min(limit, cap)]
        return rows_of(page, count=len(page) if offset == 0 else None), None

    pages = read_pages(request_page, page_size=250, page_limit=40, operation_id="listFlows")
    found = {row async for page in pages for row in page.rows}
    assert len(found) == 90
    assert cap < 90 or len(requested) == 2


@pytest.mark.parametrize("cap", [11, 37, 89])
async def test_an_unusual_cap_is_found_without_a_count(cap: int) -> None:
    """Lists are whole from the first one on, also one that ends with a whole page."""
    capped = CappedWorkspace(90, cap=cap)
    async with serving(capped.handle) as workspace, client_of(workspace.url) as client:
        assert await flows_of(client) == 90
        capped.length = cap
        assert await flows_of(client) == cap
        capped.length = cap + 1
        assert await flows_of(client) == cap + 1


async def test_a_page_shorter_than_one_before_costs_one_request() -> None:
    """A list that has shown more at once is not capped at less, so its end is not asked again."""
    capped = CappedWorkspace(60, cap=10_000)
    async with serving(capped.handle) as workspace, client_of(workspace.url) as client:
        await flows_of(client)
        for capped.length in (59, 37, 25, 10):
            before = len(workspace.requests)
            assert await flows_of(client) == capped.length
            assert len(workspace.requests) == before + 1


async def test_a_cap_that_comes_later_is_found() -> None:
    """A proxy that begins to cut is found out when the longer pages of before are long ago."""
    capped = CappedWorkspace(90, cap=10_000)
    async with serving(capped.handle) as workspace, client_of(workspace.url) as client:
        assert await flows_of(client) == 90
        capped.cap = 37
        found = [await flows_of(client) for _ in range(52)]
        assert found[-1] == 90


@pytest.mark.parametrize("count", [0, 5, 1_000])
async def test_a_wrong_count_ends_no_reading_early_and_none_late(count: int) -> None:
    """A count of something else costs a few requests at most, and is no error."""
    ids = list(range(200))
    requested = []

    async def request_page(limit: int, offset: int) -> tuple[Rows[str], datetime | None]:
        requested.append(offset)
        return rows_of(ids[offset : offset + limit], count=count), None

    found = {
        row
        async for page in read_pages(
            request_page, page_size=150, page_limit=40, operation_id="listFlows"
        )
        for row in page.rows
    }
    assert len(found) == 200
    assert len(requested) <= 4
