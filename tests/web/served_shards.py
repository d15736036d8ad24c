"""Several shards behind one server: each a real store of its own, with what a test writes."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from monitor.bus.contract import Recorded, RecordedIn
from monitor.bus.sqlite import SqliteBus
from monitor.model.actions import Action, ActionResult
from monitor.model.checks import ok
from monitor.model.runs import RunKind
from monitor.tracking.live_state import LiveState
from monitor.web.requests import ShardRequests
from monitor.web.shown_shards import Mirrored, ShownShard
from tests.clocks import ManualClock
from tests.web.fake_alerting import FakeAlerting


class ServedShard:
    """One shard of one workspace of the same name."""

    def __init__(self, name: str, bus: SqliteBus, *, clock: ManualClock) -> None:
        self.name = name
        self.bus = bus
        self.live_state = LiveState([name])
        self.alerting = FakeAlerting(now=clock.now)
        self.requested: list[tuple[Any, ...]] = []
        self.mirrored: Mirrored | None = None

    @classmethod
    async def open(cls, folder: Path, name: str, *, clock: ManualClock) -> ServedShard:
        path = folder / f"{name}.db"
        return cls(
            name,
            await SqliteBus.open(path, clock=clock, registry=CollectorRegistry()),
            clock=clock,
        )

    def shown(self) -> ShownShard:
        return ShownShard(
            name=self.name,
            bus=self.bus,
            live=self.live_state.view,
            alerting=self.alerting.requests(),
            requests=ShardRequests(
                track=self._track, untrack=self._track, webhooks=self._webhooks, act=self._act
            ),
            outputs=lambda: [ok("mqtt", "connected")],
            mirrored=None if self.mirrored is None else self._mirrored,
        )

    def _mirrored(self) -> Mirrored:
        assert self.mirrored is not None
        return self.mirrored

    async def _track(self, workspace: str, kind: RunKind, run_id: str) -> str:
        self.requested.append((workspace, kind, run_id))
        return f"{self.name} follows {run_id}"

    async def _act(self, workspace: str, action: Action, _not_after: datetime) -> ActionResult:
        self.requested.append((workspace, action))
        return ActionResult(detail=f"{self.name} acts on {action.id}")

    async def _webhooks(
        self, workspace: str, action: str, flow: str | None
    ) -> list[dict[str, Any]]:
        self.requested.append((workspace, action, flow))
        return [{"workspace": workspace}]


class LogOfShards:
    """The logs of several shards as the contract of `StoredLog` says, merged in memory."""

    def __init__(self, shards: Sequence[ServedShard]) -> None:
        self.shards = list(shards)

    async def positions(self) -> dict[str, int]:
        return {shard.name: (await shard.bus.status()).newest_position for shard in self.shards}

    async def positions_since(self, recorded_at: datetime) -> dict[str, int]:
        return {shard.name: await shard.bus.events_since(recorded_at) for shard in self.shards}

    async def events(self, after: Mapping[str, int], *, limit: int) -> list[RecordedIn]:
        found = [
            _of_shard(
                shard.name,
                await shard.bus.events(after=after.get(shard.name, 0), limit=limit),
            )
            for shard in self.shards
        ]
        return list(heapq.merge(*found, key=_recorded_at))[:limit]

    async def wait(self, after: Mapping[str, int], *, timeout_seconds: float) -> bool:
        waits = {
            asyncio.ensure_future(
                shard.bus.wait(after.get(shard.name, 0), timeout_seconds=timeout_seconds)
            )
            for shard in self.shards
        }
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return any(wait.result() for wait in done)
        finally:
            for wait in waits:
                wait.cancel()


def _of_shard(name: str, recorded: Sequence[Recorded]) -> list[RecordedIn]:
    return [RecordedIn(entry.position, entry.event, shard=name) for entry in recorded]


def _recorded_at(recorded: RecordedIn) -> tuple[datetime, str]:
    return recorded.event.recorded_at, recorded.shard
