"""Two daemons over PostgreSQL: one holds a shard, the other shows and instructs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial

import msgspec
from prometheus_client import CollectorRegistry

from monitor.alerting.engine.engine import Engine
from monitor.alerting.settings import AlertingSettings
from monitor.app.elsewhere.mirrors import Mirrors
from monitor.app.hosted.instructions import InstructionRunner
from monitor.app.hosted.request_routing import alerting_requests
from monitor.bus.contract import Change, Retention, Start
from monitor.bus.shards import ShardGranted
from monitor.config import Configuration
from monitor.model.actions import Action, ActionResult
from monitor.model.alerts import Alert, Silence
from monitor.model.clock import SystemClock
from monitor.model.errors import NoSuchObjectError
from monitor.model.events import EventType, RunEvent, run_event_id
from monitor.model.live_state import Reachability, ScheduleKnown
from monitor.model.notifying import MessagePreview
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, Source, Status
from monitor.model.triggers import DailyTrigger
from monitor.outputs.dead_letters import LetterAction, LettersProcessed
from monitor.outputs.replaying import Replayed
from monitor.supervisor import Supervisor, Waits
from monitor.tracking.live_state import LiveState
from monitor.tracking.pipeline_health import PipelineHealthTracker
from monitor.tracking.status_memory import StatusMemory
from monitor.web.requests import AlertingRequests, ShardRequests
from monitor.web.shown_shards import ShownShard
from tests.bus.examples import SOON, run
from tests.bus.postgres_members import shards
from tests.bus.postgres_stores import StoreHost, store_cluster

CLOCK = SystemClock()
ORDERS = Pipeline(kind=PipelineKind.FLOW, id="7", name="orders")
_LEASE_SECONDS = 60.0  # a busy machine takes a shorter one away from a daemon that lives

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
        self.acted: list[tuple[Action, datetime]] = []

    async def track(self, workspace: str, kind: RunKind, run_id: str) -> str:
        self.tracked.append(run_id)
        if run_id == "404":
            raise NoSuchObjectError("the workspace denies the run")
        return f"following {RunKey(workspace, kind, run_id)}"

    async def untrack(self, workspace: str, kind: RunKind, run_id: str) -> str:
        return f"dropped {RunKey(workspace, kind, run_id)}"

    async def act(self, workspace: str, action: Action, not_after: datetime) -> ActionResult:
        self.acted.append((action, not_after))
        run = RunKey(workspace, action.kind, "18")
        return ActionResult(detail=f"acted on {action.id}", run=run)

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
            requests=ShardRequests(
                track=self.track, untrack=self.untrack, webhooks=self.webhooks, act=self.act
            ),
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

    async def fail(self) -> None:
        """Let a run of the flow end badly, and alerting see it."""
        now = CLOCK.now()
        ended = run(3, Status.FAILED, workspace="sales", created_at=now)
        ended = msgspec.structs.replace(ended, pipeline=ORDERS, finished_at=now)
        failed = RunEvent(
            id=run_event_id(ended.key, EventType.RUN_FAILED),
            type=EventType.RUN_FAILED,
            run=ended,
            before=Status.RUNNING,
            occurred_at=now,
            recorded_at=now,
            observed_by=Source.POLL,
        )
        await self.bus.commit(Change(runs=(ended,), events=(failed,)), timeout_seconds=SOON)
        await self.engine.take_some()


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


@asynccontextmanager
async def mirrored_pair(database: str) -> AsyncIterator[Pair]:
    """Yield a daemon that holds the shard, and one that holds nothing."""
    async with store_cluster(database) as cluster:
        north = await cluster.join("north", shards("sales"), lease_seconds=_LEASE_SECONDS)
        await north.has("sales")
        south = await cluster.join("south", [], lease_seconds=_LEASE_SECONDS)
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
