"""Finds differences that a backtest cannot decide, as the log lacks what they depend on.

A replay has the events of a log and nothing else. An alert on one side only is a difference of the
rules where everything that it depends on was recorded. Where not, it is neither: it says what is
missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from monitor.alerting.backtest.replay import PartOfPlan, Parts
from monitor.alerting.backtest.rule_comparison import (
    BacktestFiring,
    RuleComparison,
    Side,
    Undecided,
)
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.model.alerts import BRIDGE, Alert
from monitor.model.events import (
    AlertEvent,
    Event,
    EventType,
    RunEvent,
    WorkspaceEvent,
    run_event_id,
    run_of_event_id,
)
from monitor.model.runs import RunKey

_BAD_ENDS = (EventType.RUN_FAILED, EventType.RUN_CANCELED, EventType.RUN_LOST)
_BY_SCHEDULES = frozenset({RuleKind.SCHEDULE_MISSED, RuleKind.NOT_FRESH})
_EVIDENCE_KEPT = 100
_SLACK = timedelta(seconds=90)  # between a daemon's evaluations and a replay's

_Key = tuple[str, str, datetime]  # rule, fingerprint, start


class _Known(Struct, kw_only=True):
    """What is known of one alert, of the log or of the replay."""

    alert: Alert  # as of its newest event
    evidence: tuple[str, ...] = ()
    has_fired: bool = False
    is_silenced: bool = False

    def overlaps(self, other: _Known) -> bool:
        first, last = sorted((self.alert, other.alert), key=lambda alert: alert.starts_at)
        return first.ends_at is None or last.starts_at <= first.ends_at + _SLACK

    def is_open_at(self, at: datetime) -> bool:
        ends_at = self.alert.ends_at
        return self.alert.starts_at <= at + _SLACK and (ends_at is None or at <= ends_at + _SLACK)


class Gathered:
    """Follows the alert events of a log and of its replay, and what else decides an alert."""

    def __init__(
        self,
        rules: Iterable[RuleSettings],
        *,
        start: datetime,
        learning: Collection[str],
        parts: Parts,
    ) -> None:
        """``learning`` are the rules that learn their limits from the events."""
        self._kinds = {rule.name: rule.rule for rule in rules}
        self._start = start
        self._learning = frozenset(learning)
        self._parts = parts
        self._plan_runs = {part.key: run for run, inside in parts.items() for part in inside}
        self._logged: dict[_Key, _Known] = {}
        self._replayed: dict[_Key, _Known] = {}
        self._schedules_changed: dict[str, datetime] = {}

    def read(self, events: Iterable[Event]) -> None:
        """Add the next events of the log."""
        for event in events:
            if isinstance(event, AlertEvent):
                _add(self._logged, event)
            elif isinstance(event, WorkspaceEvent) and event.what.startswith("schedule:"):
                self._schedules_changed[event.workspace] = event.recorded_at

    def replayed(self, event: AlertEvent) -> None:
        """Add an event of an alert that the replay made."""
        _add(self._replayed, event)

    def event_ids(self, rows: Iterable[RuleComparison]) -> set[str]:
        """Return the ids of the events that `decide` needs."""
        ids: set[str] = set()
        for _, firing, side in _differences(rows):
            known = self._known(firing, side)
            for event_id in known.evidence if known is not None else ():
                ids.add(event_id)
                for part in self._parts_of(run_of_event_id(event_id)):
                    ids.update(run_event_id(part.key, event_type) for event_type in _BAD_ENDS)
        return ids

    def decide(
        self, rows: Sequence[RuleComparison], events: Mapping[str, RunEvent]
    ) -> list[RuleComparison]:
        """Return the rows, with what cannot be decided apart; ``events``: those of `event_ids`."""
        doubted: dict[tuple[Side, BacktestFiring], str] = {}
        seeds: defaultdict[tuple[str, str], list[_Known]] = defaultdict(list)
        for _, firing, side in _differences(rows):
            known = self._known(firing, side)
            why = None if known is None else self._why(known, side, events)
            if why is not None and known is not None:
                doubted[side, firing] = why
                seeds[firing.rule, firing.fingerprint].append(known)
        for _, firing, side in _differences(rows):
            known = self._known(firing, side)
            of_subject = seeds.get((firing.rule, firing.fingerprint), ())
            if known is not None and (side, firing) not in doubted:
                other = next((seed for seed in of_subject if known.overlaps(seed)), None)
                if other is not None:
                    since = other.alert.starts_at
                    doubted[side, firing] = f"it follows from another of its subject, since {since}"
        return [_apart(row, doubted) for row in rows]

    def _known(self, firing: BacktestFiring, side: Side) -> _Known | None:
        alerts = self._replayed if side is Side.NEW else self._logged
        return alerts.get((firing.rule, firing.fingerprint, firing.starts_at))

    def _why(self, known: _Known, side: Side, events: Mapping[str, RunEvent]) -> str | None:
        """Return what is not recorded that the alert depends on; None: all of it is."""
        of_side: tuple[Callable[[_Known], str | None], ...] = (self._began_before,)
        if side is Side.NEW:
            of_side = (self._silenced, self._open_before, self._inhibited)
        whys = (
            *(find(known) for find in of_side),
            self._evidence_before(known, events),
            self._unrecorded_link(known, events),
            self._by_schedules(known),
            self._learned(known),
        )
        return next((why for why in whys if why is not None), None)

    def _silenced(self, known: _Known) -> str | None:
        alert = known.alert
        then = self._logged.get((alert.name, alert.fingerprint, alert.starts_at))
        if then is None or not then.is_silenced or then.has_fired:
            return None
        return "a silence held it back, and silences are not replayed"

    def _open_before(self, known: _Known) -> str | None:
        alert = known.alert
        for (name, fingerprint, starts_at), other in self._logged.items():
            is_same = (name, fingerprint) == (alert.name, alert.fingerprint)
            if is_same and starts_at < self._start and other.is_open_at(alert.starts_at):
                return f"it was open already, since {starts_at}, before the first event"
        return None

    def _inhibited(self, known: _Known) -> str | None:
        alert, kind = known.alert, self._kinds.get(known.alert.name)
        inhibitors = RULE_DEFINITIONS[kind].inhibited_by if kind is not None else ()
        for other in self._logged.values():
            is_near = other.alert.workspace in (alert.workspace, BRIDGE)
            if other.alert.rule in inhibitors and is_near and other.is_open_at(alert.starts_at):
                return f"{other.alert.name} fired then, which inhibits it and is not recorded"
        return None

    def _parts_of(self, run: RunKey | None) -> Sequence[PartOfPlan]:
        return () if run is None else self._parts.get(run, ())

    def _began_before(self, known: _Known) -> str | None:
        if known.alert.starts_at >= self._start:
            return None
        return "it began before the first event"

    def _evidence_before(self, known: _Known, events: Mapping[str, RunEvent]) -> str | None:
        older = sum(event_id not in events for event_id in known.evidence)
        if not older:
            return None
        return f"{older} of its {len(known.evidence)} events are older than the first event"

    def _unrecorded_link(self, known: _Known, events: Mapping[str, RunEvent]) -> str | None:
        """Return that no event carries which plan run a failed part was of when it failed."""
        for event_id in known.evidence:
            run = run_of_event_id(event_id)
            ids = [event_id] if run in self._plan_runs else []
            ids += [
                run_event_id(part.key, event_type)
                for part in self._parts_of(run)
                for event_type in _BAD_ENDS
            ]
            for part_id in ids:
                event = events.get(part_id)
                if event is not None and event.run.parents.plan_run is None:
                    plan_run = self._plan_runs[event.run.key]
                    part = f"{event.run.key.kind} {event.run.key.id}"
                    return f"no event holds when {part} was linked to plan_run {plan_run.id}"
        return None

    def _by_schedules(self, known: _Known) -> str | None:
        changed_at = self._schedules_changed.get(known.alert.workspace)
        is_of_schedules = self._kinds.get(known.alert.name) in _BY_SCHEDULES
        if not is_of_schedules or changed_at is None or changed_at < known.alert.starts_at:
            return None
        return f"a schedule changed later, at {changed_at}, and they are used as they are today"

    def _learned(self, known: _Known) -> str | None:
        # Also where the log is whole: runs that ended before it are learned from run memory.
        if known.alert.name not in self._learning:
            return None
        return "its limit was learned from runs before the first event"


def _add(alerts: dict[_Key, _Known], event: AlertEvent) -> None:
    alert = event.alert
    key = (alert.name, alert.fingerprint, alert.starts_at)
    known = alerts.setdefault(key, _Known(alert=alert))
    known.alert = alert
    evidence = dict.fromkeys((*known.evidence, *alert.evidence))
    known.evidence = tuple(evidence)[:_EVIDENCE_KEPT]
    known.has_fired |= event.type in (EventType.ALERT_FIRED, EventType.ALERT_FLAPPING)
    known.is_silenced |= event.type is EventType.ALERT_SILENCED


def _differences(
    rows: Iterable[RuleComparison],
) -> Iterator[tuple[RuleComparison, BacktestFiring, Side]]:
    for row in rows:
        if row.not_recorded:
            continue
        for firing in row.only_new:
            yield row, firing, Side.NEW
        for firing in row.only_old:
            yield row, firing, Side.OLD


def _apart(
    row: RuleComparison, doubted: Mapping[tuple[Side, BacktestFiring], str]
) -> RuleComparison:
    undecided = [
        Undecided(firing=firing, side=side, why=doubted[side, firing])
        for _, firing, side in _differences([row])
        if (side, firing) in doubted
    ]
    return replace(
        row,
        only_new=tuple(each for each in row.only_new if (Side.NEW, each) not in doubted),
        only_old=tuple(each for each in row.only_old if (Side.OLD, each) not in doubted),
        undecided=tuple(sorted(undecided)),
    )
