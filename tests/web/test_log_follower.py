"""The log is followed only while clients ask for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from prometheus_client import CollectorRegistry

from monitor.bus.contract import RecordedIn
from monitor.bus.contract.stored_log import Positions
from monitor.bus.sqlite.sole_shard import SoleLog
from monitor.model.errors import BusUnavailableError
from monitor.model.events import Event, RunEvent
from monitor.supervisor import Supervisor
from monitor.web.views.log_follower import LogFollower
from tests.app.eventually import eventually
from tests.web.site import Site


class CountedLog(SoleLog):
    """Counts what is read of it."""

    reads = 0
    begins = 0  # of following
    is_away = False

    async def positions(self) -> dict[str, int]:
        self.reads += 1
        if self.is_away:
            raise BusUnavailableError("the database is away")
        positions = await super().positions()
        self.begins += 1  # what is stored from now on is handed out
        return positions

    async def events(self, after: Positions, *, limit: int) -> list[RecordedIn]:
        self.reads += 1
        return await super().events(after, limit=limit)


class Following:
    """A follower of a site's log, and what it has handed out."""

    def __init__(self, site: Site) -> None:
        self.log = CountedLog(site.bus)
        self.follower = LogFollower(self.log, self._on_events, clock=site.clock)
        self.runs: list[str] = []

    def _on_events(self, events: Sequence[Event]) -> None:
        self.runs += [event.run.key.id for event in events if isinstance(event, RunEvent)]

    async def gets(self, *runs: str) -> None:
        """Return when it has handed out the starts of these runs and no others."""
        await eventually(lambda: self.runs == [*runs], why="the events were not handed out")


@contextlib.asynccontextmanager
async def following(site: Site) -> AsyncIterator[Following]:
    made = Following(site)
    supervisor = Supervisor(clock=site.clock, registry=CollectorRegistry())
    task = asyncio.create_task(supervisor.supervise("log follower", made.follower.run))
    yield made
    task.cancel()
    await asyncio.wait([task])


async def test_the_log_is_not_read_without_a_reader(site: Site) -> None:
    """A daemon among many does not read what happens in all the shards of the others."""
    async with following(site) as made:
        await site.observe(site.run("1"))
        await site.observe(site.run("2"))
        assert made.log.reads == 0

        await made.follower.request()
        await site.observe(site.run("3"))
        await made.gets("3")


async def test_following_ends_a_minute_after_the_last_request(site: Site) -> None:
    """Until then the log is not read; what happened meanwhile is not handed out later."""
    async with following(site) as made:
        await made.follower.request()
        await site.clock.advance(59)
        await made.follower.request()
        await site.clock.advance(59)
        await site.observe(site.run("1"))
        await made.gets("1")
        assert made.log.begins == 1

        await site.clock.advance(2)
        await site.observe(site.run("2"))
        await made.gets("1", "2")  # it was waiting for this one already
        reads = made.log.reads
        await site.observe(site.run("3"))
        assert made.log.reads == reads

        await made.follower.request()
        assert made.log.begins == 2
        await site.observe(site.run("4"))
        await made.gets("1", "2", "4")


async def test_following_begins_again_after_an_outage_of_the_store(site: Site) -> None:
    """It goes on by itself as long as it is requested."""
    async with following(site) as made:
        made.log.is_away = True
        await made.follower.request()
        await eventually(lambda: made.log.reads == 1, why="it was not tried")
        made.log.is_away = False
        await site.clock.advance(2)
        await eventually(lambda: made.log.begins == 1, why="it did not begin again")
        await site.observe(site.run("1"))
        await made.gets("1")


async def test_pages_and_the_api_are_followed_for(site: Site) -> None:
    """Pages and the JSON API are followed for; scrapers and load balancers are not."""
    follower = site.server.follower
    for path in ("/metrics", "/healthz", "/readyz"):
        await site.get(path)
    assert not follower._follows.is_set()

    await site.get("/api/v1/status")
    assert follower._follows.is_set()
