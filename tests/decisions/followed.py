"""A sandbox and all that follows it, each by a clock of its own that the test moves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Self

from monitor.bus.contract import Change, StateEntry
from monitor.model.events import RunEvent
from monitor.model.runs import Pipeline, PipelineKind
from monitor.model.secrets import Secret
from monitor.polling.settings import PollSettings
from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings, WorldOptions
from monitor.sandbox.world.records.objects import Flow, Recipe
from monitor.sandbox.world.records.runs import JobGroup, RanFor
from tests.app.eventually import pause
from tests.clocks import ManualClock, advance_together
from tests.polling.conftest import NAME, Scenario, asleep, until

ALL = ["queued", "started", "succeeded"]
ADA = 11  # the administrator, whose token it is
# One run's end to the next one's start: longer than any poll waits.
HAND_OVER_SECONDS = 100.0


class Followed:
    """``world_clock`` drives what happens in the workspace, ``clock`` the monitor."""

    def __init__(
        self,
        folder: Path,
        *,
        options: WorldOptions | None = None,
        settings: PollSettings | None = None,
        page_size: int = 250,
        requests_per_minute: float = 60_000,
    ) -> None:
        self.clock, self.world_clock = ManualClock(), ManualClock()
        self.sandbox = Sandbox(
            SandboxSettings(
                options=options or WorldOptions(),
                traffic=None,
                schedules_fire=False,
                work=WorkSettings(
                    cancel_ratio=0.0,
                    failure_factor=0.0,
                    hand_over_seconds=(HAND_OVER_SECONDS, HAND_OVER_SECONDS),
                ),
            ),
            self.world_clock,
        )
        self._folder = folder
        self._settings = settings or PollSettings(detail_wait_seconds=0.0, jitter_share=0.0)
        self._page_size = page_size
        self._requests_per_minute = requests_per_minute
        self._tasks: list[asyncio.Task[None]] = []
        self._arrived = 0
        self.sandbox.on_request(self._count)
        self.scenario: Scenario

    async def __aenter__(self) -> Self:
        url = await self.sandbox.start()
        self.scenario = Scenario(
            clock=self.clock,
            folder=self._folder,
            url=url,
            settings=self._settings,
            edition=None,
            token=Secret(self.sandbox.token),
            page_size=self._page_size,
            requests_per_minute=self._requests_per_minute,
        )
        await self.scenario.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.crash(opens_again=False)
        await self.sandbox.stop()

    @property
    def options(self) -> WorldOptions:
        return self.sandbox.world.options

    async def begin(self) -> None:
        """Let the monitor begin, and return when it has read everything once."""
        self.begin_unawaited()
        await asleep(self.clock)

    def begin_unawaited(self) -> None:
        self.poller = self.scenario.poller()
        self._tasks.append(asyncio.create_task(self.poller.run()))

    async def crash(self, *, opens_again: bool = True) -> None:
        """End the monitor wherever it is; nothing survives but its store."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()
        await self.scenario.close()
        if opens_again:
            await self.scenario.open()

    async def pass_time(self, seconds: float, *, step: float = 15.0) -> None:
        """Let workspace and monitor live on for so long."""
        while seconds > 0:
            await advance_together(self.world_clock, self.clock, seconds=min(step, seconds))
            await asleep(self.clock)
            seconds -= step

    async def live(self, seconds: int) -> None:
        """Let both go on second by second, where requests wait for the budget and loops never rest.

        A second begins when requests have their answers and writes have been stored: on a busy
        machine the monitor's clock would run on meanwhile.
        """
        for second in range(seconds):
            await advance_together(self.world_clock, self.clock, seconds=1)
            await pause(0.005)
            await until(lambda: self._arrived <= self._answered())
            beat = StateEntry(workspace=NAME, topic="test", key="second", value=b"%d" % second)
            await self.scenario.bus.commit(Change(state_entries=(beat,)), timeout_seconds=20)

    def _count(self, *_: object) -> None:
        self._arrived += 1

    def _answered(self) -> float:
        name = "dataprep_monitor_api_requests"
        return sum(
            sample.value
            for metric in self.scenario.registry.collect()
            if metric.name == name
            for sample in metric.samples
            if sample.name == f"{name}_total"
        )

    async def pass_time_there(self, seconds: float) -> None:
        """Let the workspace live on while the monitor is down."""
        await advance_together(self.world_clock, self.clock, seconds=seconds)

    def recipes(self) -> list[Recipe]:
        return list(self.sandbox.world.recipes.live())

    def flow(self, name: str) -> Flow:
        return next(flow for flow in self.sandbox.world.flows.live() if flow.name == name)

    def run_job_group(
        self,
        outcome: Outcome = Outcome.COMPLETE,
        *,
        work_seconds: float = 5.0,
        recipe: Recipe | None = None,
        ran_for: RanFor = RanFor.RECIPE,
    ) -> JobGroup:
        self.sandbox.engine.order(
            Order(outcome=outcome, queue_seconds=1.0, work_seconds=work_seconds)
        )
        return self.sandbox.engine.start_job_group(
            recipe or self.recipes()[0], by=ADA, ran_for=ran_for
        )

    def run_job_groups(self, count: int, *, work_seconds: float = 5.0) -> list[JobGroup]:
        return [self.run_job_group(work_seconds=work_seconds) for _ in range(count)]

    async def events(self, run_id: int | None = None) -> list[RunEvent]:
        """Return what was published of runs, in the order of the log."""
        recorded = await self.scenario.bus.events(after=0, limit=10_000)
        return [
            event.event
            for event in recorded
            if isinstance(event.event, RunEvent)
            and run_id in (None, int(event.event.run.key.id))
            and event.event.type != "run.detailed"
        ]

    async def transitions(self, run_id: int) -> list[str]:
        """Return the transitions of one run, in the order in which they were published."""
        return [event.type.removeprefix("run.") for event in await self.events(run_id)]

    async def all_transitions(self) -> list[str]:
        """Return "id:transition" of all that was published."""
        events = await self.events()
        return [f"{event.run.key.id}:{event.type.removeprefix('run.')}" for event in events]

    def label_of(self, flow: Flow) -> str:
        """Return the name under which a flow is shown."""
        pipeline = Pipeline(kind=PipelineKind.FLOW, id=str(flow.id))
        return self.scenario.live_state.view.label(NAME, pipeline)

    def ignored(self, source: str) -> float:
        labels = {"source": source, "outcome": "ignored"}
        return self.scenario.sample("dataprep_monitor_observations_total", **labels)

    def on_list(self, act: Callable[[Mapping[str, str]], None]) -> None:
        """Call ``act`` with the query just before each page of the job library is served."""

        def forward_lists(operation_id: str, query: Mapping[str, str]) -> None:
            if operation_id == "listJobLibrary":
                act(query)

        self.sandbox.on_request(forward_lists)


@contextlib.asynccontextmanager
async def following(folder: Path, **choices: object) -> AsyncIterator[Followed]:
    """Open a sandbox and a monitor that follows it from now on."""
    async with Followed(folder, **choices) as it:  # type: ignore[arg-type]  # as Followed takes them
        await it.begin()
        yield it


def ids(runs: list[JobGroup]) -> set[str]:
    return {str(run.id) for run in runs}
