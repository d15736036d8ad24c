"""Finds out why somebody was told something, or nothing. Nothing is logged for it: it is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice

import msgspec
from msgspec import Struct

from monitor.alerting.asking.explanations import (
    Asked,
    Explanation,
    Receiver,
    Stage,
    Step,
    Word,
    answer,
    delivery_steps,
    event_step,
    instant,
    rule_step,
    sighting_steps,
    standing,
)
from monitor.alerting.asking.stations import (
    explanation,
    finding,
    inside,
    is_of_before,
    named,
    rule_steps,
    transitions,
)
from monitor.alerting.compiled import Rule
from monitor.alerting.judging.engine import Engine
from monitor.alerting.subjects.outermost import Whose, of_pipeline, of_run, of_schedule, traits_of
from monitor.alerting.subjects.present import KINDS
from monitor.alerting.trail import Evaluation
from monitor.alerting.verdicts import About, Subject
from monitor.bus.contract import EventBus, Recorded
from monitor.model.alerts import Alert, AlertState, Silence, fingerprint
from monitor.model.events import STATUS_EVENTS, Event, EventType, RunEvent, run_event_id
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunState
from monitor.tracking.knowledge import KnowledgeView

Outputs = Callable[[], Mapping[str, Callable[[Event], bool]]]  # name -> what it takes

_EVIDENCE_SHOWN = 20
_DEAD_LETTERS = 1_000
_ENDED_ASKED = 100  # fingerprints; each is looked for among all episodes that are over
_PARTS_ASKED = 1_000  # events of runs inside, or around, that others were told of
_RUN_EVENTS = (*STATUS_EVENTS.values(), EventType.RUN_DETAILED)


class Held(Struct, frozen=True):
    """The alerts of one moment, found without a search for each rule."""

    by_fingerprint: dict[str, Alert]
    by_rule: dict[str, list[Alert]]

    @classmethod
    def of(cls, alerts: Sequence[Alert]) -> Held:
        by_rule: defaultdict[str, list[Alert]] = defaultdict(list)
        for one in alerts:
            by_rule[one.name].append(one)
        return cls({one.fingerprint: one for one in alerts}, by_rule)


class Explainer:
    """Answers questions about one run or one alert."""

    def __init__(
        self, *, bus: EventBus, view: KnowledgeView, engine: Engine, outputs: Outputs
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
        recorded = await self._recorded(run_event_id(key, one) for one in _RUN_EVENTS)
        steps = sighting_steps(run) + [event_step(one) for one in recorded]
        alerts: list[Alert] = []
        told: list[Recorded] = []
        if recorded:
            await self._engine.subjects.prepare([run])
            whose = self._engine.subjects.outermost(run)
            steps += inside(run, whose)
            asked = [*self._asked(run, whose, recorded)]
            steps += rule_steps(asked, [one.event.id for one in recorded], self._silences())
            alerts = [one.alert for one in asked if one.alert is not None]
            told = await self._told(alerts)
            steps += [event_step(one) for one in told]
        elif run.historical:
            alerts = await self._found_at_first(run)
            for one in alerts:
                steps += await self._of_episode(one, "")
        else:
            detail = "the log holds none of it: told by none yet, or older than the log keeps"
            steps.append(Step(stage=Stage.EVENT, word=Word.NO_EVENT, detail=detail))
        steps += delivery_steps([*recorded, *told], await self._receivers())
        return explanation(f"run {key}", steps, alerts)

    async def _found_at_first(self, run: RunState) -> list[Alert]:
        """Return the alerts about a run that was over before anybody could hear of it."""
        await self._engine.subjects.prepare([run])
        about = {one.key for one in self._engine.subjects.line(run)}
        alerts = self._engine.picture().alerts
        return [one for one in alerts if is_of_before(one) and one.run in about]

    async def alert(self, key: str) -> Explanation | None:
        """Return how the newest episode of a fingerprint came about; None where there is none."""
        held = Held.of(self._engine.picture().alerts)
        alert, ended_word = next(iter(self._episodes(held, key)), (None, ""))
        if alert is None:
            return None
        evidence = await self._recorded(alert.evidence[-_EVIDENCE_SHOWN:])
        steps = [event_step(one) for one in evidence]
        steps += await self._of_episode(alert, ended_word)
        return explanation(named(alert), steps, [alert])

    async def _of_episode(self, alert: Alert, ended_word: str) -> list[Step]:
        """Return what was found, how it stands, and what became of what was told of it."""
        rules = {one.name: one.settings for one in self._engine.compiled.rules}
        word, detail = standing(
            alert, rules.get(alert.name), self._silences(), ended_word=ended_word
        )
        stands = Step(
            stage=Stage.ALERT,
            word=word,
            detail=detail,
            rule=alert.name,
            fingerprint=alert.fingerprint,
        )
        told = await self._told([alert])
        deliveries = delivery_steps(told, await self._receivers())
        return [finding(alert), stands, *(event_step(one) for one in told), *deliveries]

    async def pipeline(self, workspace: str, kind: PipelineKind, key: str) -> Explanation | None:
        """Return what each rule says of a flow or plan as it stands; None where it is not known.

        For what did not happen: a run that never came has no id to ask for.
        """
        known = next(
            (
                one
                for one in self._view.pipelines()
                if (one.workspace, one.kind, one.id) == (workspace, kind, key)
            ),
            None,
        )
        if known is None:
            return None
        pipeline = Pipeline(kind=kind, id=key, name=known.name)
        subjects = [of_pipeline(workspace, pipeline), *self._schedules_of(workspace, pipeline)]
        subjects += [of_run(RunKey(workspace, one, ""), pipeline) for one in KINDS[kind]]
        held = Held.of(self._engine.picture().alerts)
        asked = [
            self._standing_of(rule, subject, held)
            for rule in self._engine.compiled.rules
            for subject in subjects
            if subject.about is rule.condition.about
        ]
        alerts = [one.alert for one in asked if one.alert is not None]
        elsewhere = await self._told_elsewhere(workspace, pipeline, held, alerts)
        alerts += [alert for alert, _ in elsewhere]
        silences = self._silences()
        steps = rule_steps(asked, None, silences)
        about = f"{kind} {key} ({known.label}) of {workspace}"
        if not alerts:
            last = await self._last(workspace, pipeline, held, asked)
            return await self._explained_by(last, about, steps)
        rules = {one.name: one.settings for one in self._engine.compiled.rules}
        steps += [
            rule_step(
                Asked(rule=rules[one.name], fingerprint=one.fingerprint, alert=one), ids, silences
            )
            for one, ids in elsewhere
            if one.name in rules
        ]
        told = await self._told(alerts)
        steps += [event_step(one) for one in told]
        steps += delivery_steps(told, await self._receivers())
        return explanation(about, steps, alerts)

    async def _last(
        self, workspace: str, pipeline: Pipeline, held: Held, asked: Sequence[Asked]
    ) -> tuple[Alert, str] | None:
        """Return the episode that was over last, of a pipeline of which none is open."""
        fitting = dict.fromkeys(one.fingerprint for one in asked if one.misfit is None)
        over = [
            found
            for key in islice(fitting, _ENDED_ASKED)
            if (found := next(iter(self._episodes(held, key)), None)) is not None
        ]
        elsewhere = await self._told_elsewhere(workspace, pipeline, held, (), is_over=True)
        over += [(alert, "") for alert, _ in elsewhere]
        return max(over, key=lambda one: one[0].ends_at or one[0].starts_at, default=None)

    async def _explained_by(
        self, last: tuple[Alert, str] | None, about: str, steps: list[Step]
    ) -> Explanation:
        """Return what rules say now, and how it went with what was over last."""
        now = explanation(about, steps, [])
        # A rule that cannot be judged may hide what is wrong now, which counts more.
        if last is None or now.swallowed_by is Word.RAISED:
            return now
        alert, ended_word = last
        since = "" if alert.ends_at is None else f", over since {instant(alert.ends_at)},"
        found = await self._of_episode(alert, ended_word)
        sentence, swallowed_by = answer(
            f"{about} has no open alert; the last, {named(alert)}{since}", found
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
        held: Held,
        own: Sequence[Alert],
        *,
        is_over: bool = False,
    ) -> list[tuple[Alert, list[str]]]:
        """Return the alerts about others, open or over, that runs of a pipeline are evidence of.

        A plan whose flow failed first is told as that flow, a flow in a plan as that plan.
        """
        beginnings = tuple(f"{workspace}:{one}:" for one in KINDS[pipeline.kind])
        known = {one.fingerprint for one in own}
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

    def _standing_of(self, rule: Rule, subject: Subject, held: Held) -> Asked:
        """Return how a rule stands to a subject now: its open episode, or its last answer."""
        key = fingerprint(rule.name, subject.identity())
        alert = held.by_fingerprint.get(key)
        is_open = alert is not None and alert.state is not AlertState.RESOLVED
        return Asked(
            rule=rule.settings,
            misfit=self._engine.compiled.why_not(rule, traits_of(self._view, subject)),
            fingerprint=key,
            alert=alert if is_open else None,
            looked=self._engine.trail.last_look(rule.name, key),
            hears=tuple(rule.condition.hears),
        )

    def _asked(self, run: RunState, whose: Whose, recorded: Sequence[Recorded]) -> Iterable[Asked]:
        """Yield how each rule that is about runs or pipelines judged this one."""
        ids = [one.event.id for one in recorded]
        is_behind = self._engine.position < recorded[-1].position
        own = Whose(key=run.key, pipeline=run.pipeline, run=run)
        held = Held.of(self._engine.picture().alerts)
        for rule in self._engine.compiled.rules:
            judged = own if rule.names_kind else whose
            for subject, of in self._subjects(rule.condition.about, judged, run):
                traits = traits_of(self._view, subject, of)
                misfit = self._engine.compiled.why_not(rule, traits)
                key = fingerprint(rule.name, subject.identity())
                found: tuple[Alert | None, str] = (None, "")
                if misfit is None:
                    found = self._episode(held, rule.name, key, run.key, ids)
                yield Asked(
                    rule=rule.settings,
                    misfit=misfit,
                    fingerprint=key,
                    alert=found[0],
                    ended_word=found[1],
                    heard=self._heard(rule.name, key, ids),
                    looked=self._engine.trail.last_look(rule.name, key),
                    hears=tuple(rule.condition.hears),
                    is_behind=is_behind,
                )

    def _subjects(
        self, about: About, judged: Whose, run: RunState
    ) -> Iterable[tuple[Subject, RunState | None]]:
        """Yield what a rule judges when it judges this run, and the run whose traits count.

        Nothing where the rule is not about runs or pipelines.
        """
        workspace, pipeline = run.key.workspace, run.pipeline
        if about is About.PIPELINE:
            yield of_run(judged.key, judged.pipeline), judged.run or run
        elif about is About.FLOW_OR_PLAN and pipeline is not None:
            yield of_pipeline(workspace, pipeline), None
        elif about is About.SCHEDULE and pipeline is not None:
            for subject in self._schedules_of(workspace, pipeline):
                yield subject, None

    def _schedules_of(self, workspace: str, pipeline: Pipeline) -> Iterable[Subject]:
        known = self._view.workspace(workspace)
        wanted = (pipeline.kind, pipeline.id)
        for schedule in known.schedules if known is not None else ():
            if wanted in [(one.kind, one.id) for one in schedule.pipelines]:
                yield of_schedule(workspace, schedule)

    def _episode(
        self, held: Held, rule: str, key: str, run: RunKey, ids: Sequence[str]
    ) -> tuple[Alert | None, str]:
        """Return the episode that this run is evidence of, with the word of an untold end."""
        # Also one about another subject: what a run is a part of may have become known later.
        others = ((one, "") for one in held.by_rule.get(rule, ()))
        for alert, word in chain(self._episodes(held, key), others):
            if alert.run == run or not set(ids).isdisjoint(alert.evidence):
                return alert, word
        return None, ""

    def _episodes(self, held: Held, key: str) -> Iterable[tuple[Alert, str]]:
        """Yield the episodes of a fingerprint, the newest first."""
        if key in held.by_fingerprint:
            yield held.by_fingerprint[key], ""
        for one in reversed(self._engine.ended(key)):
            yield one.alert, "" if one.alert.is_told else one.word

    def _heard(self, rule: str, key: str, ids: Sequence[str]) -> Evaluation | None:
        """Return what a rule said to the newest event of a run that it was asked about."""
        for event_id in reversed(ids):
            for one in self._engine.trail.of_event(event_id):
                if (one.rule, one.fingerprint) == (rule, key):
                    return one
        return None

    def _silences(self) -> dict[str, Silence]:
        return {one.id: one for one in self._engine.picture().silences}

    async def _told(self, alerts: Sequence[Alert]) -> list[Recorded]:
        return await self._recorded(one for alert in alerts for one in transitions(alert))

    async def _recorded(self, ids: Iterable[str]) -> list[Recorded]:
        found = await self._bus.events_by_id(list(ids))
        return sorted(found.values(), key=lambda one: one.position)

    async def _receivers(self) -> list[Receiver]:
        positions = {one.consumer: one for one in (await self._bus.standing()).consumers}
        return [
            Receiver(
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
