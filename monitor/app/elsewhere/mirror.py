"""One shard that another daemon holds, as the store shows it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from monitor.alerting.engine.engine import Engine
from monitor.app.hosted.instructions import InstructedShard
from monitor.app.hosted.request_routing import alerting_requests
from monitor.bus.contract import Batch, Recorded, Start, Step, StoredShard, StoreStatus
from monitor.bus.shards import ShardRecord, ShardsElsewhere
from monitor.config import Configuration
from monitor.model.alerts import PipelineOfKind
from monitor.model.clock import Clock
from monitor.model.errors import BusLostError
from monitor.model.runs import RunKey, RunState
from monitor.outputs.records import output_types
from monitor.tracking.live_state import LiveState, active_of
from monitor.tracking.pipeline_health import HEALTH, show_health
from monitor.tracking.status_memory import (
    DETAILS,
    REACHABILITY,
    STATUS,
    last_history,
    last_status,
    show_details,
    show_status,
)
from monitor.web.shown_shards import Mirrored, ShownShard

StoredEntries = Mapping[tuple[str, str], Mapping[str, bytes]]  # by workspace and topic


class Mirror:
    """What the holder of a shard has stored, in the forms in which a hosted shard has it."""

    def __init__(
        self,
        record: ShardRecord,
        stored: StoredShard,
        elsewhere: ShardsElsewhere,
        *,
        configuration: Configuration,
        clock: Clock,
        on_answer: Callable[[], None],
    ) -> None:
        self.workspaces = record.workspaces
        self.position = -1  # of the log, as of the last `show_whole`
        self.read_whole_at = float("-inf")  # monotonic
        self._clock = clock
        self._mirrored = Mirrored(holder=record.holder, url=None, read_at=None)
        self._live_state = LiveState(record.workspaces)
        self._engine = Engine(
            bus=_ShownStore(stored),
            view=self._live_state.view,
            clock=clock,
            settings=configuration.linked_alerting,
            retention=configuration.storage.retention,
            guard=_unguarded,
        )
        asked = InstructedShard(
            record.name, elsewhere, holder=lambda: self._mirrored.holder, on_answer=on_answer
        )
        alerting = alerting_requests(
            self._engine,
            bus=stored,
            view=self._live_state.view,
            clock=clock,
            retention=configuration.storage.retention,
            types=lambda: output_types(configuration.outputs),
            replay=asked.replay,
            process_letters=asked.process_letters,
            previews=asked.previews,
        )
        self.shown = ShownShard(
            name=record.name,
            bus=stored,
            live=self._live_state.view,
            alerting=asked.alerting(alerting),
            requests=asked.requests(),
            outputs=tuple,
            mirrored=lambda: self._mirrored,
        )

    @property
    def read_at(self) -> datetime | None:
        return self._mirrored.read_at

    def set_holder(self, holder: str | None, url: str | None) -> None:
        """Remember who holds the shard now."""
        self._mirrored = msgspec.structs.replace(self._mirrored, holder=holder, url=url)

    def cannot_be_read(self, reason: str) -> None:
        """Remember why what is shown grows old."""
        self._mirrored = msgspec.structs.replace(self._mirrored, reason=reason)

    async def show_whole(self, stored: StoredEntries, alerting: Mapping[str, bytes]) -> None:
        """Show what changes seldom or with the log: details, pipelines, reachability, alerts."""
        live_state = self._live_state
        live_state.pipeline_health = {}
        for name in self.workspaces:
            show_details(live_state, name, stored.get((name, DETAILS), {}))
            show_health(live_state, stored.get((name, HEALTH), {}))
            live_state.reachability[name] = last_history(stored.get((name, REACHABILITY), {}))
        await self._engine.show(alerting)

    def show_states(
        self,
        workspaces: Collection[str],
        stored: StoredEntries,
        runs: Iterable[RunState],
        *,
        read_at: datetime,
    ) -> None:
        """Show active runs and what was last confirmed, of those of these workspaces it has."""
        live_state, now = self._live_state, self._clock.now()
        own = [name for name in self.workspaces if name in workspaces]
        live_state.active = {
            key: active for key, active in live_state.active.items() if key.workspace not in own
        }
        for run in runs:
            if run.key.workspace not in own:
                continue
            live_state.active[run.key] = active_of(run)
            if run.pipeline is not None:
                pipeline = run.pipeline
                live_state.name_pipeline(
                    run.key.workspace, pipeline.kind, pipeline.id, pipeline.name
                )
        for name in own:
            last = last_status(stored.get((name, STATUS), {}))
            if last is not None:
                show_status(live_state, name, last, now=now)
        self._mirrored = msgspec.structs.replace(self._mirrored, read_at=read_at, reason=None)


class _ShownStore:
    """The store of an engine that only shows. Writing would be the holder's work."""

    def __init__(self, stored: StoredShard) -> None:
        self._stored = stored

    async def consumer_state(self, consumer: str) -> dict[str, bytes]:
        return await self._stored.consumer_state(consumer)

    async def wait(self, after: int, *, timeout_seconds: float) -> bool:
        raise _not_ours(after, timeout_seconds)

    async def status(self) -> StoreStatus:
        return await self._stored.status()

    async def runs(self, keys: Collection[RunKey]) -> dict[RunKey, RunState]:
        return await self._stored.runs(keys)

    async def pipeline_runs(
        self, pipelines: Collection[PipelineOfKind], *, limit: int
    ) -> dict[PipelineOfKind, list[RunState]]:
        return await self._stored.pipeline_runs(pipelines, limit=limit)

    async def children(self, key: RunKey) -> list[RunState]:
        return await self._stored.children(key)

    async def events_by_id(self, ids: Collection[str]) -> dict[str, Recorded]:
        return await self._stored.events_by_id(ids)

    async def subscribe(self, consumer: str, *, start: Start) -> int:
        raise _not_ours(consumer, start)

    async def read(self, consumer: str, *, after: int, limit: int) -> Batch:
        raise _not_ours(consumer, after, limit)

    async def advance(self, step: Step, *, timeout_seconds: float) -> None:
        raise _not_ours(step.consumer, timeout_seconds)


def _not_ours(*_: object) -> BusLostError:
    return BusLostError("the shard is held by another daemon")


def _unguarded(name: str, call: Callable[[], Any], on_failure: Callable[[str], None]) -> Any:
    """Evaluate nothing: a mirror shows what its holder has evaluated."""
    del name, call
    on_failure("held by another daemon")
