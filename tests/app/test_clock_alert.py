"""The alert about a clock that was set, of a daemon that does not watch the cluster."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from monitor.app.hosted.hosting import Hosting
from monitor.app.hosted.shard_definitions import shard_definitions
from monitor.app.store_opening import open_store
from monitor.bus.settings import StorageSettings
from monitor.bus.shards import CLUSTER
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.alerts import Trouble
from monitor.model.clock import SystemClock
from monitor.model.secrets import Secret
from monitor.outputs.metrics.daemon_metrics import DaemonMetrics
from monitor.supervisor import Supervisor
from monitor.workspace.access.stored_tokens import TokenMemory
from monitor.workspace.settings import WorkspaceSettings
from tests.app.eventually import eventually
from tests.outputs.output_scenario import no_report

_SET = Trouble(part="clock:north", since=datetime(2026, 11, 1, tzinfo=UTC), reason="was set")


async def test_one_of_its_shards_alerts_about_its_clock(empty_database: str) -> None:
    """Each daemon alerts about its own clock, once, in a part that is that shard's alone."""
    configuration = Configuration(
        workspaces=tuple(
            WorkspaceConfiguration(
                workspace=WorkspaceSettings(name=name, url="http://127.0.0.1:9", token=Secret("t"))
            )
            for name in ("orders", "sales")
        ),
        storage=StorageSettings(url=empty_database, daemon="north"),
    )
    clock, registry = SystemClock(), CollectorRegistry()
    store = await open_store(configuration.storage, clock=clock, registry=registry)
    supervisor = Supervisor(clock=clock, registry=registry)
    hosting = Hosting(
        configuration,
        store=store,
        clock=clock,
        registry=registry,
        metrics=DaemonMetrics(
            registry=registry, clock=clock, settings=configuration.metrics, version="1"
        ),
        supervisor=supervisor,
        token_memory=TokenMemory(),
        trouble=lambda: _SET,
        ages_at=clock.now,
        reports=no_report,
    )
    async with asyncio.TaskGroup() as group:
        hosting.use(group)
        await store.define([d for d in shard_definitions(configuration) if d.name != CLUSTER])
        running = group.create_task(hosting.run())
        await eventually(lambda: len(hosting.shown()) == 2, why="the shards have not started")
        parts = {
            name: [trouble.part for trouble in shard._condition().troubles or ()]
            for name, shard in hosting.shards.items()
        }
        assert sorted(parts) == ["orders", "sales"]
        assert sorted(parts.values()) in ([[], ["clock:north@orders"]], [[], ["clock:north@sales"]])
        await hosting.drain()
        running.cancel()
    await store.close()
