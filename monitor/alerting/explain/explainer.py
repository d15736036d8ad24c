"""Finds out why somebody was told something, or nothing. Nothing is logged for it: it is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice

import msgspec
from msgspec import Struct

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
from monitor.alerting.explain.delivery_steps import (
    explanation,
    finding,
    inside,
    is_of_before,
    named,
    rule_steps,
    transitions,
)
from monitor.alerting.explain.explanations import (
    Explanation,
    ExplanationStage,
    ExplanationStep,
    OutputProgress,
    RuleQuestion,
    StepOutcome,
    answer,
    delivery_steps,
    event_step,
    instant,
    observation_steps,
    rule_step,
    status,
)
from monitor.alerting.rules.compiled import Rule
from monitor.alerting.rules.contract import Subject, SubjectKind
from monitor.bus.contract import EventBus, Recorded
from monitor.model.alerts import Alert, AlertState, Silence, fingerprint
from monitor.model.events import STATUS_EVENTS, Event, EventType, RunEvent, run_event_id
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunState
from monitor.tracking.live_state import LiveStateView

Outputs = Callable[[], Mapping[str, Callable[[Event], bool]]]  # name -> what it takes

_EVIDENCE_SHOWN = 20
_DEAD_LETTERS = 1_000
_ENDED_ASKED = 100  # fingerprints; each is looked for among all episodes that are over
_PARTS_ASKED = 1_000  # events of runs inside, or around, that others were told of
_RUN_EVENTS = (*STATUS_EVENTS.values(), EventType.RUN_DETAILED)


class AlertIndex(Struct, frozen=True):
    """The alerts of one moment, found without a search for each rule."""

    by_fingerprint: dict[str, Alert]
    by_rule: dict[str, list[Alert]]

    @classmethod
    def of(cls, alerts: Sequence[Alert]) -> AlertIndex:
        by_rule: defaultdict[str, list[Alert]] = defaultdict(list)
        for alert in alerts:
            by_rule[alert.name].append(alert)
        return cls({alert.fingerprint: alert for alert in alerts}, by_rule)


class Explainer:
    """Answers questions about one run or one alert."""

    def __init__(
        self, *, bus: EventBus, view: LiveStateView, engine: Engine, outputs: Outputs
    ) -> None:
        self._bus = bus
        self._view = view
        self._engine = engine
        self._outputs = outputs

    async def run(self, key: RunKey) -> Explanation | None:
        """Return what became of a run; None where it is unknown or forgotten."""
        run = (await self._bus.runs([key])).get(key)
        if run is None:
            return None
        recorded = await self._recorded(run_event_id(key, event) for event in _RUN_EVENTS)
        steps = observation_steps(run) + [event_step(item) for item in recorded]
        alerts: list[Alert] = []
        told: list[Recorded] = []
        if recorded:
            await self._engine.lineage.prepare([run])
            root = self._engine.lineage.root_run(run)
            steps += inside(run, root)
            asked = [*self._asked(run, root, recorded)]
            steps += rule_steps(
                asked, [other_recorded.event.id for other_recorded in recorded], self._silences()
            )
            alerts = [instance.alert for instance in asked if instance.alert is not None]
            told = await self._told(alerts)
            steps += [event_step(other_recorded) for other_recorded in told]
        elif run.historical:
            alerts = await self._found_at_first(run)
            for alert in alerts:
                steps += await self._of_instance(alert, "")
        else:
            detail = "the log holds none of it: told by none yet, or older than the log keeps"
            steps.append(
                ExplanationStep(
                    stage=ExplanationStage.EVENT, word=StepOutcome.NO_EVENT, detail=detail
                )
            )
        steps += delivery_steps([*recorded, *told], await self._receivers())
        return explanation(f"run {key}", steps, alerts)

    async def _found_at_first(self, run: RunState) -> list[Alert]:
        """Return the alerts about a run that was over before anybody could hear of it."""
        await self._engine.lineage.prepare([run])
        subject_kind = {other_run.key for other_run in self._engine.lineage.line(run)}
        alerts = self._engine.snapshot().alerts
        return [alert for alert in alerts if is_of_before(alert) and alert.run in subject_kind]

    async def alert(self, key: str) -> Explanation | None:
        """Return how the newest episode of a fingerprint came about; None where there is none."""
        held = AlertIndex.of(self._engine.snapshot().alerts)
        alert, ended_word = next(iter(self._instances(held, key)), (None, ""))
        if alert is None:
            return None
        evidence = await self._recorded(alert.evidence[-_EVIDENCE_SHOWN:])
        steps = [event_step(event_id) for event_id in evidence]
        steps += await self._of_instance(alert, ended_word)
        return explanation(named(alert), steps, [alert])

    async def _of_instance(self, alert: Alert, ended_word: str) -> list[ExplanationStep]:
        """Return what was found, how it stands, and what became of what was told of it."""
        rules = {rule.name: rule.settings for rule in self._engine.compiled.rules}
        word, detail = status(alert, rules.get(alert.name), self._silences(), ended_word=ended_word)
        stands = ExplanationStep(
            stage=ExplanationStage.ALERT,
            word=word,
            detail=detail,
            rule=alert.name,
            fingerprint=alert.fingerprint,
        )
        told = await self._told([alert])
        deliveries = delivery_steps(told, await self._receivers())
        return [finding(alert), stands, *(event_step(item) for item in told), *deliveries]

    async def pipeline(self, workspace: str, kind: PipelineKind, key: str) -> Explanation | None:
        """Return what each rule says of a flow or plan as it stands; None where it is not known.

        For what did not happen: a run that never came has no id to ask for.
        """
        known = next(
            (
                other_pipeline
                for other_pipeline in self._view.pipelines()
                if (other_pipeline.workspace, other_pipeline.kind, other_pipeline.id)
                == (workspace, kind, key)
            ),
            None,
        )
        if known is None:
            return None
        pipeline = Pipeline(kind=kind, id=key, name=known.name)
        subjects = [of_pipeline(workspace, pipeline), *self._schedules_of(workspace, pipeline)]
        subjects += [
            of_run(RunKey(workspace, other_kind, ""), pipeline) for other_kind in RUN_KINDS[kind]
        ]
        held = AlertIndex.of(self._engine.snapshot().alerts)
        asked = [
            self._standing_of(rule, subject, held)
            for rule in self._engine.compiled.rules
            for subject in subjects
            if subject.subject_kind is rule.definition.subject_kind
        ]
        alerts = [rule.alert for rule in asked if rule.alert is not None]
        elsewhere = await self._told_elsewhere(workspace, pipeline, held, alerts)
        alerts += [alert for alert, _ in elsewhere]
        silences = self._silences()
        steps = rule_steps(asked, None, silences)
        subject_kind = f"{kind} {key} ({known.label}) of {workspace}"
        if not alerts:
            last = await self._last(workspace, pipeline, held, asked)
            return await self._explained_by(last, subject_kind, steps)
        rules = {rule.name: rule.settings for rule in self._engine.compiled.rules}
        steps += [
            rule_step(
                RuleQuestion(rule=rules[item.name], fingerprint=item.fingerprint, alert=item),
                ids,
                silences,
            )
            for item, ids in elsewhere
            if item.name in rules
        ]
        told = await self._told(alerts)
        steps += [event_step(item) for item in told]
        steps += delivery_steps(told, await self._receivers())
        return explanation(subject_kind, steps, alerts)

    async def _last(
        self, workspace: str, pipeline: Pipeline, held: AlertIndex, asked: Sequence[RuleQuestion]
    ) -> tuple[Alert, str] | None:
        """Return the episode that was over last, of a pipeline of which none is open."""
        fitting = dict.fromkeys(
            other_asked.fingerprint for other_asked in asked if other_asked.misfit is None
        )
        over = [
            found
            for key in islice(fitting, _ENDED_ASKED)
            if (found := next(iter(self._instances(held, key)), None)) is not None
        ]
        elsewhere = await self._told_elsewhere(workspace, pipeline, held, (), is_over=True)
        over += [(alert, "") for alert, _ in elsewhere]
        return max(over, key=lambda item: item[0].ends_at or item[0].starts_at, default=None)

    async def _explained_by(
        self, last: tuple[Alert, str] | None, subject_kind: str, steps: list[ExplanationStep]
    ) -> Explanation:
        """Return what rules say now, and how it went with what was over last."""
        now = explanation(subject_kind, steps, [])
        # A rule that cannot be judged may hide what is wrong now, which counts more.
        if last is None or now.swallowed_by is StepOutcome.RAISED:
            return now
        alert, ended_word = last
        since = "" if alert.ends_at is None else f", over since {instant(alert.ends_at)},"
        found = await self._of_instance(alert, ended_word)
        sentence, swallowed_by = answer(
            f"{subject_kind} has no open alert; the last, {named(alert)}{since}", found
        )
        return msgspec.structs.replace(
            now,
            answer=sentence,
            swallowed_by=swallowed_by,
            steps=(*steps, *found),
            alerts=(alert,),
        )

    async def _told_elsewhere(
        self,
        workspace: str,
        pipeline: Pipeline,
        held: AlertIndex,
        own: Sequence[Alert],
        *,
        is_over: bool = False,
    ) -> list[tuple[Alert, list[str]]]:
        """Return the alerts about others, open or over, that runs of a pipeline are evidence of.

        A plan whose flow failed first is told as that flow, a flow in a plan as that plan.
        """
        beginnings = tuple(f"{workspace}:{kind}:" for kind in RUN_KINDS[pipeline.kind])
        known = {other_alert.fingerprint for other_alert in own}
        parts = (
            (event_id, alert)
            for alert in held.by_fingerprint.values()
            if (alert.state is AlertState.RESOLVED) is is_over and alert.fingerprint not in known
            for event_id in alert.evidence
            if event_id.startswith(beginnings)
        )
        asked = list(islice(parts, _PARTS_ASKED))
        found = await self._bus.events_by_id({event_id for event_id, _ in asked})
        ids: defaultdict[str, list[str]] = defaultdict(list)
        for event_id, alert in asked:
            event = found[event_id].event if event_id in found else None
            run = event.run.pipeline if isinstance(event, RunEvent) else None
            if run is not None and (run.kind, run.id) == (pipeline.kind, pipeline.id):
                ids[alert.fingerprint].append(event_id)
        return [(held.by_fingerprint[key], some) for key, some in ids.items()]

    def _standing_of(self, rule: Rule, subject: Subject, held: AlertIndex) -> RuleQuestion:
        """Return how a rule stands to a subject now: its open episode, or its last answer."""
        key = fingerprint(rule.name, subject.identity())
        alert = held.by_fingerprint.get(key)
        is_open = alert is not None and alert.state is not AlertState.RESOLVED
        return RuleQuestion(
            rule=rule.settings,
            misfit=self._engine.compiled.why_not(rule, traits_of(self._view, subject)),
            fingerprint=key,
            alert=alert if is_open else None,
            looked=self._engine.history.last_of_state(rule.name, key),
            event_types=tuple(rule.definition.event_types),
        )

    def _asked(
        self, run: RunState, root: RootRun, recorded: Sequence[Recorded]
    ) -> Iterable[RuleQuestion]:
        """Yield how each rule that is about runs or pipelines judged this one."""
        ids = [other_recorded.event.id for other_recorded in recorded]
        is_behind = self._engine.position < recorded[-1].position
        own = RootRun(key=run.key, pipeline=run.pipeline, run=run)
        held = AlertIndex.of(self._engine.snapshot().alerts)
        for rule in self._engine.compiled.rules:
            judged = own if rule.names_kind else root
            for subject, of in self._subjects(rule.definition.subject_kind, judged, run):
                traits = traits_of(self._view, subject, of)
                misfit = self._engine.compiled.why_not(rule, traits)
                key = fingerprint(rule.name, subject.identity())
                found: tuple[Alert | None, str] = (None, "")
                if misfit is None:
                    found = self._instance(held, rule.name, key, run.key, ids)
                yield RuleQuestion(
                    rule=rule.settings,
                    misfit=misfit,
                    fingerprint=key,
                    alert=found[0],
                    ended_word=found[1],
                    heard=self._heard(rule.name, key, ids),
                    looked=self._engine.history.last_of_state(rule.name, key),
                    event_types=tuple(rule.definition.event_types),
                    is_behind=is_behind,
                )

    def _subjects(
        self, subject_kind: SubjectKind, judged: RootRun, run: RunState
    ) -> Iterable[tuple[Subject, RunState | None]]:
        """Yield what a rule judges when it judges this run, and the run whose traits count.

        Nothing where the rule is not about runs or pipelines.
        """
        workspace, pipeline = run.key.workspace, run.pipeline
        if subject_kind is SubjectKind.PIPELINE:
            yield of_run(judged.key, judged.pipeline), judged.run or run
        elif subject_kind is SubjectKind.FLOW_OR_PLAN and pipeline is not None:
            yield of_pipeline(workspace, pipeline), None
        elif subject_kind is SubjectKind.SCHEDULE and pipeline is not None:
            for subject in self._schedules_of(workspace, pipeline):
                yield subject, None

    def _schedules_of(self, workspace: str, pipeline: Pipeline) -> Iterable[Subject]:
        known = self._view.workspace(workspace)
        wanted = (pipeline.kind, pipeline.id)
        for schedule in known.schedules if known is not None else ():
            if wanted in [
                (other_pipeline.kind, other_pipeline.id) for other_pipeline in schedule.pipelines
            ]:
                yield of_schedule(workspace, schedule)

    def _instance(
        self, held: AlertIndex, rule: str, key: str, run: RunKey, ids: Sequence[str]
    ) -> tuple[Alert | None, str]:
        """Return the episode that this run is evidence of, with the word of an untold end."""
        # Also one about another subject: what a run is a part of may have become known later.
        others = ((item, "") for item in held.by_rule.get(rule, ()))
        for alert, word in chain(self._instances(held, key), others):
            if alert.run == run or not set(ids).isdisjoint(alert.evidence):
                return alert, word
        return None, ""

    def _instances(self, held: AlertIndex, key: str) -> Iterable[tuple[Alert, str]]:
        """Yield the episodes of a fingerprint, the newest first."""
        if key in held.by_fingerprint:
            yield held.by_fingerprint[key], ""
        for instance in reversed(self._engine.ended(key)):
            yield instance.alert, "" if instance.alert.is_told else instance.word

    def _heard(self, rule: str, key: str, ids: Sequence[str]) -> EvaluationRecord | None:
        """Return what a rule said to the newest event of a run that it was asked about."""
        for event_id in reversed(ids):
            for item in self._engine.history.of_event(event_id):
                if (item.rule, item.fingerprint) == (rule, key):
                    return item
        return None

    def _silences(self) -> dict[str, Silence]:
        return {silence.id: silence for silence in self._engine.snapshot().silences}

    async def _told(self, alerts: Sequence[Alert]) -> list[Recorded]:
        return await self._recorded(
            transition for alert in alerts for transition in transitions(alert)
        )

    async def _recorded(self, ids: Iterable[str]) -> list[Recorded]:
        found = await self._bus.events_by_id(list(ids))
        return sorted(found.values(), key=lambda event: event.position)

    async def _receivers(self) -> list[OutputProgress]:
        positions = {
            consumer.consumer: consumer for consumer in (await self._bus.status()).consumers
        }
        return [
            OutputProgress(
                name=name,
                position=positions[name].position,
                wants=wants,
                dead_letters=tuple(await self._bus.dead_letters(name, limit=_DEAD_LETTERS))
                if positions[name].dead_letters
                else (),
            )
            for name, wants in self._outputs().items()
            if name in positions
        ]
