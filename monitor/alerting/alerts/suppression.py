"""Suppression of alerts: silences, weekly mute times, and inhibition by other alerts. Pure.

Suppression ends no alert: it goes on without notifications, and its end is published all the same
where its start was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.alerts.pending_step import ALERT, SILENCE, PendingStep
from monitor.alerting.alerts.silences import Matcher
from monitor.alerting.alerts.silences import matcher as parse_matcher
from monitor.alerting.rules.muting import MuteWindow
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.alerting.rules.workspace_unreachable import HIDES_ONLY
from monitor.model.alerts import BRIDGE, Alert, AlertState, Silence

MUTE = "mute"

_WILDCARDS = frozenset("*?[")

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
        parsed = tuple((silence, _matchers(silence.matchers)) for silence in silences)
        by_label: dict[tuple[str, str] | None, list[int]] = {}
        for index, (_, matchers) in enumerate(parsed):
            by_label.setdefault(_literal(matchers), []).append(index)
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
                    yield f"inhibited:{fingerprint}"


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
    matchers = _matchers(texts)
    return [
        alert
        for alert in alerts
        if alert.state is not AlertState.RESOLVED and fits(matchers, alert.labels)
    ]


def is_active(silence: Silence, at: datetime) -> bool:
    """True from its start on, and no longer at its end."""
    return silence.starts_at <= at < silence.ends_at


def fits(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    """True where every matcher fits; a label that is absent is empty."""
    return all(
        fnmatchcase(labels.get(matcher.label, ""), matcher.glob) is matcher.is_wanted
        for matcher in matchers
    )


def is_muted(windows: Iterable[MuteWindow], at: datetime) -> bool:
    """True where any window contains ``at``, in its own time zone."""
    return any(_holds(window, at) for window in windows)


def _holds(window: MuteWindow, at: datetime) -> bool:
    local = at.astimezone(window.zone)
    minute = local.hour * 60 + local.minute
    today = local.weekday()
    if window.start < window.end:
        return today in window.days and window.start <= minute < window.end
    yesterday = (today - 1) % 7
    return (today in window.days and minute >= window.start) or (
        yesterday in window.days and minute < window.end
    )


@lru_cache(maxsize=1_000)
def _matchers(texts: tuple[str, ...]) -> tuple[Matcher, ...]:
    # Validated when the silence was made. A rule whose own label it names may be gone by now.
    return tuple(parse_matcher(text, labels=None) for text in texts)


def _literal(matchers: Iterable[Matcher]) -> tuple[str, str] | None:
    """Return a label, and the one value of it that an alert must carry to be silenced."""
    for matcher in matchers:
        if matcher.is_wanted and matcher.glob and _WILDCARDS.isdisjoint(matcher.glob):
            return matcher.label, matcher.glob
    return None


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
