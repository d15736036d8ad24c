"""A workspace as small as a test needs it: rows that the test writes, faults that it orders."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec
from aiohttp import web

from monitor.model.clock import Clock

Row = dict[str, Any]

NO_ROUTE = (404, "RouteNotFoundException")
NO_OBJECT = (404, "DataNotFoundException")
FORBIDDEN = (403, "AccessControlException")
OVERLOADED = (503, "ServiceUnavailable")


def stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


class TinyWorkspace:
    """Serves its tables under ``/v4``. Its clock is the one handed in, shifted by ``offset``.

    ``documents`` maps a path to its answer, which comes before any table's.
    ``faults`` maps a pattern of paths to a status and an exception's name, ``holds`` to an event
    that answers wait for. ``requests`` holds path and query of each.
    """

    EVERYTHING = range(1_000_000)  # for ``unlisted``

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.offset = timedelta()
        self.sends_date = True
        self.tables: dict[str, dict[int, Row]] = {
            name: {} for name in ("jobLibrary", "planSnapshotRuns", "plans", "flows", "schedules")
        }
        self.jobs: dict[int, list[Row]] = {}
        self.embeds_jobs = True  # False: its list of all job groups knows no embed
        self.flow_runs: dict[int, Row] = {}
        self.flow_run_words: dict[int, str] = {}
        self.full_plans: dict[int, Row] = {}
        self.documents: dict[str, Any] = {}
        self.hidden: tuple[str, ...] = ()  # keys that the job library does not show
        # What a list that lies leaves out, by its table; a read by id still shows it.
        self.unlisted: dict[str, Collection[int]] = {}
        self.texts: dict[str, Any] = {}  # answered 200 for a path: markup, or JSON of any shape
        self.faults: dict[str, tuple[int, str]] = {}
        self.holds: dict[str, asyncio.Event] = {}
        self.before_answer: Callable[[str, Mapping[str, str]], None] | None = None
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/v4/{rest:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0]
        self.url = f"http://{host}:{port}"

    async def stop(self) -> None:
        for hold in self.holds.values():
            hold.set()
        if self._runner is not None:
            await self._runner.cleanup()

    def now(self) -> datetime:
        return self.clock.now() + self.offset

    def count(self, pattern: str) -> int:
        """Return how many requests so far had a path that matches."""
        return sum(re.fullmatch(pattern, path) is not None for path, _ in self.requests)

    def put_job_group(self, row_id: int, status: str = "InProgress", **fields: Any) -> Row:
        """Write a job group as the workspace would: created and updated now, unless given."""
        table = self.tables["jobLibrary"]
        row = table.setdefault(
            row_id,
            {
                "id": row_id,
                "createdAt": stamp(self.now()),
                "ranfor": "recipe",
                "ranfrom": "ui",
                "flowRun": None,
                "wrangledDataset": {"id": 45, "flow": {"id": 11, "name": "Sales"}},
            },
        )
        row.update({"status": status, "updatedAt": stamp(self.now()), **fields})
        return row

    def put_plan_run(self, row_id: int, status: str = "InProgress", **fields: Any) -> Row:
        table = self.tables["planSnapshotRuns"]
        row = table.setdefault(row_id, {"id": row_id, "createdAt": stamp(self.now())})
        row.update({"status": status, "updatedAt": stamp(self.now()), **fields})
        return row

    def put_job(self, group_id: int, status: str = "Complete", **fields: Any) -> None:
        jobs = self.jobs.setdefault(group_id, [])
        jobs.append(
            {
                "id": 1_000 * group_id + len(jobs),
                "status": status,
                "jobType": "wrangle",
                "createdAt": stamp(self.now()),
                "updatedAt": stamp(self.now()),
                **fields,
            }
        )

    def put_flow_run(self, row_id: int, status: str = "InProgress", **fields: Any) -> None:
        self.flow_runs.setdefault(
            row_id, {"id": row_id, "createdAt": stamp(self.now()), "flow": {"id": 11}, **fields}
        )
        self.flow_run_words[row_id] = status

    async def _answer(self, request: web.Request) -> web.Response:
        path, query = request.path.removeprefix("/v4/"), dict(request.query)
        self.requests.append((path, query))
        if self.before_answer is not None:
            self.before_answer(path, query)
        for pattern, hold in self.holds.items():
            if re.fullmatch(pattern, path):
                await hold.wait()
        for pattern, (status, name) in self.faults.items():
            if re.fullmatch(pattern, path):
                return self._failure(status, name)
        if path in self.texts:
            text = self.texts[path]
            is_page = isinstance(text, str)
            return (
                web.Response(text=text, content_type="text/html") if is_page else self._json(text)
            )
        found = self.documents.get(path) or self._find(path, query)
        return self._failure(*NO_OBJECT) if found is None else self._json(found)

    def _json(self, body: Any, status: int = 200) -> web.Response:
        headers = {"Content-Type": "application/json"}
        if self.sends_date:
            headers["Date"] = format_datetime(self.now(), usegmt=True)
        else:
            headers["Date"] = ""
        return web.Response(body=msgspec.json.encode(body), status=status, headers=headers)

    def _failure(self, status: int, name: str) -> web.Response:
        return self._json({"exception": {"name": name, "message": name}}, status)

    def _find(self, path: str, query: Mapping[str, str]) -> Any:  # noqa: C901, PLR0911 - one for each path
        parts = path.split("/")
        if path in self.tables:
            return self._list(path, query)
        number = 0
        with suppress(IndexError, ValueError):
            number = int(parts[1])
        match (parts[0], parts[2] if len(parts) > 2 else ""):
            case ("people", "") if not number:
                return {"id": 1}
            case ("open-api-spec", _):
                return {"openapi": "3.0.0", "paths": {}}
            case ("jobGroups", "") if not number:
                return self._list_of_jobs(query)
            case ("jobGroups", ""):
                return self.tables["jobLibrary"].get(number)
            case ("jobGroups", "jobs"):
                return {"data": self.jobs.get(number, [])}
            case ("planSnapshotRuns", ""):
                return self.tables["planSnapshotRuns"].get(number)
            case ("plans", "full"):
                return self.full_plans.get(number)
            case ("flowRuns", ""):
                return self.flow_runs.get(number)
            case ("flowRuns", "status"):
                return self.flow_run_words.get(number)
            case ("flowRuns", "jobGroups"):
                return {"data": self._groups_of(number)}
            case ("flows" | "schedules", "") if number:
                return self.tables[parts[0]].get(number)
        return {"data": []}

    def _list_of_jobs(self, query: Mapping[str, str]) -> Row:
        unlisted = self.unlisted.get("jobGroups", ())
        table = self.tables["jobLibrary"]
        ids = [id_ for id_ in sorted(table) if id_ not in unlisted]
        if query.get("sort") == "-id":
            ids.reverse()
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", 25))
        shown = [dict(table[id_]) for id_ in ids[offset : offset + limit]]
        if query.get("embed") == "jobs" and self.embeds_jobs:
            for row in shown:
                row["jobs"] = {"data": self.jobs.get(row["id"], [])}
        return {"data": shown, "count": len(ids)} if "includeCount" in query else {"data": shown}

    def _groups_of(self, flow_run_id: int) -> list[Row]:
        rows = self.tables["jobLibrary"].values()
        return [row for row in rows if (row.get("flowRun") or {}).get("id") == flow_run_id]

    def _list(self, name: str, query: Mapping[str, str]) -> Row:
        unlisted = self.unlisted.get(name, ())
        rows = [row for id_, row in sorted(self.tables[name].items()) if id_ not in unlisted]
        if (status := query.get("status")) is not None:
            rows = [row for row in rows if row["status"] == status]
        for field in ("updatedAt", "createdAt"):
            if (since := query.get(f"dateFilter[{field}][gte]")) is not None:
                edge = stamp(datetime.fromtimestamp(int(since) / 1000, UTC))
                rows = [row for row in rows if str(row[field]) >= edge]
        if query.get("sort") == "-id":
            rows.reverse()
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", 25))
        hidden = self.hidden if name == "jobLibrary" else ()
        return {
            "data": [
                {key: value for key, value in row.items() if key not in hidden}
                for row in rows[offset : offset + limit]
            ]
        }
