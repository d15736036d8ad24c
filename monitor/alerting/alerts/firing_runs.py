"""The runs that alerts fire about, found by what else could be a part of them, or they of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from itertools import islice

from monitor.alerting.alerts.lifecycle import AlertInstance
from monitor.alerting.alerts.pending_step import ALERT, Draft
from monitor.model.runs import RunKey, RunKind, RunState

_NEAR = 200  # that one run is held against, the newest ones
_FLOW_RUN, _JOB_GROUP = RunKind.FLOW_RUN, RunKind.JOB_GROUP

Place = tuple[RunKey, str]  # a run, and the id of its pipeline


class FiringRuns:
    """Goes along with each step, so that one failure does not ask every episode there is."""

    def __init__(self) -> None:
        self._locations: dict[str, Place] = {}
        self._runs: defaultdict[Hashable, dict[str, RunKey]] = defaultdict(dict)

    @classmethod
    def of(cls, runs: Iterable[RunState]) -> FiringRuns:
        """Return these runs, as if something fired about each."""
        made = cls()
        for run in runs:
            made._put(str(run.key), (run.key, _pipeline_id(run)))
        return made

    def restore(self, instances: Mapping[str, AlertInstance]) -> None:
        """Take all episodes in place of those that were known."""
        self._locations.clear()
        self._runs.clear()
        for fingerprint, instance in instances.items():
            self._put(fingerprint, _place(instance))

    def changed(self, pending: Draft) -> None:
        """Take note of what a step changed, once it is durable."""
        for fingerprint, instance in pending.changes(ALERT):
            self._put(fingerprint, None if instance is None else _place(instance))

    def near(self, run: RunState) -> list[RunKey]:
        """Return the runs that may be inside it, or that it may be inside of; newest first."""
        workspace, kind = run.key.workspace, run.key.kind
        if kind is RunKind.PLAN_RUN:
            shelves = ((workspace, _FLOW_RUN), (workspace, _JOB_GROUP))
            return self._newest(shelves)
        other = _FLOW_RUN if kind is _JOB_GROUP else _JOB_GROUP
        return self._newest(((workspace, RunKind.PLAN_RUN), (workspace, other, _pipeline_id(run))))

    def _newest(self, shelves: Iterable[Hashable]) -> list[RunKey]:
        found: list[RunKey] = []
        for shelf in shelves:
            held = self._runs.get(shelf, {})
            found += islice(reversed(held.values()), _NEAR - len(found))
        return found

    def _put(self, name: str, place: Place | None) -> None:
        before = self._locations.get(name)
        if place == before:
            return
        if before is not None:
            del self._locations[name]
            for shelf in _shelves(before):
                self._runs[shelf].pop(name)
                if not self._runs[shelf]:
                    del self._runs[shelf]
        if place is not None:
            self._locations[name] = place
            for shelf in _shelves(place):
                self._runs[shelf][name] = place[0]


def _shelves(place: Place) -> tuple[Hashable, Hashable]:
    key, pipeline_id = place
    return (key.workspace, key.kind), (key.workspace, key.kind, pipeline_id)


def _place(instance: AlertInstance) -> Place | None:
    alert, run = instance.alert, instance.newest_run or instance.alert.run
    if not instance.is_open or run is None:
        return None
    return run, alert.pipeline.id if alert.pipeline is not None else ""


def _pipeline_id(run: RunState) -> str:
    return run.pipeline.id if run.pipeline is not None else ""
