"""The timeline of a backtest: due times in a recorded past, changed by nothing but its events.

So whatever no event touches is evaluated only when its time has come, and the instants in between
are passed over. Handed to the engine as its ``timeline``.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.engine.evaluation_context import EvaluationContext
from monitor.alerting.engine.rule_set import RuleSet
from monitor.alerting.engine.timeline import NOW, NextEvaluation, SlowReads, Timeline
from monitor.alerting.rules.contract import Subject
from monitor.model.live_state import WorkspaceStatus


class RecordedTimeline(Timeline):
    """Finds the instants at which an evaluation may change something."""

    considers_past = False  # the past that is recorded begins with its first event
    sweep_seconds = 6 * 3_600.0

    def reset(self, rules: RuleSet) -> None:
        super().reset(rules)
        self._waiting: dict[str, datetime] = {}  # fingerprint -> when a likely link is given up

    def evaluated(
        self,
        context: EvaluationContext,
        subject: Subject,
        again_at: datetime | None,
        *,
        is_changed: bool,
    ) -> None:
        if is_changed:
            # With another memory a rule may answer otherwise, though nothing else has changed.
            again_at = context.as_of(subject)
        super().evaluated(context, subject, again_at, is_changed=is_changed)

    def committed(self, fingerprint: str, instance: AlertInstance | None) -> None:
        super().committed(fingerprint, instance)
        self._waiting.pop(fingerprint, None)
        if instance is not None and instance.is_open:
            until = [each.until for each in instance.inhibited_by if each.until is not None]
            self._waiting |= {fingerprint: min(until)} if until else {}

    def next_evaluation(self) -> NextEvaluation:
        if self._is_new or self.touched:
            return NextEvaluation(ours=NOW)
        ours = [self._alert_timers.next_at()]
        theirs: list[datetime | None] = []
        for (_, run_kind), timers in self._timers.items():
            (theirs if run_kind else ours).append(timers.next_at())
        return NextEvaluation(
            ours=min((at for at in ours if at is not None), default=None),
            theirs=min((at for at in theirs if at is not None), default=None),
        )

    def next_link_at(self) -> datetime | None:
        """Return when the first alert that waits for a likely link waits no longer (ours)."""
        return min(self._waiting.values(), default=None)

    def _of_alerts(self, context: EvaluationContext) -> Iterator[Subject]:
        # What only events change was evaluated when the newest of them was handled.
        return super()._of_alerts(context) if self._is_new else iter(())

    def _are_schedules_new(self, before: SlowReads, status: WorkspaceStatus) -> bool:
        return before.schedules is not status.schedules
