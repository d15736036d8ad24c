"""The index of pipelines: after any changes it is what one made anew would be."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.model.alerts import AlertingSnapshot, LearnedLimit
from monitor.model.live_state import ActiveRun, PipelineHealth, Reachability
from monitor.model.runs import (
    Parents,
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Source,
    Status,
)
from monitor.tracking.live_state import LiveState
from monitor.web.settings import ServerSettings
from monitor.web.views.overview.changed_values import changed_keys, changed_values
from monitor.web.views.overview.pipeline_index import PipelineIndex
from monitor.web.views.overview.pipeline_rows import PipelineSort
from monitor.web.views.overview.pipeline_states import PipelineCondition
from monitor.web.views.sources import ViewSources
from tests.clocks import ManualClock
from tests.web.fake_alerting import FakeAlerting

WORKSPACES = ("acme", "other")
PIPELINES = st.tuples(st.sampled_from(WORKSPACES), st.sampled_from(PipelineKind), st.just("1"))
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("end"), PIPELINES, st.sampled_from(
            (Status.SUCCEEDED, Status.FAILED, Status.CANCELED, Status.LOST)
        ), st.sampled_from((None, "r1", "r2"))),
        st.tuples(st.just("start"), PIPELINES, st.sampled_from(RunKind), st.sampled_from("ab")),
        st.tuples(st.just("stop"), st.integers(0, 3)),
        st.tuples(st.just("name"), PIPELINES, st.sampled_from(("x", "y", "5" * 60))),
        st.tuples(st.just("place"), PIPELINES, st.sampled_from((None, "ann", "bob"))),
        st.tuples(st.just("forget"), PIPELINES),
        st.tuples(st.just("alert"), PIPELINES, st.sampled_from(("run_failed", "schedule_missed"))),
        st.tuples(st.just("resolve"), st.integers(0, 1)),
        st.tuples(st.just("learn"), PIPELINES, st.integers(1, 99)),
        st.tuples(st.just("see"), st.sampled_from(WORKSPACES), st.sampled_from(Reachability)),
        st.tuples(st.just("watch"), st.sampled_from(WORKSPACES)),
        st.tuples(st.just("unwatch"), st.sampled_from(WORKSPACES)),
        st.tuples(st.just("wait"), st.integers(1, 700)),
    ),
    min_size=15,
    max_size=40,
)  # fmt: skip


class World:
    """Live state and alerting, and how they change."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.live = LiveState(WORKSPACES)
        self.alerting = FakeAlerting(now=self.clock.now)
        self._number = 0

    def sources(self) -> ViewSources:
        fields: dict[str, Any] = {
            field.name: None for field in ViewSources.__dataclass_fields__.values()
        }
        return ViewSources(**{
            **fields,
            "live": self.live.view,
            "clock": self.clock,
            "settings": ServerSettings(listen="127.0.0.1:0"),
            "alerting": self.alerting.requests(),
        })  # fmt: skip

    async def apply(self, what: str, *given: Any) -> None:
        self._number += 1
        await getattr(self, f"_{what}")(*given)

    async def _end(self, key: Any, status: Status, recipe: str | None) -> None:
        workspace, kind, pipeline_id = key
        is_plan = kind is PipelineKind.PLAN
        run_kind = (
            RunKind.PLAN_RUN if is_plan else RunKind.JOB_GROUP if recipe else RunKind.FLOW_RUN
        )
        self.live.pipeline_health[workspace, run_kind, pipeline_id, recipe] = PipelineHealth(
            workspace=workspace,
            run_kind=run_kind,
            pipeline=Pipeline(kind=kind, id=pipeline_id, name=f"n{pipeline_id}"),
            recipe_id=recipe,
            last_status=status,
            last_finished_at=self.clock.now(),
            last_duration_seconds=float(self._number),
            consecutive_failures=int(status is Status.FAILED),
        )

    async def _start(self, key: Any, run_kind: RunKind, parent: str) -> None:
        workspace, kind, pipeline_id = key
        run = RunState(
            key=RunKey(workspace, run_kind, parent if self._number % 2 else str(self._number)),
            status=Status.RUNNING,
            created_at=self.clock.now(),
            pipeline=Pipeline(kind=kind, id=pipeline_id),
            parents=Parents(
                flow_run=parent if run_kind is RunKind.JOB_GROUP else None,
                plan_run=parent if run_kind is not RunKind.PLAN_RUN else None,
            ),
            confirmed_at=self.clock.now(),
            confirmed_by=Source.POLL,
        )
        self.live.active[run.key] = ActiveRun(
            run=run, confirmed_at=run.confirmed_at, confirmed_by=Source.POLL
        )

    async def _stop(self, place: int) -> None:
        for key in list(self.live.active)[place : place + 1]:
            del self.live.active[key]

    async def _name(self, key: Any, name: str) -> None:
        workspace, kind, pipeline_id = key
        self.live.name_pipeline(workspace, kind, pipeline_id, name)

    async def _place(self, key: Any, owner: str | None) -> None:
        self.live.names.place(key, folder="sales", owner=owner)

    async def _forget(self, key: Any) -> None:
        self.live.forget_pipeline(*key)

    async def _alert(self, key: Any, rule: str) -> None:
        workspace, kind, pipeline_id = key
        alert = self.alerting.alert(
            str(self._number),
            rule=rule,
            workspace=workspace,
            pipeline=Pipeline(kind=kind, id=pipeline_id),
        )
        self.alerting.show(*self.alerting.snapshot.alerts, alert)

    async def _resolve(self, place: int) -> None:
        alerts = list(self.alerting.snapshot.alerts)
        del alerts[place : place + 1]
        self.alerting.show(*alerts)

    async def _learn(self, key: Any, seconds: int) -> None:
        workspace, kind, pipeline_id = key
        run_kind = RunKind.PLAN_RUN if kind is PipelineKind.PLAN else RunKind.FLOW_RUN
        snapshot: AlertingSnapshot = self.alerting.snapshot
        limit = LearnedLimit(
            workspace=workspace,
            kind=run_kind,
            pipeline=Pipeline(kind=kind, id=pipeline_id),
            seconds=float(seconds),
            runs=5,
        )
        expected = {(workspace, run_kind, pipeline_id): self.clock.now()}
        self.alerting.snapshot = msgspec.structs.replace(
            snapshot,
            limits=(*(kept for kept in snapshot.limits if _of(kept) != _of(limit)), limit),
            expected={**snapshot.expected, **expected},
        )

    async def _watch(self, workspace: str) -> None:
        self.live.add_workspace(workspace)

    async def _unwatch(self, workspace: str) -> None:
        self.live.remove_workspace(workspace)

    async def _see(self, workspace: str, reachability: Reachability) -> None:
        self.live.add_workspace(workspace)
        self.live.update_workspace(workspace, reachability=reachability)
        for kind in RunKind:
            self.live.confirm(workspace, kind, self.clock.now())

    async def _wait(self, seconds: int) -> None:
        await self.clock.advance(seconds)


def _of(limit: LearnedLimit) -> tuple[str, RunKind, str]:
    return limit.workspace, limit.kind, limit.pipeline.id


async def shown(index: PipelineIndex) -> dict[str, Any]:
    """Return everything that the index answers."""
    await index.refresh()
    orders = {sort: list(await index.sorted_keys(sort)) for sort in PipelineSort}
    keys = {(key[2], PipelineKind(key[3]), key[4]) for key in orders[PipelineSort.NAME]}
    return {
        "orders": orders,
        "rows": {key: index.get(key) for key in keys},
        "counts": {state: index.count(state) for state in PipelineCondition},
        "length": len(index),
        "figures": (index.running, index.unreported, index.confirmed_at),
        "alerts": (index.critical_alerts, {alert.fingerprint for alert in index.other_alerts()}),
        "unconfirmed": await index.unconfirmed_runs(),
        "places": (dict(index.owners), dict(index.folders)),
        "limits": index.limits,
        "roots": index.root_runs,
        "blind": index.blind(),
    }


@settings(suppress_health_check=list(HealthCheck))
@given(changes=CHANGES, every=st.integers(1, 4))
def test_an_index_is_what_one_made_anew_would_be(
    changes: list[tuple[Any, ...]], every: int
) -> None:
    """After any changes, read at any time between them: rows, orders, counts, what runs."""

    async def play() -> None:
        world = World()
        index = PipelineIndex(world.sources())
        await shown(index)  # from here on every order is kept
        for number, (what, *details) in enumerate(changes):
            await world.apply(what, *details)
            if number % every == 0:
                await index.refresh()
        assert await shown(index) == await shown(PipelineIndex(world.sources()))

    asyncio.run(play())


async def test_a_cancelled_refresh_is_made_up_for() -> None:
    """Whoever goes away in the middle of it takes nothing from the next reader."""
    world = World()
    for number in range(500):
        flow = ("acme", PipelineKind.FLOW, str(number))
        await world.apply("name", flow, "x")
        await world.apply("end", flow, Status.FAILED, "r1")
        await world.apply("start", flow, RunKind.JOB_GROUP, "a")
    index = PipelineIndex(world.sources())
    for steps in range(1, 40):
        await world.apply("stop", 3 * steps)
        await world.apply("start", ("acme", PipelineKind.FLOW, "1"), RunKind.FLOW_RUN, "a")
        refresh = asyncio.create_task(index.refresh())
        for _ in range(steps):
            await asyncio.sleep(0)
        refresh.cancel()
        await asyncio.gather(refresh, return_exceptions=True)
    assert await shown(index) == await shown(PipelineIndex(world.sources()))
    assert len(index) == 500


async def test_a_refresh_costs_what_has_changed() -> None:
    """Of two thousand pipelines one is made anew when one has changed, and none when none has."""
    world = World()
    for number in range(2_000):
        await world.apply("name", ("acme", PipelineKind.FLOW, str(number)), f"flow {number}")
    index = PipelineIndex(world.sources())
    await index.refresh()
    before = index.version
    await index.refresh()
    assert index.version == before
    await world.apply("end", ("acme", PipelineKind.FLOW, "7"), Status.FAILED, None)
    await index.refresh()
    assert index.version == before + 1


@given(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 9), unique=True))
def test_changes_are_found_by_identity(had: list[int], has: list[int]) -> None:
    """Whatever was added, removed, replaced or moved: nothing is missed, of tuples and of dicts."""
    objects = [object() for _ in range(10)]
    before, now = [objects[number] for number in had], [objects[number] for number in has]
    gone, new = changed_values(before, now)
    kept = [value for value in before if not any(value is other for other in gone)]
    assert {id(value) for value in kept} | {id(value) for value in new} == {id(v) for v in now}
    keys_before = {number: objects[number] for number in had}
    keys_now = {number: objects[-1 - number] for number in has}
    expected = {
        number for number in {*had, *has} if keys_before.get(number) is not keys_now.get(number)
    }
    assert changed_keys(keys_before, keys_now) >= expected
