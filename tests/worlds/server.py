"""A small HTTP server for the workspaces of a batch of worlds. Not the sandbox, by intention.

Each world has a path prefix, ``/NAME/v4``. Only what the daemon reads is served; every other route
is unknown, as it is in a workspace of another edition.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import Any

from aiohttp import web

from monitor.model.clock import Clock
from tests.worlds.impaired import Impaired, query_kind
from tests.worlds.impairments import ListName, Refusal
from tests.worlds.script import World
from tests.worlds.served import Row, Served, Written

_NOT_BEGUN = timedelta(days=1)
_LIMIT = 25  # rows of a page where the request names none
_SPECIFICATION: Row = {"openapi": "3.0.0", "paths": {}}
_UNKNOWN_ROUTE = ("RouteNotFoundException", "This route does not exist")
_NO_DATA = ("DataNotFoundException", "There is no such object")
_REFUSALS = {
    Refusal.FORBIDDEN: (403, "ForbiddenException", "You may not read this"),
    Refusal.NO_ROUTE: (404, *_UNKNOWN_ROUTE),
    Refusal.NO_DATA: (404, *_NO_DATA),
    Refusal.GONE: (410, "GoneException", "This is no longer served"),
}


class WorldServer:
    """Serves worlds by one clock. They begin when `begin` says; before that, nothing has run."""

    def __init__(self, worlds: Iterable[World], clock: Clock) -> None:
        self._worlds = {world.name: world for world in worlds}
        self._impaired = {name: Impaired(world) for name, world in self._worlds.items()}
        self._clock = clock
        self.begin(clock.now() + _NOT_BEGUN)
        self._runner: web.AppRunner | None = None
        self.requests = 0

    def begin(self, zero: datetime) -> None:
        """Let every world begin at this instant, a whole second."""
        self._begun_at = self._clock.monotonic() + (zero - self._clock.now()).total_seconds()
        self._served = {name: Served(world, zero) for name, world in self._worlds.items()}

    def seconds(self) -> float:
        """Return the seconds since the worlds began, however our clock is set."""
        return self._clock.monotonic() - self._begun_at

    async def start(self) -> str:
        """Listen, and return the URL below which each world has its name."""
        app = web.Application()
        app.router.add_route("*", "/{world}/v4/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        self.requests += 1
        world = self._worlds[request.match_info["world"]]
        at = self.seconds()
        if any(outage.begin <= at < outage.end for outage in world.outages):
            return self._response(world, _exception("ServiceUnavailable", "Try later"), 503)
        parts = request.match_info["path"].split("/")
        refusal = self._impaired[world.name].refusal(parts, at)
        if refusal is not None:
            status, name, message = _REFUSALS[refusal]
            return self._response(world, _exception(name, message), status)
        body, status = self._read(world, parts, request, at)
        return self._response(world, body, status)

    def _response(self, world: World, body: Any, status: int) -> web.Response:
        now = self._served[world.name].instant(self.seconds())
        date = format_datetime(now, usegmt=True)
        text = json.dumps(body)
        headers = {"Date": date, "x-trifacta-request-id": "0"}
        return web.Response(
            text=text, status=status, headers=headers, content_type="application/json"
        )

    def _read(
        self, world: World, parts: list[str], request: web.Request, at: float
    ) -> tuple[Any, int]:
        served = self._served[world.name]
        if request.method != "GET":
            return _exception(*_UNKNOWN_ROUTE), 404
        path = "/".join(parts)
        if path in _LISTS:
            written = _LISTS[path](served, at)
            kept = self._impaired[world.name].kept(
                ListName(path), query_kind(request.query), written, at
            )
            return _page(served, kept, request.query, cap=world.page_cap), 200
        if path == "people/current":
            return served.person(at), 200
        if path == "open-api-spec":
            return _SPECIFICATION, 200
        if len(parts) > 1 and parts[1].isdigit():
            return _found(_object(served, parts[0], int(parts[1]), parts[2:], at))
        return _exception(*_UNKNOWN_ROUTE), 404


def _page(
    served: Served, written: list[Written], query: Mapping[str, str], *, cap: int | None
) -> Row:
    rows = [
        row
        for row, created, updated in written
        if query.get("status") in (None, row.get("status"))
        and _is_since(served.instant(created), query.get("dateFilter[createdAt][gte]"))
        and _is_since(served.instant(updated), query.get("dateFilter[updatedAt][gte]"))
    ]
    rows.sort(key=lambda row: row["id"], reverse=query.get("sort") != "id")
    offset, limit = int(query.get("offset", 0)), int(query.get("limit", _LIMIT))
    limit = limit if cap is None else min(limit, cap)
    counted = {"count": len(rows)} if query.get("includeCount", "").lower() == "true" else {}
    return {"data": rows[offset : offset + limit], **counted}


def _is_since(instant: datetime, milliseconds: str | None) -> bool:
    return milliseconds is None or instant.timestamp() * 1000 >= int(milliseconds)


_LISTS: dict[str, Callable[[Served, float], list[Written]]] = {
    "jobLibrary": Served.job_groups,
    "planSnapshotRuns": Served.plan_runs,
    "flows": Served.flows,
    "plans": Served.plans,
    "schedules": Served.schedules,
}


def _object(served: Served, kind: str, run_id: int, rest: list[str], at: float) -> Any:
    """Return what a path with an id names; None where there is nothing."""
    reads: dict[tuple[str, ...], Callable[[int, float], Any]] = {
        ("jobGroups",): served.job_group,
        ("jobGroups", "jobs"): lambda group, at: _jobs(served, group, at),
        ("flowRuns",): served.flow_run,
        ("flowRuns", "status"): served.flow_run_status,
        ("flowRuns", "jobGroups"): lambda run, at: _in_data(served.flow_run_job_groups(run, at)),
        ("planSnapshotRuns",): served.plan_run,
        ("plans",): served.plan,
        ("plans", "full"): served.plan_full,
        ("flows",): served.flow,
        ("schedules",): served.schedule,
    }
    read = reads.get((kind, *rest))
    return None if read is None else read(run_id, at)


def _jobs(served: Served, group: int, at: float) -> Row | None:
    if served.job_group(group, at) is None:
        return None
    # Records that cannot be read: their ids are of a type that no id has.
    rows = served.jobs(group, at)
    return {"data": [{"id": None, "status": []}] if rows is None else rows}


def _in_data(rows: list[Row] | None) -> Row | None:
    return None if rows is None else {"data": rows}


def _found(body: Any) -> tuple[Any, int]:
    return (_exception(*_NO_DATA), 404) if body is None else (body, 200)


def _exception(name: str, message: str) -> Row:
    return {"exception": {"name": name, "message": message, "details": ""}}
