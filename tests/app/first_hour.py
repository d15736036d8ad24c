"""The first hour of a workspace with a week of history, as all faces show it.

``python -m tests.app.first_hour 60`` prints its table, minute by minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from monitor.model.clock import Clock
from monitor.polling.settings import PollSettings
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings
from monitor.workspace.settings import WorkspaceSettings
from tests.app.daemon_http import Face
from tests.app.eventually import eventually
from tests.app.fixture import configuration, daemon, started, workspace_configuration
from tests.paced_clock import PacedClock, PaceFile

START = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
_HISTORY = timedelta(days=7)
_SPEED = 40.0
_ATTEMPTS = 10
_LOOKS, _UNCHANGED = 50, 3  # at most so many, until so many show the same
_PAGE_SECONDS = 2.1  # more than the page keeps what it has computed
_FAILURES = frozenset({"run_failed", "failing_repeatedly"})
_KINDS = ("job_group", "flow_run", "plan_run")
_FAILING = "dataprep_consecutive_failures"
_HEAD = (
    "  min  level     failing gauge page alert  newest run, h: jg   fr   pr  unexplained"
    "  status line"
)


def sandbox_with_past(clock: Clock, history: timedelta) -> Sandbox:
    """Return a workspace in which nothing starts any more."""
    work = WorkSettings(is_regular=True, failure_factor=1.0, cancel_ratio=0.005)
    workspace = Sandbox(SandboxSettings(work=work, schedules_fire=False), clock)
    workspace.live_through(clock.now() - history)
    workspace.stop_starting()
    return workspace


@contextlib.asynccontextmanager
async def followed(workspace: Sandbox, folder: Path, clock: Clock) -> AsyncIterator[Face]:
    """Follow the workspace with the default budget and the default intervals."""
    async with started(workspace) as url:
        acme = workspace_configuration(workspace, url)
        budget = WorkspaceSettings(name="acme", url=url, token=acme.workspace.token)
        acme = msgspec.structs.replace(acme, workspace=budget, poll=PollSettings())
        async with daemon(configuration(folder, acme), clock=clock) as face:
            yield face


class Minute(Struct, frozen=True, kw_only=True):
    """What the faces say at one moment."""

    at: float  # minutes since the start
    level: str
    sentence: str
    page_says: str  # its status line
    failing: frozenset[str]  # pipelines, as the list of pipelines has them
    counted: int  # the same, as ``status`` counts them
    gauged: frozenset[str]
    alerting: frozenset[str]
    reading: tuple[str, ...]
    reached: datetime | None
    newest_hours: dict[str, float | None]  # age of the newest known run, by kind
    unexplained: int  # failed runs, the newest 200 of each kind, whose reason is not read yet

    def row(self) -> str:
        ages = " ".join(
            "   -" if age is None else f"{age:4.1f}" for age in self.newest_hours.values()
        )
        return (
            f"{self.at:5.1f}  {self.level:8}  {self.counted:7} {len(self.gauged):5} "
            f"{len(self.failing):4} {len(self.alerting):5}  {'':12}{ages}  {self.unexplained:11}  "
            f"{self.sentence}"
        )


async def observe(face: Face, clock: PacedClock, *, at: float) -> Minute:
    """Ask all faces while the clock stands, again a little later where anything changed meanwhile.

    Or where the page is older: it may be ten seconds old.
    """
    for _ in range(_ATTEMPTS):
        clock.is_held = True
        try:
            await _until_unchanged(face)
            before = await _observe(face, at=at, now=clock.now())
            seen = await _observe(face, at=at, now=clock.now())
        finally:
            clock.is_held = False
        if seen == before and seen.page_says == seen.sentence:
            return seen
        await _reach(clock, clock.monotonic() + _PAGE_SECONDS)
    raise AssertionError(f"something changes at every look: {before} {seen}")


async def _until_unchanged(face: Face) -> None:
    """Let what is under way arrive before the page is asked for."""
    seen: list[object] = []
    for _ in range(_LOOKS):
        seen.append((await face.json("/api/v1/status"), await face.json("/api/v1/workspaces")))
        if len(seen) >= _UNCHANGED and all(each == seen[-1] for each in seen[-_UNCHANGED:]):
            return


async def _reach(clock: PacedClock, due: float) -> None:
    await eventually(lambda: clock.monotonic() >= due, why="time does not go on", within_seconds=90)


async def _observe(face: Face, *, at: float, now: datetime) -> Minute:
    status = await face.json("/api/v1/status")
    samples = await face.samples(_FAILING)
    rows = (await face.json("/api/v1/pipelines?state=failing&limit=200"))["data"]
    alerts = (await face.json("/api/v1/alerts?state=firing&limit=500"))["data"]
    page = await face.text("/")
    acme = (await face.json("/api/v1/workspaces"))["data"][0]
    failed = [
        run
        for kind in _KINDS
        for run in (await face.json(f"/api/v1/runs?kind={kind}&status=failed&limit=200"))["data"]
    ]
    history = acme["history"]
    return Minute(
        at=at,
        level=status["level"],
        sentence=status["sentence"],
        page_says=_status_line(page),
        failing=frozenset(row["pipeline"] for row in rows),
        counted=status["failing"],
        gauged=frozenset(sample.labels["pipeline"] for sample in samples if sample.value > 0),
        alerting=frozenset(
            alert["labels"]["pipeline"] for alert in alerts if alert["rule"] in _FAILURES
        ),
        reading=tuple(acme["reading"]),
        reached=None if history is None else datetime.fromisoformat(history["reached"]),
        newest_hours={kind: await _newest_hours(face, kind, now) for kind in _KINDS},
        unexplained=sum(not run["is_reason_read"] for run in failed),
    )


def _status_line(page: str) -> str:
    found = re.search(r'class="sentence">(.*?)<', page)
    return html.unescape(found[1]) if found else ""


async def _newest_hours(face: Face, kind: str, now: datetime) -> float | None:
    rows: list[dict[str, Any]] = (await face.json(f"/api/v1/runs?kind={kind}&limit=1"))["data"]
    if not rows:
        return None
    return (now - datetime.fromisoformat(rows[0]["created_at"])).total_seconds() / 3_600


async def watch(
    folder: Path,
    *,
    history: timedelta,
    minutes: float,
    every_minutes: float,
    show: Callable[[str], object],
    most_minutes: float = 0.0,
) -> list[Minute]:
    """Let a daemon meet the workspace, observe it again and again, and show each row.

    Goes on up to ``most_minutes`` where history is still being read.
    """
    show(_HEAD)
    clock = PacedClock(PaceFile(folder / "pace"), speed=_SPEED, start=START)
    workspace = sandbox_with_past(clock, history)
    seen: list[Minute] = []
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(clock.stop)
        face = await stack.enter_async_context(followed(workspace, folder, clock))
        began = clock.monotonic()
        while (
            not seen or seen[-1].at < minutes or (seen[-1].reading and seen[-1].at < most_minutes)
        ):
            await _reach(clock, began + 60 * every_minutes * len(seen))
            at = (clock.monotonic() - began) / 60
            seen.append(await observe(face, clock, at=at))
            show(seen[-1].row())
    return seen


def main() -> None:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(
            watch(Path(folder), history=_HISTORY, minutes=minutes, every_minutes=1, show=show_now)
        )


def show_now(row: str) -> None:
    """Write a row to standard output at once."""
    sys.stdout.write(row + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
