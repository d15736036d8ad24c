"""Pages of rows: read in slices, and no further than needed to recognise a row."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from monitor.model.errors import PayloadError
from monitor.workspace import row_kinds
from monitor.workspace.decoding import decode_page, decode_rows
from monitor.workspace.payloads import RowHead

_LARGEST_PAGE = 1_000
_ROWS_A_STEP = 50
_WRITTEN = "2026-11-20T10:00:00.000Z"


def page_of(*members: Any) -> bytes:
    return msgspec.json.encode({"data": members, "count": len(members)})


def job_group(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": number, "status": "Complete", "updatedAt": _WRITTEN, **fields}


async def test_the_largest_page_is_read_in_steps() -> None:
    """While a page of 1,000 rows is read, other tasks have a turn after every fifty of them."""
    body = page_of(*(job_group(number) for number in range(_LARGEST_PAGE)))
    reading = asyncio.create_task(decode_page(body, row_kinds.JOB_GROUP))
    turns = 0
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)

    assert turns > _LARGEST_PAGE / _ROWS_A_STEP
    assert (await reading).rows == decode_rows(body, row_kinds.JOB_GROUP).rows


async def test_known_rows_are_read_no_further() -> None:
    """A recognised row is returned as its head; also one whose rest could not be read."""
    body = page_of(job_group(1, createdAt=7), job_group(2), job_group(3, createdAt="soon"))
    page = await decode_page(body, row_kinds.JOB_GROUP, is_known=lambda head: head.id in ("1", "2"))

    written = datetime(2026, 11, 20, 10, tzinfo=UTC)
    assert [head.id for head in page.known] == ["1", "2"]
    assert page.known[1] == RowHead(id="2", native_status="Complete", updated_at=written)
    assert page.rows == ()
    assert [bad.id for bad in page.bad_rows] == ["3"]
    assert sorted(page.ids) == ["1", "2", "3"]
    assert page.length == page.count == 3


@pytest.mark.parametrize(
    "row", [7, {}, {"id": ""}, {"id": 1, "updatedAt": "never"}, {"id": 1, "status": 4}]
)
async def test_a_head_that_cannot_be_read_recognises_nothing(row: Any) -> None:
    """Such a row is read as any other: in full, or it is a bad row."""

    def is_known(_: RowHead) -> bool:
        raise AssertionError("asked about a row without a head")

    page = await decode_page(page_of(row), row_kinds.JOB_GROUP, is_known=is_known)
    assert msgspec.structs.replace(page, known=()) == decode_rows(page_of(row), row_kinds.JOB_GROUP)


async def test_a_body_that_is_no_list_is_refused() -> None:
    """The one error, as of a list that is read at once."""
    with pytest.raises(PayloadError):
        await decode_page(b'{"data": 7}', row_kinds.JOB_GROUP)
