"""A look at the present: which subjects, by which rules, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from operator import itemgetter

from msgspec import Struct

from monitor.alerting.episodes.draft import EPISODE, FIRST, Draft, FirstJudged
from monitor.alerting.episodes.labels import subject_of
from monitor.alerting.episodes.lifecycle import Episode
from monitor.alerting.episodes.waking import Sleeping, Wakes
from monitor.alerting.judging.agenda import Agenda, Domain
from monitor.alerting.judging.evaluation import Case, Evaluator, Sitting, first_key
from monitor.alerting.judging.first_look import LooksBack
from monitor.alerting.judging.retiring import retire
from monitor.alerting.subjects.outermost import key_of, of_pipeline, of_run, of_schedule, traits_of
from monitor.alerting.subjects.present import KINDS, Running
from monitor.alerting.verdicts import About, Subject
from monitor.model.beyond import OutputQuality
from monitor.model.clock import Clock
from monitor.model.knowledge import ScheduleKnown, WorkspaceStanding
from monitor.model.runs import Pipeline, PipelineKind, RunKey
from monitor.tracking.knowledge import KnowledgeView

_IN_ONE_GO = 20  # subjects, without letting others have a turn
_SLOW_ROUNDS = 30  # between two looks at what changes slowly, though nothing has been read
_EVERY_ROUND = frozenset({About.DAEMON, About.WORKSPACE})
_OF_RUNS = frozenset({About.PIPELINE, About.FLOW_OR_PLAN})


class Read(Struct, frozen=True):
    """What the slow readings of a workspace had brought when a round looked at it."""

    schedules: tuple[ScheduleKnown, ...] = ()
    schedules_read_at: datetime | None = None
    outputs: tuple[OutputQuality, ...] = ()
    tokens: frozenset[str] = frozenset()


class Rounds:
    """Looks at what may have changed, and at all there is where nothing was looked at before."""

    def __init__(
        self, *, view: KnowledgeView, clock: Clock, looks_back: LooksBack, by_events: bool = False
    ) -> None:
        """``by_events``: nothing but events and new definitions ever changes what is known.

        Then whatever they do not touch is looked at only when its time has come.
        """
        self._view = view
        self._clock = clock
        self._looks_back = looks_back
        self._by_events = by_events
        self._touched: dict[str, Subject] = {}
        self.begin_anew()

    def begin_anew(self) -> None:
        """Look at everything with the next round, as after a start and with other rules."""
        self._looks_back.begin_anew()
        self._agenda = Agenda()
        self._sleeping = Sleeping()
        self._seen: set[Domain] = set()
        self._pipelines: set[tuple[str, PipelineKind, str]] = set()
        self._read: dict[str, Read] = {}
        self._running: dict[str, Running] = {}  # as they were at their last look
        self._number = 0
        self._is_new = True

    def touch(self, subject: Subject) -> None:
        """Look at the subject with the next round, because something was heard of it."""
        self._touched[key_of(subject)] = subject

    async def look(self, sitting: Sitting, evaluator: Evaluator) -> None:
        """Judge all that is to be judged now. What explains others comes first."""
        if self._is_new or self._number % _SLOW_ROUNDS == 0:
            retire(sitting, evaluator, self._view)
        await self._looks_back.judge(sitting, evaluator)
        vital = list(_vital(sitting, evaluator))
        for subject in vital:
            self._look(sitting, evaluator, subject, explaining=True)
        await self._pass_time(sitting, evaluator, explaining=True)
        sitting.suppress()
        due = self._due(sitting, evaluator)
        for number, subject in enumerate([*vital, *due], 1):
            self._look(sitting, evaluator, subject, explaining=False)
            if number % _IN_ONE_GO == 0:
                await self._clock.sleep(0)  # thousands must not hold up a callback
        await self._pass_time(sitting, evaluator, explaining=False)
        _note_firsts(sitting, evaluator, [*vital, *due])

    def changed(self, draft: Draft, evaluator: Evaluator) -> None:
        """Take note of what a step changed, once it is durable."""
        if self._by_events:
            self._sleeping.take(draft.changes(EPISODE), evaluator.rules, evaluator.pace)

    def wakes(self) -> Wakes:
        """Return when a look is worth it though nothing is heard. Asked of ``by_events`` only."""
        if self._is_new or self._touched:
            return Wakes(ours=datetime.min.replace(tzinfo=UTC))
        ours, theirs = [self._sleeping.next_at()], list[datetime | None]()
        for domain in self._agenda.domains():
            (theirs if domain[1] else ours).append(self._agenda.next_at(domain))
        return Wakes(
            ours=min((at for at in ours if at is not None), default=None),
            theirs=min((at for at in theirs if at is not None), default=None),
        )

    def has_looked(self) -> None:
        """Forget what was to be looked at; to be called once the look is durable."""
        self._touched.clear()
        self._is_new = False
        self._number += 1

    async def _pass_time(self, sitting: Sitting, evaluator: Evaluator, *, explaining: bool) -> None:
        # In an order that does not depend on what this process has lived through.
        episodes = sorted(self._stirring(sitting, evaluator), key=itemgetter(0))
        for number, (key, episode) in enumerate(episodes, 1):
            rule = evaluator.rules.get(episode.alert.name)
            if rule is not None and bool(rule.condition.explains) is explaining:
                evaluator.pass_time(sitting, key, episode, rule)
                if number % _IN_ONE_GO == 0:
                    await self._clock.sleep(0)

    def _stirring(self, sitting: Sitting, evaluator: Evaluator) -> Iterable[tuple[str, Episode]]:
        """Return the episodes that time may make something of."""
        draft = sitting.draft
        if not self._by_events or not sitting.suppression.is_idle:
            return draft.rows(EPISODE)
        if self._is_new:
            self._sleeping.take(draft.rows(EPISODE), evaluator.rules, evaluator.pace)
        keys = self._sleeping.awake(sitting.present.now)
        keys |= {key for key, _ in draft.changes(EPISODE)}
        rows = ((key, draft.get(EPISODE, key)) for key in keys)
        return [(key, episode) for key, episode in rows if episode is not None]

    def _look(
        self, sitting: Sitting, evaluator: Evaluator, subject: Subject, *, explaining: bool
    ) -> None:
        again: datetime | None = None
        number = sitting.draft.number
        traits = traits_of(self._view, subject)
        for rule in evaluator.compiled.looking(subject.about, traits):
            if bool(rule.condition.explains) is explaining:
                at = evaluator.look(sitting, Case(rule=rule, subject=subject))
                again = at if again is None or (at is not None and at < again) else again
        if self._by_events and sitting.draft.number != number:
            # With other memories rules may answer otherwise, though nothing else has changed.
            again = sitting.present.as_of(subject)
        if not explaining:
            self._agenda.put(_domain(sitting, subject), subject, again)

    def _due(self, sitting: Sitting, evaluator: Evaluator) -> list[Subject]:
        """Return the pipelines to be looked at in this round, each once."""
        due: dict[str, Subject] = dict(self._touched)
        for running in self._moved(sitting):
            due[key_of(running.subject)] = running.subject
        # What only events change was looked at when the newest of them was heard.
        is_all = self._is_new or not self._by_events
        for _, episode in sitting.draft.rows(EPISODE) if is_all else ():
            rule = evaluator.rules.get(episode.alert.name)
            if rule is None or rule.condition.look is None:
                continue
            if rule.condition.about not in _EVERY_ROUND:
                subject = subject_of(rule, episode.alert)
                due.setdefault(key_of(subject), subject)
        for subject in self._unseen(sitting):
            due.setdefault(key_of(subject), subject)
        for domain in self._agenda.domains():
            as_of = sitting.present.complete_of(*domain)
            if as_of is not None:
                for subject in self._agenda.take_due(domain, as_of):
                    due.setdefault(key_of(subject), subject)
        return [due[key] for key in sorted(due)]

    def _moved(self, sitting: Sitting) -> list[Running]:
        """Return those whose active runs are others than before, or were seen again since.

        Of the rest nothing becomes late but at the time that its rules have asked for.
        """
        present = sitting.present
        known = {
            key: running
            for key, running in present.running().items()
            if present.as_of(running.subject) is not None
        }
        before, self._running = self._running, known
        return [one for key, one in present.running().items() if before.get(key) != one]

    def _unseen(self, sitting: Sitting) -> Iterator[Subject]:
        """Yield what has not been looked at since the start, and what was edited."""
        complete = sitting.present.complete
        new = set(complete) - self._seen
        self._seen.update(new)
        if new:
            for one in self._view.standings():
                if (one.workspace, one.run_kind) in new:
                    yield of_run(RunKey(one.workspace, one.run_kind, ""), one.pipeline)
        if new or self._number % _SLOW_ROUNDS == 0:
            for named in self._view.pipelines():
                identity = (named.workspace, named.kind, named.id)
                if identity not in self._pipelines and self._is_seen(named.workspace, named.kind):
                    self._pipelines.add(identity)
                    pipeline = Pipeline(kind=named.kind, id=named.id, name=named.name)
                    yield of_pipeline(named.workspace, pipeline)
        for standing in self._view.workspaces():
            yield from self._news(standing)

    def _is_seen(self, workspace: str, kind: PipelineKind) -> bool:
        return (workspace, KINDS[kind][-1]) in self._seen

    def _news(self, standing: WorkspaceStanding) -> Iterator[Subject]:
        """Yield what a workspace's slow readings tell of, where they are new; also what is gone."""
        name, beyond = standing.workspace, standing.beyond
        before = self._read.get(name, Read())
        is_time = self._number % _SLOW_ROUNDS == 0
        is_read = before.schedules_read_at != standing.schedules_read_at
        if self._by_events:
            is_read = before.schedules is not standing.schedules
        if is_read:
            gone = {one.id: one for one in before.schedules}
            for schedule in (gone | {one.id: one for one in standing.schedules}).values():
                yield of_schedule(name, schedule)
                for pipeline in schedule.pipelines:
                    yield of_pipeline(name, pipeline)
        if is_time or before.outputs is not beyond.outputs:
            outputs = {one.id: one for one in (*before.outputs, *beyond.outputs)}
            for output in outputs.values():
                yield Subject(
                    about=About.OUTPUT, workspace=name, pipeline=output.pipeline, thing=output.id
                )
        tokens = frozenset(beyond.tokens.values if beyond.tokens is not None else ())
        for token_id in (
            sorted(tokens | before.tokens) if is_time or tokens != before.tokens else ()
        ):
            yield Subject(about=About.TOKEN, workspace=name, thing=token_id)
        self._read[name] = Read(
            schedules=standing.schedules,
            schedules_read_at=standing.schedules_read_at,
            outputs=beyond.outputs,
            tokens=tokens,
        )


def _vital(sitting: Sitting, evaluator: Evaluator) -> Iterable[Subject]:
    """Return what may explain all else, also what is there no more but still holds an episode."""
    vital = {key_of(one): one for one in sitting.present.vital()}
    for _, episode in sitting.draft.rows(EPISODE):
        rule = evaluator.rules.get(episode.alert.name)
        if rule is not None and rule.condition.about in _EVERY_ROUND:
            subject = subject_of(rule, episode.alert)
            vital.setdefault(key_of(subject), subject)
    return vital.values()


def _note_firsts(sitting: Sitting, evaluator: Evaluator, looked: Iterable[Subject]) -> None:
    """Note what has been judged now, so that what is wrong later was not there before."""
    present, seen = sitting.present, {(one.about, one.workspace) for one in looked}
    for rule in evaluator.compiled.rules:
        about = rule.condition.about
        if rule.condition.look is None:
            continue
        if about in _OF_RUNS:
            for (workspace, kind), at in present.complete.items():
                _note_first(sitting, first_key(rule, workspace, kind), at)
            continue
        for workspace in {one for other, one in seen if other is about}:
            subject = Subject(about=about, workspace=workspace)
            as_of = present.as_of(subject)
            if as_of is not None:
                key = first_key(rule, workspace, present.domain(subject))
                _note_first(sitting, key, as_of)


def _note_first(sitting: Sitting, key: str, at: datetime) -> None:
    if sitting.draft.get(FIRST, key) is None:
        sitting.draft.put(FIRST, key, FirstJudged(at=at))


def _domain(sitting: Sitting, subject: Subject) -> Domain:
    return subject.workspace, sitting.present.domain(subject)
