"""Builds what a daemon has one of: the server and the listener of callbacks. Starts nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from prometheus_client import CollectorRegistry

from monitor.app.hosting import Hosting
from monitor.app.outputs import Outputs
from monitor.app.readiness import readiness_checks
from monitor.app.requests import AdminRequests, alerting_requests
from monitor.bus.settings import store_path
from monitor.bus.shards import ShardStore
from monitor.bus.sqlite.identity import store_id
from monitor.bus.sqlite.upgrade import newest_schema
from monitor.callbacks.listener import CallbackListener
from monitor.callbacks.settings import CallbackSettings
from monitor.config import Configuration, WorkspaceConfiguration
from monitor.model.clock import Clock
from monitor.supervisor import Supervisor
from monitor.web.daemon_status import DaemonStatus, OutputStatus, ReadDaemonStatus
from monitor.web.requests import Requests
from monitor.web.server import Server


def build_server(
    configuration: Configuration,
    hosting: Hosting,
    *,
    clock: Clock,
    registry: CollectorRegistry,
    supervisor: Supervisor,
) -> Server:
    """Return the server, once the first shard is there."""
    shard = next(iter(hosting.shards.values()))
    requests = AdminRequests(hosting.followed)
    return Server(
        settings=configuration.server,
        bus=shard.bus,
        view=shard.view,
        clock=clock,
        registry=registry,
        render_metrics=shard.metrics.exposition.render,
        checks=readiness_checks(
            bus=shard.bus,
            view=shard.view,
            clock=clock,
            supervisor=supervisor,
            outputs=shard.outputs,
        ),
        requests=Requests(track=requests.track, webhooks=requests.act_on_webhooks),
        alerting=alerting_requests(
            shard.engine, bus=shard.bus, view=shard.view, outputs=shard.outputs
        ),
        daemon=_daemon_status(configuration, shard.outputs, started_at=clock.now()),
        store_id=_store_id(configuration),
    )


def build_listener(
    configuration: Configuration,
    hosting: Hosting,
    *,
    store: ShardStore,
    clock: Clock,
    registry: CollectorRegistry,
) -> CallbackListener | None:
    """Return the listener of callbacks, None where it is switched off."""
    if configuration.callbacks is None:
        return None
    return CallbackListener(
        settings=configuration.callbacks,
        workspaces=callback_settings(configuration.workspaces),
        receive=store.receive,
        clock=clock,
        registry=registry,
        direct=hosting.observe_directly,
        on_stored=hosting.callback_stored,
        store_id=_store_id(configuration),
    )


def _daemon_status(
    configuration: Configuration, outputs: Outputs, *, started_at: datetime
) -> ReadDaemonStatus:
    newest = newest_schema()

    def status() -> DaemonStatus:
        return DaemonStatus(
            started_at=started_at,
            config_hash=outputs.info.config_hash,
            store_schema=newest,
            retention=configuration.storage.retention,
            outputs=tuple(
                OutputStatus(name=name, is_well=output.is_well, detail=output.status)
                for name, output in outputs.by_name.items()
            ),
        )

    return status


def _store_id(configuration: Configuration) -> str | None:
    if configuration.storage.postgres is not None:
        return None  # a database is nobody's alone
    return store_id(store_path(configuration.storage.url))


def callback_settings(
    workspaces: Iterable[WorkspaceConfiguration],
) -> dict[str, CallbackSettings]:
    """Return the callback settings of each workspace that accepts callbacks."""
    return {
        workspace.name: workspace.callbacks
        for workspace in workspaces
        if workspace.callbacks is not None
    }
