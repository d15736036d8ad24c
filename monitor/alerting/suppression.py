"""What holds alerts back: silences, weekly mute times, and alerts that explain others. Pure.

Nothing here ends an episode: it goes on unheard, and what it owes (its end, once its beginning was
told) is told all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase

from msgspec import Struct

from monitor.alerting.conditions.table import CONDITIONS
from monitor.alerting.conditions.workspaces import SEEN_BEFORE_IT
from monitor.alerting.settings.muting import MuteWindow
from monitor.alerting.settings.rules import RuleKind
from monitor.alerting.settings.silences import Matcher, matcher
from monitor.model.alerts import BRIDGE, Alert, AlertState, Silence

MUTE = "mute"

# Parts of the daemon without which nothing that did not happen can be told for certain; an output
# that lags does not touch what others are told.
_VITAL_PARTS = frozenset({"store", "backlog:alerting"})
# These tell what somebody saw happen. What explains them holds back their reminders alone.
_SEEN = frozenset(SEEN_BEFORE_IT)


class Suppression(Struct, frozen=True, kw_only=True):
    """Everything that holds alerts back at one moment, ready to be asked for each of them."""

    silences: tuple[tuple[Silence, tuple[Matcher, ...]], ...] = ()
    inhibitors: Mapping[str, tuple[tuple[str, frozenset[RuleKind]], ...]] = {}

    @classmethod
    def of(cls, silences: Iterable[Silence], alerts: Iterable[Alert]) -> Suppression:
        """``alerts`` are all there are; those that fire and explain others count."""
        inhibitors: dict[str, list[tuple[str, frozenset[RuleKind]]]] = {}
        for alert in alerts:
            if explained := _explained_by(alert):
                inhibitors.setdefault(alert.workspace, []).append((alert.fingerprint, explained))
        return cls(
            silences=tuple((one, _matchers(one)) for one in silences),
            inhibitors={name: tuple(sorted(held)) for name, held in inhibitors.items()},
        )

    def reasons(self, alert: Alert, mute: Sequence[MuteWindow], *, at: datetime) -> tuple[str, ...]:
        """Return all that holds the alert back at ``at``: silences, then mute, then inhibition."""
        silenced = (
            f"silence:{silence.id}"
            for silence, matchers in self.silences
            if is_at_work(silence, at) and fits(matchers, alert.labels)
        )
        muted = (MUTE,) if is_muted(mute, at) else ()
        return (*silenced, *muted, *self._inhibited(alert))

    def _inhibited(self, alert: Alert) -> Iterable[str]:
        rule = RuleKind(alert.rule)
        if rule in _SEEN and not alert.is_told:
            return
        names = (alert.workspace,) if alert.workspace == BRIDGE else (alert.workspace, BRIDGE)
        for name in names:
            for key, explained in self.inhibitors.get(name, ()):
                if rule in explained:
                    yield f"inhibited:{key}"


def is_at_work(silence: Silence, at: datetime) -> bool:
    """True from its first instant on, and no longer at its last."""
    return silence.starts_at <= at < silence.ends_at


def fits(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    """True where every matcher has what it wants; a label that is absent is empty."""
    return all(
        fnmatchcase(labels.get(one.label, ""), one.glob) is one.is_wanted for one in matchers
    )


def is_muted(windows: Iterable[MuteWindow], at: datetime) -> bool:
    """True where any of them holds what the clock on the wall of its zone shows at ``at``."""
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


def _matchers(silence: Silence) -> tuple[Matcher, ...]:
    # Judged when the silence was made. A rule whose own label it names may be gone by now.
    return tuple(matcher(text, labels=None) for text in silence.matchers)


def _explained_by(alert: Alert) -> frozenset[RuleKind]:
    if alert.state is not AlertState.FIRING:
        return frozenset()
    rule = RuleKind(alert.rule)
    if rule is RuleKind.MONITOR_DEGRADED and alert.labels.get("part") not in _VITAL_PARTS:
        return frozenset()
    return frozenset(CONDITIONS[rule].explains) if rule in CONDITIONS else frozenset()
