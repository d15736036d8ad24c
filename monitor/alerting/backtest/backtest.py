"""A backtest: which alerts other rules would have fired, beside those that fired."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from monitor.alerting.backtest.recorded_log import RecordedLog
from monitor.alerting.backtest.replay import NO_PARTS, HealthTracker, Parts, Replay
from monitor.alerting.backtest.replay_store import MemoryStore
from monitor.alerting.backtest.rule_comparison import (
    BacktestFiring,
    RuleComparison,
    compare,
    firings,
)
from monitor.alerting.backtest.undecided import Gathered
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.alerting.settings import AlertingSettings
from monitor.model.events import AlertEvent
from monitor.model.live_state import WorkspaceStatus
from monitor.tracking.live_state import LiveState


def learning_rules(settings: AlertingSettings) -> list[str]:
    """Return the rules that learn their limits again, from the first of the events."""
    return [
        rule.name
        for rule in settings.rules
        if rule.is_enabled
        and not rule.threshold
        and (quantity := RULE_DEFINITIONS[rule.rule].threshold) is not None
        and quantity.default is None
    ]


async def backtest(
    settings: AlertingSettings,
    log: RecordedLog,
    *,
    workspaces: Sequence[WorkspaceStatus],
    start: datetime,
    health_tracker: Callable[[LiveState], HealthTracker],
    parts: Parts = NO_PARTS,
    on_progress: Callable[[datetime, float], None],
) -> list[RuleComparison]:
    """Return one row for each rule. ``on_progress`` gets the time and the share that is done.

    ``parts`` are the runs inside the plan runs, as they are known today. The workspaces are taken
    as they are today too: the log does not hold how they were.
    """
    would: list[BacktestFiring] = []
    did: list[BacktestFiring] = []
    gathered = Gathered(
        settings.rules,
        start=start,
        learning=learning_rules(settings),
        parts=parts,
    )

    def on_alert(event: AlertEvent) -> None:
        would.extend(firings([event]))
        gathered.replayed(event)

    store = MemoryStore(on_alert)
    replay = Replay(
        settings,
        workspaces=workspaces,
        start=start,
        store=store,
        known_until=log.known_until.at,
        health_tracker=health_tracker,
        parts=parts,
    )
    await replay.begin()
    last = start
    for part in log.slices():
        on_progress(part.events[0].event.recorded_at, part.share)
        await replay.replay(part.events)
        events = [recorded.event for recorded in part.events]
        did += firings(events)
        gathered.read(events)
        last = part.events[-1].event.recorded_at
    # Each workspace was read until then, so it is known that nothing happened after the last event.
    read = [workspace.known_at for workspace in workspaces if workspace.known_at is not None]
    await replay.finish(max([last, *read]))
    rows = compare(settings.rules, would, did)
    return gathered.decide(rows, log.run_events(gathered.event_ids(rows)))
