"""Reads the counters of every daemon again and again: for a workspace none may ever go back."""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Sequence

import aiohttp
from msgspec import Struct

from tests.app.eventually import pause
from tests.crash.cluster.member import Member

_EVERY_SECONDS = 0.4
# What a daemon counts of its own work begins with its life; the rest is kept in the store.
_STORED = re.compile(
    r'^(dataprep_(?!monitor_)\w+_(?:total|count|bucket)\{.*?workspace="([^"]*)".*\}) (\S+)$',
    re.MULTILINE,
)
# Of two pipelines with one name either has it alone until the other is known.
_PIPELINE = re.compile(r'pipeline="(?:[^"\\]|\\.)*",?')
_FENCED = re.compile(r"^dataprep_monitor_fenced_writes_total(?:\{.*\})? (\S+)$", re.MULTILINE)
_TIMEOUT = aiohttp.ClientTimeout(total=20)


class Exposure(Struct, frozen=True):
    """A daemon showed a workspace's counters in an answer between two instants."""

    asked_at: float
    answered_at: float
    daemon: str
    workspace: str


class CounterWatch:
    """The counters as all daemons together have shown them."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self._most: dict[str, tuple[float, str]] = {}  # by series, with who showed it when
        self.latest: dict[str, dict[str, float]] = {}  # by daemon, then by series
        self._fenced: dict[tuple[str, int], float] = {}  # by daemon and life
        self.went_back: list[str] = []
        self.exposures: list[Exposure] = []

    async def run(self) -> None:
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session, asyncio.TaskGroup() as group:
            for member in self._members:
                group.create_task(self._follow(session, member))

    @property
    def fenced_writes(self) -> int:
        """Writes that were refused because a lease was lost, in all lives of all daemons."""
        return int(sum(self._fenced.values()))

    def fenced_writes_of(self, member: Member) -> float:
        """Return those of the daemon's present life, as it last showed them."""
        return self._fenced.get((member.name, member.lives), 0.0)

    async def _follow(self, session: aiohttp.ClientSession, member: Member) -> None:
        while True:
            if member.is_alive:
                await self._read(session, member)
            await pause(_EVERY_SECONDS)

    async def _read(self, session: aiohttp.ClientSession, member: Member) -> None:
        most_before = dict(self._most)
        life = member.lives
        asked_at = time.time()
        try:
            async with session.get(f"{member.process.face.url}/metrics") as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError):
            return  # killed, or frozen for long
        answered_at = time.time()
        self._fenced[member.name, life] = sum(map(float, _FENCED.findall(text)))
        totals: defaultdict[str, float] = defaultdict(float)
        workspaces = set()
        for series, workspace, value in _STORED.findall(text):
            workspaces.add(workspace)
            totals[_PIPELINE.sub("", series)] += float(value)
        self.latest[member.name] = dict(totals)
        for series, total in totals.items():
            most, by = most_before.get(series, (0.0, ""))
            if total < most:
                self.went_back.append(
                    f"{answered_at:.3f} {member.name} {series}: {total} after {by}"
                )
            if total > self._most.get(series, (0.0, ""))[0]:
                self._most[series] = total, f"{total} {answered_at:.3f} {member.name}"
        self.exposures += [
            Exposure(asked_at, answered_at, member.name, workspace) for workspace in workspaces
        ]
