"""What views read from. Nothing here is changed by a view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from monitor.bus.contract import StoredLog, StoredRuns
from monitor.bus.shards import ClusterStatus
from monitor.model.clock import Clock
from monitor.tracking.live_state import LiveStateView
from monitor.web.daemon_status import ReadDaemonStatus
from monitor.web.health import Check, ClusterProblems
from monitor.web.requests import AlertingRequests
from monitor.web.settings import ServerSettings
from monitor.web.shown_shards import ShardDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSources:
    """Live state, store, alerting and health of all shards, as the daemon hands them in."""

    shards: ShardDirectory
    runs: StoredRuns
    log: StoredLog
    live: LiveStateView
    clock: Clock
    settings: ServerSettings
    checks: Callable[[], Mapping[str, Check]]
    alerting: AlertingRequests
    daemon: ReadDaemonStatus
    cluster: Callable[[], Awaitable[ClusterStatus | None]]
    cluster_problems: Callable[[], ClusterProblems]
    is_shared: bool  # other daemons may share the store
