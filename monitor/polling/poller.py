"""Polls one workspace: connects, then runs every poll of the list in a task of its own.

Which task owns which state, all in one event loop:

- `WorkspacePoller.run` builds new polls, connects, and then only holds their task group. What
  outlives it is the outcome of attempts and what the capability discovery has learned.
- The task of the recovery tries a workspace that is cut off, also while `run` connects; the polls
  wait for its success.
- Each poll's task owns the state of its poll. Some of it is also changed by others, always between
  two awaits: job-group rows from any list enter flow runs, the refetch queue and the plan children;
  ended job groups enter the detail queue, plan runs the plan children, and ends of flow runs and
  plan runs the reasons.
- A plan's record is read by one task at a time: by the poll of plan children, or by the reader that
  observes a failure of its parts; the others wait for that read.
- The readers of `Details` empty the detail queue; a caller that waits for a record marks its
  request as late when it stops waiting, and the reader then observes what it reads. A request
  without such a caller is taken by a reader of its own, many at once. What is known of the list of
  job records belongs to it and to the poll of progress, which change it between two awaits.
- Tasks of callbacks and of the admin API come in by `wake`, `complete`, `confirm` and `track`. They
  change runs only by way of the observer, which lets one batch at a time in for each workspace.

A cancelled `run` leaves nothing half done: a watermark or a queue's entry is in the store or it was
not moved, and the next `run` reads it from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random, SystemRandom

from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus
from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError
from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunKind, RunState
from monitor.model.waits import backoff_seconds
from monitor.polling.discovery.capability_discovery import CapabilityDiscovery
from monitor.polling.poll_list import build, declared_polls
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.recovery import Recovery
from monitor.polling.poll_loop.runner import PollAttempts, PollRunner
from monitor.polling.settings import InventorySettings, PollSettings
from monitor.tracking.live_state import LiveState
from monitor.tracking.observer import Observer
from monitor.workspace.client import WorkspaceClient

_FIRST_WAIT_SECONDS = 1.0


class WorkspacePoller:
    """The polls of one workspace; the `WorkspaceFollower` of its callbacks.

    `run` may be started again after it failed.
    """

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
        self._context = PollContext(
            client=client,
            observer=observer,
            live_state=live_state,
            bus=bus,
            clock=clock,
            settings=settings,
            inventory=inventory,
        )
        self._attempts = PollAttempts(self._context, registry)
        self._capability_discovery = CapabilityDiscovery(self._context, self._attempts.reachability)
        self._recovery = Recovery(self._context, self._attempts)
        self._runner = PollRunner(
            self._context,
            attempts=self._attempts,
            after_attempt=self._capability_discovery.notice_refused,
            random=random or SystemRandom(),
        )
        self._polls = build(self._context)

    def wake(self) -> None:
        """A callback has arrived: poll for changes soon. Many calls cause one poll a second."""
        self._polls.change_interval.wake()

    async def confirm(self, key: RunKey) -> bool | None:
        """Read one run by its id and observe it; see `WorkspaceFollower`."""
        return await self._polls.by_id.confirm(key)

    async def track(self, kind: RunKind, run_id: str) -> bool | None:
        """Follow a run that the operator names; returns as `confirm`, None: it is read later."""
        return await self._polls.by_id.track(self._context.key(kind, run_id))

    def untrack(self, key: RunKey) -> bool:
        """Name a run no more; True where it was named and not read yet.

        Raises:
            ConfigurationError: the configuration names it, and would do so again.
        """
        if f"{key.kind}/{key.id}" in self._context.settings.follow:
            where = "`follow` in the configuration: remove it there"
            raise ConfigurationError(f"{key} is named by {where}")
        return self._polls.by_id.untrack(key)

    def gave_up(self, key: RunKey) -> bool:
        """True once where a named run was given up, as only it cannot be read."""
        return self._polls.by_id.gave_up(key)

    def must_wait(self, observation: Observation, known: RunState) -> bool:
        """True for a failure that can learn its reason or plan run in time; see the protocol."""
        return self._polls.job_groups.must_wait(observation, known)

    def complete_later(self, observations: Sequence[Observation]) -> None:
        """Read job records when there is time; see `WorkspaceFollower`."""
        self._polls.details.complete_later(observations)

    async def complete(self, observations: Sequence[Observation]) -> list[Observation]:
        """Add job records and plan runs to observations of ends; see `WorkspaceFollower`."""
        return await self._polls.job_groups.complete(observations)

    async def run(self) -> None:
        """Follow the workspace until cancelled. A poll that fails never stops another.

        Raises:
            BusError: before the polls begin; the next run begins again.
        """
        context = self._context
        # Built again, because a failure may have left a poll in the middle of something.
        polls = self._polls = build(context)
        time = context.client.requester.time
        since = await context.observer.open(
            context.name,
            clock_skew=time.skew_seconds,
            may_be_ahead=time.may_be_ahead_seconds,
            active_runs_limit=context.settings.active_runs_limit,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recovery.run(), name=f"{context.name}: recovery")
            await self._connect()
            if since is None:
                # A stamp may be cut to its second: an end within this one is not historical.
                now = context.workspace_now().replace(microsecond=0)
                await context.observer.follow_since(context.name, now)
            await polls.load()
            await polls.details.pick_up()
            group.create_task(polls.details.run(), name=f"{context.name}: details")
            for poll in declared_polls(polls, self._capability_discovery):
                self._runner.start(group, poll)

    async def _connect(self) -> None:
        """Return when the workspace's capabilities are known; wait for that as long as it takes."""
        attempt = 0
        while True:
            attempt += 1
            failure = await self._attempts.attempt(
                "connect", self._capability_discovery.discover, again_seconds=None
            )
            if failure is None:
                return
            wait = backoff_seconds(
                attempt,
                base_seconds=_FIRST_WAIT_SECONDS,
                cap_seconds=self._context.settings.recovery_seconds,
            )
            await self._context.clock.sleep(self._runner.jittered(wait))
            await self._context.until_answering()
