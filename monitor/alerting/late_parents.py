"""What fails inside something is told once, also where that it was inside becomes known later.

A flow run of a plan is linked to its plan run only after that has ended; so is many a job group to
its flow run. Whichever of both failures is told first stands, and the other one is its evidence.
Where a link is likely and not there yet, the second failure waits for it, for a bounded time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.alerting.draft import EPISODE, POSTPONED, Draft, Postponed
from monitor.alerting.evaluation import Case, Evaluator, Sitting
from monitor.alerting.firing_runs import FiringRuns
from monitor.alerting.lifecycle import Episode
from monitor.alerting.verdicts import Subject
from monitor.bus.contract import EventBus
from monitor.model.events import EventType, RunEvent, run_event_id
from monitor.model.runs import Parents, RunKey, RunKind, RunState

_BAD_ENDS = (EventType.RUN_FAILED, EventType.RUN_CANCELED)
# Each can be a part of those behind it.
_SIZES = {RunKind.JOB_GROUP: 0, RunKind.FLOW_RUN: 1, RunKind.PLAN_RUN: 2}
_FLOW_RUN, _JOB_GROUP = RunKind.FLOW_RUN, RunKind.JOB_GROUP
_PARTS = 100  # of one plan run whose own parts are asked for


class Family(Struct, frozen=True, kw_only=True):
    """What may belong to a failed run: what is known to be inside it, and what is likely to be."""

    inside: frozenset[str] = frozenset()  # ids of the bad ends
    relatives: frozenset[RunKey] = frozenset()


class LateParents:
    """Decides for each failure whether it is one to be told by itself."""

    def __init__(self, evaluator: Evaluator, firing: FiringRuns, *, wait_seconds: float) -> None:
        self._evaluator = evaluator
        self._firing = firing
        self._wait = timedelta(seconds=wait_seconds)
        self._families: dict[RunKey, Family] = {}
        self._due: dict[str, datetime] = {}
        self.waiting: dict[str, RunEvent] = {}  # what waits, by id, as its run is known now

    async def prepare(self, draft: Draft, events: Iterable[RunEvent], bus: EventBus) -> None:
        """Learn what may belong to the failures of a batch, and what those that wait are now.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        self._families, self.waiting = {}, {}
        self._due = {row.event_id: row.due_at for _, row in draft.rows(POSTPONED)}
        if self._due:
            self.waiting = await _as_known(self._due, bus)
        failures = [one.run for one in (*events, *self.waiting.values()) if one.type in _BAD_ENDS]
        # What is known to be inside something is told under that, and never by itself.
        alone = [run for run in failures if run.parents == Parents()]
        if not alone:
            return
        beside = FiringRuns.of(alone)
        wanted = {run.key: [*beside.near(run), *self._firing.near(run)] for run in alone}
        asked = {key for keys in wanted.values() for key in keys}
        states = {run.key: run for run in alone}
        states |= await bus.runs(asked - states.keys()) if asked - states.keys() else {}
        for run in alone:
            others = [states[key] for key in wanted[run.key] if key in states]
            if others:
                self._families[run.key] = await _family(run, others, bus)

    def takes(self, sitting: Sitting, case: Case, *, may_wait: bool) -> bool:
        """True where the failure of an outermost run is evidence of another episode, or waits."""
        event = case.event
        family = self._families.get(event.run.key) if event is not None else None
        if event is None or family is None or event.type not in _BAD_ENDS:
            return False
        own = sitting.draft.held(case.fingerprint)
        if isinstance(own, Episode) and own.is_open:
            return False
        episodes = [
            (key, one)
            for key, one in sitting.draft.rows(EPISODE)
            if one.alert.name == case.rule.name and one.is_open
        ]
        for key, episode in episodes:
            if not family.inside.isdisjoint(episode.alert.evidence):
                self._evaluator.add_evidence(sitting, key, case)
                return True
        if may_wait and any(
            (one.newest_run or one.alert.run) in family.relatives for _, one in episodes
        ):
            row = Postponed(
                event_id=event.id,
                rule=case.rule.name,
                due_at=self._due.get(event.id, sitting.present.now + self._wait),
            )
            sitting.draft.put(POSTPONED, f"{row.rule}:{row.event_id}", row)
            self.waiting[event.id] = event
            self._evaluator.note_postponed(sitting, case, row.due_at)
            return True
        return False

    def take_due(
        self, sitting: Sitting, *, before: Subject | None = None
    ) -> Iterator[tuple[RunEvent, str, bool]]:
        """Yield what waits, with the name of its rule, and whether its time is over.

        ``before`` narrows it to what must be heard before a success of that pipeline.
        """
        for key, row in list(sitting.draft.rows(POSTPONED)):
            event = self.waiting.get(row.event_id)
            if event is None:
                sitting.draft.put(POSTPONED, key, None)  # the log holds it no more
            elif before is None or _is_of(event, before):
                sitting.draft.put(POSTPONED, key, None)
                is_over = before is not None or sitting.present.now >= row.due_at
                yield event, row.rule, is_over


async def _family(run: RunState, others: Sequence[RunState], bus: EventBus) -> Family:
    inside: list[RunState] = []
    if run.key.kind is not RunKind.JOB_GROUP:
        inside = await bus.children(run.key)
        for part in [one for one in inside if one.key.kind is RunKind.FLOW_RUN][:_PARTS]:
            inside += await bus.children(part.key)
    return Family(
        inside=frozenset(run_event_id(one.key, end) for one in inside for end in _BAD_ENDS),
        relatives=frozenset(one.key for one in others if _are_likely_related(run, one)),
    )


def _are_likely_related(one: RunState, other: RunState) -> bool:
    """True where the smaller is not known to be inside anything, and ran while the larger did."""
    smaller, larger = sorted((one, other), key=lambda run: _SIZES[run.key.kind])
    is_plan = larger.key.kind is RunKind.PLAN_RUN
    if (smaller.parents.plan_run if is_plan else smaller.parents.flow_run) is not None:
        return False
    if smaller.created_at is None or larger.created_at is None:
        return False
    ended_at = larger.finished_at or smaller.created_at
    return larger.created_at <= smaller.created_at <= ended_at


async def _as_known(ids: Iterable[str], bus: EventBus) -> dict[str, RunEvent]:
    """Return the events with what their runs are a part of, as that is known by now."""
    found = await bus.events_by_id(set(ids))
    events = [one.event for one in found.values() if isinstance(one.event, RunEvent)]
    runs = await bus.runs({event.run.key for event in events})
    known: dict[str, RunEvent] = {}
    for event in events:
        state = runs.get(event.run.key, event.run)
        run = msgspec.structs.replace(event.run, parents=state.parents)
        known[event.id] = msgspec.structs.replace(event, run=run)
    return known


def _is_of(event: RunEvent, subject: Subject) -> bool:
    pipeline = event.run.pipeline
    return (
        event.workspace == subject.workspace
        and event.run.key.kind is subject.kind
        and (pipeline.id if pipeline is not None else None)
        == (subject.pipeline.id if subject.pipeline is not None else None)
    )
