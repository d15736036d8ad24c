"""Cursors of lists: where the next page begins, opaque to clients.

A list is sorted by a key that no two rows share, such as (created_at, id), and a cursor is the key
of the last row that was shown. So a page goes on after that row also where rows were added or
removed meanwhile. Nothing is kept for a client.

    key = read_cursor("runs", query.cursor, tuple[datetime, str])
    rows = [row for row in rows if key is None or sort_key(row) > key]
    next_cursor = cursor_after("runs", sort_key(rows[-1])) if has_more else None
"""

from __future__ import annotations

import base64
from datetime import MAXYEAR, MINYEAR, datetime
from typing import Any, TypeVar

import msgspec

from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import SHOWN, one_line

K = TypeVar("K", bound=tuple[Any, ...])

_SORTED_BY = 40  # characters of a name


def cursor_after(list_name: str, key: tuple[Any, ...]) -> str:
    """Return the cursor of the page after the row with that sort key.

    ``list_name`` names the list and its order, such as ``pipelines by name``: a cursor of another
    order is foreign. The key is of what JSON knows, and short: see `sort_text`.
    """
    text = msgspec.json.encode([list_name, *key])
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def read_cursor(list_name: str, cursor: str | None, shape: type[K]) -> K | None:
    """Return the sort key in a cursor, None without one.

    Its instants are aware, so that they compare with those of rows.

    Raises:
        ProblemDetails: it is no cursor of this list; ``shape`` is the type of its keys.
    """
    if cursor is None:
        return None
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        of, *key = msgspec.json.decode(text, type=list[Any])
        after: K = msgspec.convert(key, shape)
        if of == list_name and all(map(_is_sortable, after)):
            return after
    except (ValueError, OverflowError, RecursionError):  # no base64, no JSON, or another key
        pass
    raise ProblemDetails(
        400,
        f"cursor: {one_line(cursor[:SHOWN])!r} is not one of this list; "
        "leave it out to start at the beginning",
    )


def _is_sortable(part: object) -> bool:
    """Return False for an instant without a zone, or that another zone cannot express."""
    if not isinstance(part, datetime):
        return True
    return part.tzinfo is not None and MINYEAR < part.year < MAXYEAR


def sort_text(name: str) -> str:
    """Return what a list sorts a name by: names may be too long for a cursor.

    Rows whose names begin alike need something more in their key, such as an id.
    """
    return name.casefold()[:_SORTED_BY]
