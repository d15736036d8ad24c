"""What views read from. Nothing here is changed by a view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from monitor.alerting.explain.explanation import Explanation
from monitor.bus.contract import StoredLog, StoredRuns
from monitor.bus.shards import ClusterStatus
from monitor.model.alert_texts import with_texts
from monitor.model.alerts import Alert
from monitor.model.clock import Clock
from monitor.web.daemon_status import ReadDaemonStatus
from monitor.web.health import Check, ClusterProblems
from monitor.web.requests import AlertingRequests
from monitor.web.settings import ServerSettings
from monitor.web.shown_live_state import ShownLiveState
from monitor.web.shown_shards import ShardDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewSources:
    """Live state, store, alerting and health of all shards, as the daemon hands them in."""

    shards: ShardDirectory
    runs: StoredRuns
    log: StoredLog
    live_state: Callable[[], ShownLiveState]
    clock: Clock
    settings: ServerSettings
    checks: Callable[[], Mapping[str, Check]]
    alerting: AlertingRequests
    daemon: ReadDaemonStatus
    cluster: Callable[[], Awaitable[ClusterStatus | None]]
    cluster_problems: Callable[[], ClusterProblems]
    is_shared: bool  # other daemons may share the store

    @property
    def live(self) -> ShownLiveState:
        """The live state of now; with one shard that shard's own."""
        return self.live_state()

    def time_of(self, alert: Alert) -> datetime:
        """Return the present by the clock of what an alert is about."""
        return self.live.time_of(alert, self.clock.now())

    def as_read(self, explanation: Explanation) -> Explanation:
        """Return the explanation with the texts of its alerts as they read now."""
        alerts = [with_texts(alert, self.time_of(alert)) for alert in explanation.alerts]
        return msgspec.structs.replace(explanation, alerts=tuple(alerts))
