"""One shard that this daemon holds: its parts, and their life from the grant to the release."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from typing import Any

import structlog

from monitor import __version__
from monitor.alerting.engine.committed_state import CONSUMER as ALERTING_CONSUMER
from monitor.alerting.engine.engine import Engine
from monitor.alerting.reports.report_query import ReportQuery
from monitor.app.hosted.cluster_watch import ClusterWatch
from monitor.app.hosted.following import FollowedWorkspace
from monitor.app.hosted.instructions import InstructionRunner
from monitor.app.hosted.outputs import Outputs
from monitor.app.hosted.report_clock import ReportClock
from monitor.app.hosted.request_routing import AdminRequests, alerting_requests
from monitor.app.hosted.workspaces import FollowedWorkspaces
from monitor.app.tasks import DaemonTasks, first_failure
from monitor.bus.contract import EventBus, Start
from monitor.bus.shards import CLUSTER, SOLE, ShardInstructions
from monitor.catalogue.capabilities import Capability
from monitor.config import Configuration, config_hash
from monitor.model.alerts import DaemonCondition, Silence, Trouble
from monitor.model.clock import Clock
from monitor.model.errors import BusError, ConfigurationError
from monitor.model.registries import ShardRegistry
from monitor.model.reports import Report
from monitor.model.waits import happens_within
from monitor.outputs.event_output import DaemonInfo
from monitor.outputs.metrics.consumer import CONSUMER as METRICS_CONSUMER
from monitor.outputs.metrics.shard_metrics import ShardMetrics
from monitor.supervisor import Supervisor
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from monitor.web.requests import ShardRequests
from monitor.web.shown_shards import ShownShard
from monitor.workspace.access.stored_tokens import TokenMemory

log = structlog.get_logger()

_DRAIN_SECONDS = 10.0
REPORTS = "reports"  # the task that records when they are due
_FINISH_SECONDS = 5.0  # for alerting and metrics, each


class HostedShard:
    """Build it, then `run` it once. ``configuration`` has the workspaces of the shard only."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        bus: EventBus,
        instructions: ShardInstructions | None,
        clock: Clock,
        registry: ShardRegistry,
        supervisor: Supervisor,
        token_memory: TokenMemory,
        cluster: ClusterWatch | None = None,
        reports: Callable[[ReportQuery], Awaitable[Report]],
        own_trouble: Callable[[], Trouble | None] = lambda: None,
        ages_at: Callable[[], datetime | None] = lambda: None,
        silences: Callable[[], Awaitable[Sequence[Silence]]] | None = None,
    ) -> None:
        """``cluster`` only of the shard whose holder watches it; ``silences`` has those of all.

        ``reports`` computes them over all shards.

        ``own_trouble`` is what the daemon lacks, where this shard is to alert about that;
        ``ages_at`` returns the time by which ages are judged, None: by the clock.
        """
        self._cluster = cluster
        self._own_trouble = own_trouble
        self._ages_at = ages_at
        self._silences = silences
        self._reports = reports
        self.name = bus.shard
        self.bus = bus
        self._instructions = instructions
        self._clock = clock
        self.configuration = configuration  # in force
        self.has_leftovers = False  # consumers that the store did not drop yet
        self._stopping = asyncio.Event()
        self._is_orderly = False
        self.tasks = DaemonTasks(supervisor, shard=self.name)
        self.live_state = LiveState([workspace.name for workspace in configuration.workspaces])
        self.view = self.live_state.view
        self.observer = Observer(
            bus=bus,
            live_state=self.live_state,
            clock=clock,
            registry=registry,
            settings=configuration.tracking,
        )
        self.engine = self._engine(supervisor)
        self.metrics = self._metrics(registry)
        self.outputs = self._outputs(registry)
        self.workspaces = FollowedWorkspaces(
            bus=bus,
            observer=self.observer,
            live_state=self.live_state,
            clock=clock,
            registry=registry,
            token_memory=token_memory,
            tasks=self.tasks,
        )

    def _engine(self, supervisor: Supervisor) -> Engine:
        engine = Engine(
            bus=self.bus,
            view=self.view,
            clock=self._clock,
            settings=self.configuration.linked_alerting,
            retention=self.configuration.storage.retention,
            guard=supervisor.contain,
        )
        engine.watch_daemon(self._condition)
        return engine

    def _metrics(self, registry: ShardRegistry) -> ShardMetrics:
        return ShardMetrics(
            bus=self.bus,
            live_state=self.view,
            clock=self._clock,
            registry=registry,
            settings=self.configuration.metrics,
            capabilities=list(Capability),
            alerting=self.engine.snapshot,
        )

    def _outputs(self, registry: ShardRegistry) -> Outputs:
        return Outputs(
            self.configuration.outputs,
            bus=self.bus,
            view=self.view,
            clock=self._clock,
            registry=registry,
            info=daemon_info(self.configuration),
            alerting=self.engine.snapshot,
            page_url=self.configuration.server.linked_url,
            report=self._report,
        )

    async def _report(self, name: str, until: datetime) -> Report:
        """Return what a configured report says that was due then; of all shards.

        Raises:
            ConfigurationError: none of that name is configured any more.
            BusUnavailableError: the store does not answer.
        """
        for report in self.configuration.reports:
            if report.name == name:
                return await self._reports(ReportQuery.of(report, until))
        raise ConfigurationError(f"the report {name!r} is not configured any more")

    def _condition(self) -> DaemonCondition:
        troubles = () if self._cluster is None else self._cluster.troubles
        own = self._own_trouble()
        return DaemonCondition(
            shard=self.name,
            overwritten=self.outputs.overwritten(),
            ages_at=self._ages_at(),
            troubles=troubles if troubles is None or own is None else (*troubles, own),
        )

    def shown(self) -> ShownShard:
        """Return what the server needs of the shard."""
        requests = AdminRequests(self.workspaces.by_name)
        return ShownShard(
            name=self.name,
            bus=self.bus,
            live=self.view,
            alerting=alerting_requests(
                self.engine,
                bus=self.bus,
                view=self.view,
                clock=self._clock,
                retention=self.configuration.storage.retention,
                types=self.outputs.types,
                why_not_taken=self.outputs.why_not_taken,
                replay=self.outputs.replays.replay,
                process_letters=self.outputs.dead_letters.process,
                previews=self.outputs.previews,
            ),
            requests=ShardRequests(
                track=requests.track,
                untrack=requests.untrack,
                webhooks=requests.act_on_webhooks,
                act=requests.act,
            ),
            outputs=self.outputs.check_lines,
        )

    # --- its life ---

    async def run(self, *, on_started: Callable[[], None]) -> None:
        """Start everything, run until it is stopped, and end everything.

        Raises:
            BusError: the store refused the start, or the shard was lost.
            ConfigurationError: a file that a workspace names cannot be used.
        """
        try:
            async with asyncio.TaskGroup() as group:
                self.tasks.use(group)
                try:
                    await self._start()
                    on_started()
                    await self._stopping.wait()
                finally:
                    await self._end()
        except ExceptionGroup as failures:
            # A vital task's failure has been logged with its trace; the first one names it.
            raise first_failure(failures) from failures

    def stop(self, *, is_orderly: bool) -> None:
        """Let `run` return: after what can be delivered, or at once and without a word."""
        was_orderly = self._is_orderly or not self._stopping.is_set()
        self._is_orderly = is_orderly and was_orderly
        self._stopping.set()

    async def _start(self) -> None:
        """Start the steps in their order; each rests on those before it."""
        self.tasks.start("store", self.bus.watch, vital=True)
        self.tasks.start("observer", self.observer.watch, vital=True)
        await self._create_consumers()
        await self._prepare_workspaces()
        # A scrape must never show a counter at 0 that has counted before.
        await self.metrics.consumer.restore()
        self.tasks.start("metrics", self.metrics.consumer.run)
        # Before the outputs: they delete what they still show of an alert that is no longer held.
        await self.engine.restore()
        await self._learn_silences()
        self.tasks.start("alerting", self.engine.run)
        if self._cluster is not None:
            self.tasks.start("cluster watch", self._cluster.run)
        self.tasks.start_all(self.outputs.tasks())
        self.start_reports()
        for workspace in self.workspaces.by_name.values():
            self.workspaces.start(workspace)
        if self._instructions is not None:
            runner = InstructionRunner(self._instructions, shown=self.shown)
            self.tasks.start("instructions", runner.run)
        if self.name:  # of the only one the daemon speaks
            log.info("shard started", shard=self.name, workspaces=list(self.workspaces.by_name))

    def start_reports(self) -> None:
        """Record when reports are due: of all shards one does."""
        if self.name in (SOLE, CLUSTER):
            clock = ReportClock(
                bus=self.bus, clock=self._clock, reports=lambda: self.configuration.reports
            )
            self.tasks.start(REPORTS, clock.run)

    async def _create_consumers(self) -> None:
        """Before any event can be appended: one that begins at the newest must miss none."""
        await self.bus.subscribe(METRICS_CONSUMER, start=Start.OLDEST)
        await self.outputs.subscribe()
        await self.bus.subscribe(ALERTING_CONSUMER, start=Start.NEWEST)

    async def _learn_silences(self) -> None:
        """Make and end what people made and ended while no daemon followed this shard."""
        now = self._clock.now()
        own = {silence.id: silence for silence in self.engine.snapshot().silences}
        for silence in () if self._silences is None else await self._silences():
            if silence.id not in own:
                if silence.ends_at > now:
                    await self.engine.add_silence(silence)
            elif silence.ends_at <= now < own[silence.id].ends_at:
                await self.engine.expire_silence(silence.id)

    async def _prepare_workspaces(self) -> None:
        for configuration in self.configuration.workspaces:
            workspace = self.workspaces.build(configuration, instance=self.configuration.instance)
            await self.workspaces.prepare(workspace)
            self.workspaces.add(workspace)
        await self.keep_consumers(self.workspaces.by_name.values())

    async def keep_consumers(
        self, workspaces: Iterable[FollowedWorkspace], *, more: Iterable[str] = ()
    ) -> None:
        """Drop every unused consumer, because retention waits for all of them."""
        needed = [METRICS_CONSUMER, ALERTING_CONSUMER, *self.outputs.by_name, *more]
        needed += (name for workspace in workspaces for name in workspace.consumers())
        for dropped in await self.bus.keep_only(needed):
            log.info("consumer is no longer configured and was dropped", consumer=dropped)

    async def _end(self) -> None:
        """Stop what brings events in, then, in an orderly stop, deliver them within a bound."""
        try:
            for name, workspace in list(self.workspaces.by_name.items()):
                if self._is_orderly:
                    await workspace.remember()
                await self.workspaces.stop(name)
            if self._is_orderly:
                await self._finish_log()
        finally:
            # Also when the store breaks meanwhile, which cancels whatever is under way here.
            await self.tasks.cancel_all()
            await self.workspaces.close()

    async def _finish_log(self) -> None:
        """Let all consumers read what the log holds, and store how far they are."""
        # Alerting first: its events are for the others. What would bring more of them has ended.
        await self.tasks.cancel(("instructions", REPORTS, "alerting", "metrics"))
        await self._finish(ALERTING_CONSUMER, self._evaluate_all())
        async with asyncio.TaskGroup() as group:
            draining = self.outputs.drain(timeout_seconds=_DRAIN_SECONDS)
            group.create_task(draining, name="drain outputs")
            counting = self._finish(METRICS_CONSUMER, self.metrics.consumer.finish())
            group.create_task(counting, name="finish metrics")

    async def _evaluate_all(self) -> None:
        while await self.engine.take_some():
            pass
        await self.engine.store_position()

    async def _finish(self, consumer: str, finishing: Coroutine[Any, Any, None]) -> None:
        """Wait for the end of the log within a bound; the rest is read after the next start."""
        try:
            is_done = await happens_within(
                finishing, clock=self._clock, seconds=_FINISH_SECONDS, name=f"finish {consumer}"
            )
        except BusError as exc:
            log.warning("log read in part", shard=self.name, consumer=consumer, reason=str(exc))
            return
        if not is_done:
            log.warning("log read in part", shard=self.name, consumer=consumer, reason="no time")


def daemon_info(configuration: Configuration) -> DaemonInfo:
    """Return what is published about this daemon."""
    return DaemonInfo(
        version=__version__,
        workspaces=tuple(workspace.name for workspace in configuration.workspaces),
        config_hash=config_hash(configuration),
    )
