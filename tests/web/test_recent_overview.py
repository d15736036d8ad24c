"""The overview: computed while it has viewers, at most every two seconds, once for all viewers."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from monitor.model.live_state import ActiveRun, Reachability
from monitor.model.runs import (
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)
from monitor.tracking.live_state import LiveState
from monitor.web.page.live import LivePages
from monitor.web.settings import ServerSettings
from monitor.web.views.overview import recent_overview
from monitor.web.views.overview.overview import Overview, OverviewSnapshots, overview_of
from monitor.web.views.overview.pipeline_state import PipelineCondition
from monitor.web.views.overview.recent_overview import RecentOverview
from monitor.web.views.view import ViewSources
from tests.clocks import ManualClock
from tests.outputs.histories import run_event
from tests.web.fake_alerting import FakeAlerting

FEW, MANY = 3, 1_000


class World:
    """Live state and alerting of one workspace, and how often an overview is computed of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, pipelines: int = FEW) -> None:
        self.clock = ManualClock()
        self.live = LiveState(["acme"])
        self.alerting = FakeAlerting(now=self.clock.now)
        self.threads: list[threading.Thread] = []  # in which it was computed
        self.is_broken = False
        monkeypatch.setattr(recent_overview, "overview_of", self._computed)
        for number in range(pipelines):
            self.name(number)
        self.live.update_workspace("acme", reachability=Reachability.REACHABLE)
        for kind in RunKind:
            self.live.confirm("acme", kind, self.clock.now())

    def name(self, number: int) -> None:
        self.live.name_pipeline("acme", PipelineKind.FLOW, str(number), f"flow {number}")

    def start(self, number: int) -> None:
        now = self.clock.now()
        run = RunState(
            key=RunKey("acme", RunKind.JOB_GROUP, str(number)),
            status=Status.RUNNING,
            created_at=now,
            pipeline=Pipeline(kind=PipelineKind.FLOW, id="1"),
            confirmed_at=now,
            confirmed_by=Source.POLL,
        )
        self.live.active[run.key] = ActiveRun(run=run, confirmed_at=now, confirmed_by=Source.POLL)

    def recent(self) -> RecentOverview:
        fields: dict[str, Any] = dict.fromkeys(ViewSources.__dataclass_fields__)
        return RecentOverview(ViewSources(**{
            **fields,
            "live_state": lambda: self.live.view,
            "clock": self.clock,
            "settings": ServerSettings(listen="127.0.0.1:0", stale_after_seconds=600),
            "alerting_requests": self.alerting.requests,
        }))  # fmt: skip

    def _computed(self, known: OverviewSnapshots) -> Overview:
        self.threads.append(threading.current_thread())
        if self.is_broken:
            raise KeyError("broken")
        return overview_of(known)


async def test_all_who_look_within_two_seconds_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many look, and whatever changes meanwhile; later it is computed of what is then."""
    world = World(monkeypatch)
    recent = world.recent()
    first, *others = await asyncio.gather(*(recent.get() for _ in range(50)))
    assert all(other is first for other in others)
    world.name(FEW)
    await world.clock.advance(1.9)
    assert await recent.get() is first
    await world.clock.advance(0.1)
    assert len((await recent.get()).rows) == FEW + 1
    assert len(world.threads) == 2


async def test_nothing_is_computed_without_viewers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes alone cost nothing."""
    world = World(monkeypatch)
    recent = world.recent()
    for number in range(100):
        world.name(number)
        await world.clock.advance(10)
    assert world.threads == []
    assert recent.kept_seconds() == 0


async def test_a_clock_that_is_set_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instants of ours were moved along: what was dated before would seem to lie in the future."""
    world = World(monkeypatch)
    recent = world.recent()
    before = await recent.get()
    for step in (timedelta(hours=-1), timedelta(hours=2)):
        world.clock.set_wall(world.clock.now() + step)
        now = await recent.get()
        assert now is not before
        assert now.at == world.clock.now()
        before = now


async def test_many_pipelines_are_computed_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand in a worker thread, of what was known when it began; a few without one."""
    few = World(monkeypatch)
    assert len((await few.recent().get()).rows) == FEW
    many = World(monkeypatch, pipelines=MANY)
    looking = asyncio.create_task(many.recent().get())
    for _ in range(3):
        await asyncio.sleep(0)
    for number in range(2 * MANY):
        many.name(number)
        many.start(number)
    overview = await looking
    assert (len(overview.rows), len(overview.roots)) == (MANY, 0)
    assert overview.count(PipelineCondition.NEW, "acme") == MANY
    main = threading.main_thread()
    assert [thread is main for thread in (*few.threads, *many.threads)] == [True, False]


async def test_a_viewer_who_goes_away_takes_it_from_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It goes on for the others, and is not begun again."""
    world = World(monkeypatch, pipelines=MANY)
    recent = world.recent()
    gone = asyncio.create_task(recent.get())
    await asyncio.sleep(0)
    other = asyncio.create_task(recent.get())
    await asyncio.sleep(0)
    gone.cancel()
    assert len((await other).rows) == MANY
    assert len(world.threads) == 1


async def test_one_that_takes_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes, no second one is begun beside it."""
    world = World(monkeypatch, pipelines=MANY)
    recent = world.recent()
    viewers = []
    for _ in range(3):
        viewers.append(asyncio.create_task(recent.get()))
        await asyncio.sleep(0)
        world.clock.set_wall(world.clock.now() + timedelta(seconds=5))
    first, *others = await asyncio.gather(*viewers)
    assert all(other is first for other in others)
    assert len(world.threads) == 1


async def test_one_that_fails_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Viewers meanwhile get the error; two seconds later nothing of it is left."""
    world = World(monkeypatch)
    recent = world.recent()
    world.is_broken = True
    for _ in range(2):
        with pytest.raises(KeyError):
            await recent.get()
    world.is_broken = False
    await world.clock.advance(2)
    assert len((await recent.get()).rows) == FEW
    assert len(world.threads) == 2


async def test_a_viewer_keeps_what_he_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a former overview end few at a time, but not while a reader still has them."""
    world = World(monkeypatch, pipelines=MANY)
    recent = world.recent()
    former = await recent.get()
    await world.clock.advance(2)
    assert await recent.get() is not former
    assert {row.pipeline for row in former.rows.values()} == {f"flow {n}" for n in range(MANY)}


async def test_pages_learn_of_a_change_when_they_get_the_state_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a recent view, it is reported once what was computed for it is over."""
    world = World(monkeypatch)
    recent = world.recent()
    pages = LivePages(clock=world.clock, kept_seconds=recent.kept_seconds)
    reporting = asyncio.create_task(pages.run())
    assert len((await recent.get()).roots) == 0
    await world.clock.advance(0.5)
    world.start(1)
    pages.on_events([run_event("1", Status.RUNNING)])
    await world.clock.advance(1.4)
    assert pages.version == 0
    await world.clock.advance(0.1)
    assert pages.version == 1
    assert len((await recent.get()).roots) == 1
    reporting.cancel()
