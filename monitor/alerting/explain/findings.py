"""Gathers what alerting holds about a run or a pipeline: rules, their evaluations, their alerts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from monitor.alerting.attribution.attribution import RootRun
from monitor.alerting.attribution.subjects import (
    fingerprint_of,
    of_pipeline,
    of_run,
    of_schedule,
    traits_of,
)
from monitor.alerting.engine.engine import Engine
from monitor.alerting.engine.evaluation import EvaluationRecord
from monitor.alerting.explain.evidence import EvidenceBasis, FoundAlert, ended
from monitor.alerting.explain.never_shown import why_unread
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import Subject, SubjectKind
from monitor.alerting.rules.rule_settings import RuleKind, RuleSettings
from monitor.alerting.rules.table import RULE_DEFINITIONS
from monitor.bus.contract import Recorded
from monitor.model.alerts import Alert, AlertState, Silence
from monitor.model.runs import RUN_KINDS, Pipeline, RunKey, RunState, Status
from monitor.tracking.live_state import LiveStateView

# The rules that report such an end. What other rules find of its pipeline explains no end.
RULES_ABOUT: Mapping[Status, frozenset[RuleKind]] = MappingProxyType(
    {
        Status.FAILED: frozenset({RuleKind.RUN_FAILED, RuleKind.FAILING_REPEATEDLY}),
        Status.CANCELED: frozenset({RuleKind.CANCELED}),
        Status.LOST: frozenset({RuleKind.RUN_LOST}),
    }
)


_ABOUT_ACTIVE = frozenset({RuleKind.RUN_OVERDUE, RuleKind.RUN_STUCK, RuleKind.QUEUE_SLOW})


class RuleFinding(Struct, frozen=True, kw_only=True):
    """How one rule judged one run or subject, as far as that is known."""

    name: str  # of the rule
    rule: RuleSettings | None  # None: it was removed, but its alert is known
    subject: str = ""  # in words: its kind and its name
    fingerprint: str = ""
    mismatch: str | None = None  # the field of ``match`` that does not fit, or "it is disabled"
    unread: str | None = None  # why the rule has no data there, as a sentence
    found: FoundAlert | None = None
    is_about_end: bool = False  # the rule reports ends such as that of the run
    event_evaluation: EvaluationRecord | None = None  # of the run's newest event
    state_evaluation: EvaluationRecord | None = None  # the newest one without an event
    event_types: tuple[str, ...] = ()  # that the rule evaluates
    is_behind: bool = False  # alerting has not read the run's newest event


class Findings:
    """The present state of alerting. Made for each question."""

    def __init__(self, engine: Engine, view: LiveStateView) -> None:
        snapshot = engine.snapshot()
        compiled = engine.compiled
        self.rules = {rule.name: rule.settings for rule in compiled.rules}
        self._judged_by = (*compiled.rules, *compiled.disabled)
        self.alerts = {alert.fingerprint: alert for alert in snapshot.alerts}
        silences = {silence.id: silence for silence in snapshot.silences}
        self.suppressors: Mapping[str, Silence | Alert] = {**self.alerts, **silences}
        self._engine = engine
        self._view = view

    def newest(self, key: str) -> FoundAlert | None:
        """Return the newest alert of a fingerprint."""
        if key in self.alerts:
            return FoundAlert(self.alerts[key])
        for row in reversed(self._engine.past.of(key)):
            return ended(row)
        return None

    def preexisting(self, run: RunState) -> list[Alert]:
        """Return the alerts about a run that ended before the monitor followed it."""
        line = {part.key for part in self._engine.lineage.line(run)}
        alerts = [*self.alerts.values(), *(row.alert for row in self._engine.past.all())]
        about = [alert for alert in alerts if is_before_events(alert) and alert.run in line]
        return list({(alert.fingerprint, alert.starts_at): alert for alert in about[::-1]}.values())

    def evidence_of(self, run: RunState, line: Sequence[RootRun]) -> frozenset[str]:
        """Return the fingerprints of the alerts that have such an end as evidence."""
        kinds = RULES_ABOUT.get(run.status, frozenset())
        return frozenset(
            fingerprint_of(rule.name, of_run(part.key, part.pipeline))
            for rule in self._engine.compiled.rules
            if rule.settings.rule in kinds
            for part in line
        )

    def of_run(
        self,
        run: RunState,
        root: RootRun,
        events: Sequence[Recorded],
        reported: Sequence[FoundAlert],
    ) -> list[RuleFinding]:
        """Return how each rule judged this run: those that reported it first.

        Then those that report such ends, then all others about runs, pipelines or schedules.
        """
        findings = [self._of_alert(found) for found in reported]
        names = {finding.name for finding in findings}
        ids = [recorded.event.id for recorded in events]
        is_behind = bool(events) and self._engine.position < events[-1].position
        kinds = RULES_ABOUT.get(run.status, frozenset())
        others = [
            replace(
                finding,
                is_about_end=rule.settings.rule in kinds,
                event_evaluation=self._engine.history.of_events(ids, finding.fingerprint),
                is_behind=is_behind,
            )
            for rule, finding in self._judging(run, root)
            if rule.name not in names
        ]
        return [*findings, *sorted(others, key=lambda finding: not finding.is_about_end)]

    def of_pipeline(self, workspace: str, pipeline: Pipeline) -> Iterator[RuleFinding]:
        """Yield how each rule judges a flow or plan now, with its open alert."""
        subjects = self._pipeline_subjects(workspace, pipeline)
        kinds = RUN_KINDS[pipeline.kind]
        subjects += [of_run(RunKey(workspace, kind, ""), pipeline) for kind in kinds]
        for rule in self._judged_by:
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
            if alert.name not in self.rules:
                continue
            is_complete = alert.evidence_count == len(alert.evidence)
            is_first = is_complete and alert.evidence[0] in event_ids
            basis = EvidenceBasis.BEGAN if is_first else EvidenceBasis.ADDED
            yield self._of_alert(FoundAlert(alert, basis=basis))

    def _judging(self, run: RunState, root: RootRun) -> Iterator[tuple[Rule, RuleFinding]]:
        """Yield the rules that judge the run, its pipeline or a schedule of that."""
        pipeline_subjects = self._pipeline_subjects(run.key.workspace, run.pipeline)
        own = RootRun(key=run.key, pipeline=run.pipeline, run=run)
        for rule in self._judged_by:
            judged = own if rule.names_kind else root
            of_runs = of_run(judged.key, judged.pipeline)
            for subject in (of_runs, *pipeline_subjects):
                if rule.definition.subject_kind is subject.subject_kind:
                    with_traits = (judged.run or run) if subject is of_runs else None
                    yield rule, self._finding(rule, subject, with_traits)

    def _of_alert(self, found: FoundAlert) -> RuleFinding:
        alert = found.alert
        return RuleFinding(
            name=alert.name,
            rule=self.rules.get(alert.name),
            subject=_subject_of_alert(alert),
            fingerprint=alert.fingerprint,
            found=found,
        )

    def _finding(self, rule: Rule, subject: Subject, run: RunState | None = None) -> RuleFinding:
        key = fingerprint_of(rule.name, subject)
        pipeline = subject.pipeline
        label = "" if pipeline is None else self._view.label(subject.workspace, pipeline)
        return RuleFinding(
            name=rule.name,
            rule=rule.settings,
            subject=subject_words(subject, label),
            fingerprint=key,
            mismatch=rule.why_not(traits_of(self._view, subject, run)),
            unread=why_unread(self._view.workspace(subject.workspace), rule.settings, subject, run),
            state_evaluation=self._engine.history.last_of_state(key),
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
            if any((own.kind, own.id) == (pipeline.kind, pipeline.id) for own in schedule.pipelines)
        ]
        return [of_pipeline(workspace, pipeline), *schedules]


def why_excluded(findings: Iterable[RuleFinding], status: Status | None = None) -> str | None:
    """Return which rules do not apply, of kinds without any that does; None where there are none.

    ``status``: only rules about runs with that status count; None: all.
    """
    kinds = RULES_ABOUT.get(status, _ABOUT_ACTIVE) if status is not None else frozenset(RuleKind)
    about = [finding for finding in findings if finding.rule and finding.rule.rule in kinds]
    applying = {finding.rule.rule for finding in about if finding.mismatch is None and finding.rule}
    others = [finding for finding in about if finding.rule and finding.rule.rule not in applying]
    excluded = {finding.name: finding.mismatch for finding in others}
    if not excluded:
        return None
    (name, mismatch), *more = excluded.items()
    nor = f", nor do {len(more)} more" if more else ""
    return f"rule {name} does not apply ({mismatch}){nor}"


def subject_words(subject: Subject, label: str) -> str:
    """Return a subject in words: the kind of run and the pipeline, or what else it is."""
    if subject.subject_kind is SubjectKind.PIPELINE:
        return f"{subject.kind} {label or 'unknown'}"
    if subject.subject_kind is SubjectKind.FLOW_OR_PLAN and subject.pipeline is not None:
        return f"{subject.pipeline.kind} {label}"
    return f"{subject.subject_kind} {subject.thing or subject.workspace}"


def _subject_of_alert(alert: Alert) -> str:
    kinds = (made.subject_kind for kind, made in RULE_DEFINITIONS.items() if kind == alert.rule)
    subject = Subject(
        subject_kind=next(kinds, SubjectKind.PIPELINE),
        workspace=alert.workspace,
        kind=alert.kind,
        pipeline=alert.pipeline,
        thing=alert.labels.get("schedule", ""),
    )
    return subject_words(subject, alert.labels.get("pipeline", ""))


def is_open(alert: Alert) -> bool:
    return alert.state is not AlertState.RESOLVED


def is_before_events(alert: Alert) -> bool:
    """True where it began with the end of a run that may have made no event."""
    return alert.preexisting and alert.rule == RuleKind.RUN_FAILED and alert.run is not None
