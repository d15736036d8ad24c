"""The only way in which runs become known: one commit for each batch of observations.

Any task may call it: polls, readers of job records, callbacks. Batches of one workspace take turns,
so a run's state, its events and its pipeline's health change in one order. Live state is written
here only after the commit has returned, without an ``await`` between, so no other task sees a
half-learned batch; a failed commit has changed nothing.

A commit and what is learned from it run in a task of the workspace, which no cancellation
interrupts (`serial_work`). Only a failure that is no `MonitorError` leaves memory and store apart;
`watch` raises it, which ends the daemon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from prometheus_client import CollectorRegistry

from monitor.bus.contract import (
    Change,
    EventBus,
    Received,
    StateEntry,
    StoredCallback,
    decode_entry,
)
from monitor.model.clock import Clock
from monitor.model.observations import Observation, ObservationOutcome
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunState
from monitor.tracking.active_limit import ACTIVE_RUNS, ActiveLimit
from monitor.tracking.clock_step import confirmed, dated
from monitor.tracking.interning import InternedValues
from monitor.tracking.live_state import LiveState, active_of
from monitor.tracking.observation_counts import ObservationCounts
from monitor.tracking.pipeline_health import ChangedHealth, PipelineHealthTracker, is_known_end
from monitor.tracking.serial_work import SerialWork
from monitor.tracking.settings import TrackingSettings
from monitor.tracking.transitions import Boundary, RunTransition, advance
from monitor.tracking.workspace_changes import WorkspaceChanges
from monitor.tracking.workspace_clocks import ClockDoubt, ClockSkew, ForgetHorizon, WorkspaceClocks

# So many observations are judged without letting others run, and stored by one commit.
OBSERVED_AT_ONCE = 50
FOLLOWING = "following"  # topic of the state entry that holds `followed_since`

_IDLE_LINGER_SECONDS = 1.0
_NOT_PROCESSED = (ObservationOutcome.UNCONFIRMED, ObservationOutcome.NEEDS_DETAIL)
_SINCE: msgspec.json.Decoder[datetime] = msgspec.json.Decoder(Annotated[datetime, Meta(tz=True)])


class _Advanced(Struct, kw_only=True):
    """What one batch of observations comes to, before anything of it is durable."""

    states: dict[RunKey, RunState]
    transitions: list[RunTransition]
    health: ChangedHealth


class Observer:
    """Turns observations into state and events, one commit at a time for each workspace.

    For each workspace and not for each run, because runs of one pipeline share its health.
    """

    def __init__(
        self,
        *,
        bus: EventBus,
        live_state: LiveState,
        clock: Clock,
        registry: CollectorRegistry,
        settings: TrackingSettings,
    ) -> None:
        self._bus = bus
        self._live_state = live_state
        self._clock = clock
        self._settings = settings
        self._horizon = ForgetHorizon(clock, forget_seconds=settings.forget_seconds)
        self.pipeline_health = PipelineHealthTracker(live_state)
        self._followed_since: dict[str, datetime] = {}
        self._opened: set[str] = set()
        self._workspace_clocks = WorkspaceClocks(live_state, clock)
        self._serial_work = SerialWork()
        self._interned = InternedValues()
        self.active_limit = ActiveLimit(live_state, clock)
        self.changes = WorkspaceChanges(
            bus=bus, clock=clock, commit_timeout_seconds=settings.commit_timeout_seconds
        )
        self.counts = ObservationCounts(registry)

    async def watch(self) -> None:
        """Wait for a failure of the observer itself and raise it.

        After one, memory and store may differ; only a restart mends that. A cancelled call changes
        nothing.
        """
        await self._serial_work.watch()

    async def open(
        self,
        workspace: str,
        *,
        clock_skew: ClockSkew | None = None,
        may_be_ahead: ClockDoubt | None = None,
        active_runs_limit: int = ACTIVE_RUNS,
    ) -> datetime | None:
        """Load what the store knows of a workspace; return since when it is followed, if it is.

        ``clock_skew`` returns how far its clock is ahead of ours now, None while that is unknown,
        and ``may_be_ahead`` how much further it is if answers are right that contradict this.
        No more than ``active_runs_limit`` active runs become known, beside those of the store.
        Loads once: later, memory is ahead of any answer that is still on its way from the store.
        """
        if clock_skew is not None:
            self._workspace_clocks.measure(workspace, clock_skew, may_be_ahead)
        self.active_limit.set(workspace, active_runs_limit)
        if workspace not in self._opened:
            for run in await self._bus.active_runs(workspace):
                self._keep_active(run)
                self._name(workspace, run.pipeline)
            await self.pipeline_health.load(self._bus, workspace)
            self.counts.add_workspace(workspace)
            stored = (await self._bus.state_entries(workspace, FOLLOWING)).get("since")
            if stored is not None:
                since = decode_entry(stored, _SINCE, what=f"{workspace}'s start of following")
                self._remember_following(workspace, since)
            self._opened.add(workspace)
        return self._followed_since.get(workspace)

    def leave(self, workspace: str) -> None:
        """Forget a workspace that is no longer watched; the store keeps what it has."""
        self._opened.discard(workspace)
        self._workspace_clocks.forget(workspace)
        self._followed_since.pop(workspace, None)
        self._live_state.remove_workspace(workspace)
        self.active_limit.leave(workspace)

    async def follow_since(self, workspace: str, at: datetime) -> datetime:
        """Fix the instant (workspace time) from which runs emit events, and return it.

        Durable on return. An instant that was fixed before stays.
        """
        if (since := self._followed_since.get(workspace)) is not None:
            return since
        state_entry = StateEntry(
            workspace=workspace, topic=FOLLOWING, key="since", value=msgspec.json.encode(at)
        )

        async def fix() -> None:
            await self._commit(Change(state_entries=(state_entry,)))
            self._remember_following(workspace, at)

        await self._serial_work.run(workspace, fix)
        return at

    def _remember_following(self, workspace: str, at: datetime) -> None:
        self._followed_since[workspace] = at
        self._live_state.update_workspace(workspace, followed_since=at)

    async def known(self, keys: Collection[RunKey]) -> dict[RunKey, RunState]:
        """Return what is known of those runs, active or finished; an unknown run is absent."""
        active = self._live_state.active
        states = {key: active[key].run for key in keys if key in active}
        missing = [key for key in keys if key not in states]
        return {**states, **await self._bus.runs(missing)} if missing else states

    async def observe(
        self, observations: Sequence[Observation], *, state_entries: Sequence[StateEntry] = ()
    ) -> list[ObservationOutcome]:
        """Apply observations in their order and return what came of each.

        On return the new state, its events, the state entries and the removal of callbacks from
        the inbox are durable, all by one commit. All are of one workspace; its commits of before
        are waited for. A call that is cancelled in its commit is kept waiting until that is done.

        Raises:
            BusUnavailableError: nothing was stored and nothing is known that was not before; the
                same observations may be made again.
        """
        beside = Change(state_entries=tuple(state_entries))
        if not observations:
            # A watermark alone waits for no turn: a thousand idle workspaces share a transaction.
            if state_entries:
                await self._commit(beside, linger_seconds=_IDLE_LINGER_SECONDS)
            return []
        workspace = observations[0].key.workspace
        applied = partial(self._apply, observations, beside)
        transitions, _ = await self._serial_work.run(workspace, applied)
        return [transition.outcome for transition in transitions]

    def begin(self, workspace: str, work: Callable[[], Awaitable[None]]) -> asyncio.Future[None]:
        """Run work that ends in `observe_callbacks` when the turn has come; never cancelled."""
        return self._serial_work.begin(workspace, work)

    async def observe_callbacks(
        self, callbacks: Sequence[StoredCallback], observations: Sequence[Observation]
    ) -> list[tuple[ObservationOutcome, Received | None]]:
        """Apply what callbacks report that are in no inbox yet. Only for work of `begin`.

        On return they, the new state and its events are durable, all by one commit. None: this
        callback was not stored and belongs into the inbox, because its run has become unknown.

        Raises:
            BusUnavailableError: as `observe`.
        """
        transitions, answers = await self._apply(observations, Change(arrived=tuple(callbacks)))
        stored = iter(answers)
        return [
            (outcome, None if outcome in _NOT_PROCESSED else next(stored))
            for outcome in (transition.outcome for transition in transitions)
        ]

    async def _apply(
        self, observations: Sequence[Observation], beside: Change
    ) -> tuple[list[RunTransition], tuple[Received, ...]]:
        """Apply observations in one commit with what the change has ``beside`` them."""
        known = await self.known({observation.key for observation in observations})
        advanced = self._advance(observations, known)
        change = self._change(observations, advanced, beside)
        answers = await self._commit(change) if change != Change() else ()
        self._learn(observations, advanced, known)
        self._count(observations, advanced.transitions)
        pairs = zip(observations, advanced.transitions, strict=True)
        self.active_limit.refuse(
            observations[0].key.workspace,
            [
                observation.key
                for observation, transition in pairs
                if transition.outcome is ObservationOutcome.NO_ROOM
            ],
        )
        return advanced.transitions, answers

    def _count(
        self, observations: Sequence[Observation], transitions: Sequence[RunTransition]
    ) -> None:
        for observation, transition in zip(observations, transitions, strict=True):
            status = self._live_state.workspaces.get(observation.key.workspace)
            is_clock_behind = status is not None and status.clock_set_back is not None
            self.counts.count(observation, transition, is_clock_behind=is_clock_behind)

    async def dismiss(self, inbox_ids: Sequence[int]) -> None:
        """Drop stored callbacks whose runs the workspace never confirmed, and count them."""
        await self._commit(Change(processed=tuple(inbox_ids)))
        self.counts.give_up(len(inbox_ids))

    async def forget_pipeline(self, workspace: str, kind: PipelineKind, pipeline_id: str) -> None:
        """Drop a pipeline that the workspace no longer has, from the store and from memory."""

        async def drop() -> None:
            state_entries = self.pipeline_health.removal(workspace, kind, pipeline_id)
            if state_entries:
                await self._commit(Change(state_entries=state_entries))
            self._live_state.forget_pipeline(workspace, kind, pipeline_id)

        await self._serial_work.run(workspace, drop)

    async def forget_idle(
        self, workspace: str, *, now: datetime, listed: Collection[tuple[PipelineKind, str]]
    ) -> int:
        """Drop what is kept of pipelines and recipes that have vanished unseen.

        ``now`` is workspace time. What is not ``listed`` and has not run since the horizon at
        which runs are forgotten goes, so that it cannot add up. Return how much went.
        """
        before = min(
            now - timedelta(seconds=self._settings.forget_seconds),
            self._horizon.forgotten_before(self._workspace_clocks.skew_seconds(workspace)),
        )

        async def drop() -> int:
            idle = self.pipeline_health.idle(workspace, before=before, listed=listed)
            if idle:
                await self._commit(Change(state_entries=self.pipeline_health.removal_of(idle)))
                self.pipeline_health.drop(idle)
            gone = {(run.pipeline.kind, run.pipeline.id) for run in idle}
            for kind, pipeline_id in gone.difference(
                listed, self.pipeline_health.pipelines(workspace)
            ):
                self._live_state.forget_pipeline(workspace, kind, pipeline_id)
            return len(idle)

        return await self._serial_work.run(workspace, drop)

    def _advance(
        self, observations: Sequence[Observation], known: dict[RunKey, RunState]
    ) -> _Advanced:
        states, transitions = dict(known), list[RunTransition]()
        now, workspace = self._clock.now(), observations[0].key.workspace
        skew = self._workspace_clocks.skew_seconds(workspace)
        boundary = Boundary(
            followed_since=self._followed_since.get(workspace),
            forgotten_before=self._horizon.forgotten_before(skew),
            clock_skew_seconds=skew,
            workspace_now=now + timedelta(seconds=skew or 0.0),
            may_be_ahead=self._workspace_clocks.may_be_ahead(workspace),
        )
        room = self.active_limit.room(workspace)
        for observation in observations:
            before = states.get(observation.key)
            transition = advance(before, dated(observation, self._live_state, now), boundary)
            if before is None and transition.is_active:
                room -= 1
                if room < 0:
                    transition = RunTransition(outcome=ObservationOutcome.NO_ROOM, state=None)
            if transition.state is not None:
                states[observation.key] = transition.state
            transitions.append(transition)
        self._workspace_clocks.learn(observations)
        health = self.pipeline_health.changed(states.values(), known)
        return _Advanced(states=states, transitions=transitions, health=health)

    def _change(
        self,
        observations: Sequence[Observation],
        advanced: _Advanced,
        beside: Change,
    ) -> Change:
        pairs = list(zip(observations, advanced.transitions, strict=True))
        stored = {
            observation.key for observation, transition in pairs if transition.is_worth_storing
        }
        runs = tuple(advanced.states[key] for key in sorted(stored))
        return Change(
            runs=runs,
            events=tuple(event for _, transition in pairs for event in transition.events),
            state_entries=(
                *beside.state_entries,
                *self.pipeline_health.state_entries(advanced.health),
            ),
            processed=tuple(
                observation.inbox_id
                for observation, transition in pairs
                if observation.inbox_id is not None and transition.outcome not in _NOT_PROCESSED
            ),
            arrived=tuple(
                callback
                for callback, transition in zip(beside.arrived, advanced.transitions, strict=False)
                if transition.outcome not in _NOT_PROCESSED
            ),
        )

    async def _commit(self, change: Change, *, linger_seconds: float = 0.0) -> tuple[Received, ...]:
        return await self._bus.commit(
            change,
            timeout_seconds=self._settings.commit_timeout_seconds,
            linger_seconds=linger_seconds,
        )

    def _learn(
        self,
        observations: Sequence[Observation],
        advanced: _Advanced,
        known: dict[RunKey, RunState],
    ) -> None:
        """Overwrite what is known, now that it is durable."""
        self.pipeline_health.overwrite(advanced.health)
        for observation in observations:
            # Only what is observed now: a stored run may remember an old name.
            if observation.key in advanced.states and not self._names_forgotten_pipeline(
                observation, known.get(observation.key), advanced.states[observation.key]
            ):
                self._name(observation.key.workspace, observation.pipeline)
        for key, state in advanced.states.items():
            if state.status.is_terminal:
                self.active_limit.drop(key)
            else:
                self._keep_active(state)

    def _keep_active(self, run: RunState) -> None:
        run = confirmed(run, self._live_state, self._clock.now())
        shared = self._interned.of(run)
        self.active_limit.keep(active_of(shared))

    def _names_forgotten_pipeline(
        self, observation: Observation, before: RunState | None, run: RunState
    ) -> bool:
        """True where an ended run is observed again and its pipeline was forgotten since."""
        if observation.pipeline is None or not is_known_end(before, run):
            return False
        return not self._live_state.view.knows(observation.key.workspace, observation.pipeline)

    def _name(self, workspace: str, pipeline: Pipeline | None) -> None:
        if pipeline is not None:
            self._live_state.name_pipeline(workspace, pipeline.kind, pipeline.id, pipeline.name)
