"""Follows one workspace: connects, then lets every poll run at its own pace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random, SystemRandom

import structlog
from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus
from monitor.catalogue.capabilities import Capability
from monitor.model.clock import Clock
from monitor.model.errors import BusError, MonitorError, TryLaterError
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind
from monitor.model.waits import backoff_seconds
from monitor.polling.capability_discovery import CapabilityDiscovery
from monitor.polling.following import Following
from monitor.polling.pace import rest_after_reads, rest_between_lists
from monitor.polling.parts import WorkspacePolls, build
from monitor.polling.polls import Polls
from monitor.polling.settings import InventorySettings, PollSettings
from monitor.polling.waiting import Bell
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from monitor.workspace.client import WorkspaceClient
from monitor.workspace.priority import Priority

log = structlog.get_logger()

Poll = Callable[[], Awaitable[object]]

_FIRST_WAIT_SECONDS = 1.0
_QUICK_LISTS = 2  # job groups and plan runs
# How long after a callback the polls stay quick, whatever is known to run.
_QUICK_AFTER_WAKE_SECONDS = 30.0
_NOTHING_DUE_SECONDS = 3_600.0


class WorkspacePoller:
    """The polls of one workspace. `run` may be started again after it failed."""

    def __init__(
        self,
        client: WorkspaceClient,
        *,
        observer: Observer,
        live_state: LiveState,
        bus: EventBus,
        clock: Clock,
        registry: CollectorRegistry,
        settings: PollSettings,
        inventory: InventorySettings | None = None,
        random: Random | None = None,
    ) -> None:
        self._following = Following(
            client=client,
            observer=observer,
            live_state=live_state,
            bus=bus,
            clock=clock,
            settings=settings,
            inventory=inventory,
        )
        self._random = random or SystemRandom()
        self._polls = Polls(self._following, registry)
        self._capability_discovery = CapabilityDiscovery(self._following, self._polls.reachability)
        self._change_wake = Bell(clock)
        self._plan_wake = Bell(clock)
        self._parts = build(self._following)

    def wake(self) -> None:
        """A callback has arrived: poll for changes soon. Many calls cause one poll a second."""
        self._change_wake.ring()
        self._plan_wake.ring()

    async def confirm(self, key: RunKey) -> bool | None:
        """Read one run by its id and observe it.

        True: it exists and was observed. False: the workspace denies it, or it is none that is
        followed, such as a sample. None: the workspace could not be asked now.
        """
        return await self._parts.by_id.confirm(key)

    async def track(self, kind: RunKind, run_id: str) -> bool | None:
        """Follow a run that the operator names; answers as `confirm`, None: it is asked later."""
        return await self._parts.by_id.track(self._following.key(kind, run_id))

    async def complete(self, observations: Sequence[Observation]) -> list[Observation]:
        """Add job records to looks at ended job groups, waiting for a bounded time only."""
        return await self._parts.details.complete(observations)

    async def run(self) -> None:
        """Follow the workspace until cancelled. A poll that fails never stops another."""
        following = self._following
        # Built anew, because a failure may have left a part in the middle of something.
        self._parts = build(following)
        since = await following.observer.open(following.name)
        await self._connect()
        if since is None:
            # A stamp may be cut to its second: an end within this one must not look like old news.
            now = following.workspace_now().replace(microsecond=0)
            await following.observer.follow_since(following.name, now)
        await self._parts.load()
        await self._parts.details.pick_up()
        async with asyncio.TaskGroup() as group:
            self._start_run_polls(group, self._parts)
            self._start_slow_polls(group, self._parts)
            self._start_inventory_polls(group, self._parts)

    def _start_run_polls(self, group: asyncio.TaskGroup, parts: WorkspacePolls) -> None:
        """Start what follows runs."""
        self._start(group, "details", parts.details.run())
        self._repeat(
            group,
            "changes",
            parts.changes.poll,
            self._change_seconds,
            needs=Capability.LIST_CHANGES,
            wake=self._change_wake,
        )
        self._repeat(
            group,
            "plan_runs",
            parts.plan_runs.poll,
            self._change_seconds,
            needs=Capability.LIST_PLAN_RUNS,
            wake=self._plan_wake,
        )
        self._repeat(
            group,
            "plan_children",
            parts.plan_children.poll,
            self._change_seconds,
            needs=Capability.LIST_PLAN_RUNS,
        )
        self._repeat(
            group, "by_id", parts.by_id.poll, self._by_id_seconds, needs=Capability.FOLLOW_BY_ID
        )
        self._repeat(
            group,
            "progress",
            parts.progress.poll,
            self._change_seconds,
            needs=Capability.READ_JOBS,
        )
        flow_runs, refetch_queue = parts.flow_runs, parts.refetch_queue
        self._start(
            group,
            "flow_runs",
            self._poll_when_due(
                "flow_runs",
                lambda: flow_runs.poll(parts.intake.take),
                flow_runs.seconds_until_due,
                flow_runs.wake,
            ),
        )
        self._start(
            group,
            "wanted",
            self._poll_when_due(
                "wanted",
                lambda: refetch_queue.poll(parts.by_id.read_queued),
                refetch_queue.seconds_until_due,
                refetch_queue.wake,
            ),
        )

    def _start_slow_polls(self, group: asyncio.TaskGroup, parts: WorkspacePolls) -> None:
        """Start what checks and names."""
        settings = self._following.settings

        def every(seconds: float) -> Callable[[], float]:
            return lambda: seconds

        needs = Capability.FOLLOW_BY_ID
        self._repeat(
            group,
            "reconciliation",
            parts.reconciliation.poll,
            every(settings.reconcile_seconds),
            needs=needs,
        )
        self._repeat(
            group,
            "relist",
            parts.reconciliation.relist,
            every(settings.relist_seconds),
            needs=Capability.LIST_CHANGES,
            # The first look has just shown the last day.
            first_after_seconds=settings.reconcile_seconds,
        )
        self._repeat(
            group,
            "details_left",
            parts.details.pick_up,
            every(settings.relist_seconds),
            needs=Capability.READ_JOBS,
            first_after_seconds=settings.relist_seconds,
        )
        self._repeat(
            group,
            "names",
            parts.pipeline_names.poll,
            every(settings.names_seconds),
            needs=Capability.LIST_FLOWS,
        )
        self._repeat(
            group,
            "idle_pipelines",
            parts.pipeline_names.forget_idle,
            every(settings.relist_seconds),
            first_after_seconds=settings.relist_seconds,
        )
        self._repeat(
            group,
            "schedules",
            parts.schedules.poll,
            every(settings.schedules_seconds),
            needs=Capability.READ_SCHEDULES,
        )
        self._repeat(
            group, "specification", self._read_specification, every(settings.reconcile_seconds)
        )
        capability_discovery = self._capability_discovery
        self._start(
            group,
            "probe",
            self._poll_when_due(
                "probe",
                capability_discovery.find_out,
                capability_discovery.seconds_until_due,
                capability_discovery.wake,
            ),
        )

    def _start_inventory_polls(self, group: asyncio.TaskGroup, parts: WorkspacePolls) -> None:
        """Start what reads the rest of the workspace; it is late for nothing."""
        inventory = self._following.inventory or InventorySettings()
        for item in parts.inventory:
            if not item.is_on:
                # It may have been on before the settings changed.
                item.forget()
                continue
            self._repeat(
                group,
                item.name,
                item.poll,
                lambda: inventory.interval_seconds,
                needs=item.needs,
                forget=item.forget,
                is_awaited=False,
            )

    async def _connect(self) -> None:
        """Return when the workspace has told what it offers; wait for that as long as it takes."""
        attempt = 0
        while True:
            settings = self._following.settings
            attempt += 1
            wait = backoff_seconds(
                attempt,
                base_seconds=_FIRST_WAIT_SECONDS,
                cap_seconds=settings.connect_wait_cap_seconds,
            )
            failure = await self._polls.attempt(
                "connect", self._capability_discovery.find_out, again_seconds=None
            )
            if failure is None:
                return
            await self._following.clock.sleep(self._jittered(wait))

    def _start(
        self, group: asyncio.TaskGroup, name: str, loop: Coroutine[object, object, None]
    ) -> None:
        group.create_task(loop, name=f"{self._following.name}: {name}")

    def _repeat(
        self,
        group: asyncio.TaskGroup,
        name: str,
        poll: Poll,
        seconds: Callable[[], float],
        *,
        needs: Capability | None = None,
        wake: Bell | None = None,
        first_after_seconds: float = 0.0,
        forget: Callable[[], None] | None = None,
        is_awaited: bool = True,
    ) -> None:
        """Start a poll that runs again and again, for the first time after that wait.

        ``forget`` is called while the workspace does not offer what it ``needs``. Nobody waits
        for a poll that is not ``is_awaited``: it never counts as late.
        """
        self._start(
            group,
            name,
            self._poll_again(
                name,
                poll,
                seconds,
                needs=needs,
                wake=wake or Bell(self._following.clock),
                first_after_seconds=first_after_seconds,
                forget=forget,
                is_awaited=is_awaited,
            ),
        )

    async def _poll_again(
        self,
        name: str,
        poll: Poll,
        seconds: Callable[[], float],
        *,
        needs: Capability | None,
        wake: Bell,
        first_after_seconds: float,
        forget: Callable[[], None] | None,
        is_awaited: bool,
    ) -> None:
        settings, clock = self._following.settings, self._following.clock
        await clock.sleep(self._jittered(first_after_seconds))
        while True:
            wait = settings.reconcile_seconds
            if needs is None or self._following.can(needs):
                again_seconds = seconds() if is_awaited else None
                failure = await self._polls.attempt(name, poll, again_seconds=again_seconds)
                wait = self._wait_after(name, seconds(), failure)
                await self._heed_refusals()
            elif forget is not None:
                forget()
            gap = min(settings.wake_gap_seconds, wait)
            await clock.sleep(gap)
            await wake.pause(self._jittered(wait) - gap)

    async def _poll_when_due(
        self, name: str, poll: Poll, seconds_until_due: Callable[[], float | None], wake: Bell
    ) -> None:
        """Run a poll whenever it has something to do, and only then."""
        settings, clock = self._following.settings, self._following.clock
        while True:
            wait = seconds_until_due()
            if wait is not None and wait <= 0:
                await self._polls.attempt(name, poll, again_seconds=None)
                await self._heed_refusals()
                await clock.sleep(settings.wake_gap_seconds)
            else:
                await wake.pause(_NOTHING_DUE_SECONDS if wait is None else wait)

    async def _heed_refusals(self) -> None:
        try:
            await self._capability_discovery.heed()
        except BusError as error:
            log.warning("a change of the workspace is told later", reason=str(error))

    def _change_seconds(self) -> float:
        """Return the interval of the quick polls: short while something runs."""
        settings = self._following.settings
        woken = self._change_wake.seconds_since()
        is_woken = woken is not None and woken < _QUICK_AFTER_WAKE_SECONDS
        is_active = is_woken or self._following.has_active_runs()
        seconds = settings.active_seconds if is_active else settings.idle_seconds
        return max(seconds, rest_between_lists(self._requests_per_minute, lists=_QUICK_LISTS))

    def _by_id_seconds(self) -> float:
        seconds = self._change_seconds()
        if self._following.can(Capability.LIST_CHANGES):
            return seconds
        reads = len(self._following.active_keys(RunKind.JOB_GROUP))
        return max(seconds, rest_after_reads(self._requests_per_minute, reads=reads))

    @property
    def _requests_per_minute(self) -> float:
        return self._following.client.settings.requests_per_minute

    def _wait_after(self, name: str, seconds: float, failure: MonitorError | None) -> float:
        settings, failures = self._following.settings, self._polls.failures(name)
        if failure is None:
            return seconds
        growing = backoff_seconds(
            failures, base_seconds=settings.idle_seconds, cap_seconds=settings.reconcile_seconds
        )
        if isinstance(failure, TryLaterError):
            # A slow poll need not wait its whole interval for what may be over soon.
            return min(seconds, growing)
        # It will hardly pass by itself, so it is asked less and less often.
        return max(seconds, growing)

    def _jittered(self, seconds: float) -> float:
        share = self._following.settings.jitter_share
        return seconds * (1 + share * (2 * self._random.random() - 1))

    async def _read_specification(self) -> bool:
        """Where nothing is listed this read alone shows whether the workspace answers."""
        if self._following.can(Capability.LIST_CHANGES):
            return False
        await self._following.client.operations.open_api_spec(priority=Priority.INVENTORY)
        return True
