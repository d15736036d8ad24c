"""Three daemons beside one on PostgreSQL: what a transition costs, and how long a takeover takes.

Both are the daemon as it is installed and follow the same workspaces, each a shard of its own, in
databases of one server. They take turns in one run, and in being the first. Callbacks come one by
one, at the same pace for both: of a burst so many share a transaction as the machine happens to be
late. A callback goes to the daemon that holds its workspace, or to each daemon in turns, as behind
a load balancer: then two of three enter through the inbox of another one's shard. Processor time
is that of all daemons of a side together, for the same seconds, which end with a rest in which
consumers read; what the daemons do at intervals is part of it.

Then daemons of the three are killed in turns. While one is dead, each of its workspaces sends a
callback to a daemon that lives. Times count from the kill to the shard's new holder in the store,
and to the first event of the new holder.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import replace

from monitor.bus.postgres.leases.rendezvous import best_daemon
from monitor.model.events import STATUS_EVENTS, run_event_id
from monitor.model.runs import RunKey, RunKind, Status
from tests.bench.cluster_daemon import FLOWS, ClusterDaemon
from tests.bench.daemons import REQUESTS_PER_MINUTE
from tests.bench.figures import Figure, percentile, ratios, table
from tests.bench.load import Order, carry_out
from tests.bench.processes import processor_seconds
from tests.bench.quiet_workspace import filled
from tests.postgres_server import PostgresServer

TITLE = "Three daemons beside one on PostgreSQL"
_NAMES = ("north", "east", "west")
_FIRST_ID = 1_000_000
_CHECK_SECONDS = 0.1
_TAKEOVER_CHECK_SECONDS = 0.05
_LIMIT_SECONDS = 90.0
_TAKEOVER_TARGET_SECONDS = 15.0
_PROCESSOR_TARGET = 1.2
_HELD, _ANY = "to the holder", "to any daemon"
_SHARDS = "SELECT name, holder, epoch, newest_position FROM shard"
_LOGGED = "SELECT name FROM event JOIN shard ON number = shard WHERE id = ANY($1)"


class Sizes(Struct, frozen=True, kw_only=True):
    """Sizes of the measurement."""

    repetitions: int = 5
    warm_ups: int = 1
    requests_per_minute: float = REQUESTS_PER_MINUTE
    daemons: int = 3  # beside one
    workspaces: int = 6  # as many for each daemon
    seconds: float = 10.0  # in which callbacks come, in each repetition and for each way
    per_second: float = 24.0  # callbacks of each workspace
    connections: int = 12  # of each workspace
    rest_seconds: float = 1.0  # after the last callback, for consumers to read
    idle_seconds: float = 10.0
    kills: int = 8
    lease_seconds: float = 9.0

    @property
    def callbacks(self) -> int:
        """Of each workspace, in each repetition and for each way."""
        return int(self.seconds * self.per_second)

    @property
    def runs(self) -> int:
        """Of each workspace."""
        return 2 * (self.warm_ups + self.repetitions) * self.callbacks + self.kills


class _Shard(Struct, frozen=True, kw_only=True):
    """A shard's row."""

    name: str
    holder: str | None
    epoch: int
    newest_position: int


class _Takeovers(Struct, frozen=True):
    """Seconds from a kill, one for each shard of the killed daemon."""

    to_holder: list[float] = []
    to_event: list[float] = []


async def measure(sizes: Sizes | None = None) -> list[Figure]:
    """Return processor time of both sides and their ratio, for each way, and times of takeovers."""
    sizes = sizes or Sizes()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        server = await stack.enter_async_context(PostgresServer(is_durable=True))
        urls: dict[str, str] = {}
        names = _NAMES[: sizes.daemons]
        for name in _workspace_names(names, sizes.workspaces // len(names)):
            workspace = filled(_FIRST_ID, sizes.runs, FLOWS)
            await workspace.start()
            stack.push_async_callback(workspace.stop)
            urls[name] = workspace.url
        single, many = [
            _Side(members, server, await server.create_database(), folder, urls, sizes)
            for members in (names[:1], names)
        ]
        for side in (single, many):
            stack.push_async_callback(side.end)
        await asyncio.gather(single.start(), many.start())
        figures = await _processor_figures(single, many, sizes)
        await single.end()
        takeovers = await _takeovers(many, sizes.kills, _FIRST_ID + sizes.runs - sizes.kills)
    return [*figures, *_takeover_figures(takeovers, sizes.lease_seconds)]


def _workspace_names(daemons: Sequence[str], of_each: int) -> list[str]:
    """Return names of workspaces, so many for each daemon."""
    found: dict[str, list[str]] = {name: [] for name in daemons}
    for number in count(1):
        workspace = f"team-{number}"
        names = found[best_daemon(workspace, daemons) or ""]
        if len(names) < of_each:
            names.append(workspace)
        if all(len(names) == of_each for names in found.values()):
            break
    return [workspace for names in found.values() for workspace in names]


class _Side:
    """The daemons of one database."""

    def __init__(
        self,
        names: Sequence[str],
        server: PostgresServer,
        database: str,
        folder: Path,
        workspaces: Mapping[str, str],
        sizes: Sizes,
    ) -> None:
        self.title = f"{len(names)} daemon{'s' if len(names) > 1 else ''}"
        self._server = server
        self._database = database
        self._workspaces = workspaces
        self._sizes = sizes
        url = f"{server.url(database)}?sslmode=disable"
        self.members = {
            name: ClusterDaemon(
                name,
                folder / f"{len(names)}-{name}",
                workspaces=workspaces,
                requests_per_minute=sizes.requests_per_minute,
                storage_url=url,
                lease_seconds=sizes.lease_seconds,
            )
            for name in names
        }
        self.holders = {name: best_daemon(name, names) or "" for name in workspaces}

    async def start(self) -> None:
        """Return when every daemon has its shards, knows their runs, and has nothing to do."""
        await asyncio.gather(*(member.start() for member in self.members.values()))
        await self.until(self.is_spread)
        await self.until(self._is_known)
        await asyncio.gather(*(member.running.settle() for member in self.members.values()))

    async def end(self) -> None:
        await asyncio.gather(*(member.end() for member in self.members.values()))

    async def shards(self) -> dict[str, _Shard]:
        rows = await self._server.fetch(_SHARDS, database=self._database)
        return {row["name"]: _Shard(**dict(row)) for row in rows}

    async def is_spread(self) -> bool:
        """True where each shard is held by the daemon that is to have it."""
        if await self._server.value("SELECT to_regclass('shard')", database=self._database) is None:
            return False
        shards = await self.shards()
        return self.holders.keys() <= shards.keys() and all(
            shard.holder == best_daemon(name, self.members) for name, shard in shards.items()
        )

    async def _is_known(self) -> bool:
        daemons = [member.running for member in self.members.values()]
        known = await asyncio.gather(*(daemon.active_runs() for daemon in daemons))
        return sum(known) >= self._sizes.runs * len(self._workspaces)

    async def until(
        self,
        is_so: Callable[[], Awaitable[bool]],
        *,
        every_seconds: float = _CHECK_SECONDS,
        but: ClusterDaemon | None = None,
    ) -> None:
        """Return when it is so; raise where it takes long, or a daemon ends that was not killed."""
        end = time.monotonic() + _LIMIT_SECONDS
        while not await is_so():
            for member in self.members.values():
                if member is not but:
                    member.check()
            if time.monotonic() > end:
                logs = "\n".join(member.log for member in self.members.values())
                raise RuntimeError(f"too late: {await self.shards()}\n{logs}")
            await asyncio.sleep(every_seconds)

    # --- processor time -------------------------------------------------------------------------

    async def transition_milliseconds(self, way: str, first_id: int) -> float:
        """Send a repetition's callbacks; return all daemons' processor time by transition."""
        before, positions = self._processor_seconds(), await self._positions()
        ends_at = time.monotonic() + self._sizes.seconds + self._sizes.rest_seconds
        sent = self._sizes.callbacks * len(self._workspaces)
        await _send(self._orders(way, first_id))

        async def is_logged() -> bool:
            return await self._positions() >= positions + sent

        await self.until(is_logged)
        await asyncio.sleep(ends_at - time.monotonic())
        used = self._processor_seconds() - before
        return 1e3 * used / (await self._positions() - positions)

    async def idle_cores(self) -> float:
        """Return how much of a core all daemons use together while nothing happens."""
        before, began = self._processor_seconds(), time.monotonic()
        await asyncio.sleep(self._sizes.idle_seconds)
        return (self._processor_seconds() - before) / (time.monotonic() - began)

    def _processor_seconds(self) -> float:
        daemons = [member.running for member in self.members.values()]
        return sum(processor_seconds(daemon.process_id) for daemon in daemons)

    async def _positions(self) -> int:
        return sum([shard.newest_position for shard in (await self.shards()).values()])

    def _orders(self, way: str, first_id: int) -> list[Order]:
        """Return what each workspace sends, for each daemon that it sends to; all take turns."""
        sizes = self._sizes
        receivers = [
            (workspace, place, member)
            for workspace, holder in self.holders.items()
            for place, member in enumerate(
                [self.members[holder]] if way == _HELD else self.members.values()
            )
        ]
        shared_by = len(receivers) // len(self.holders)
        per_second = sizes.per_second / shared_by
        return [
            replace(
                member.order(workspace, first_id + place * sizes.callbacks // shared_by),
                count=0,
                seconds=sizes.seconds,
                per_second=per_second,
                first_after_seconds=number / len(receivers) / per_second,
                connections=max(1, sizes.connections // shared_by),
            )
            for number, (workspace, place, member) in enumerate(receivers)
        ]

    # --- takeovers ------------------------------------------------------------------------------

    async def take_over(self, victim: ClusterDaemon, run_id: int, takeovers: _Takeovers) -> None:
        """Kill a daemon; add how long each of its shards took. Others get callbacks meanwhile."""
        # Beside those of workspaces there is a shard of the cluster itself, which gets no callback.
        held = {
            name: shard
            for name, shard in (await self.shards()).items()
            if shard.holder == victim.name and name in self.holders
        }
        alive = [member for member in self.members.values() if member is not victim]
        began = time.monotonic()
        await victim.kill()
        await _send([alive[0].order(workspace, run_id) for workspace in held])
        events = [_event_id(workspace, run_id) for workspace in held]
        to_holder: dict[str, float] = {}
        to_event: dict[str, float] = {}

        async def is_taken_over() -> bool:
            shards = await self.shards()
            rows = await self._server.fetch(_LOGGED, events, database=self._database)
            seconds = time.monotonic() - began
            for name, shard in held.items():
                if shards[name].epoch > shard.epoch and shards[name].holder is not None:
                    to_holder.setdefault(name, seconds)
            for row in rows:
                to_event.setdefault(row["name"], seconds)
            return held.keys() <= to_holder.keys() and held.keys() <= to_event.keys()

        await self.until(is_taken_over, every_seconds=_TAKEOVER_CHECK_SECONDS, but=victim)
        takeovers.to_holder.extend(to_holder.values())
        takeovers.to_event.extend(to_event.values())


def _event_id(workspace: str, run_id: int) -> str:
    """Return the id of the event that a run has succeeded, as `load` reports it."""
    key = RunKey(workspace, RunKind.JOB_GROUP, str(run_id))
    return run_event_id(key, STATUS_EVENTS[Status.SUCCEEDED])


async def _send(orders: Iterable[Order]) -> None:
    """Send from this process, which none of the daemons shares."""
    for report in await asyncio.gather(*map(carry_out, orders)):
        if report.refused:
            raise RuntimeError(f"{report.refused} of {report.answered} callbacks were refused")


async def _takeovers(side: _Side, kills: int, first_id: int) -> _Takeovers:
    """Kill the daemons in turns, each once all shards are where they are to be."""
    takeovers = _Takeovers()
    members = list(side.members.values())
    for number in range(kills):
        if number > 0:
            await members[(number - 1) % len(members)].start()
        await side.until(side.is_spread)
        await side.take_over(members[number % len(members)], first_id + number, takeovers)
    return takeovers


async def _processor_figures(single: _Side, many: _Side, sizes: Sizes) -> list[Figure]:
    """Let both sides take turns; return what their transitions cost, and what idling does."""
    sides = (single, many)
    costs: dict[tuple[str, _Side], list[float]] = {}
    first_ids = count(_FIRST_ID, sizes.callbacks)
    for number in range(-sizes.warm_ups, sizes.repetitions):
        for way in (_HELD, _ANY):
            first_id = next(first_ids)
            for side in sides if number % 2 == 0 else reversed(sides):
                cost = await side.transition_milliseconds(way, first_id)
                if number >= 0:
                    costs.setdefault((way, side), []).append(cost)
    figures = []
    for way in (_HELD, _ANY):
        by_single, by_many = [
            Figure(
                name=f"{way}, {side.title}: processor time of a transition",
                values=tuple(costs[way, side]),
                unit="ms",
            )
            for side in sides
        ]
        name = f"{way}: processor time, {many.title} over one"
        figures += [by_single, by_many, ratios(name, by_many, by_single, target=_PROCESSOR_TARGET)]
    idle = await asyncio.gather(*(side.idle_cores() for side in sides))
    return figures + [
        Figure(name=f"idle, {side.title}", values=(cores,), unit="cores")
        for side, cores in zip(sides, idle, strict=True)
    ]


def _takeover_figures(takeovers: _Takeovers, lease_seconds: float) -> list[Figure]:
    figures = []
    for end, values, target in (
        ("new holder", takeovers.to_holder, None),
        ("first event", takeovers.to_event, _TAKEOVER_TARGET_SECONDS),
    ):
        name = f"takeover, lease {lease_seconds:g} s, to the {end}"
        p95 = percentile(values, 0.95)
        figures += [
            Figure(name=name, values=tuple(values), unit="s"),
            Figure(name=f"{name}: p95", values=(p95,), unit="s"),
            Figure(name=f"{name}: worst", values=(max(values),), unit="s", target=target),
        ]
    return figures


if __name__ == "__main__":
    sys.stdout.write(table(TITLE, asyncio.run(measure())))
