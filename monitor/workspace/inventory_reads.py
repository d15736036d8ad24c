"""Reads of a workspace's inventory: connections, tokens, counts, configuration, usage, profiles.

Assumptions, where nothing public describes an answer: a count is a number or an object of numbers,
in which ``all`` is the whole; a connection can be opened where its status is ``SUCCESS``; usage
is one object whose numbers are sums, or rows whose numbers are to be added; a profile counts the
values of each column by the words VALID, INVALID and EMPTY.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import date
from math import isfinite
from typing import Any

import msgspec
from msgspec import Struct

from monitor.model.outside import harmless
from monitor.workspace import row_kinds
from monitor.workspace.decoding import RowKind, text_of
from monitor.workspace.list_reads import ListReader, listed
from monitor.workspace.payloads import AccessTokenRow, Page, PersonRow
from monitor.workspace.priority import Priority
from monitor.workspace.requester import Requester, decoded
from monitor.workspace.transport import QueryValue

_SUCCESS = "success"
_WHOLE = "all"  # the part of a count that is the sum of the others
_VALID, _MISMATCHED, _MISSING = "VALID", "INVALID", "EMPTY"
_NAMES_ID = ("id", "Id", "ID")
# These reads can wait, so everything else goes before them, for as long as it takes.
_WAIT_SECONDS = 300.0


class ConnectionRow(Struct, frozen=True, kw_only=True, gc=False):
    """One connection of the list."""

    id: str
    name: str | None = None


class ProfileCounts(Struct, frozen=True, kw_only=True, gc=False):
    """How many values of all columns together are of their type, are not, and are empty."""

    valid: int
    mismatched: int
    missing: int


class _Connection(Struct):
    id: int | str
    name: str | None = None


class _Status(Struct):
    result: object = None


class _Count(Struct):
    count: int | dict[str, object]


class _Bucket(Struct):
    key: str
    count: int


class _Profile(Struct, rename="camel"):
    profiler_type_check_histograms: dict[str, list[_Bucket] | dict[str, int]]


class InventoryReader:
    """Reads what is neither a run nor a pipeline; most of it with the last priority."""

    def __init__(self, requester: Requester, lists: ListReader) -> None:
        self._requester = requester
        self._lists = lists

    def connections(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> AsyncIterator[Page[ConnectionRow]]:
        """Read the connections that the token may see."""
        return self._lists.pages("listConnections", _CONNECTION, {}, priority, wait_seconds)

    async def current_person(self, *, priority: Priority, wait_seconds: float = 30.0) -> PersonRow:
        """Read the owner of our token."""
        answer = await self._requester.request(
            "getCurrentPerson", priority=priority, wait_seconds=wait_seconds
        )
        return decoded(row_kinds.PERSON, answer, "getCurrentPerson")

    async def person(
        self, person_id: str, *, priority: Priority, wait_seconds: float = 30.0
    ) -> PersonRow:
        """Read anybody; many tokens may not."""
        answer = await self._requester.request(
            "getPerson", person_id, priority=priority, wait_seconds=wait_seconds
        )
        return decoded(row_kinds.PERSON, answer, "getPerson")

    async def access_tokens(
        self, *, priority: Priority, wait_seconds: float = 30.0
    ) -> tuple[AccessTokenRow, ...]:
        """Read the readable tokens of our token's owner; ours is among them."""
        answer = await self._requester.request(
            "listApiAccessTokens", priority=priority, wait_seconds=wait_seconds
        )
        tokens = await listed(answer, row_kinds.ACCESS_TOKEN, "listApiAccessTokens")
        return tokens.rows

    async def count(
        self, operation_id: str, *, query: Mapping[str, QueryValue] | None = None
    ) -> int:
        """Read one of the count operations."""
        answer = await self._requester.request(
            operation_id, query=query, priority=Priority.INVENTORY, wait_seconds=_WAIT_SECONDS
        )
        return decoded(_COUNT, answer, operation_id)

    async def connection_status(self, connection_id: str) -> bool:
        """Return whether the workspace can open a connection now."""
        answer = await self._requester.request(
            "getConnectionStatus",
            connection_id,
            priority=Priority.INVENTORY,
            wait_seconds=_WAIT_SECONDS,
        )
        return decoded(_STATUS, answer, "getConnectionStatus")

    async def configuration(self) -> dict[str, Any]:
        """Read the workspace's own settings as they are served, secrets and all."""
        answer = await self._requester.request(
            "getCurrentConfigurationForWorkspace",
            priority=Priority.INVENTORY,
            wait_seconds=_WAIT_SECONDS,
        )
        return decoded(_OBJECT, answer, "getCurrentConfigurationForWorkspace")

    async def configuration_schema(self) -> Any:
        """Read the description of the workspace's settings; nothing public documents its form."""
        answer = await self._requester.request(
            "getCurrentConfigurationSchema",
            priority=Priority.INVENTORY,
            wait_seconds=_WAIT_SECONDS,
        )
        return decoded(_ANYTHING, answer, "getCurrentConfigurationSchema")

    async def compute_usage(self, start: date, end: date) -> dict[str, float]:
        """Return what was used from ``start`` up to and with ``end``: measures as served."""
        answer = await self._requester.request(
            "listComputeUsage",
            start.isoformat(),
            end.isoformat(),
            priority=Priority.INVENTORY,
            wait_seconds=_WAIT_SECONDS,
        )
        return decoded(_USAGE, answer, "listComputeUsage")

    async def profile(self, job_group_id: str) -> ProfileCounts:
        """Read how good the data is that a job group made; refused where it has no profile."""
        answer = await self._requester.request(
            "getProfilingInformationForJobGroupConsistent",
            job_group_id,
            priority=Priority.INVENTORY,
            wait_seconds=_WAIT_SECONDS,
        )
        return decoded(_PROFILE, answer, "getProfilingInformationForJobGroupConsistent")


def _counted(answer: _Count) -> int:
    if isinstance(answer.count, int):
        return answer.count
    parts = {name: part for name, part in answer.count.items() if _is_integer(part)}
    whole = parts.get(_WHOLE)
    if isinstance(whole, int):
        return whole
    if not parts:
        raise msgspec.ValidationError("no part of the count is a number")
    return sum(int(part) for part in parts.values() if isinstance(part, int))


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_up(answer: _Status) -> bool:
    return isinstance(answer.result, str) and answer.result.strip().lower() == _SUCCESS


def _used(answer: object) -> dict[str, float]:
    """Take the numbers of the answer itself; where there are none, the sums over its rows."""
    if isinstance(answer, dict) and (measures := _measures(answer)):
        return measures
    rows = answer.get("data") if isinstance(answer, dict) else answer
    if not isinstance(rows, list):
        raise msgspec.ValidationError("neither an object with numbers nor a list of rows")
    sums: dict[str, float] = {}
    for row in rows:
        for name, value in _measures(row).items() if isinstance(row, dict) else ():
            sums[name] = sums.get(name, 0.0) + value
    return sums


def _measures(answer: dict[str, Any]) -> dict[str, float]:
    return {
        harmless(name): float(value)
        for name, value in answer.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and isfinite(value)
        and not name.endswith(_NAMES_ID)
    }


def _quality(answer: _Profile) -> ProfileCounts:
    sums = dict.fromkeys((_VALID, _MISMATCHED, _MISSING), 0)
    for column in answer.profiler_type_check_histograms.values():
        buckets = (
            column.items() if isinstance(column, dict) else ((run.key, run.count) for run in column)
        )
        for key, count in buckets:
            if key in sums:
                sums[key] += max(0, count)
    return ProfileCounts(valid=sums[_VALID], mismatched=sums[_MISMATCHED], missing=sums[_MISSING])


_CONNECTION = RowKind(_Connection, lambda row: ConnectionRow(id=text_of(row.id), name=row.name))
_STATUS = RowKind(_Status, _is_up)
_COUNT = RowKind(_Count, _counted)
_OBJECT: RowKind[dict[str, Any]] = RowKind(dict[str, Any], lambda answer: answer)
_ANYTHING: RowKind[Any] = RowKind(object, lambda answer: answer)
_USAGE = RowKind(object, _used)
_PROFILE = RowKind(_Profile, _quality)
