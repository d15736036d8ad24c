"""Remembers over a restart when a workspace was last confirmed, and how it answered before.

Without it every state would be unknown after a start until the first polls are over, although it
was confirmed a moment ago. What is remembered keeps the time at which it was confirmed, so it
turns unknown at the same limit as without the restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypeVar

import msgspec
import structlog
from msgspec import Struct

from monitor.bus.contract import Change, EventBus, StateEntry, decode_entries
from monitor.model.clock import Clock
from monitor.model.live_state import (
    DoubtedList,
    Reachability,
    ReachabilityStretch,
    RefusedCapability,
    UnsharedPipeline,
    WorkspaceStatus,
)
from monitor.model.runs import PipelineKind, RunKind
from monitor.model.slices import in_slices
from monitor.tracking.live_state import LiveState
from monitor.tracking.reachability_history import is_alike, left_alone, with_status

log = structlog.get_logger()

STATUS = "status"  # topic of the state entry
REACHABILITY = "reachability"  # topic of the entry that holds the last days
DETAILS = "details"  # topic of what other daemons show of a workspace; where the store is shared
_KEY = "last"
# After a kill so much is forgotten: little beside the limit at which a state turns unknown.
_STORE_SECONDS = 15.0
_COMMIT_SECONDS = 10.0
_LINGER_SECONDS = 2.0  # no caller waits for it
# Past this between two attempts to store, the machine was asleep: nothing was watched.
_AWAKE_SECONDS = 120.0


# Of a status, what changes seldom.
_STORED_DETAILS = (
    "edition", "edition_reason", "capabilities", "clock_skew_seconds", "clock_set_back",
    "followed_since", "schedules", "schedules_read_at", "schedules_read_before", "schedules_of",
    "webhook_tasks",
)  # fmt: skip


class LastStatus(Struct, frozen=True, kw_only=True):
    """``active`` is when each kind's least recently confirmed active run was confirmed.

    ``names`` are those that several pipelines share: which of them carries the plain name is
    otherwise decided again until all are listed, and series would change places.
    """

    reachability: Reachability
    since: datetime | None
    known_at: datetime
    reason: str | None
    refused: tuple[RefusedCapability, ...]
    doubted: tuple[DoubtedList, ...]
    unshared: dict[str, UnsharedPipeline] = {}
    confirmed: dict[RunKind, datetime]
    active: dict[RunKind, datetime]
    names: tuple[tuple[PipelineKind, str, str], ...] = ()


_Cause = TypeVar("_Cause", RefusedCapability, DoubtedList, UnsharedPipeline)
_DECODER = msgspec.json.Decoder(LastStatus)
_DETAILS = msgspec.json.Decoder(WorkspaceStatus)
_HISTORY = msgspec.json.Decoder(tuple[ReachabilityStretch, ...])


def last_status(entries: Mapping[str, bytes]) -> LastStatus | None:
    """Return the last stored status of a workspace from the entries of topic `STATUS`."""
    return decode_entries(entries, _DECODER, topic=STATUS).get(_KEY)


def show_names(live_state: LiveState, name: str, last: LastStatus) -> None:
    for pipeline_kind, pipeline_id, pipeline_name in last.names:
        live_state.name_pipeline(name, pipeline_kind, pipeline_id, pipeline_name)


def show_status(live_state: LiveState, name: str, last: LastStatus, *, now: datetime) -> None:
    """Show a stored status as that of a workspace, after its active runs are known."""
    show_names(live_state, name, last)
    newest = max([last.known_at, *last.confirmed.values(), *last.active.values()])
    if newest > now:
        # Our clock was set back: how old this is cannot be said, what was wrong can.
        live_state.update_workspace(
            name,
            refused=tuple(_not_after(now, cause) for cause in last.refused),
            doubted=tuple(_not_after(now, cause) for cause in last.doubted),
            unshared={key: _not_after(now, cause) for key, cause in last.unshared.items()},
        )
        return
    live_state.update_workspace(
        name,
        reachability=last.reachability,
        since=last.since,
        known_at=last.known_at,
        reason=last.reason,
        refused=last.refused,
        doubted=last.doubted,
        unshared=last.unshared,
        is_remembered=True,
    )
    for kind, at in last.confirmed.items():
        live_state.confirm(name, kind, at)
    for key, active in live_state.active.items():
        at = last.active.get(key.kind, active.confirmed_at)
        if key.workspace == name and at > active.confirmed_at:
            live_state.active[key] = msgspec.structs.replace(active, confirmed_at=at)


def _not_after(now: datetime, cause: _Cause) -> _Cause:
    return msgspec.structs.replace(cause, since=min(cause.since, now))


def show_details(live_state: LiveState, name: str, entries: Mapping[str, bytes]) -> None:
    """Show what is stored under topic `DETAILS` of a workspace that another daemon follows."""
    details = decode_entries(entries, _DETAILS, topic=DETAILS).get(_KEY)
    if details is None:
        return
    known = {field: getattr(details, field) for field in _STORED_DETAILS}
    live_state.update_workspace(name, **known)


def last_history(entries: Mapping[str, bytes]) -> tuple[ReachabilityStretch, ...]:
    """Return how a workspace answered, from the entries of topic `REACHABILITY`."""
    return decode_entries(entries, _HISTORY, topic=REACHABILITY).get(_KEY, ())


class StatusMemory:
    """Stores one workspace's status every few seconds, and restores it at a start."""

    def __init__(
        self, workspace: str, *, bus: EventBus, live_state: LiveState, clock: Clock
    ) -> None:
        self._workspace = workspace
        self._bus = bus
        self._live_state = live_state
        self._clock = clock
        self._stored: LastStatus | None = None
        self._stored_history: tuple[ReachabilityStretch, ...] = ()
        self._stored_details: WorkspaceStatus | None = None

    async def restore(self) -> None:
        """Show what was known when the monitor stopped; after the active runs were loaded.

        Raises:
            BusError: it cannot be read.
        """
        entries = await self._bus.state_entries(self._workspace, STATUS)
        last = last_status(entries)
        live_state, name = self._live_state, self._workspace
        if name not in live_state.reachability:
            await self._restore_history(None if last is None else last.known_at)
        if last is None:
            return
        is_asked = live_state.workspaces[name].known_at is not None
        if is_asked:  # in this life, before its settings changed
            show_names(live_state, name, last)
        else:
            show_status(live_state, name, last, now=self._clock.now())

    async def _restore_history(self, known_at: datetime | None) -> None:
        """``known_at`` is when the status that was stored with it was last confirmed."""
        entries = await self._bus.state_entries(self._workspace, REACHABILITY)
        stored = last_history(entries)
        self._stored_history = stored
        self._live_state.reachability[self._workspace] = left_alone(stored, since=known_at)

    async def run(self) -> None:
        """Store what changes until cancelled."""
        while True:
            await self._clock.sleep(_STORE_SECONDS)
            await self.store(linger_seconds=_LINGER_SECONDS)

    async def store(self, *, linger_seconds: float = 0.0) -> None:
        """Store the present status.

        Raises:
            BusUnavailableError: nothing was stored; the next attempt stores what is true then.
        """
        status = self._live_state.workspaces.get(self._workspace)
        if status is None or status.is_remembered or status.known_at is None:
            return
        last = await self._last(status, status.known_at)
        history = self._history_with(status)
        if last == self._stored:
            return
        entries = [self._entry(STATUS, last)]
        # It stands once in the status, so it is rewritten only when another stretch begins.
        if not is_alike(history, self._stored_history):
            entries.append(self._entry(REACHABILITY, history))
        details = _details(status)
        if self._bus.shard and details != self._stored_details:  # a file has no other reader
            entries.append(self._entry(DETAILS, details))
        await self._bus.commit(
            Change(state_entries=tuple(entries)),
            timeout_seconds=_COMMIT_SECONDS,
            linger_seconds=linger_seconds,
        )
        self._stored, self._stored_history, self._stored_details = last, history, details

    def _history_with(self, status: WorkspaceStatus) -> tuple[ReachabilityStretch, ...]:
        """Return how the workspace answered up to this status, and show it."""
        now, watched = self._clock.now(), self._live_state.watched_until
        before = watched.get(self._workspace)  # None: not since the start
        watched[self._workspace] = now
        stretches = self._live_state.reachability.get(self._workspace, ())
        if before is not None and (now - before).total_seconds() > _AWAKE_SECONDS:
            stretches = left_alone(stretches)
        history = with_status(stretches, status)
        self._live_state.reachability[self._workspace] = history
        return history

    def _entry(self, topic: str, value: object) -> StateEntry:
        encoded = msgspec.json.encode(value)
        return StateEntry(workspace=self._workspace, topic=topic, key=_KEY, value=encoded)

    async def _last(self, status: WorkspaceStatus, known_at: datetime) -> LastStatus:
        active: dict[RunKind, datetime] = {}
        # Forty thousand runs may be active.
        async for active_run in in_slices(list(self._live_state.active.values())):
            key = active_run.run.key
            if key.workspace == self._workspace:
                at = active_run.confirmed_at
                active[key.kind] = min(at, active.get(key.kind, at))
        return LastStatus(
            reachability=status.reachability,
            since=status.since,
            known_at=known_at,
            reason=status.reason,
            refused=status.refused,
            doubted=status.doubted,
            unshared=status.unshared,
            confirmed={
                kind: at
                for (workspace, kind), at in self._live_state.confirmed.items()
                if workspace == self._workspace
            },
            active=active,
            names=self._live_state.names.shared(self._workspace),
        )


def _details(status: WorkspaceStatus) -> WorkspaceStatus:
    known = {field: getattr(status, field) for field in _STORED_DETAILS}
    skew = status.clock_skew_seconds
    known["clock_skew_seconds"] = None if skew is None else float(round(skew))
    return WorkspaceStatus(workspace=status.workspace, **known)
