"""What holds alerts back: silences, weekly mute times, and alerts that explain others. Pure.

Nothing here ends an episode: it goes on unheard, and what it owes (its end, once its beginning was
told) is told all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct

from monitor.alerting.alerts.silences import Matcher, matcher
from monitor.alerting.rules.muting import MuteWindow
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.model.alerts import BRIDGE, Alert, AlertState, Silence

MUTE = "mute"

_WILDCARDS = frozenset("*?[")

# Without it nothing that did not happen can be told for certain. An output that lags, and a store
# that fills because of it, do not touch what is judged; they may last for weeks, and the others
# are to hear all the same.
_VITAL_PARTS = frozenset({"backlog:alerting"})
# These tell what somebody saw happen. What explains them holds back their reminders alone.
_SEEN = frozenset(
    rule for rule, definition in RULE_DEFINITIONS.items() if definition.reminders_inhibited_by
)
# Asked of every episode at every step, so by the word that an alert carries.
_EXPLAINS: dict[str, frozenset[RuleKind]] = {
    str(rule): frozenset(definition.inhibits)
    for rule, definition in RULE_DEFINITIONS.items()
    if definition.inhibits
}


class Suppression(Struct, frozen=True, kw_only=True):
    """Everything that holds alerts back at one moment, ready to be asked for each of them."""

    silences: tuple[tuple[Silence, tuple[Matcher, ...]], ...] = ()
    # Places of silences by a label that must be just so; those that name none are asked always.
    exact: Mapping[tuple[str, str], tuple[int, ...]] = {}
    always: tuple[int, ...] = ()
    inhibitors: Mapping[str, tuple[tuple[str, frozenset[RuleKind]], ...]] = {}

    @classmethod
    def of(cls, silences: Iterable[Silence], alerts: Iterable[Alert]) -> Suppression:
        """``alerts`` are all there are; those that fire and explain others count."""
        inhibitors: dict[str, list[tuple[str, frozenset[RuleKind]]]] = {}
        for alert in alerts:
            if explained := _explained_by(alert):
                inhibitors.setdefault(alert.workspace, []).append((alert.fingerprint, explained))
        read = tuple((silence, _matchers(silence.matchers)) for silence in silences)
        exact: dict[tuple[str, str] | None, list[int]] = {}
        for place, (_, matchers) in enumerate(read):
            exact.setdefault(_literal(matchers), []).append(place)
        always = exact.pop(None, [])
        return cls(
            silences=read,
            exact={
                label: tuple(locations) for label, locations in exact.items() if label is not None
            },
            always=tuple(always),
            inhibitors={name: tuple(sorted(held)) for name, held in inhibitors.items()},
        )

    @property
    def is_idle(self) -> bool:
        """True where neither a silence nor another alert holds anything back, or will."""
        return not self.silences and not self.inhibitors

    def reasons(self, alert: Alert, mute: Sequence[MuteWindow], *, at: datetime) -> tuple[str, ...]:
        """Return all that holds the alert back at ``at``: silences, then mute, then inhibition."""
        muted = (MUTE,) if is_muted(mute, at) else ()
        return (*self._silenced(alert, at), *muted, *self._inhibited(alert))

    def _silenced(self, alert: Alert, at: datetime) -> Iterable[str]:
        if not self.silences:
            return
        found = [place for label in alert.labels.items() for place in self.exact.get(label, ())]
        for place in sorted((*found, *self.always)):
            silence, matchers = self.silences[place]
            if is_at_work(silence, at) and fits(matchers, alert.labels):
                yield f"silence:{silence.id}"

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
        fnmatchcase(labels.get(matcher.label, ""), matcher.glob) is matcher.is_wanted
        for matcher in matchers
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


@lru_cache(maxsize=1_000)
def _matchers(texts: tuple[str, ...]) -> tuple[Matcher, ...]:
    # Judged when the silence was made. A rule whose own label it names may be gone by now.
    return tuple(matcher(text, labels=None) for text in texts)


def _literal(matchers: Iterable[Matcher]) -> tuple[str, str] | None:
    """Return a label, and the one value of it that an alert must carry to be silenced."""
    for other_matcher in matchers:
        if (
            other_matcher.is_wanted
            and other_matcher.glob
            and _WILDCARDS.isdisjoint(other_matcher.glob)
        ):
            return other_matcher.label, other_matcher.glob
    return None


def _explained_by(alert: Alert) -> frozenset[RuleKind]:
    explained = _EXPLAINS.get(alert.rule)
    if explained is None or alert.state is not AlertState.FIRING:
        return frozenset()
    is_daemon = alert.rule == RuleKind.MONITOR_DEGRADED
    if is_daemon and alert.labels.get("part") not in _VITAL_PARTS:
        return frozenset()
    return explained
