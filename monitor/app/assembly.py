"""Builds what a daemon has one of: the server and the listener of callbacks. Starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from prometheus_client import CollectorRegistry

from monitor.app.elsewhere.mirrors import Mirrors
from monitor.app.hosted.hosting import Hosting
from monitor.app.readiness import readiness_checks
from monitor.bus.shards import ShardStore
from monitor.bus.store_identity import store_identity
from monitor.callbacks.listener import CallbackListener
from monitor.callbacks.settings import CallbackSettings
from monitor.config import Configuration, WorkspaceConfiguration, config_hash
from monitor.model.clock import Clock
from monitor.outputs.metrics.daemon_metrics import DaemonMetrics
from monitor.supervisor import Supervisor
from monitor.web.audit.audit_log import AuditLog
from monitor.web.health import ClusterProblems, DaemonStatus
from monitor.web.server import Server


def build_server(
    configuration: Configuration,
    hosting: Hosting,
    *,
    store: ShardStore,
    audit: AuditLog,
    mirrors: Mirrors | None,
    has_started: Callable[[], bool],
    clock: Clock,
    registry: CollectorRegistry,
    metrics: DaemonMetrics,
    supervisor: Supervisor,
) -> Server:
    """Return the server; it shows the shards as they come and go, and ``mirrors`` of others."""
    return Server(
        settings=configuration.server,
        shards=hosting.shown if mirrors is None else mirrors.shown,
        runs=store.stored_runs,
        log=store.log,
        entries=store.entries,
        audit=audit,
        clock=clock,
        registry=registry,
        render_metrics=metrics.exposition.render,
        checks=readiness_checks(
            store=store,
            shards=hosting.shown,
            cluster=None if mirrors is None else mirrors.check,
            has_started=has_started,
            clock=clock,
            supervisor=supervisor,
        ),
        cluster_problems=ClusterProblems if mirrors is None else mirrors.problems,
        daemon=_daemon_status(configuration, hosting, store, started_at=clock.now()),
        cluster=store.cluster,
        refresh=None if mirrors is None else mirrors.refresh,
        store_id=_store_id(configuration),
        on_certificate=metrics.certificate_loaded,
    )


def build_mirrors(hosting: Hosting, *, store: ShardStore, clock: Clock) -> Mirrors | None:
    """Return what shows the shards of other daemons; None where there can be none."""
    if store.elsewhere is None:
        return None
    return Mirrors(
        hosting.shown,
        store.elsewhere,
        cluster=store.cluster,
        away_since=lambda: store.away_since,
        configuration=lambda: hosting.configuration,
        clock=clock,
    )


def build_listener(
    configuration: Configuration,
    hosting: Hosting,
    *,
    clock: Clock,
    registry: CollectorRegistry,
    metrics: DaemonMetrics,
) -> CallbackListener | None:
    """Return the listener of callbacks, None where it is switched off."""
    if configuration.callbacks is None:
        return None
    return CallbackListener(
        settings=configuration.callbacks,
        workspaces=callback_settings(configuration.workspaces),
        receive=hosting.receive,
        clock=clock,
        registry=registry,
        store_id=_store_id(configuration),
        on_certificate=metrics.certificate_loaded,
    )


def _daemon_status(
    configuration: Configuration, hosting: Hosting, store: ShardStore, *, started_at: datetime
) -> Callable[[], DaemonStatus]:
    def status() -> DaemonStatus:
        return DaemonStatus(
            started_at=started_at,
            config_hash=config_hash(hosting.configuration),
            store_schema=store.schema,
            retention=configuration.storage.retention,
            longest_silence_seconds=hosting.configuration.alerting.longest_silence_seconds,
            reports=hosting.configuration.reports,
        )

    return status


def _store_id(configuration: Configuration) -> str | None:
    return store_identity(configuration.storage)


def callback_settings(
    workspaces: Iterable[WorkspaceConfiguration],
) -> dict[str, CallbackSettings]:
    """Return the callback settings of each workspace that accepts callbacks."""
    return {
        workspace.name: workspace.callbacks
        for workspace in workspaces
        if workspace.callbacks is not None
    }
