"""Notifies of a failure inside another run once, also where the link becomes known later.

A flow run is linked to its plan run only after that has ended; so is many a job group to its flow
run. Whichever failure fires first keeps its alert, and the other is its evidence. Where
a link is likely and not there yet, the second failure is postponed, for a bounded time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto

import msgspec

from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.alerts.pending_step import ALERT, POSTPONED, PendingStep, PostponedEvent
from monitor.alerting.attribution.attribution import (
    BAD_ENDS,
    Attribution,
    Attributor,
    Correlation,
    RelatedRuns,
    reread,
)
from monitor.alerting.attribution.subjects import fingerprint_of, of_run
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.store import Store
from monitor.model.events import RunEvent
from monitor.model.runs import RunKind, RunState


class LinkWait(Enum):
    """How long a failure has waited for its link."""

    ALLOWED = auto()
    OVER = auto()  # it took too long
    OVERTAKEN = auto()  # by a success, so an alert of its own would be outdated


class ParentCorrelation:
    """Decides for each failure whether it begins an alert of its own.

    ``_postponed`` are the attributions of postponed events by id, ``_due_at`` when they are due,
    as `attribute` found them and `decide` added to them; their durable rows are in table POSTPONED.
    """

    def __init__(self, *, bus: Store, attributor: Attributor, wait_seconds: float) -> None:
        self._bus = bus
        self._attributor = attributor
        self._wait = timedelta(seconds=wait_seconds)
        self._postponed: dict[str, Attribution] = {}
        self._due_at: dict[str, datetime] = {}

    async def attribute(
        self, pending: PendingStep, events: Sequence[RunEvent]
    ) -> list[Attribution]:
        """Return the attributions of new events; postponed ones are attributed anew beside them.

        A cancelled call leaves the postponed ones of the last call.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        due_at = {row.event_id: row.due_at for _, row in pending.rows(POSTPONED)}
        postponed = await reread(due_at, self._bus) if due_at else []
        attributions = await self._attributor.attribute([*events, *postponed])
        self._postponed = {each.event.id: each for each in attributions[len(events) :]}
        self._due_at = due_at
        return attributions[: len(events)]

    def decide(
        self,
        pending: PendingStep,
        rule: Rule,
        attribution: Attribution,
        *,
        wait: LinkWait,
        now: datetime,
    ) -> Correlation | None:
        """Return the alert that the failure belongs to, or that it waits; None: its own alert.

        Where it waits, the row of the postponed event is part of the step.
        """
        if attribution.event.type not in BAD_ENDS:
            return None
        known = None
        if len(attribution.line) > 1:
            known = _alert_of_part(pending, rule, attribution)
        if known is not None or attribution.related is None:
            return known
        own = pending.state_of(fingerprint_of(rule.name, attribution.root))
        if isinstance(own, AlertInstance) and own.is_open:
            return None
        is_part = attribution.event.run.key != attribution.root_run
        related = attribution.related
        if is_part and attribution.root_run.kind is RunKind.PLAN_RUN:
            # Each of several failed flows of a plan has its alert, until the plan itself fails.
            related = msgspec.structs.replace(related, inside=frozenset())
        linked, likely = _related_alerts(pending, rule, related)
        if linked is None and likely is not None and wait is LinkWait.ALLOWED:
            return self._postpone(pending, rule, attribution, now)
        if linked is None and (likely is None or wait is LinkWait.OVER):
            return None
        return Correlation(evidence_of=linked or likely)

    def take_due(
        self, pending: PendingStep, now: datetime, *, before: RunState | None = None
    ) -> Iterator[tuple[str, Attribution, LinkWait]]:
        """Yield what is postponed, with the name of its rule, and drop its row from the step.

        ``before`` narrows it to failures that the success of that run overtakes.
        """
        for key, row in list(pending.rows(POSTPONED)):
            attribution = self._postponed.get(row.event_id)
            if attribution is None:
                pending.put(POSTPONED, key, None)  # the log no longer holds it
            elif before is None:
                pending.put(POSTPONED, key, None)
                # Where our clock was set back over a restart, nothing waits longer than allowed.
                is_over = not timedelta(0) < row.due_at - now <= self._wait
                yield row.rule, attribution, LinkWait.OVER if is_over else LinkWait.ALLOWED
            elif _ends_failure(before, attribution.event):
                pending.put(POSTPONED, key, None)
                yield row.rule, attribution, LinkWait.OVERTAKEN

    def _postpone(
        self, pending: PendingStep, rule: Rule, attribution: Attribution, now: datetime
    ) -> Correlation:
        event_id = attribution.event.id
        due_at = self._due_at.get(event_id, now + self._wait)
        row = PostponedEvent(event_id=event_id, rule=rule.name, due_at=due_at)
        pending.put(POSTPONED, f"{row.rule}:{row.event_id}", row)
        self._postponed[event_id] = attribution
        return Correlation(due_at=due_at)


def _alert_of_part(
    pending: PendingStep, rule: Rule, attribution: Attribution
) -> Correlation | None:
    """Return the open alert that began with this failure before its parents were known."""
    for part in attribution.line[:-1]:
        key = fingerprint_of(rule.name, of_run(part.key, part.pipeline))
        state = pending.state_of(key)
        # Of that very run; another open alert about the same pipeline is a different failure.
        if isinstance(state, AlertInstance) and state.is_open and state.root_run == part.key:
            return Correlation(evidence_of=key, newest_run=part.key)
    return None


def _related_alerts(
    pending: PendingStep, rule: Rule, related: RelatedRuns
) -> tuple[str | None, str | None]:
    """Return the alert that is linked to the failure, and one that is likely to be."""
    plans = {fingerprint_of(rule.name, plan) for plan in related.plans}
    open_plans: set[str] = set()
    likely: str | None = None
    for key, instance in pending.rows(ALERT):
        if instance.alert.name != rule.name or not instance.is_open:
            continue
        if instance.root_run in related.inside:
            return key, None
        if key in plans:
            open_plans.add(key)
        if instance.root_run in related.likely:
            likely = key
    # Whichever plan contains it, each has an alert.
    return (min(plans) if plans and open_plans == plans else None), likely


def _ends_failure(success: RunState, event: RunEvent) -> bool:
    """True where the success ends the failure: same pipeline, and not another recipe."""
    run = event.run
    if (run.key.workspace, run.key.kind) != (success.key.workspace, success.key.kind):
        return False
    if (run.pipeline and run.pipeline.id) != (success.pipeline and success.pipeline.id):
        return False
    return run.recipe is None or success.recipe is None or run.recipe.id == success.recipe.id
