"""Finds the alerts that reported a run: those that have its events as evidence, open or ended.

An alert keeps the ids of its newest events only, and an ended alert is kept for some days. Beyond
that the events that alerts made are read from the log. Where those do not name the run either, it
is compared with the span of the alert. Nothing here depends on what this process has evaluated, so
a restart changes no answer.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import IntEnum

from msgspec import Struct
from msgspec.structs import replace

from monitor.alerting.alerts.pending_step import EndedAlert
from monitor.alerting.engine.committed_state import ended_alert
from monitor.alerting.engine.engine import Engine
from monitor.bus.contract import Recorded, StoredShard
from monitor.model.alerts import OPENINGS, Alert, alert_event_id
from monitor.model.ends import run_end
from monitor.model.events import AlertEvent
from monitor.model.runs import RunKey, RunState, Status

_YIELD_EVERY = 500  # alerts: a long search must not delay a callback
_PARTIAL_READ = 200  # alerts that keep a part of their evidence, whose first events are read
_LOG_READ, _PAGE = 10_000, 500  # events after the end of a run
_STARTS = ("fired", "flapping")
_BAD_ENDS = frozenset({Status.FAILED, Status.CANCELED, Status.LOST})

_Identity = tuple[str, datetime]  # fingerprint and start


class EvidenceBasis(IntEnum):
    """How a run belongs to an alert; the smaller, the more it is the run's own."""

    BEGAN = 0  # the alert is about this run, or this run made it fire
    NOTIFIED = 1  # it was among the evidence when the alert fired
    ADDED = 2  # it became evidence later
    WITHIN = 3  # it ended within the alert, which no longer has the ids of all its events


class FoundAlert(Struct, frozen=True):
    """An alert, open or ended. ``ended_as`` says how it ended if it had never fired."""

    alert: Alert
    ended_as: str = ""
    basis: EvidenceBasis = EvidenceBasis.BEGAN


class ExplainedRun(Struct, frozen=True, kw_only=True):
    """A run and what its evidence is known by.

    ``ids`` are those that its events have or would have. ``fingerprints`` are those of the alerts
    that would have it as evidence.
    """

    run: RunState
    root: RunKey
    ids: frozenset[str]
    fingerprints: frozenset[str] = frozenset()

    def is_in(self, evidence: Iterable[str]) -> bool:
        return not self.ids.isdisjoint(evidence)


class EvidenceSearch:
    """Searches the open alerts, the ended ones and the log."""

    def __init__(self, engine: Engine, bus: StoredShard) -> None:
        self._engine = engine
        self._bus = bus

    async def alerts_of(self, explained: ExplainedRun) -> list[FoundAlert]:
        """Return the alerts that reported a run, those that people were notified of first."""
        named, partial = await self._kept(explained)
        starts = await self._starts([*named.values(), *list(partial.values())[-_PARTIAL_READ:]])
        found = list(named.values())
        for identity, other in partial.items():
            if any(explained.is_in(start.evidence) for start in starts.get(identity, ())):
                found.append(other)
        names = {other.alert.name for other in found}
        found += [
            other
            for other in partial.values()
            if other.alert.fingerprint in explained.fingerprints and other.alert.name not in names
        ]
        if not found and explained.run.status in _BAD_ENDS:
            found = await self._logged(explained)
            starts = await self._starts(found)
        based = [
            _based(other, starts.get(_identity(other.alert), ()), explained) for other in found
        ]
        return sorted(based, key=_order)

    async def _kept(
        self, explained: ExplainedRun
    ) -> tuple[dict[_Identity, FoundAlert], dict[_Identity, FoundAlert]]:
        """Return the alerts that name the run, and those that no longer name all their events."""
        run, named, partial = explained.run, dict[_Identity, FoundAlert](), {}
        for number, found in enumerate(_all(self._engine), 1):
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
            alert = found.alert
            if alert.workspace != run.key.workspace:
                continue
            if alert.run == run.key or explained.is_in(alert.evidence):
                named[_identity(alert)] = found
            elif alert.evidence_count > len(alert.evidence) and _is_within(run, alert):
                partial[_identity(alert)] = found
        return named, partial

    async def _starts(self, found: Sequence[FoundAlert]) -> Mapping[_Identity, Sequence[Alert]]:
        """Return the alerts as they were each time that people were notified of a start."""
        ids = [
            alert_event_id(each.alert.fingerprint, each.alert.starts_at, start, number)
            for each in found
            for start in _STARTS
            for number in OPENINGS
        ]
        starts: defaultdict[_Identity, list[Alert]] = defaultdict(list)
        for alert in _alerts((await self._bus.events_by_id(ids)).values() if ids else ()):
            starts[_identity(alert)].append(alert)
        return starts

    async def _logged(self, explained: ExplainedRun) -> list[FoundAlert]:
        """Return the alerts that only the log still holds, as of their newest event."""
        rows = sorted((await self._bus.events_by_id(explained.ids)).values(), key=_position)
        if not rows or self._keeps_all_since(rows[-1]):
            return []
        found: dict[_Identity, Alert] = {}
        after, until = rows[0].position, rows[-1].position + _LOG_READ
        while after < until and (page := await self._bus.events(after=after, limit=_PAGE)):
            after = page[-1].position
            having = (alert for alert in _alerts(page) if explained.is_in(alert.evidence))
            found |= {_identity(alert): alert for alert in having}
        ends = [
            alert_event_id(key, starts_at, "resolved", number)
            for key, starts_at in found
            for number in OPENINGS
        ]
        later = sorted((await self._bus.events_by_id(ends)).values(), key=_position)
        found |= {_identity(alert): alert for alert in _alerts(later)}
        return [FoundAlert(alert) for alert in found.values()]

    def _keeps_all_since(self, recorded: Recorded) -> bool:
        """True where every alert that ended since then is still kept as an ended one."""
        oldest = min((row.at for row in self._engine.past.all()), default=None)
        return oldest is not None and oldest <= recorded.event.recorded_at


def _all(engine: Engine) -> Iterator[FoundAlert]:
    """Yield all alerts; those that are still shown come last, because they count."""
    for row in engine.past.all():
        yield ended(row)
    for alert in engine.snapshot().alerts:
        yield FoundAlert(alert)


def ended(row: EndedAlert) -> FoundAlert:
    """Return an ended alert as it ended."""
    return FoundAlert(ended_alert(row), "" if row.alert.is_notified else row.word)


def _alerts(rows: Iterable[Recorded]) -> Iterator[Alert]:
    return (row.event.alert for row in rows if isinstance(row.event, AlertEvent))


def _based(found: FoundAlert, starts: Sequence[Alert], explained: ExplainedRun) -> FoundAlert:
    """Return the alert with how the run belongs to it; ``starts``: as it was when it fired."""
    alert, run = found.alert, explained.run.key
    first = alert.evidence[:1] if alert.evidence_count == len(alert.evidence) else ()
    evidence = [start.evidence for start in starts] or [first]
    at_start = [ids for ids in evidence if explained.is_in(ids)]
    if at_start:
        is_own = alert.run in (run, explained.root)
        is_last = any(ids[-1] in explained.ids for ids in at_start)
        basis = EvidenceBasis.BEGAN if is_own or is_last else EvidenceBasis.NOTIFIED
    elif alert.run == run:
        basis = EvidenceBasis.BEGAN  # by a part of it, which failed first
    else:
        is_named = explained.is_in(alert.evidence)
        basis = EvidenceBasis.ADDED if is_named else EvidenceBasis.WITHIN
    return replace(found, basis=basis)


def _is_within(run: RunState, alert: Alert) -> bool:
    end = run_end(run)
    if end is None or run.status not in _BAD_ENDS:
        return False
    return alert.starts_at <= end.latest and (
        alert.ends_at is None or end.earliest <= alert.ends_at
    )


def _order(found: FoundAlert) -> tuple[bool, EvidenceBasis, bool, datetime]:
    alert = found.alert
    return not alert.is_notified, found.basis, alert.ends_at is not None, alert.starts_at


def _identity(alert: Alert) -> _Identity:
    return alert.fingerprint, alert.starts_at


def _position(recorded: Recorded) -> int:
    return recorded.position
