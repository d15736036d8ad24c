"""The settings of the metrics page and of its counters."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.settings import Setting


class MetricsSettings(Struct, frozen=True, kw_only=True):
    """Metrics that [server] serves at /metrics."""

    series_budget: Annotated[
        int,
        Meta(ge=100, le=10_000_000),
        Setting(
            "Maximum number of series of the pipelines of a shard; the rest is summed as "
            'pipeline="__other__".'
        ),
    ] = 50_000
    stale_after_seconds: Annotated[
        float,
        Meta(ge=10, le=86_400),
        Setting("Active runs that were not confirmed within this time are left out."),
    ] = 300.0
    forget_pipelines_seconds: Annotated[
        float,
        Meta(ge=3_600, le=3_650 * 86_400),
        Setting(
            "When the series budget is used up, pipelines without runs for this time lose theirs."
        ),
    ] = 90 * 86_400.0
    render_timeout_seconds: Annotated[
        float,
        Meta(ge=0.1, le=300),
        Setting("Timeout of a scrape; keep it below scrape_timeout of Prometheus (10 by default)."),
    ] = 9.0
    batch_size: int = 1_000  # most events that are counted in one commit
    # After a batch that was not full; what comes meanwhile shares a commit, and callbacks go first.
    pause_seconds: float = 1.0
    commit_timeout_seconds: float = 10.0
    wait_seconds: float = 5.0  # one wait for new events; then the log is read anyway
    standing_timeout_seconds: float = 2.0  # for the store's own figures; then a page without them
    loop_lag_interval_seconds: float = 0.5  # how often the lag of the event loop is measured
