"""The events of several shards: their order, their cursor, and events that become visible late."""

from __future__ import annotations

import base64
import random
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from monitor.bus.contract import Change
from monitor.model.events import RunEvent
from monitor.model.runs import RunKey, RunKind, Status
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.shown_shards import ShardDirectory, live_state_of
from monitor.web.views.events import EventReader, EventsQuery
from monitor.web.views.log_positions import LATENESS, LogPositions
from monitor.web.views.view import ViewSources
from tests.clocks import ManualClock
from tests.outputs.histories import run_event
from tests.web.served_shards import LogOfShards, ServedShard

NAMES = ("acme", "beta", "gamma")


class Cluster:
    """Three shards, one clock, and the reader of their events."""

    def __init__(self, shards: list[ServedShard], clock: ManualClock) -> None:
        self.seen = set(NAMES)  # the workspaces that the reader sees
        self.shards = {shard.name: shard for shard in shards}
        self.clock = clock
        self.log = LogOfShards(shards)
        shown = {shard.name: shard.shown() for shard in shards}
        directory = ShardDirectory(lambda: shown)
        fields: dict[str, Any] = dict.fromkeys(ViewSources.__dataclass_fields__)
        more = {"log": self.log, "clock": clock, "live_state": live_state_of(directory)}
        more["sees"] = lambda workspace: workspace in self.seen
        self.reader = EventReader(ViewSources(**{**fields, **more}))

    async def record(self, name: str, run_id: str, *, seconds_ago: float = 0.0) -> str:
        """Store an event that was recorded so long ago, and return its id."""
        key = RunKey(name, RunKind.JOB_GROUP, run_id)
        event: RunEvent = msgspec.structs.replace(
            run_event(run_id, Status.SUCCEEDED, key=key),
            recorded_at=self.clock.now() - timedelta(seconds=seconds_ago),
        )
        await self.shards[name].bus.commit(Change(events=(event,)), timeout_seconds=5)
        return event.id

    async def page(self, cursor: int | str | None = None, **query: Any) -> tuple[list[str], Any]:
        page = await self.reader.read(
            EventsQuery(cursor=None if cursor is None else str(cursor), **query)
        )
        return [recorded.event.id for recorded in page.data], page


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    clock = ManualClock()
    shards = [await ServedShard.open(tmp_path, name, clock=clock) for name in NAMES]
    yield Cluster(shards, clock)
    for shard in shards:
        await shard.bus.close()


async def test_events_of_all_shards_come_in_the_order_of_their_recording(
    cluster: Cluster,
) -> None:
    """Each names its shard; pages go on after each other until nothing is left."""
    ids = []
    for number, name in enumerate(["beta", "acme", "gamma", "acme", "beta"]):
        ids.append(await cluster.record(name, str(number)))
        await cluster.clock.advance(1)
    await cluster.clock.advance(LATENESS.total_seconds())
    whole, page = await cluster.page()
    assert whole == ids
    assert [recorded.shard for recorded in page.data][:2] == ["beta", "acme"]
    found: list[str] = []
    cursor, has_more = None, True
    while has_more:
        some, page = await cluster.page(cursor, limit=2)
        found += some
        cursor, has_more = page.next, page.has_more
    assert found == ids
    assert (await cluster.page(cursor))[0] == []


async def test_events_of_one_instant_are_all_shown_once(cluster: Cluster) -> None:
    """A page that ends between them goes on after the last one."""
    ids = [await cluster.record(name, "1") for name in NAMES]
    await cluster.clock.advance(60)
    found: list[str] = []
    cursor, has_more = None, True
    while has_more:
        some, page = await cluster.page(cursor, limit=1)
        found += some
        cursor, has_more = page.next, page.has_more
    assert found == ids


@pytest.mark.parametrize("seed", range(5))
async def test_events_that_become_visible_late_are_not_left_out(
    cluster: Cluster, seed: int
) -> None:
    """A client that follows the cursor sees every event at least once, in any order."""
    chance = random.Random(seed)  # noqa: S311 - a test
    stored: set[str] = set()
    seen: set[str] = set()
    cursor: int | str | None = None
    for number in range(40):
        for _ in range(chance.randrange(4)):
            late = chance.choice([0.0, 0.0, 1.0, LATENESS.total_seconds() - 1.0])
            name = chance.choice(NAMES)
            run_id = f"{number}-{len(stored)}"
            stored.add(await cluster.record(name, run_id, seconds_ago=late))
        ids, page = await cluster.page(cursor, limit=chance.choice([1, 3, 100]))
        seen |= set(ids)
        cursor = page.next
        await cluster.clock.advance(chance.uniform(0.0, 5.0))
    await cluster.clock.advance(60)
    has_more = True
    while has_more:
        ids, page = await cluster.page(cursor)
        seen |= set(ids)
        cursor, has_more = page.next, page.has_more
    assert seen == stored


async def test_the_newest_events_are_of_all_shards(cluster: Cluster) -> None:
    """``last`` counts over all of them, however far apart they were recorded."""
    ids = []
    for number, name in enumerate(["beta", "acme", "gamma", "acme"]):
        ids.append(await cluster.record(name, str(number)))
        await cluster.clock.advance(1_000)
    assert (await cluster.page(last=3))[0] == ids[1:]
    assert (await cluster.page(last=50))[0] == ids


async def test_a_stream_goes_on_where_it_ended(cluster: Cluster) -> None:
    """After the id of its last event comes what was late, and nothing that was long before."""
    old = await cluster.record("acme", "1")
    await cluster.clock.advance(100)
    await cluster.record("beta", "2")
    (*_, last) = await cluster.log.events({}, limit=10)
    late = await cluster.record("gamma", "3", seconds_ago=5)
    positions = LogPositions(cluster.log, clock=cluster.clock)
    begin = await positions.after("Last-Event-ID", str(positions.cursor(last)), is_resumed=True)
    ids = [recorded.event.id for recorded in await cluster.log.events(begin.by_shard, limit=10)]
    assert ids == [late]
    assert old not in ids


async def test_a_position_of_one_shard_is_no_cursor_of_several(cluster: Cluster) -> None:
    """It could be of any of them; the answer says what to do."""
    with pytest.raises(ProblemDetails, match="is not one of this list"):
        await cluster.page(17)


async def test_a_cursor_names_no_shard_that_is_hidden(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who sees some workspaces only reads past the events of others, and learns no name of them."""
    monkeypatch.setattr("monitor.web.views.events.SCANNED", 3)
    monkeypatch.setattr("monitor.web.views.events._BATCH", 3)
    cluster.seen = {"acme"}
    ids: list[str] = []
    for number in range(4):
        for name in ("beta", "beta", "gamma", "gamma", "beta", "acme"):
            found = await cluster.record(name, f"{number}-{len(ids)}-{cluster.clock.monotonic()}")
            ids += [found] if name == "acme" else []
            await cluster.clock.advance(1)
    await cluster.clock.advance(LATENESS.total_seconds())
    shown: list[str] = []
    cursor, has_more, pages = None, True, 0
    while has_more and pages < 50:
        some, page = await cluster.page(cursor)
        shown += [event for event in some if event not in shown]
        cursor, has_more, pages = page.next, page.has_more, pages + 1
        decoded = base64.urlsafe_b64decode(str(cursor) + "==").decode()
        assert "beta" not in decoded
        assert "gamma" not in decoded

    assert shown == ids
    assert pages < 50


async def test_hidden_events_of_one_instant_are_passed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than a request reads hold no reader up."""
    monkeypatch.setattr("monitor.web.views.events.SCANNED", 3)
    monkeypatch.setattr("monitor.web.views.events._BATCH", 3)
    cluster.seen = {"acme"}
    for number in range(12):
        await cluster.record("beta", str(number))
    await cluster.clock.advance(1)
    last = await cluster.record("acme", "1")
    await cluster.clock.advance(60)
    shown: list[str] = []
    cursor, has_more, pages = None, True, 0
    while has_more and pages < 50:
        some, page = await cluster.page(cursor)
        shown += some
        cursor, has_more, pages = page.next, page.has_more, pages + 1

    assert shown == [last]
