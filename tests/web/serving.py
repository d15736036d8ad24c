"""Serves over a real store and knowledge that a test writes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry

from monitor.alerting.reports.settings import ReportSettings
from monitor.alerting.settings import AlertingSettings
from monitor.bus.contract import Retention
from monitor.bus.shards import SOLE
from monitor.bus.sqlite import SqliteBus
from monitor.bus.sqlite.sole_shard import SoleLog
from monitor.logs import Redactor
from monitor.model.actions import Action, ActionResult
from monitor.model.checks import Check, CheckLine, failed, ok
from monitor.model.errors import NoSuchObjectError
from monitor.model.runs import RunKind
from monitor.tracking.live_state import LiveState
from monitor.web.audit.audit_log import AuditLog
from monitor.web.health import DaemonStatus
from monitor.web.requests import ShardRequests
from monitor.web.server import Server
from monitor.web.settings import ServerSettings
from monitor.web.shown_shards import ShownShard
from tests.clocks import ManualClock
from tests.web.fake_alerting import FakeAlerting
from tests.web.site import Site

_OUTPUTS = (
    ok("mqtt", "connected"),
    failed("webhook", "does not answer: refused"),
)


@contextlib.asynccontextmanager
async def serving(
    folder: Path,
    settings: ServerSettings,
    *,
    reports: tuple[ReportSettings, ...] = (),
    workspaces: tuple[str, ...] = ("acme",),
    store: SqliteBus | None = None,
) -> AsyncIterator[Site]:
    """Yield a server that listens, with a client and all that a test may change behind it.

    ``store``: that of another server, which this one shares with it.
    """
    clock, live_state = ManualClock(), LiveState(workspaces)
    registry, alerting = CollectorRegistry(), FakeAlerting(now=clock.now)
    bus = store or await SqliteBus.open(folder / "state.db", clock=clock, registry=registry)
    findings = {"store": ok("store", "writable")}
    requested: list[tuple[Any, ...]] = []

    async def find() -> list[CheckLine]:
        return [findings["store"]]

    shards = {SOLE: _shard(bus, live_state, alerting, requested)}
    server = Server(
        settings=settings,
        shards=lambda: shards,
        runs=bus,
        log=SoleLog(bus),
        entries=bus.entries,
        audit=AuditLog(bus.entries, clock=clock, redact=_redactor(settings).value),
        clock=clock,
        registry=registry,
        render_metrics=_render,
        checks=lambda: [Check("store", find)],
        daemon=_daemon_status(clock.now(), reports),
        cluster=no_cluster,
    )
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        made = Site(
            server,
            bus,
            live_state,
            clock,
            findings,
            session,
            alerting,
            registry,
            requested=requested,
        )
        made.url = f"{settings.scheme}://127.0.0.1:{await server.start()}"
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(), name=name) for name, run in server.tasks().items()]
            yield made
            await server.stop()
            for task in tasks:
                task.cancel()
    if store is None:
        await bus.close()


def _shard(
    bus: SqliteBus, live_state: LiveState, alerting: FakeAlerting, requested: list[tuple[Any, ...]]
) -> ShownShard:
    return ShownShard(
        name=SOLE,
        bus=bus,
        live=live_state.view,
        alerting=alerting.requests(),
        requests=_requests(requested),
        outputs=lambda: _OUTPUTS,
    )


async def _render(accept: str) -> tuple[bytes, str]:
    return b"some 1.0\n", f"text/plain; requested={'openmetrics' in accept}"


def _daemon_status(
    started_at: datetime, reports: tuple[ReportSettings, ...]
) -> Callable[[], DaemonStatus]:
    status = DaemonStatus(
        started_at=started_at,
        config_hash="2c26b46b68ffc68f",
        store_schema=3,
        retention=Retention(),
        longest_silence_seconds=AlertingSettings().longest_silence_seconds,
        reports=reports,
    )
    return lambda: status


def _requests(requested: list[tuple[Any, ...]]) -> ShardRequests:
    async def track(workspace: str, kind: RunKind, run_id: str) -> str:
        requested.append((workspace, kind, run_id))
        if run_id == "404":
            raise NoSuchObjectError("there is no such run")
        return f"following {run_id}"

    async def webhooks(workspace: str, action: str, flow: str | None) -> list[dict[str, Any]]:
        requested.append((workspace, action, flow))
        row = {"flow_id": flow or "7", "flow": "orders", "state": "registered"}
        return [{"workspace": workspace, **row, "task_id": "1", "reason": None}]

    async def untrack(workspace: str, kind: RunKind, run_id: str) -> str:
        if run_id == "404":
            raise NoSuchObjectError("it is not asked for")
        return f"{workspace} asks for {kind} {run_id} no more"

    async def act(workspace: str, action: Action, _not_after: datetime) -> ActionResult:
        requested.append((workspace, action))
        if action.id == "404":
            raise NoSuchObjectError("there is no such run")
        return ActionResult(detail=f"acted on {action.id}")

    return ShardRequests(track=track, untrack=untrack, webhooks=webhooks, act=act)


async def no_cluster() -> None:
    """A file is not shared."""


def _redactor(settings: ServerSettings) -> Redactor:
    return Redactor(secret for secret in (settings.token, settings.password) if secret is not None)
