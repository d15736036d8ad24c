"""Suppression of alerts: silences, weekly mute times, inhibition, and alerts that wait for others.

It ends no alert: each goes on without notifications, and its end is published all the same where
its start was.

`Inhibitors` notify of a failure inside another run once, also where the link becomes known late.

A part may fail before it is known what contains it; then its alert is the first and keeps its
fingerprint. The alert of the run around it has a condition of its own and waits for the first:
it is open without notifications. If it still fails when the first has ended, it fires. Where a
link is only likely, the later alert waits for it, for a bounded time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.alerting.alerts.added_evidence import with_late_evidence
from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.alerts.instance import AlertInstance, Inhibitor, LifecycleOutcome, StepWord
from monitor.alerting.alerts.pending_step import ALERT, MEMORY, SILENCE, PendingStep
from monitor.alerting.attribution.attribution import Attributor, RelatedRuns
from monitor.alerting.attribution.subjects import fingerprint_of, keys_of, subject_of
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.alerting.rules.workspace_unreachable import HIDES_ONLY
from monitor.model.alerts import BRIDGE, Alert, AlertState, Silence
from monitor.model.mute_windows import MuteWindow, is_muted
from monitor.model.runs import RunKey, RunState
from monitor.model.silencing import Matcher, fits, is_active, literal, matchers_of

MUTE = "mute"
PREFIX = "inhibited:"

# Without the consumer ``alerting`` no absence can be proved. An output that lags, and a store that
# fills because of it, do not affect evaluations; they may last for weeks, and must inhibit nothing.
_VITAL_PARTS = frozenset({"backlog:alerting"})
# These report observed facts. Inhibition suppresses only their reminders.
_OBSERVED = frozenset(
    rule for rule, definition in RULE_DEFINITIONS.items() if definition.reminders_inhibited_by
)
# By the word that an alert carries, because every alert is looked up at every step.
_INHIBITS: dict[str, frozenset[RuleKind]] = {
    str(rule): frozenset(definition.inhibits)
    for rule, definition in RULE_DEFINITIONS.items()
    if definition.inhibits
}
INHIBITING_RULES = frozenset(_INHIBITS)


class Suppression(Struct, frozen=True, kw_only=True):
    """All silences and inhibitions of one moment, indexed for a lookup per alert."""

    silences: tuple[tuple[Silence, tuple[Matcher, ...]], ...] = ()
    # Indexes of silences by a label that must be equal; ``unindexed`` are those that name none.
    by_label: Mapping[tuple[str, str], tuple[int, ...]] = {}
    unindexed: tuple[int, ...] = ()
    # By workspace: the fingerprint of an inhibiting alert, and the rules that it inhibits.
    inhibitors: Mapping[str, tuple[tuple[str, frozenset[RuleKind]], ...]] = {}

    @classmethod
    def of(cls, silences: Iterable[Silence], alerts: Iterable[Alert]) -> Suppression:
        """``alerts`` may be all there are; those that fire and inhibit others count."""
        inhibitors: dict[str, list[tuple[str, frozenset[RuleKind]]]] = {}
        for alert in alerts:
            if inhibited := _inhibited_by(alert):
                inhibitors.setdefault(alert.workspace, []).append((alert.fingerprint, inhibited))
        parsed = tuple((silence, matchers_of(silence.matchers)) for silence in silences)
        by_label: dict[tuple[str, str] | None, list[int]] = {}
        for index, (_, matchers) in enumerate(parsed):
            by_label.setdefault(literal(matchers), []).append(index)
        unindexed = by_label.pop(None, [])
        return cls(
            silences=parsed,
            by_label={label: tuple(found) for label, found in by_label.items() if label},
            unindexed=tuple(unindexed),
            inhibitors={name: tuple(sorted(found)) for name, found in inhibitors.items()},
        )

    @property
    def is_idle(self) -> bool:
        """True where neither a silence nor another alert suppresses anything, or will."""
        return not self.silences and not self.inhibitors

    def reasons(self, alert: Alert, mute: Sequence[MuteWindow], *, at: datetime) -> tuple[str, ...]:
        """Return all that suppresses the alert at ``at``: silences, then mute, then inhibition."""
        if not self.silences and not self.inhibitors and not mute:
            return ()
        muted = (MUTE,) if is_muted(mute, at) else ()
        return (*self._silenced(alert, at), *muted, *self._inhibited(alert))

    def _silenced(self, alert: Alert, at: datetime) -> Iterable[str]:
        if not self.silences:
            return
        found = [index for label in alert.labels.items() for index in self.by_label.get(label, ())]
        for index in sorted((*found, *self.unindexed)):
            silence, matchers = self.silences[index]
            if is_active(silence, at) and fits(matchers, alert.labels):
                yield f"silence:{silence.id}"

    def _inhibited(self, alert: Alert) -> Iterable[str]:
        rule = RuleKind(alert.rule)
        if rule in _OBSERVED and not alert.is_notified:
            return
        names = (alert.workspace,) if alert.workspace == BRIDGE else (alert.workspace, BRIDGE)
        for name in names:
            for fingerprint, inhibited in self.inhibitors.get(name, ()):
                if rule in inhibited:
                    yield f"{PREFIX}{fingerprint}"


def suppression_of(pending: PendingStep, firing: FiringRuns) -> Suppression:
    """Return what suppresses alerts by the rows of a step."""
    alerts = (instance.alert for _, instance in firing.of_rules(pending, INHIBITING_RULES))
    silences = (silence for _, silence in pending.rows(SILENCE))
    return Suppression.of(silences, alerts)


def changes_suppression(pending: PendingStep) -> bool:
    """True where a step changes something that may suppress alerts."""
    return bool(pending.changed[SILENCE]) or any(
        row is None or row.alert.rule in INHIBITING_RULES for row in pending.changed[ALERT].values()
    )


def muted_by(texts: tuple[str, ...], alerts: Iterable[Alert]) -> list[Alert]:
    """Return the open alerts that a silence with these matchers would mute.

    Raises:
        ConfigurationError: a matcher cannot be parsed.
    """
    matchers = matchers_of(texts)
    return [
        alert
        for alert in alerts
        if alert.state is not AlertState.RESOLVED and fits(matchers, alert.labels)
    ]


def _inhibited_by(alert: Alert) -> frozenset[RuleKind]:
    inhibited = _INHIBITS.get(alert.rule)
    if inhibited is None or alert.state is not AlertState.FIRING:
        return frozenset()
    is_daemon = alert.rule == RuleKind.MONITOR_DEGRADED
    if is_daemon and alert.labels.get("part") not in _VITAL_PARTS:
        return frozenset()
    if alert.rule == RuleKind.WORKSPACE_UNREACHABLE and alert.facts.get(HIDES_ONLY) is not None:
        return frozenset()  # runs and schedules are seen, so what is absent is absent
    return inhibited


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
        after = with_late_evidence(other, instance.alert.evidence)
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
