"""The shards that other daemons hold, as the store shows them; read only while they are viewed.

One read of the cluster says which shards there are and how far their logs go. What holders store
every few seconds is read of all of them together, what changes with the log only where it has
grown. Nothing here is live: every state keeps the time at which its holder confirmed it, so it
turns unknown at the same limit as everywhere.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import msgspec
import structlog

from monitor.alerting.engine.committed_state import CONSUMER as ALERTING
from monitor.app.elsewhere.mirror import Mirror
from monitor.app.hosted.instructions import InstructedShard
from monitor.bus.shards import ClusterStatus, ShardRecord, ShardsElsewhere
from monitor.config import Configuration
from monitor.model.checks import CheckLine, failed, ok
from monitor.model.clock import Clock
from monitor.model.errors import BusError
from monitor.model.slices import in_slices
from monitor.model.words import counted, duration
from monitor.tracking.pipeline_health import HEALTH
from monitor.tracking.status_memory import DETAILS, REACHABILITY, STATUS
from monitor.web.health import ClusterProblems
from monitor.web.shown_shards import Mirrored, ShownShard, ShownShards, page_url
from monitor.web.views.daemon.cluster import without_holder, without_holder_words

log = structlog.get_logger()

Stored = defaultdict[tuple[str, str], dict[str, bytes]]  # by workspace and topic

_LEASES = 3  # a takeover needs less; a shard without a holder for longer finds none
_FRESH_SECONDS = 5.0  # between two reads while they are viewed
_WAIT_SECONDS, _FIRST_WAIT_SECONDS = 0.5, 3.0  # of a request; what is not read by then is older
_WHOLE_SECONDS = 60.0  # what changes without an event is read so often
_SHARDS_AT_ONCE = 100  # that are read in full
_WORKSPACES_AT_ONCE = 500
_OLD_SECONDS = 60.0  # of a mirror that is viewed
_FORGET_SECONDS = 900.0  # after the last request
_CHECK_SECONDS = 1.0


class ClusterHealth:
    """Remembers since when the store is away, and since when shards are without a holder."""

    def __init__(self, clock: Clock, *, away_since: Callable[[], datetime | None]) -> None:
        self._clock = clock
        self._away_since = away_since
        self._away: tuple[datetime, str] | None = None  # since when (ours), and why
        self._alone: dict[str, float] = {}  # since when (monotonic), by name
        self._takeover_seconds = 0.0

    def learn(self, status: ClusterStatus) -> None:
        """Compare an answer of the store with the former ones."""
        now = self._clock.monotonic()
        self._away = None
        self._takeover_seconds = _LEASES * status.lease_seconds
        self._alone = {name: self._alone.get(name, now) for name in without_holder(status)}

    def cannot_be_read(self, reason: str) -> None:
        """Remember why the store gave no answer."""
        since = self._clock.now() if self._away is None else self._away[0]
        self._away = self._away_since() or since, reason

    def problems(self) -> ClusterProblems:
        """Return what needs people now."""
        problems: list[str] = []
        if self._away is not None:
            since, reason = self._away
            problems.append(f"the store does not answer since {since:%Y-%m-%dT%H:%M:%SZ}: {reason}")
        now = self._clock.monotonic()
        alone = [
            name for name, since in self._alone.items() if now - since > self._takeover_seconds
        ]
        if alone:
            problems.append(without_holder_words(alone))
        return ClusterProblems(words=tuple(problems), is_store_away=self._away is not None)


class Mirrors:
    """Shows hosted shards and mirrors together. One task reads at a time."""

    def __init__(
        self,
        hosted: ShownShards,
        elsewhere: ShardsElsewhere,
        *,
        cluster: Callable[[], Awaitable[ClusterStatus | None]],
        away_since: Callable[[], datetime | None],
        configuration: Callable[[], Configuration],
        clock: Clock,
    ) -> None:
        self._hosted = hosted
        self._elsewhere = elsewhere
        self._cluster = cluster
        self._configuration = configuration
        self._clock = clock
        self._away_since = away_since
        self._mirrors: dict[str, Mirror] = {}
        self._made_of: tuple[Mapping[str, ShownShard], tuple[str, ...]] | None = None
        self._shown: Mapping[str, ShownShard] = {}
        self._hosted_before: Mapping[str, ShownShard] = {}
        self._lost: dict[str, ShownShard] = {}  # held here before, as they were then
        self._begun_at = float("-inf")  # monotonic; of the newest read
        self._requested_at = float("-inf")
        self._has_read = False
        self._reading: asyncio.Task[None] | None = None
        self.health = ClusterHealth(clock, away_since=away_since)

    def shown(self) -> Mapping[str, ShownShard]:
        """Return hosted shards, then those of others; the same mapping until one comes or goes."""
        hosted, names = self._hosted(), tuple(self._mirrors)
        if self._made_of is None or self._made_of[0] is not hosted or self._made_of[1] != names:
            self._remember_lost(hosted)
            self._made_of = hosted, names
            mirrors = {name: mirror.shown for name, mirror in self._mirrors.items()}
            self._shown = {**mirrors, **self._lost, **hosted}
        return self._shown

    def _remember_lost(self, hosted: Mapping[str, ShownShard]) -> None:
        """Keep what was known of shards that were held here until the store can be read."""
        before, self._hosted_before = self._hosted_before, hosted
        for name in before.keys() - hosted.keys() - self._mirrors.keys():
            lost = Mirrored(holder=None, url=None, read_at=self._clock.now())
            asked = InstructedShard(name, self._elsewhere, on_answer=self.expect_change)
            self._lost[name] = replace(
                before[name],
                alerting=asked.alerting(before[name].alerting),
                requests=asked.requests(),
                mirrored=partial(_itself, lost),
            )
            self._begun_at = float("-inf")  # the next request reads it

    def _forget_old(self) -> None:
        if self._away_since() is not None:  # they are all that there is to show
            return
        before = self._clock.now() - timedelta(seconds=_FORGET_SECONDS)
        for name, shown in list(self._lost.items()):
            lost = None if shown.mirrored is None else shown.mirrored().read_at
            if lost is None or lost < before:
                del self._lost[name]
                self._made_of = None

    def _forget_lost(self, stored: Collection[str]) -> None:
        """Let mirrors show what was just read; what left meanwhile has none yet."""
        gone = self._lost.keys() & (self._mirrors.keys() | self._hosted().keys())
        for name in gone | (self._lost.keys() - set(stored)):
            del self._lost[name]
            self._made_of = None
        if self._lost:
            self._begun_at = float("-inf")

    async def refresh(self) -> None:
        """Read again what is not fresh; what does not come soon the next request shows."""
        now = self._clock.monotonic()
        self._requested_at = now
        self._collect()
        if self._reading is None and now - self._begun_at >= _FRESH_SECONDS:
            self._begun_at = now
            self._reading = asyncio.create_task(self._read(), name="mirrors")
        if self._reading is not None:
            seconds = _WAIT_SECONDS if self._has_read else _FIRST_WAIT_SECONDS
            # Not awaited: a reader who goes away leaves the read to the others.
            await asyncio.wait({self._reading}, timeout=seconds)
            self._collect()

    def expect_change(self) -> None:
        """Let the next request read at once."""
        self._begun_at = float("-inf")
        for mirror in self._mirrors.values():
            mirror.read_whole_at = float("-inf")

    async def run(self) -> None:
        """Remember which shards are held here, and forget what is not viewed; until cancelled."""
        while True:
            await self._clock.sleep(_CHECK_SECONDS)
            self.shown()  # or who looks first in an outage would find nothing
            if self._clock.monotonic() - self._requested_at > _FORGET_SECONDS:
                self._mirrors.clear()
                self._has_read = False
                self._forget_old()

    async def check(self, subject: str) -> list[CheckLine]:
        """Return whether all shards have a holder, as a line; reads no mirror."""
        try:
            if (cluster := await self._cluster()) is not None:
                self.health.learn(cluster)
        except BusError as exc:
            self.health.cannot_be_read(str(exc))
        words = self.problems().words
        return [failed(subject, "; ".join(words)) if words else ok(subject, "all shards are held")]

    def problems(self) -> ClusterProblems:
        """Return what keeps shards of other daemons from being shown as they are, in words."""
        old = [
            (self._clock.now() - read_at).total_seconds()
            for mirror in self._mirrors.values()
            if (read_at := mirror.read_at) is not None
        ]
        is_requested = self._clock.monotonic() - self._requested_at < _OLD_SECONDS
        late = [seconds for seconds in old if seconds > _OLD_SECONDS and is_requested]
        problems = self.health.problems()
        if late:
            shards, age = counted(len(late), "shard"), duration(max(late))
            aged = f"{shards} of other daemons as stored {age} ago"
            problems = msgspec.structs.replace(problems, words=(*problems.words, aged))
        return problems

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    def _collect(self) -> None:
        reading = self._reading
        if reading is not None and reading.done():
            self._reading = None
            reading.result()

    async def _read(self) -> None:
        try:
            cluster = await self._cluster()
            if cluster is None:
                return
            self.health.learn(cluster)
            records = await self._replace(cluster)
            await self._read_whole(records)
            await self._read_states(records)
        except BusError as exc:
            if not self.health.problems().is_store_away:  # else it has been said
                log.warning("shards of other daemons cannot be read", reason=str(exc))
            self.health.cannot_be_read(str(exc))
            for mirror in self._mirrors.values():
                mirror.cannot_be_read(str(exc))
        else:
            self._has_read = True
            self._forget_lost({record.name for record in cluster.shards if _has_present(record)})

    async def _replace(self, cluster: ClusterStatus) -> list[ShardRecord]:
        """Begin and end mirrors, so that there is one for each shard that is not hosted here."""
        hosted = self._hosted()
        urls = {daemon.id: page_url(daemon.url) for daemon in cluster.daemons}
        records = [
            record
            for record in cluster.shards
            if record.name not in hosted and _has_present(record)
        ]
        for name in self._mirrors.keys() - {record.name for record in records}:
            del self._mirrors[name]
        known = self._mirrors
        new = {
            record.name
            for record in records
            if record.name not in known or known[record.name].workspaces != record.workspaces
        }
        stored = await self._elsewhere.stored_shards(new) if new else {}
        for record in records:
            if record.name in new:
                self._mirrors[record.name] = Mirror(
                    record,
                    stored[record.name],
                    self._elsewhere,
                    configuration=self._configuration(),
                    clock=self._clock,
                    on_answer=self.expect_change,
                )
                self._made_of = None
            self._mirrors[record.name].set_holder(record.holder, urls.get(record.holder or ""))
        return records

    async def _read_whole(self, records: Sequence[ShardRecord]) -> None:
        """Read what changes with the log, of shards whose log has grown and of old mirrors."""
        now = self._clock.monotonic()
        due = [
            (mirror.read_whole_at, record)
            for record in records
            if (mirror := self._mirrors[record.name]).position != record.newest_position
            or now - mirror.read_whole_at >= _WHOLE_SECONDS
        ]
        some = [record for _, record in sorted(due, key=_oldest_first)[:_SHARDS_AT_ONCE]]
        if not some:
            return
        workspaces = [name for record in some for name in record.workspaces]
        stored = await self._entries(workspaces, (DETAILS, HEALTH, REACHABILITY))
        alerting = await self._elsewhere.consumer_states(ALERTING, [record.name for record in some])
        for record in some:
            mirror = self._mirrors[record.name]
            await mirror.show_whole(stored, alerting.get(record.name, {}))
            mirror.position, mirror.read_whole_at = record.newest_position, now

    async def _read_states(self, records: Sequence[ShardRecord]) -> None:
        """Read what holders store every few seconds, of all."""
        names = [name for record in records for name in record.workspaces]
        for start in range(0, len(names), _WORKSPACES_AT_ONCE):
            some = names[start : start + _WORKSPACES_AT_ONCE]
            stored = await self._entries(some, (STATUS,))
            runs = await self._elsewhere.active_runs_of(some)
            read_at = self._clock.now()
            async for record in in_slices(records):  # thousands of shards
                if not set(record.workspaces).isdisjoint(some):
                    mirror = self._mirrors[record.name]
                    mirror.show_states(set(some), stored, runs, read_at=read_at)

    async def _entries(self, workspaces: Sequence[str], topics: Iterable[str]) -> Stored:
        stored: Stored = defaultdict(dict)
        for entry in await self._elsewhere.state_entries_of(workspaces, tuple(topics)):
            if entry.value is not None:
                stored[entry.workspace, entry.topic][entry.key] = entry.value
        return stored


def _has_present(record: ShardRecord) -> bool:
    """True unless no configuration has it any more: then what is stored is its past."""
    return record.is_configured or record.holder is not None


def _itself(mirrored: Mirrored) -> Mirrored:
    return mirrored


def _oldest_first(due: tuple[float, ShardRecord]) -> tuple[float, str]:
    return due[0], due[1].name
