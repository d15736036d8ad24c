"""Remembers over a restart when a workspace was last confirmed.

Without it every state would be unknown after a start until the first polls are over, although it
was confirmed a moment ago. What is remembered keeps the time at which it was confirmed, so it
turns unknown at the same limit as without the restart.
"""

from __future__ import annotations

from datetime import datetime

import msgspec
import structlog
from msgspec import Struct

from monitor.bus.contract import Change, EventBus, StateEntry, decode_entries
from monitor.model.clock import Clock
from monitor.model.errors import BusError
from monitor.model.live_state import (
    DoubtedList,
    Reachability,
    RefusedCapability,
    WorkspaceStatus,
)
from monitor.model.runs import PipelineKind, RunKind
from monitor.model.slices import in_slices
from monitor.tracking.live_state import LiveState

log = structlog.get_logger()

STATUS = "status"  # topic of the state entry
_KEY = "last"
# After a kill so much is forgotten: little beside the limit at which a state turns unknown.
_STORE_SECONDS = 15.0
_COMMIT_SECONDS = 10.0


class _LastStatus(Struct, frozen=True, kw_only=True):
    """``active`` is when each kind's least recently confirmed active run was confirmed.

    ``names`` are those that several pipelines share: which of them carries the plain name is
    otherwise decided anew until all are listed, and series would change places.
    """

    reachability: Reachability
    since: datetime | None
    known_at: datetime
    reason: str | None
    refused: tuple[RefusedCapability, ...]
    doubted: tuple[DoubtedList, ...]
    confirmed: dict[RunKind, datetime]
    active: dict[RunKind, datetime]
    names: tuple[tuple[PipelineKind, str, str], ...] = ()


_DECODER = msgspec.json.Decoder(_LastStatus)


class StatusMemory:
    """Stores one workspace's status every few seconds, and restores it at a start."""

    def __init__(
        self, workspace: str, *, bus: EventBus, live_state: LiveState, clock: Clock
    ) -> None:
        self._workspace = workspace
        self._bus = bus
        self._live_state = live_state
        self._clock = clock
        self._stored: _LastStatus | None = None

    async def restore(self) -> None:
        """Show what was known when the monitor stopped; after the active runs were loaded.

        Raises:
            BusError: it cannot be read.
        """
        entries = await self._bus.state_entries(self._workspace, STATUS)
        last = decode_entries(entries, _DECODER, topic=STATUS).get(_KEY)
        live_state, name = self._live_state, self._workspace
        if last is None:
            return
        for pipeline_kind, pipeline_id, pipeline_name in last.names:
            live_state.name_pipeline(name, pipeline_kind, pipeline_id, pipeline_name)
        if live_state.workspaces[name].known_at is not None:
            return  # it was asked in this life, before its settings changed
        newest = max([last.known_at, *last.confirmed.values(), *last.active.values()])
        if newest > self._clock.now():
            return  # our clock was set back; nobody can say how old this is
        live_state.update_workspace(
            name,
            reachability=last.reachability,
            since=last.since,
            known_at=last.known_at,
            reason=last.reason,
            refused=last.refused,
            doubted=last.doubted,
            is_remembered=True,
        )
        for kind, at in last.confirmed.items():
            live_state.confirm(name, kind, at)
        for key, active in live_state.active.items():
            at = last.active.get(key.kind, active.confirmed_at)
            if key.workspace == name and at > active.confirmed_at:
                live_state.active[key] = msgspec.structs.replace(active, confirmed_at=at)

    async def run(self) -> None:
        """Store what changes until cancelled."""
        while True:
            await self._clock.sleep(_STORE_SECONDS)
            await self.store()

    async def store(self) -> None:
        """Store the present status; a failure is logged, the next attempt is near."""
        status = self._live_state.workspaces.get(self._workspace)
        if status is None or status.is_remembered or status.known_at is None:
            return
        last = await self._last(status, status.known_at)
        if last == self._stored:
            return
        entry = StateEntry(
            workspace=self._workspace, topic=STATUS, key=_KEY, value=msgspec.json.encode(last)
        )
        try:
            await self._bus.commit(Change(state_entries=(entry,)), timeout_seconds=_COMMIT_SECONDS)
        except BusError as exc:
            log.info("workspace status not stored", workspace=self._workspace, reason=str(exc))
        else:
            self._stored = last

    async def _last(self, status: WorkspaceStatus, known_at: datetime) -> _LastStatus:
        active: dict[RunKind, datetime] = {}
        async for key, active_run in in_slices(list(self._live_state.active.items())):
            if key.workspace == self._workspace:
                at = active_run.confirmed_at
                active[key.kind] = min(at, active.get(key.kind, at))
        return _LastStatus(
            reachability=status.reachability,
            since=status.since,
            known_at=known_at,
            reason=status.reason,
            refused=status.refused,
            doubted=status.doubted,
            confirmed={
                kind: at
                for (workspace, kind), at in self._live_state.confirmed.items()
                if workspace == self._workspace
            },
            active=active,
            names=self._live_state.names.shared(self._workspace),
        )
