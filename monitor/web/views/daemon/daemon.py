"""The daemon itself: versions, readiness, rules."""

from __future__ import annotations

import platform
from datetime import datetime

from msgspec import Struct

from monitor import __version__
from monitor.web.health import readiness
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import View


class MonitorQuery(Struct, frozen=True, kw_only=True):
    """No parameters."""


class CheckView(Struct, frozen=True, kw_only=True):
    """One readiness check; ``detail`` is one sentence for an operator."""

    name: str
    ok: bool
    detail: str


class FailingRule(Struct, frozen=True, kw_only=True):
    """A rule that cannot be evaluated."""

    name: str
    error: str  # what it last raised
    failures: int  # since the start


class MonitorView(Struct, frozen=True, kw_only=True):
    """The daemon. Instants are ours."""

    version: str
    python: str
    store_schema: int
    config_hash: str
    started_at: datetime
    running_seconds: float
    ready: bool
    checks: tuple[CheckView, ...]
    rules: int
    failing_rules: tuple[FailingRule, ...]
    learned_limits: int  # of how long runs take
    learned_gaps: int  # between successes


class MonitorReader:
    """Runs the readiness checks, and reads what the daemon says about itself."""

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources

    async def read(self, _: MonitorQuery) -> MonitorView:
        sources = self._sources
        status, alerting = sources.daemon(), sources.alerting.snapshot()
        found = await readiness(sources.checks())
        return MonitorView(
            version=__version__,
            python=platform.python_version(),
            store_schema=status.store_schema,
            config_hash=status.config_hash,
            started_at=status.started_at,
            running_seconds=(sources.clock.now() - status.started_at).total_seconds(),
            ready=found.ready,
            checks=tuple(
                CheckView(name=name, ok=finding.ok, detail=finding.detail)
                for name, finding in found.checks.items()
            ),
            rules=len(alerting.rules),
            failing_rules=tuple(
                FailingRule(name=name, error=error, failures=alerting.failures.get(name, 0))
                for name, error in sorted(alerting.failing_rules.items())
            ),
            learned_limits=len(alerting.limits),
            learned_gaps=len(alerting.cadences),
        )


def monitor_view(sources: ViewSources) -> View:
    return View(
        name="monitor",
        summary="The daemon itself: versions, readiness and rules.",
        api="/api/v1/monitor",
        query=MonitorQuery,
        answer=MonitorView,
        read=MonitorReader(sources).read,
    )
