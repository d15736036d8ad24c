"""Builds the parts of a daemon. Starts nothing and opens nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import CollectorRegistry

from monitor import __version__
from monitor.alerting.engine.engine import Engine
from monitor.app.outputs import Outputs
from monitor.app.readiness import readiness_checks
from monitor.app.requests import AdminRequests, alerting_requests
from monitor.bus.contract import EventBus, Received, StoredCallback
from monitor.bus.settings import store_path
from monitor.bus.sqlite.identity import store_id
from monitor.bus.sqlite.upgrade import newest_schema
from monitor.callbacks.listener import CallbackListener
from monitor.callbacks.settings import CallbackSettings
from monitor.catalogue.capabilities import Capability
from monitor.config import Configuration, WorkspaceConfiguration, config_hash
from monitor.model.clock import Clock
from monitor.outputs.event_output import DaemonInfo
from monitor.outputs.metrics.assembly import Metrics
from monitor.supervisor import Supervisor
from monitor.tracking.live_state import LiveState, LiveStateView
from monitor.tracking.observer import Observer
from monitor.web.daemon_status import DaemonStatus, OutputStatus, ReadDaemonStatus
from monitor.web.requests import Requests
from monitor.web.server import Server


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonParts:
    """The parts that all workspaces share."""

    live_state: LiveState
    observer: Observer
    metrics: Metrics
    engine: Engine
    outputs: Outputs
    server: Server
    listener: CallbackListener | None


def assemble(
    configuration: Configuration,
    *,
    bus: EventBus,
    clock: Clock,
    registry: CollectorRegistry,
    supervisor: Supervisor,
    requests: AdminRequests,
    direct: Callable[[StoredCallback], Awaitable[Received | None]],
    on_stored: Callable[[str], None],
) -> DaemonParts:
    """Return the parts; for ``direct`` and ``on_stored`` see `CallbackListener`."""
    live_state = LiveState([workspace.name for workspace in configuration.workspaces])
    view = live_state.view
    engine = Engine(
        bus=bus,
        view=view,
        clock=clock,
        settings=configuration.alerting,
        retention=configuration.storage.retention,
        guard=supervisor.contain,
    )
    metrics = _metrics(configuration, engine, bus=bus, view=view, clock=clock, registry=registry)
    outputs = Outputs(
        configuration.outputs,
        bus=bus,
        view=view,
        clock=clock,
        registry=registry,
        info=daemon_info(configuration),
        alerting=engine.snapshot,
    )
    engine.watch_topics(outputs.overwritten)
    return DaemonParts(
        live_state=live_state,
        observer=_observer(configuration, live_state, bus=bus, clock=clock, registry=registry),
        metrics=metrics,
        engine=engine,
        outputs=outputs,
        server=_server(
            configuration,
            engine,
            metrics,
            outputs,
            supervisor,
            bus=bus,
            view=view,
            clock=clock,
            registry=registry,
            requests=requests,
        ),
        listener=_listener(
            configuration,
            bus=bus,
            clock=clock,
            registry=registry,
            direct=direct,
            on_stored=on_stored,
        ),
    )


def _observer(
    configuration: Configuration,
    live_state: LiveState,
    *,
    bus: EventBus,
    clock: Clock,
    registry: CollectorRegistry,
) -> Observer:
    settings = configuration.tracking
    return Observer(
        bus=bus, live_state=live_state, clock=clock, registry=registry, settings=settings
    )


def _server(
    configuration: Configuration,
    engine: Engine,
    metrics: Metrics,
    outputs: Outputs,
    supervisor: Supervisor,
    *,
    bus: EventBus,
    view: LiveStateView,
    clock: Clock,
    registry: CollectorRegistry,
    requests: AdminRequests,
) -> Server:
    checks = readiness_checks(
        bus=bus, view=view, clock=clock, supervisor=supervisor, outputs=outputs
    )
    return Server(
        settings=configuration.server,
        bus=bus,
        view=view,
        clock=clock,
        registry=registry,
        render_metrics=metrics.exposition.render,
        checks=checks,
        requests=Requests(track=requests.track, webhooks=requests.act_on_webhooks),
        alerting=alerting_requests(engine, bus=bus, view=view, outputs=outputs),
        daemon=_daemon_status(configuration, outputs, started_at=clock.now()),
        store_id=_store_id(configuration),
    )


def _metrics(
    configuration: Configuration,
    engine: Engine,
    *,
    bus: EventBus,
    view: LiveStateView,
    clock: Clock,
    registry: CollectorRegistry,
) -> Metrics:
    metrics = Metrics(
        bus=bus,
        live_state=view,
        clock=clock,
        registry=registry,
        settings=configuration.metrics,
        version=__version__,
        capabilities=list(Capability),
        alerting=engine.snapshot,
    )
    metrics.configuration_taken(config_hash(configuration))
    return metrics


def _listener(
    configuration: Configuration,
    *,
    bus: EventBus,
    clock: Clock,
    registry: CollectorRegistry,
    direct: Callable[[StoredCallback], Awaitable[Received | None]],
    on_stored: Callable[[str], None],
) -> CallbackListener | None:
    if configuration.callbacks is None:
        return None
    return CallbackListener(
        settings=configuration.callbacks,
        workspaces=callback_settings(configuration.workspaces),
        bus=bus,
        clock=clock,
        registry=registry,
        direct=direct,
        on_stored=on_stored,
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


def daemon_info(configuration: Configuration) -> DaemonInfo:
    """Return what is published about this daemon."""
    return DaemonInfo(
        version=__version__,
        workspaces=tuple(workspace.name for workspace in configuration.workspaces),
        config_hash=config_hash(configuration),
    )
