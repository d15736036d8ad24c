"""A daemon that holds nothing shows and instructs the shard of another one, over PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from monitor.alerting.engine.engine import Engine
from monitor.alerting.settings import AlertingSettings
from monitor.app.elsewhere.mirrors import Mirrors
from monitor.app.hosted.instructions import AddSilence, InstructedShard, InstructionRunner, execute
from monitor.app.hosted.request_routing import alerting_requests
from monitor.bus.contract import Change, Retention, Start
from monitor.bus.shards import ShardGranted, ShardRecord
from monitor.config import Configuration
from monitor.model.alerts import Alert, Silence
from monitor.model.clock import SystemClock
from monitor.model.errors import BusUnavailableError, NoSuchObjectError
from monitor.model.events import EventType
from monitor.model.live_state import Reachability, ScheduleKnown
from monitor.model.notifying import MessagePreview
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, Status
from monitor.model.triggers import DailyTrigger
from monitor.outputs.dead_letters import LetterAction, LettersProcessed
from monitor.outputs.replaying import Replayed
from monitor.supervisor import Supervisor, Waits
from monitor.tracking.live_state import LiveState
from monitor.tracking.pipeline_health import PipelineHealthTracker
from monitor.tracking.status_memory import StatusMemory
from monitor.web.health import ClusterProblems
from monitor.web.requests import AlertingRequests, ShardRequests
from monitor.web.shown_shards import ShownShard
from monitor.web.views.daemon.cluster import without_holder
from tests.app.eventually import eventually
from tests.bus.examples import SOON, run
from tests.bus.postgres_members import shards
from tests.bus.postgres_stores import LONG_SECONDS, StoreHost, store_cluster
from tests.outputs.alert_histories import alert

CLOCK = SystemClock()
ORDERS = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")


NIGHTLY = ScheduleKnown(
    id="3",
    name="nightly",
    is_enabled=True,
    triggers=(DailyTrigger(hour_of_day=2, minute_of_hour=0),),
    pipelines=(ORDERS,),
)


def silence(number: str) -> Silence:
    now = CLOCK.now()
    return Silence(
        id=number,
        matchers=("workspace=sales",),
        author="ann",
        comment="reload",
        starts_at=now,
        ends_at=now + timedelta(hours=1),
        origin="api",
    )


class Holder:
    """The daemon that holds the shard ``sales``: what it knows, and what it is asked to do."""

    def __init__(self, host: StoreHost) -> None:
        granted = next(change for change in host.changes if isinstance(change, ShardGranted))
        self.bus = granted.bus
        assert granted.instructions is not None
        self.live_state = LiveState(["sales"])
        self.engine = Engine(
            bus=self.bus,
            view=self.live_state.view,
            clock=CLOCK,
            settings=AlertingSettings(),
            retention=Retention(),
            guard=lambda _name, call, _on_failure: call(),
        )
        self.instructions = granted.instructions
        self.runner = InstructionRunner(granted.instructions, shown=self.shown)
        self.tracked: list[str] = []

    async def track(self, workspace: str, kind: RunKind, run_id: str) -> str:
        self.tracked.append(run_id)
        if run_id == "404":
            raise NoSuchObjectError("the workspace denies the run")
        return f"following {RunKey(workspace, kind, run_id)}"

    async def untrack(self, workspace: str, kind: RunKind, run_id: str) -> str:
        return f"dropped {RunKey(workspace, kind, run_id)}"

    async def webhooks(
        self, workspace: str, action: str, flow: str | None
    ) -> list[dict[str, object]]:
        return [{"workspace": workspace, "action": action, "flow": flow}]

    async def replay(self, output: str, since: object) -> Replayed:
        del since
        return Replayed(output=output, sent=3, skipped=0, refused=0)

    async def process_letters(
        self, output: str, action: LetterAction, event_ids: tuple[str, ...] | None
    ) -> LettersProcessed:
        assert (action, event_ids) == (LetterAction.RESEND, ("a", "b"))
        return LettersProcessed(output=output, sent=1, missing=("b",), left=4)

    async def preview(self, fingerprint: str | Alert) -> list[MessagePreview]:
        return [MessagePreview(channel="team", subject=f"about {fingerprint}")]

    def alerting(self) -> AlertingRequests:
        return alerting_requests(
            self.engine,
            bus=self.bus,
            view=self.live_state.view,
            clock=CLOCK,
            retention=Retention(),
            types=lambda: {"mqtt": frozenset(EventType)},
            replay=self.replay,
            process_letters=self.process_letters,
            previews=self.preview,
        )

    def shown(self) -> ShownShard:
        return ShownShard(
            name="sales",
            bus=self.bus,
            live=self.live_state.view,
            alerting=msgspec.structs.replace(self.alerting(), preview=self.preview),
            requests=ShardRequests(track=self.track, untrack=self.untrack, webhooks=self.webhooks),
            outputs=tuple,
        )

    async def store(self) -> None:
        """Store a run, a pipeline's health and the status, as observer and memory do."""
        self.live_state.update_workspace(
            "sales",
            reachability=Reachability.REACHABLE,
            known_at=CLOCK.now(),
            since=CLOCK.now(),
            edition="PC",
            schedules=(NIGHTLY,),
        )
        self.live_state.confirm("sales", RunKind.JOB_GROUP, CLOCK.now())
        active = run(1, workspace="sales", created_at=CLOCK.now())
        ended = run(2, Status.FAILED, workspace="sales", created_at=CLOCK.now())
        ended = msgspec.structs.replace(ended, pipeline=ORDERS)
        tracker = PipelineHealthTracker(self.live_state)
        health = tracker.state_entries(tracker.changed([ended], {}))
        await self.bus.commit(
            Change(runs=(active, ended), state_entries=health), timeout_seconds=SOON
        )
        memory = partial(StatusMemory, "sales", bus=self.bus, clock=CLOCK)
        await memory(live_state=self.live_state).store()


class Pair:
    """The holder, and the mirrors of the daemon beside it; ``hosted`` are that one's own."""

    def __init__(
        self, holder: Holder, mirrors: Mirrors, *, north: StoreHost, south: StoreHost
    ) -> None:
        self.holder = holder
        self.north = north
        self.mirrors = mirrors
        self.south = south
        self.hosted: dict[str, ShownShard] = {}

    async def sales(self) -> ShownShard:
        """Return the mirror as it is now in the store."""
        self.mirrors.expect_change()
        await self.mirrors.refresh()
        return self.mirrors.shown()["sales"]


@pytest.fixture
async def pair(empty_database: str) -> AsyncIterator[Pair]:
    async with store_cluster(empty_database) as cluster:
        north = await cluster.join("north", shards("sales"))
        await north.has("sales")
        south = await cluster.join("south", [])
        holder = Holder(north)
        await holder.bus.subscribe("alerting", start=Start.NEWEST)
        await holder.engine.restore()
        assert south.store.elsewhere is not None
        pairs: list[Pair] = []
        mirrors = Mirrors(
            lambda: pairs[0].hosted,
            south.store.elsewhere,
            cluster=south.store.cluster,
            away_since=lambda: south.store.away_since,
            configuration=lambda: Configuration(workspaces=()),
            clock=CLOCK,
        )
        supervisor = Supervisor(
            clock=CLOCK, registry=CollectorRegistry(), waits=Waits(first_seconds=0.1)
        )
        running = asyncio.create_task(supervisor.supervise("instructions", holder.runner.run))
        try:
            pairs.append(Pair(holder, mirrors, north=north, south=south))
            yield pairs[0]
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await mirrors.close()


async def test_a_mirror_shows_what_the_holder_has_stored(pair: Pair) -> None:
    """Active runs, pipelines and when they were confirmed, with holder and time of the read."""
    before = await pair.sales()
    assert before.live.active_runs() == ()
    await pair.holder.store()
    sales = await pair.sales()
    assert [active.run.key.id for active in sales.live.active_runs("sales")] == ["1"]
    assert sales.live.label("sales", ORDERS) == "orders"
    status = sales.live.workspace("sales")
    assert status is not None
    own = pair.holder.live_state.workspaces["sales"]
    assert (status.reachability, status.known_at) == (Reachability.REACHABLE, own.known_at)
    assert (status.edition, status.schedules) == ("PC", (NIGHTLY,))
    assert sales.live.confirmed() == pair.holder.live_state.confirmed
    assert sales.mirrored is not None
    mirrored = sales.mirrored()
    assert (mirrored.holder, mirrored.reason) == ("north", None)
    assert mirrored.read_at is not None
    assert pair.mirrors.shown() is pair.mirrors.shown()
    assert pair.mirrors.problems() == ClusterProblems()
    assert [line.is_well for line in await pair.mirrors.check("cluster")] == [True]


async def test_a_silence_is_made_and_ended_by_the_holder(pair: Pair) -> None:
    """Both know it then; the mirror reads it back from the store."""
    made = silence("5d3c")
    sales = await pair.sales()
    async with asyncio.timeout(LONG_SECONDS):
        await sales.alerting.add_silence(made)
        assert pair.holder.engine.snapshot().silences == (made,)
        assert (await pair.sales()).alerting.snapshot().silences == (made,)
        assert await sales.alerting.expire_silence("5d3c")
        assert not await sales.alerting.expire_silence("5d3c")


async def test_a_silence_that_is_asked_for_again_stays_ended(pair: Pair) -> None:
    """As after the death of a holder that had made it, and not said so yet."""
    made = silence("77aa")
    order = AddSilence(silence=made)
    await execute(order, pair.holder.shown())
    assert await pair.holder.engine.expire_silence(made.id)
    assert (await execute(order, pair.holder.shown())).done
    [kept] = pair.holder.engine.snapshot().silences
    assert kept.ends_at <= CLOCK.now()


async def test_answers_of_the_holder_come_back(pair: Pair) -> None:
    """Sentences, rows and refusals are the same as if the shard were held here."""
    sales = await pair.sales()
    async with asyncio.timeout(LONG_SECONDS):
        tracked = await sales.requests.track("sales", RunKind.JOB_GROUP, "17")
        assert tracked == "following sales:job_group:17"
        dropped = await sales.requests.untrack("sales", RunKind.JOB_GROUP, "17")
        assert dropped == "dropped sales:job_group:17"
        with pytest.raises(NoSuchObjectError, match="denies"):
            await sales.requests.track("sales", RunKind.JOB_GROUP, "404")
        rows = await sales.requests.webhooks("sales", "sync", "7")
        assert rows == [{"workspace": "sales", "action": "sync", "flow": "7"}]
        assert (await sales.alerting.replay("mqtt", CLOCK.now())).sent == 3
        letters = await sales.alerting.process_letters("mqtt", LetterAction.RESEND, ("a", "b"))
        assert letters == LettersProcessed(output="mqtt", sent=1, missing=("b",), left=4)
        assert not await sales.alerting.acknowledge("9f86", CLOCK.now(), "ann", "")
        assert await sales.alerting.preview("9f86") is None
        assert pair.south.store.elsewhere is not None
        asked = InstructedShard("sales", pair.south.store.elsewhere, on_answer=lambda: None)
        (preview,) = await asked.previews(alert(1))
        assert preview.subject == f"about {alert(1).fingerprint}"


async def test_an_instruction_is_executed_once_though_its_outcome_cannot_be_stored(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder keeps the outcome until the store takes it."""
    finish, refused = pair.holder.instructions.finish, list[bytes]()

    async def refuse_first(number: int, outcome: bytes, *, timeout_seconds: float) -> None:
        if not refused:
            refused.append(outcome)
            raise BusUnavailableError("the database is away")
        assert outcome == refused[0]
        await finish(number, outcome, timeout_seconds=timeout_seconds)

    monkeypatch.setattr(pair.holder.instructions, "finish", refuse_first)
    sales = await pair.sales()
    async with asyncio.timeout(LONG_SECONDS):
        tracked = await sales.requests.track("sales", RunKind.JOB_GROUP, "17")
    assert tracked == "following sales:job_group:17"
    assert (pair.holder.tracked, len(refused)) == (["17"], 1)


async def test_a_shard_that_was_lost_stays_shown_as_it_was(pair: Pair) -> None:
    """Its workspaces do not vanish while the store cannot be read: what is left is not all."""
    await pair.holder.store()
    pair.hosted = {"sales": pair.holder.shown()}
    assert pair.mirrors.shown()["sales"].mirrored is None
    pair.hosted = {}
    lost = pair.mirrors.shown()["sales"]
    assert lost.mirrored is not None
    assert lost.mirrored().holder is None
    status = lost.live.workspace("sales")
    assert status is not None
    assert status.reachability is Reachability.REACHABLE
    again = await pair.sales()
    assert again.mirrored is not None
    assert again.mirrored().holder == "north"


async def test_a_shard_that_was_never_viewed_is_shown_after_its_loss(pair: Pair) -> None:
    """In an outage of the database it is all that there is to show."""
    await pair.holder.store()
    pair.hosted = {"sales": pair.holder.shown()}
    watching = asyncio.create_task(pair.mirrors.run())
    await eventually(lambda: pair.mirrors._hosted_before == pair.hosted, why="not refreshed")
    pair.hosted = {}
    assert pair.mirrors.shown()["sales"].live.workspace("sales") is not None
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


async def test_requests_for_a_lost_shard_go_to_its_holder(pair: Pair) -> None:
    """Here its store is closed; the next daemon that holds it must learn of the silence."""

    async def closed(_: Silence) -> None:
        raise BusUnavailableError("the store is closed")

    shown = pair.holder.shown()
    alerting = msgspec.structs.replace(shown.alerting, add_silence=closed)
    pair.hosted = {"sales": replace(shown, alerting=alerting)}
    pair.mirrors.shown()
    pair.hosted = {}
    made = silence("08fe")
    async with asyncio.timeout(LONG_SECONDS):
        await pair.mirrors.shown()["sales"].alerting.add_silence(made)
    assert pair.holder.engine.snapshot().silences == (made,)


async def test_a_shard_that_leaves_while_others_are_read_stays_shown(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is shown as it was until it is read as another daemon's; at no time it is missing."""
    await pair.holder.store()
    pair.hosted = {"sales": pair.holder.shown()}
    assert pair.mirrors.shown()["sales"].mirrored is None
    read_states = pair.mirrors._read_states

    async def hand_over(records: Sequence[ShardRecord]) -> None:
        await read_states(records)
        pair.hosted = {}

    with monkeypatch.context() as patched:
        patched.setattr(pair.mirrors, "_read_states", hand_over)
        await pair.mirrors.refresh()
    left = pair.mirrors.shown()["sales"]
    assert left.mirrored is not None
    assert left.live.workspace("sales") is not None

    await pair.mirrors.refresh()
    mirror = pair.mirrors.shown()["sales"]
    assert mirror.mirrored is not None
    assert mirror.mirrored().holder == "north"
    assert mirror.live.workspace("sales") is not None


async def test_a_shard_that_no_configuration_has_is_shown_no_more(pair: Pair) -> None:
    """Its last states are no present, and that it has no holder is no problem."""
    await pair.holder.store()
    await pair.sales()
    await pair.north.store.define([])
    await pair.north.store.release("sales")

    async def is_gone() -> bool:
        pair.mirrors.expect_change()
        await pair.mirrors.refresh()
        return "sales" not in pair.mirrors.shown()

    await eventually(is_gone, why="a removed workspace is still shown")
    status = await pair.south.store.cluster()
    assert status is not None
    assert [shard.is_configured for shard in status.shards] == [False]
    assert without_holder(status) == []
