"""Attributes each event once: own subject, root run and its subject, traits, related runs.

Routing, parent correlation and the rules read the answer and ask nothing again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from monitor.alerting.alerts.firing_runs import FiringRuns
from monitor.alerting.attribution.lineage import (
    Lineage,
    RootRun,
    are_likely_related,
    is_of_a_plan,
    parts_of,
)
from monitor.alerting.attribution.subjects import of_run, traits_of
from monitor.alerting.rules.compiled import Rule, Traits
from monitor.alerting.rules.contract import Subject
from monitor.alerting.store import Store
from monitor.model.events import EventType, RunEvent
from monitor.model.runs import Parents, RunKey, RunKind, RunState
from monitor.tracking.live_state import LiveStateView

BAD_ENDS = (EventType.RUN_FAILED, EventType.RUN_CANCELED)


class RelatedRuns(Struct, frozen=True, kw_only=True):
    """The runs that a failed root run contains, or may belong to."""

    inside: frozenset[RunKey] = frozenset()  # known to be inside it
    likely: frozenset[RunKey] = frozenset()  # not linked, but likely to be
    plans: tuple[Subject, ...] = ()  # plans of which one active run must contain it


class Attribution(Struct, frozen=True, kw_only=True):
    """What the event of a run is about. ``line``: the run first, its root run last."""

    event: RunEvent
    line: tuple[RootRun, ...]
    own: Subject  # the run's own pipeline
    root: Subject  # the root run's pipeline; the same object where it is the run itself
    root_run: RunKey
    traits: Traits  # of the root run
    related: RelatedRuns | None = None  # only for failures


class Correlation(Struct, frozen=True, kw_only=True):
    """The alert that a failure is evidence of; None: it is postponed until ``due_at`` (ours)."""

    evidence_of: str | None = None
    newest_run: RunKey | None = None
    due_at: datetime | None = None


class RuleTarget(Struct, frozen=True, kw_only=True):
    """One rule and one subject; ``event`` None: evaluate its state now."""

    rule: Rule
    subject: Subject
    event: RunEvent | None = None
    root_run: RunKey | None = None
    preexisting: bool = False  # it ended before the rule was first evaluated
    correlation: Correlation | None = None  # the rule is not evaluated: the event is not its own


class Attributor:
    """Reads what is needed for a batch of events, and attributes each of them."""

    def __init__(
        self, *, lineage: Lineage, firing: FiringRuns, view: LiveStateView, bus: Store
    ) -> None:
        self._lineage = lineage
        self._firing = firing
        self._view = view
        self._bus = bus

    async def attribute(self, events: Sequence[RunEvent]) -> list[Attribution]:
        """Return the attribution of each event, in their order. A cancelled call leaves nothing.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        if not events:
            return []
        await self._lineage.prepare(event.run for event in events)
        lines = [self._lineage.line(event.run) for event in events]
        failed = {
            line[-1].key: line[-1].run or _by_id_alone(event, line[-1])
            for event, line in zip(events, lines, strict=True)
            if event.type in BAD_ENDS
        }
        related = await self._related(failed) if failed else {}
        attributions: list[Attribution] = []
        for event, line in zip(events, lines, strict=True):
            run, root_run = event.run, line[-1]
            own = root = of_run(run.key, run.pipeline)
            if len(line) > 1:
                root = of_run(root_run.key, root_run.pipeline)
            attributions.append(
                Attribution(
                    event=event,
                    line=line,
                    own=own,
                    root=root,
                    root_run=root_run.key,
                    traits=traits_of(self._view, root, root_run.run or run),
                    related=related.get(root_run.key) if event.type in BAD_ENDS else None,
                )
            )
        return attributions

    async def _related(self, failed: dict[RunKey, RunState]) -> dict[RunKey, RelatedRuns]:
        """Return the related runs of failed root runs; those without any are left out."""
        batch = FiringRuns(failed.values()) if len(failed) > 1 else None
        candidates = {
            key: [*(batch.candidates(run) if batch else ()), *self._firing.candidates(run)]
            for key, run in failed.items()
        }
        stored = {key for keys in candidates.values() for key in keys} - failed.keys()
        states = failed | (await self._bus.runs(stored) if stored else {})
        found: dict[RunKey, RelatedRuns] = {}
        for key, run in failed.items():
            others = [states[other] for other in candidates[key] if other in states]
            plans = self._plans_around(run)
            if not others and not plans:
                continue
            related = RelatedRuns(
                inside=frozenset(part.key for part in await parts_of(key, self._bus)),
                likely=frozenset(other.key for other in others if are_likely_related(run, other)),
                plans=plans,
            )
            if related != RelatedRuns():  # else every alert would be compared with it in vain
                found[key] = related
        return found

    def _plans_around(self, run: RunState) -> tuple[Subject, ...]:
        """Return the plans with an active run that may contain this one, which a plan started."""
        if run.key.kind is RunKind.PLAN_RUN or not is_of_a_plan(run) or run.created_at is None:
            return ()
        return tuple(
            of_run(active.run.key, active.run.pipeline)
            for active in self._view.active_runs(run.key.workspace)
            if active.run.key.kind is RunKind.PLAN_RUN
            and active.run.created_at is not None
            and active.run.created_at <= run.created_at
        )


def _by_id_alone(event: RunEvent, root: RootRun) -> RunState:
    """Return the root run of a failure of which only id and pipeline are known."""
    return msgspec.structs.replace(
        event.run, key=root.key, pipeline=root.pipeline, parents=Parents()
    )


async def reread(ids: Iterable[str], bus: Store) -> list[RunEvent]:
    """Return the events that the log still holds, with the parents of their runs as known now.

    Raises:
        BusUnavailableError: the store does not answer.
    """
    recorded = (await bus.events_by_id(set(ids))).values()
    events = [entry.event for entry in recorded if isinstance(entry.event, RunEvent)]
    runs = await bus.runs({event.run.key for event in events})
    fresh: list[RunEvent] = []
    for event in events:
        parents = runs.get(event.run.key, event.run).parents
        run = msgspec.structs.replace(event.run, parents=parents)
        fresh.append(msgspec.structs.replace(event, run=run))
    return fresh
