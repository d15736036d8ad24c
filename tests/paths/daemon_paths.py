"""Plays paths through a daemon in this process, and counts the files and calls of each.

The daemon is whole and warm: a workspace over HTTP, a broker, a store in a file. Its clock stands
still but for what a path needs, so that no poll and no evaluation cycle runs by chance. Each path
is played several times, each time with another run, and the least is taken: what a timer of a
library adds to one play is not in another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import aiohttp
from msgspec import Struct
from msgspec.structs import replace

from monitor.alerting.settings import AlertingSettings
from monitor.callbacks.settings import CallbackSettings
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.secrets import Secret
from monitor.outputs.metrics.settings import MetricsSettings
from monitor.polling.settings import InventorySettings, PollSettings
from monitor.workspace.settings import WorkspaceSettings
from tests.app import fixture
from tests.app.daemon_http import Face
from tests.app.eventually import eventually, pause
from tests.clocks import ManualClock
from tests.paths.call_tracer import CallTracer, TracedPath
from tests.polling.tiny_workspace import TinyWorkspace, stamp
from tests.servers import Mosquitto, free_port

_NAME = "acme"
_PLAYS = 7
_WARM_PLAYS = 2
_RUNNING = 40  # job groups, each of a flow of its own; the plays end some of them
_POLL_SECONDS, _STEP_SECONDS = 5.0, 0.5
_IDLE_TURNS, _TURN_SECONDS = 5, 0.02
_PAGE_KEPT_SECONDS = 11.0
_START_SECONDS = 100.0  # on a machine that does something else
_SELDOM_SECONDS = 1_000_000.0  # what must not run while a path is played

_REQUEST = "Task-"  # asyncio's own name for tasks, which aiohttp leaves to its handlers
_OBSERVER, _OUTPUT = "observer: ", "mqtt: read the log"
_CALLBACK_TASKS = (_REQUEST, _OBSERVER, _OUTPUT)
_READ_TASKS = (f"{_NAME}: changes", f"{_NAME}: details", "waiting for job records")
_POLL_TASKS = (*_READ_TASKS, _OBSERVER, "alerting", _OUTPUT)
_VIEW_TASKS = ("connection", _REQUEST, "page rendering", "overview", "recent readiness")


class Aim(Struct, frozen=True):
    """One path, and how many files it is to touch at most."""

    title: str
    files: int


CALLBACK = Aim("Callback -> PUBLISH on MQTT", 45)
ALERT = Aim("Poll -> alert on MQTT", 90)
OVERVIEW = Aim("View of the overview, computed and rendered", 45)
KEPT_OVERVIEW = Aim("View of the overview, rendered within ten seconds", 45)


class PlayedDaemon:
    """A daemon that follows one workspace, and what plays the paths in it."""

    def __init__(
        self,
        tracer: CallTracer,
        *,
        workspace: TinyWorkspace,
        clock: ManualClock,
        face: Face,
        callbacks_url: str,
        session: aiohttp.ClientSession,
    ) -> None:
        self._tracer = tracer
        self._workspace = workspace
        self._clock = clock
        self._face = face
        self._callbacks_url = callbacks_url
        self._session = session
        self._runs = iter(range(1, _RUNNING + 1))

    async def callback(self) -> TracedPath:
        """Let a callback report the success of a run that is known to be active."""
        await self._until_idle()
        self._tracer.begin(*_CALLBACK_TASKS, until=rb"/event/succeeded")
        async with self._session.post(
            self._callbacks_url,
            json={"job_id": str(next(self._runs)), "status": "Complete"},
            headers={"X-Monitor-Secret": fixture.SECRET},
        ) as answer:
            assert answer.status == 204
        return await self._published()

    async def alert(self) -> TracedPath:
        """Let one poll see that a run has failed, which fires an alert."""
        await self._next_poll()
        await self._clock.advance(_POLL_SECONDS - _STEP_SECONDS)
        number = next(self._runs)
        self._workspace.put_job_group(number, "Failed")
        self._workspace.put_job(number, "Failed", errorMessage="made up")
        await self._until_idle()
        self._tracer.begin(*_POLL_TASKS, until=rb"/alert/[^/]+/[^/]+/event")
        await self._next_poll()
        return await self._published()

    async def overview(self) -> TracedPath:
        """Ask for the page once what was computed and rendered before is too old."""
        await self._clock.advance(_PAGE_KEPT_SECONDS)
        return await self.kept_overview()

    async def kept_overview(self) -> TracedPath:
        """Ask for the page."""
        await self._until_idle()
        self._tracer.begin(*_VIEW_TASKS)
        async with self._session.get(self._face.url + "/") as answer:
            text = await answer.text()
        assert answer.status == 200
        assert "flow 1" in text
        return self._tracer.end()

    async def has_read_all(self) -> bool:
        """True once the daemon knows every run that the workspace shows."""
        return await self._face.total("dataprep_runs_active") == _RUNNING

    async def _next_poll(self) -> None:
        """Let time pass until the workspace is asked for changes once more."""
        before = self._workspace.count("jobLibrary")
        while self._workspace.count("jobLibrary") == before:
            await self._clock.advance(_STEP_SECONDS)

    async def _until_idle(self) -> None:
        """Return when the daemon does nothing any more, because its clock stands still."""
        self._tracer.watch()
        idle, entered = 0, -1
        while idle < _IDLE_TURNS:
            idle = idle + 1 if entered == self._tracer.entered else 0
            entered = self._tracer.entered
            await pause(_TURN_SECONDS)

    async def _published(self) -> TracedPath:
        await eventually(lambda: self._tracer.is_over, why="nothing was published")
        return self._tracer.end()


async def trace_paths(
    folder: Path, *, plays: int = _PLAYS, warm_plays: int = _WARM_PLAYS
) -> dict[Aim, TracedPath]:
    """Return what each path took, the least of so many plays after those that warm up."""
    tracer = CallTracer()

    async def least(play: Callable[[], Awaitable[TracedPath]]) -> TracedPath:
        for _ in range(warm_plays):
            await play()
        traced = [await play() for _ in range(plays)]
        return min(traced, key=lambda path: (len(path.files), path.calls))

    with tracer.installed():
        async with _played_daemon(tracer, folder) as played:
            return {
                CALLBACK: await least(played.callback),
                ALERT: await least(played.alert),
                OVERVIEW: await least(played.overview),
                KEPT_OVERVIEW: await least(played.kept_overview),
            }


@contextlib.asynccontextmanager
async def _played_daemon(tracer: CallTracer, folder: Path) -> AsyncIterator[PlayedDaemon]:
    clock, port = ManualClock(), free_port()
    workspace = TinyWorkspace(clock)
    begun = stamp(clock.now() - timedelta(minutes=5))
    for number in range(1, _RUNNING + 1):
        flow = {"id": number, "name": f"flow {number}"}
        workspace.put_job_group(
            number, createdAt=begun, updatedAt=begun, wrangledDataset={"id": number, "flow": flow}
        )
        workspace.tables["flows"][number] = flow
    await workspace.start()
    standing_still = asyncio.Lock()
    time = asyncio.create_task(_let_time_pass(clock, standing_still), name="time")
    try:
        async with (
            Mosquitto(folder) as broker,
            fixture.daemon(
                _configuration(folder, workspace, broker.url, port), clock=clock
            ) as face,
            aiohttp.ClientSession() as session,
        ):
            played = PlayedDaemon(
                tracer,
                workspace=workspace,
                clock=clock,
                face=face,
                callbacks_url=f"http://127.0.0.1:{port}/hooks/{_NAME}",
                session=session,
            )
            await eventually(
                played.has_read_all,
                why="the daemon does not know all runs",
                within_seconds=_START_SECONDS,
            )
            async with standing_still:
                yield played
    finally:
        time.cancel()
        await workspace.stop()


async def _let_time_pass(clock: ManualClock, standing_still: asyncio.Lock) -> None:
    """A daemon waits for its clock while it starts and while it drains."""
    while True:
        async with standing_still:
            await clock.advance(0.1)
        await pause(0.01)


def _configuration(
    folder: Path, workspace: TinyWorkspace, broker_url: str, port: int
) -> Configuration:
    followed = WorkspaceConfiguration(
        workspace=WorkspaceSettings(
            name=_NAME,
            url=workspace.url,
            token=Secret("t"),
            requests_per_minute=60_000,
            retries=1,
        ),
        poll=PollSettings(
            active_seconds=_POLL_SECONDS,
            idle_seconds=_SELDOM_SECONDS,
            jitter_share=0.0,
            reconcile_seconds=_SELDOM_SECONDS,
            relist_seconds=_SELDOM_SECONDS,
            names_seconds=_SELDOM_SECONDS,
            schedules_seconds=_SELDOM_SECONDS,
            progress_seconds=_SELDOM_SECONDS,
        ),
        inventory=InventorySettings(interval_seconds=_SELDOM_SECONDS),
        callbacks=CallbackSettings(secret=Secret(fixture.SECRET)),
    )
    settings = fixture.configuration(folder, followed, broker_url=broker_url, callbacks_port=port)
    return replace(
        settings,
        alerting=AlertingSettings(evaluation_interval_seconds=_SELDOM_SECONDS),
        metrics=MetricsSettings(loop_lag_interval_seconds=_SELDOM_SECONDS),
    )
