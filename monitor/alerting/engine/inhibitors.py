"""Notifies of a failure inside another run once, also where the link becomes known late.

A part may fail before it is known what contains it; then its alert is the first and keeps its
fingerprint. The alert of the run around it has a condition of its own and waits for the first:
it is open without notifications. If it still fails when the first has ended, it fires. Where a
link is only likely, the later alert waits for it, for a bounded time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

import msgspec

from monitor.alerting.alerts import lifecycle
from monitor.alerting.alerts.content import subject_of
from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.alerts.instance import AlertInstance, Inhibitor
from monitor.alerting.alerts.outcome import LifecycleOutcome, StepWord
from monitor.alerting.alerts.pending_step import MEMORY, PendingStep
from monitor.alerting.attribution.attribution import Attributor, RelatedRuns
from monitor.alerting.attribution.subjects import fingerprint_of, keys_of
from monitor.alerting.rules.compiled import Rule
from monitor.model.runs import RunKey, RunState

PREFIX = "inhibited:"


class Inhibitors:
    """Finds what a new alert waits for, and settles it as links become known."""

    def __init__(self, attributor: Attributor, firing: FiringRuns, *, wait_seconds: float) -> None:
        self._attributor = attributor
        self._firing = firing
        self._wait = timedelta(seconds=wait_seconds)

    def of_new_alert(
        self,
        pending: PendingStep,
        rule: Rule,
        fingerprint: str,
        related: RelatedRuns,
        now: datetime,
    ) -> tuple[Inhibitor, ...]:
        """Return the open alerts of the rule that an alert waits for when it opens."""
        until = now + self._wait if self._wait else None
        plans = {fingerprint_of(rule.name, plan) for plan in related.plans}
        if plans and until and all(_is_open(pending, plan) for plan in plans):
            # Whichever plan contains it, each has an alert.
            return (_waiting_for(pending, min(plans), until=until),)
        found: list[Inhibitor] = []
        runs = related.inside | related.likely
        for key, instance in self._firing.open_alerts(pending, runs):
            # An alert that waits itself is not the first of another one.
            is_first = not instance.inhibited_by and key != fingerprint
            if instance.alert.name != rule.name or not is_first:
                continue
            if instance.root_run in related.inside:
                found.append(_waiting_for(pending, key))
            elif until:
                found.append(_waiting_for(pending, key, until=until))
        return tuple(found)

    def reasons(
        self, pending: PendingStep, inhibitors: tuple[Inhibitor, ...], now: datetime
    ) -> tuple[str, ...]:
        """Return what keeps an alert back now, as ``muted_by`` says it."""
        return tuple(
            f"{PREFIX}{inhibitor.fingerprint}"
            for inhibitor in inhibitors
            if self._lasts(inhibitor, now) and _inhibiting(pending, inhibitor) is not None
        )

    def lasting(
        self, pending: PendingStep, instance: AlertInstance, now: datetime
    ) -> tuple[Inhibitor, ...]:
        """Return what still keeps an alert back; what is over never does so again."""
        if instance.alert.is_notified or not instance.is_open:
            return ()
        return tuple(
            inhibitor
            for inhibitor in instance.inhibited_by
            if self._lasts(inhibitor, now) and _inhibiting(pending, inhibitor) is not None
        )

    async def resolve_links(
        self, pending: PendingStep, rules: Mapping[str, Rule], now: datetime
    ) -> list[tuple[str, AlertInstance, LifecycleOutcome]]:
        """Return what links that are known now make of the alerts that wait for one.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        waiting = self._firing.waiting(pending)
        if not waiting:
            return []
        runs = await self._attributor.states(
            run for _, instance in waiting for run in _runs_of(pending, instance)
        )
        return [
            (key, instance, self._with_links(pending, rules, instance, runs=runs, now=now))
            for key, instance in waiting
        ]

    def _with_links(
        self,
        pending: PendingStep,
        rules: Mapping[str, Rule],
        instance: AlertInstance,
        *,
        runs: dict[RunKey, RunState],
        now: datetime,
    ) -> LifecycleOutcome:
        own = runs.get(instance.root_run) if instance.root_run is not None else None
        kept: list[Inhibitor] = []
        for inhibitor in instance.inhibited_by:
            other = _inhibiting(pending, inhibitor)
            if other is None:
                continue
            around = runs.get(other.root_run) if other.root_run is not None else None
            if own is not None and around is not None and inhibitor.until is not None:
                if self._attributor.is_inside(around, own):
                    kept.append(msgspec.structs.replace(inhibitor, until=None))
                    continue
                evidence = [runs.get(key) for key in instance.evidence_runs]
                if self._attributor.is_inside(own, around):
                    if not all(run and self._attributor.is_inside(run, around) for run in evidence):
                        continue  # something else has failed as well
                    self._merge(pending, rules, instance, inhibitor.fingerprint, other)
                    return LifecycleOutcome(state=instance.past, step=StepWord.DEDUPLICATED)
            if self._lasts(inhibitor, now):
                kept.append(inhibitor)
        if tuple(kept) == instance.inhibited_by:
            return LifecycleOutcome(state=instance)
        return LifecycleOutcome(state=msgspec.structs.replace(instance, inhibited_by=tuple(kept)))

    def _merge(
        self,
        pending: PendingStep,
        rules: Mapping[str, Rule],
        instance: AlertInstance,
        fingerprint: str,
        other: AlertInstance,
    ) -> None:
        """Let an alert without notifications become evidence of the one around it."""
        after = lifecycle.with_late_evidence(other, instance.alert.evidence)
        pending.advance(fingerprint, other, LifecycleOutcome(state=after))
        rule = rules.get(instance.alert.name)
        if rule is not None:
            memory = keys_of(rule.name, subject_of(rule, instance.alert)).memory
            pending.put(MEMORY, memory, None)

    def _lasts(self, inhibitor: Inhibitor, now: datetime) -> bool:
        # Where our clock was set back over a restart, nothing waits longer than allowed.
        return inhibitor.until is None or timedelta(0) < inhibitor.until - now <= self._wait


def _is_open(pending: PendingStep, fingerprint: str) -> bool:
    state = pending.state_of(fingerprint)
    return isinstance(state, AlertInstance) and state.is_open


def _waiting_for(
    pending: PendingStep, fingerprint: str, *, until: datetime | None = None
) -> Inhibitor:
    state = pending.state_of(fingerprint)
    past = state.past if isinstance(state, AlertInstance) else state
    return Inhibitor(fingerprint=fingerprint, last_end=past.last_end, until=until)


def _inhibiting(pending: PendingStep, inhibitor: Inhibitor) -> AlertInstance | None:
    """Return the alert that was open when the other one began to wait, while it is open."""
    state = pending.state_of(inhibitor.fingerprint)
    if not isinstance(state, AlertInstance) or not state.is_open:
        return None
    return state if state.past.last_end == inhibitor.last_end else None


def _runs_of(pending: PendingStep, instance: AlertInstance) -> Iterator[RunKey]:
    """Yield the runs of an alert's evidence, its root run and those that it waits for."""
    yield from instance.evidence_runs
    for state in (
        instance,
        *(pending.state_of(each.fingerprint) for each in instance.inhibited_by),
    ):
        if isinstance(state, AlertInstance) and state.root_run is not None:
            yield state.root_run
