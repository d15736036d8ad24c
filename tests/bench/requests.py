"""How many API requests it takes to follow runs, beside one GET per run and interval.

A sandbox workspace and a daemon with default settings (a poll every 5 s while something runs, 120
requests a minute) share a clock that goes faster than ours. Job groups of 5 minutes each are
started evenly, so that 500 are active at once, until 1,000 have run. Counted is every request of
the daemon from the first start until all ends were published: polls, job records, names,
reconciliation. Then as many flow runs are followed, of flows with one to three recipes that run one
after the other, so that the requests about their job groups count as well. The other side is what a
script does that reads each active run every 5 s, calculated: runs times minutes times 12. All ends
must have been published, or there is no figure.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from prometheus_client import CollectorRegistry

from monitor import logs
from monitor.app.daemon import Daemon
from monitor.bus.settings import StorageSettings
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.secrets import Secret
from monitor.sandbox.sandbox import Sandbox
from monitor.sandbox.settings import SandboxSettings, WorkSettings
from monitor.sandbox.world.records.objects import Flow
from monitor.web.settings import ServerSettings
from monitor.workspace.settings import WorkspaceSettings
from tests.bench.figures import Figure, table

TITLE = "API requests for 1,000 runs of 5 minutes"
_RUN_SECONDS = 300.0
_INTERVAL_SECONDS = 5.0
_PATIENCE_SECONDS = 1_200.0  # of the fast clock, for the last ends to be published

_LIMIT_SECONDS = 480.0  # of the machine's clock


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 1
    runs: int = 1_000
    active: int = 500
    speed: float = 40.0


class FastClock:
    """Time that passes ``speed`` times as fast as the machine's."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._began = time.monotonic()
        self._start = datetime.now(UTC)

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return (time.monotonic() - self._began) * self._speed

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / self._speed)


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return the requests, and what share they are of one GET per run and interval."""
    sizes = sizes or Sizes()
    logs.configure(level="error")
    ours = tuple([float(await _follow(sizes)) for _ in range(sizes.repetitions)])
    each = sizes.runs * _RUN_SECONDS / _INTERVAL_SECONDS
    flow_runs = tuple(
        [float(await _follow(sizes, flow_runs=True)) for _ in range(sizes.repetitions)]
    )
    return [
        Figure(name="requests of ours", values=ours),
        Figure(name="one GET per run and interval", values=(each,)),
        _over(ours, each, name="ours over theirs", target=1.0),
        Figure(name="requests for a run", values=tuple(our / sizes.runs for our in ours)),
        Figure(name="flow runs: requests of ours", values=flow_runs),
        _over(flow_runs, each, name="flow runs: ours over theirs", target=2.0),
    ]


def _over(ours: tuple[float, ...], each: float, *, name: str, target: float) -> Figure:
    percent = tuple(100 * our / each for our in ours)
    return Figure(name=name, values=percent, unit="%", target=target, ours=ours, theirs=(each,))


async def _follow(sizes: Sizes, *, flow_runs: bool = False) -> int:
    clock, registry = FastClock(sizes.speed), CollectorRegistry()
    work = WorkSettings(
        queue_seconds=(1, 1),
        work_seconds=(_RUN_SECONDS, _RUN_SECONDS),
        cancel_ratio=0.0,
        failure_factor=0.0,
    )
    sandbox = Sandbox(
        SandboxSettings(work=work, traffic=None, schedules_fire=False, is_busy_at_once=False), clock
    )
    url = await sandbox.start(0)
    try:
        with TemporaryDirectory() as folder:
            daemon = Daemon(_configuration(sandbox, url, folder), clock=clock, registry=registry)
            stop = asyncio.Event()
            running = asyncio.create_task(daemon.run(stop))
            try:
                async with asyncio.timeout(_LIMIT_SECONDS):
                    return await _count(sizes, sandbox, clock, daemon, flow_runs=flow_runs)
            finally:
                stop.set()
                await running
    finally:
        await sandbox.stop()


def _configuration(sandbox: Sandbox, url: str, folder: str) -> Configuration:
    workspace = WorkspaceSettings(name="acme", url=url, token=Secret(sandbox.token))
    return Configuration(
        workspaces=(WorkspaceConfiguration(workspace=workspace),),
        server=ServerSettings(listen="127.0.0.1:0"),
        storage=StorageSettings(url=f"sqlite://{Path(folder) / 'state.db'}"),
    )


async def _count(
    sizes: Sizes, sandbox: Sandbox, clock: FastClock, daemon: Daemon, *, flow_runs: bool
) -> int:
    while _metric(daemon, "dataprep_monitor_api_requests_total") == 0:
        await clock.sleep(1)
    await clock.sleep(60)
    before = _metric(daemon, "dataprep_monitor_api_requests_total")
    flows = list(sandbox.world.flows.live())
    recipes = [recipe for flow in flows for recipe in sandbox.world.recipes_of(flow.id)]
    whole_flows = [flow for flow in flows if _outputs(sandbox, flow)]
    began = clock.monotonic()
    for number in range(sizes.runs):
        wait = began + number * _RUN_SECONDS / sizes.active - clock.monotonic()
        if wait > 0:
            await clock.sleep(wait)
        if flow_runs:
            sandbox.engine.start_flow_run(whole_flows[number % len(whole_flows)], by=1)
        else:
            sandbox.engine.start_job_group(recipes[number % len(recipes)], by=1)
    expected = sizes.runs
    if flow_runs:
        each = [_outputs(sandbox, flow) for flow in whole_flows]
        expected += sum(each[number % len(each)] for number in range(sizes.runs))
    longest = max(_outputs(sandbox, flow) for flow in whole_flows) if flow_runs else 1
    end = clock.monotonic() + longest * _RUN_SECONDS + _PATIENCE_SECONDS
    while (
        ends := _metric(daemon, "dataprep_monitor_events_total", type="run.succeeded")
    ) < expected:
        if clock.monotonic() > end:
            raise TimeoutError(f"only {ends:.0f} of {expected} ends were published")
        await clock.sleep(1)
    return int(_metric(daemon, "dataprep_monitor_api_requests_total") - before)


def _outputs(sandbox: Sandbox, flow: Flow) -> int:
    """Return how many recipes of a flow have an output: the job groups of its runs."""
    world = sandbox.world
    return sum(bool(world.outputs_of(recipe.id)) for recipe in world.recipes_of(flow.id))


def _metric(daemon: Daemon, name: str, **labels: str) -> float:
    return sum(
        sample.value
        for registry in daemon.registries
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))
