"""A daemon with a configured report: the page, the JSON, the event, and what outputs get."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from monitor.alerting.reports.settings import ReportSettings
from monitor.app.daemon import Daemon
from monitor.app.hosted.shard import REPORTS
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import CLUSTER
from monitor.config import Configuration
from monitor.model.clock import Clock, SystemClock
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.clocks import FastClock

EACH_MINUTE = ReportSettings(name="each-minute", at="* * * * *")


async def report(face: Face, query: str = "since=1h") -> Any:
    return await face.json(f"/api/v1/report?{query}")


def length(row: dict[str, str]) -> timedelta:
    return datetime.fromisoformat(row["until"]) - datetime.fromisoformat(row["since"])


def before_a_minute(now: datetime) -> datetime:
    """Return an instant shortly before a minute begins, which no busy machine waits long for."""
    return now.replace(second=55, microsecond=0) + timedelta(minutes=1)


async def answers_again(face: Face) -> bool:
    (row,) = (await face.json("/api/v1/workspaces"))["data"]
    return bool(row["reachability"] == "reachable")


async def test_an_outage_is_named_with_its_times(tmp_path: Path) -> None:
    """A workspace that answers no more and then again: the report says from when to when."""
    clock = FastClock(speed=12)
    workspace = Sandbox(SandboxSettings(traffic=None, schedules_fire=False), clock)
    async with (
        fixture.started(workspace) as url,
        fixture.daemon(
            fixture.configuration(tmp_path, fixture.workspace_configuration(workspace, url)),
            clock=clock,
        ) as face,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        began = clock.now()
        workspace.world.options.status_503 = 1.0

        row: dict[str, str] = {}

        async def is_out() -> bool:
            rows = (await report(face))["unwatched"]
            row.update(next((r for r in rows if r["why"].startswith("it did not answer")), {}))
            # What lasts less than a status is stored apart is not remembered.
            return bool(row) and length(row) > timedelta(seconds=40)

        await eventually(is_out, why="no outage is reported")
        workspace.world.options.status_503 = 0.0
        ended = clock.now()
        await eventually(lambda: answers_again(face), why="it does not answer again")
        made = await report(face)
        (outage,) = [r for r in made["unwatched"] if r["why"].startswith("it did not answer")]
        assert began <= datetime.fromisoformat(outage["since"]) <= ended
        assert datetime.fromisoformat(outage["until"]) >= ended
        assert "acme was not watched all the time" in made["verdict"]
        text = await face.text("/reports?since=1h")
        assert "it did not answer" in text


async def test_a_report_that_is_due_makes_one_event_over_a_restart(tmp_path: Path) -> None:
    """With the name and time by which an output computes it; each time once."""
    clock = FastClock()
    workspace = Sandbox(SandboxSettings(traffic=None, schedules_fire=False), clock)
    due: list[dict[str, Any]] = []
    async with fixture.started(workspace) as url:
        settings = msgspec.structs.replace(
            fixture.configuration(tmp_path, fixture.workspace_configuration(workspace, url)),
            reports=(EACH_MINUTE,),
        )
        for count in (1, 2):
            clock.set_wall(before_a_minute(clock.now()))
            async with fixture.daemon(settings, clock=clock) as face:

                async def is_due(face: Face = face, count: int = count) -> bool:
                    found = await face.json("/api/v1/events?type=report.due&limit=100")
                    due[:] = found["data"]
                    return len(due) >= count

                await eventually(is_due, why="no report is due")
                named = await report(face, "name=each-minute")
                assert named["name"] == "each-minute"

    assert len({event["id"] for event in due}) == len(due)
    assert all(event["id"].startswith("bridge:report:each-minute:") for event in due)


@asynccontextmanager
async def running(settings: Configuration, clock: Clock) -> AsyncIterator[Daemon]:
    """Run a daemon and yield it once it has started."""
    daemon = Daemon(settings, clock=clock, registry=CollectorRegistry())
    stop = asyncio.Event()
    has_started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(
        daemon.run(stop, on_started=lambda _: has_started.set_result(None)), name="daemon"
    )
    await asyncio.wait((task, has_started), return_when=asyncio.FIRST_COMPLETED)
    try:
        yield daemon
    finally:
        stop.set()
        await task


async def test_an_output_gets_the_report_by_name_and_time(tmp_path: Path) -> None:
    """The callable that outputs are built with computes it, over all that the daemon shows."""
    clock = FastClock()
    workspace = Sandbox(SandboxSettings(traffic=None, schedules_fire=False), clock)
    async with fixture.started(workspace) as url:
        settings = msgspec.structs.replace(
            fixture.configuration(tmp_path, fixture.workspace_configuration(workspace, url)),
            reports=(EACH_MINUTE,),
        )
        async with running(settings, clock) as daemon:
            (shard,) = daemon._hosting.shards.values()
            until = clock.now()
            made = await shard.outputs._parts.report("each-minute", until)

    assert (made.until, made.since.hour) == (until, 18)
    assert made.verdict


async def test_in_a_cluster_one_shard_records_for_all(tmp_path: Path, empty_database: str) -> None:
    """That of the cluster, so that two workspaces are no two reports; and it is about both."""
    settings = msgspec.structs.replace(
        fixture.configuration(tmp_path, fixture.unreachable("acme"), fixture.unreachable("beta")),
        storage=StorageSettings(url=empty_database, daemon="north"),
        reports=(EACH_MINUTE,),
    )
    clock = SystemClock()
    async with running(settings, clock) as daemon:
        shards = daemon._hosting.shards
        recording = [name for name, shard in shards.items() if REPORTS in shard.tasks._tasks]
        made = await shards[CLUSTER].outputs._parts.report("each-minute", clock.now())

    assert recording == [CLUSTER]
    said = "\n".join(made.missing)
    assert "acme: " in said
    assert "beta: " in said
