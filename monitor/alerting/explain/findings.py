"""Gathers what alerting holds about a run or a pipeline: alerts, ended alerts, evaluations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from monitor.alerting.attribution.lineage import RootRun
from monitor.alerting.attribution.subjects import (
    RUN_KINDS,
    of_pipeline,
    of_run,
    of_schedule,
    traits_of,
)
from monitor.alerting.engine.engine import Engine
from monitor.alerting.engine.history import EvaluationRecord
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import Subject
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.bus.contract import Recorded
from monitor.model.alerts import Alert, AlertState, fingerprint
from monitor.model.runs import Pipeline, RunKey, RunState
from monitor.tracking.live_state import LiveStateView


class FoundAlert(Struct, frozen=True):
    """An alert, open or ended. ``ended_as`` says how it ended if it had never fired."""

    alert: Alert
    ended_as: str = ""


class RuleFinding(Struct, frozen=True, kw_only=True):
    """How one rule judged one run or subject, as far as that is known."""

    rule: RuleSettings
    fingerprint: str = ""
    mismatch: str | None = None  # the field of ``match`` that does not fit, as a sentence
    found: FoundAlert | None = None
    event_ids: Collection[str] | None = None  # of the run; None: a pipeline is explained
    event_evaluation: EvaluationRecord | None = None  # of the run's newest event
    state_evaluation: EvaluationRecord | None = None  # the newest one without an event
    event_types: tuple[str, ...] = ()  # that the rule evaluates
    is_behind: bool = False  # alerting has not read the run's newest event


class Findings:
    """What alerting holds now. Made anew for each question."""

    def __init__(self, engine: Engine, view: LiveStateView) -> None:
        snapshot = engine.snapshot()
        self.silences = {silence.id: silence for silence in snapshot.silences}
        self.rules = {rule.name: rule.settings for rule in engine.compiled.rules}
        self.alerts = {alert.fingerprint: alert for alert in snapshot.alerts}
        self._by_rule: defaultdict[str, list[Alert]] = defaultdict(list)
        for alert in snapshot.alerts:
            self._by_rule[alert.name].append(alert)
        self._engine = engine
        self._view = view

    def newest(self, key: str) -> FoundAlert | None:
        """Return the newest alert of a fingerprint."""
        return next(self._instances(key), None)

    def preexisting(self, run: RunState) -> list[Alert]:
        """Return the alerts about a run that ended before the monitor followed it."""
        line = {part.key for part in self._engine.lineage.line(run)}
        return [
            alert for alert in self.alerts.values() if is_before_events(alert) and alert.run in line
        ]

    def of_run(
        self, run: RunState, root: RootRun, events: Sequence[Recorded]
    ) -> Iterator[RuleFinding]:
        """Yield how each rule about runs, pipelines or schedules judged this run."""
        ids = [recorded.event.id for recorded in events]
        is_behind = self._engine.position < events[-1].position
        pipeline_subjects = self._pipeline_subjects(run.key.workspace, run.pipeline)
        own = RootRun(key=run.key, pipeline=run.pipeline, run=run)
        for rule in self._engine.compiled.rules:
            judged = own if rule.names_kind else root
            of_runs = of_run(judged.key, judged.pipeline)
            for subject in (of_runs, *pipeline_subjects):
                if rule.definition.subject_kind is not subject.subject_kind:
                    continue
                with_traits = (judged.run or run) if subject is of_runs else None
                finding = self._finding(rule, subject, with_traits)
                key, does_match = finding.fingerprint, finding.mismatch is None
                yield replace(
                    finding,
                    found=self._evidenced(rule.name, key, run.key, ids) if does_match else None,
                    event_ids=ids,
                    event_evaluation=self._engine.history.of_events(ids, rule.name, key),
                    is_behind=is_behind,
                )

    def of_pipeline(self, workspace: str, pipeline: Pipeline) -> Iterator[RuleFinding]:
        """Yield how each rule judges a flow or plan now, with its open alert."""
        subjects = self._pipeline_subjects(workspace, pipeline)
        kinds = RUN_KINDS[pipeline.kind]
        subjects += [of_run(RunKey(workspace, kind, ""), pipeline) for kind in kinds]
        for rule in self._engine.compiled.rules:
            for subject in subjects:
                if rule.definition.subject_kind is subject.subject_kind:
                    finding = self._finding(rule, subject)
                    alert = self.alerts.get(finding.fingerprint)
                    found = FoundAlert(alert) if alert is not None and is_open(alert) else None
                    yield replace(finding, found=found)

    def of_evidence(self, evidence: Mapping[str, Collection[str]]) -> Iterator[RuleFinding]:
        """Yield the alerts that have events as evidence, by fingerprint; without removed rules."""
        for key, event_ids in evidence.items():
            alert = self.alerts[key]
            if (rule := self.rules.get(alert.name)) is not None:
                found = FoundAlert(alert)
                yield RuleFinding(rule=rule, fingerprint=key, found=found, event_ids=event_ids)

    def _finding(self, rule: Rule, subject: Subject, run: RunState | None = None) -> RuleFinding:
        key = fingerprint(rule.name, subject.identity())
        return RuleFinding(
            rule=rule.settings,
            fingerprint=key,
            mismatch=rule.why_not(traits_of(self._view, subject, run)),
            state_evaluation=self._engine.history.last_of_state(rule.name, key),
            event_types=tuple(rule.definition.event_types),
        )

    def _pipeline_subjects(self, workspace: str, pipeline: Pipeline | None) -> list[Subject]:
        """Return a flow or plan as such and its schedules; nothing where it is not known."""
        if pipeline is None:
            return []
        status = self._view.workspace(workspace)
        schedules = [
            of_schedule(workspace, schedule)
            for schedule in (status.schedules if status is not None else ())
            if any((of.kind, of.id) == (pipeline.kind, pipeline.id) for of in schedule.pipelines)
        ]
        return [of_pipeline(workspace, pipeline), *schedules]

    def _evidenced(self, rule: str, key: str, run: RunKey, ids: Sequence[str]) -> FoundAlert | None:
        """Return the alert that has this run as evidence."""
        # Also one about another subject: what a run is part of may have become known later.
        others = (FoundAlert(alert) for alert in self._by_rule.get(rule, ()))
        for found in chain(self._instances(key), others):
            if found.alert.run == run or not set(ids).isdisjoint(found.alert.evidence):
                return found
        return None

    def _instances(self, key: str) -> Iterator[FoundAlert]:
        """Yield the alerts of a fingerprint, the newest first."""
        if key in self.alerts:
            yield FoundAlert(self.alerts[key])
        for ended in reversed(self._engine.ended(key)):
            yield FoundAlert(ended.alert, "" if ended.alert.is_notified else ended.word)


def is_open(alert: Alert) -> bool:
    return alert.state is not AlertState.RESOLVED


def is_before_events(alert: Alert) -> bool:
    """True where it began with the end of a run that may have made no event."""
    return alert.preexisting and alert.rule == RuleKind.RUN_FAILED and alert.run is not None
