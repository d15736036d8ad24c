"""An index of alerts: by rule, by what they wait for, and by the runs that open ones are about.

Thousands of alerts may fire. What looks for a few of them must not look at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator
from itertools import islice

from monitor.alerting.alerts.instance import AlertInstance
from monitor.alerting.alerts.pending_step import ALERT, PendingStep
from monitor.model.runs import RunKey, RunKind, RunState

_RUNS_COMPARED = 200  # with one run, the newest ones
_FLOW_RUN, _JOB_GROUP = RunKind.FLOW_RUN, RunKind.JOB_GROUP

_Entry = tuple[RunKey, str]  # a run, and the id of its pipeline


class FiringRuns:
    """Follows each committed step, so that neither failures nor cycles look at every alert."""

    def __init__(self, runs: Iterable[RunState] = ()) -> None:
        """``runs`` are held as if each had an open alert."""
        self._entries: dict[str, _Entry] = {}
        self._runs: defaultdict[Hashable, dict[str, RunKey]] = defaultdict(dict)
        self._alerts: defaultdict[RunKey, set[str]] = defaultdict(set)
        self._instances: dict[str, AlertInstance] = {}
        self._rules: dict[str, str] = {}  # fingerprint -> kind of its rule
        self._by_rule: defaultdict[str, set[str]] = defaultdict(set)
        self._waiting: set[str] = set()  # open, waiting for a link that is only likely
        self._unidentified: set[str] = set()  # open, without a pipeline
        for run in runs:
            self._put(str(run.key), (run.key, _pipeline_id(run)))

    def clear(self) -> None:
        """Forget all alerts."""
        for held in (
            *(self._entries, self._runs, self._alerts, self._instances),
            *(self._rules, self._by_rule, self._waiting, self._unidentified),
        ):
            held.clear()

    def of_rules(
        self, pending: PendingStep, rules: Collection[str]
    ) -> list[tuple[str, AlertInstance]]:
        """Return the alerts of these kinds of rules, also those of the step, by fingerprint."""
        names = set().union(*(self._by_rule[rule] for rule in rules if rule in self._by_rule))
        return [(key, row) for key, row in _rows(pending, names) if row.alert.rule in rules]

    def waiting(self, pending: PendingStep) -> list[tuple[str, AlertInstance]]:
        """Return the open alerts that wait for a link that is only likely."""
        return [(key, row) for key, row in _rows(pending, self._waiting) if _is_waiting(row)]

    def has_unidentified(self, pending: PendingStep) -> bool:
        """True where an alert may be open without a pipeline."""
        return bool(self._unidentified or pending.changed[ALERT])

    def unidentified(self, pending: PendingStep) -> list[tuple[str, AlertInstance]]:
        """Return the open alerts without a pipeline."""
        rows = _rows(pending, self._unidentified)
        return [(key, row) for key, row in rows if row.is_open and row.alert.pipeline is None]

    def open_alerts(
        self, pending: PendingStep, runs: Collection[RunKey]
    ) -> Iterator[tuple[str, AlertInstance]]:
        """Yield the open alerts about these root runs, also those of the step, by fingerprint."""
        if not runs:
            return
        names = {name for run in runs if run in self._alerts for name in self._alerts[run]}
        for name in sorted(names.union(pending.changed[ALERT])):
            instance = pending.get(ALERT, name)
            if instance is not None and instance.is_open and instance.root_run in runs:
                yield name, instance

    def candidates(self, run: RunState) -> list[RunKey]:
        """Return the runs that may be inside the run or contain it; newest first."""
        workspace, kind = run.key.workspace, run.key.kind
        groups: tuple[Hashable, ...] = ((workspace, _FLOW_RUN), (workspace, _JOB_GROUP))
        if kind is not RunKind.PLAN_RUN:
            other = _FLOW_RUN if kind is _JOB_GROUP else _JOB_GROUP
            groups = ((workspace, RunKind.PLAN_RUN), (workspace, other, _pipeline_id(run)))
        return self._newest(groups)

    def parts(self, run: RunState) -> list[RunKey]:
        """Return the runs that may be inside a run of the same pipeline, with all evidence."""
        workspace, kind = run.key.workspace, run.key.kind
        groups: tuple[Hashable, ...] = ()
        if kind is RunKind.PLAN_RUN:
            groups = ((workspace, _FLOW_RUN), (workspace, _JOB_GROUP))
        elif kind is _FLOW_RUN:
            groups = ((workspace, _JOB_GROUP, _pipeline_id(run)),)
        found: dict[RunKey, None] = {}
        for group in groups:
            for name, root_run in reversed(self._runs.get(group, {}).items()):
                if len(found) >= _RUNS_COMPARED:
                    break
                found[root_run] = None
                found |= dict.fromkeys(self._instances[name].evidence_runs)
        return list(found)

    def take(self, fingerprint: str, instance: AlertInstance | None) -> None:
        """Apply one alert as a durable step changed it; None: it was dropped."""
        self._index(fingerprint, instance)
        entry = None if instance is None else _entry(instance)
        self._put(fingerprint, entry)
        if entry is None or instance is None:
            self._instances.pop(fingerprint, None)
        else:
            self._instances[fingerprint] = instance

    def _index(self, fingerprint: str, instance: AlertInstance | None) -> None:
        before = self._rules.pop(fingerprint, None)
        if before is not None:
            self._by_rule[before].discard(fingerprint)
        self._waiting.discard(fingerprint)
        self._unidentified.discard(fingerprint)
        if instance is None:
            return
        rule = self._rules[fingerprint] = instance.alert.rule
        self._by_rule[rule].add(fingerprint)
        if _is_waiting(instance):
            self._waiting.add(fingerprint)
        if instance.is_open and instance.alert.pipeline is None:
            self._unidentified.add(fingerprint)

    def _newest(self, groups: Iterable[Hashable]) -> list[RunKey]:
        found: list[RunKey] = []
        for group in groups:
            if group in self._runs:
                newest = reversed(self._runs[group].values())
                found += islice(newest, _RUNS_COMPARED - len(found))
        return found

    def _put(self, name: str, entry: _Entry | None) -> None:
        before = self._entries.get(name)
        if entry == before:
            return
        if before is not None:
            del self._entries[name]
            self._alerts[before[0]].discard(name)
            if not self._alerts[before[0]]:
                del self._alerts[before[0]]
            for group in _groups(before):
                self._runs[group].pop(name)
                if not self._runs[group]:
                    del self._runs[group]
        if entry is not None:
            self._entries[name] = entry
            self._alerts[entry[0]].add(name)
            for group in _groups(entry):
                self._runs[group][name] = entry[0]


def _rows(pending: PendingStep, names: set[str]) -> Iterator[tuple[str, AlertInstance]]:
    for name in sorted(names.union(pending.changed[ALERT])):
        instance = pending.get(ALERT, name)
        if instance is not None:
            yield name, instance


def _is_waiting(instance: AlertInstance) -> bool:
    return instance.is_open and any(inhibitor.until for inhibitor in instance.inhibited_by)


def _groups(entry: _Entry) -> tuple[Hashable, Hashable]:
    key, pipeline_id = entry
    return (key.workspace, key.kind), (key.workspace, key.kind, pipeline_id)


def _entry(instance: AlertInstance) -> _Entry | None:
    run, pipeline = instance.root_run, instance.alert.pipeline
    if run is None or not instance.is_open:
        return None
    return run, pipeline.id if pipeline is not None else ""


def _pipeline_id(run: RunState) -> str:
    return run.pipeline.id if run.pipeline is not None else ""
