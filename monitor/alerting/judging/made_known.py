"""What failed before anybody could say of which pipeline is told under no name, and ends under one.

The next success of that pipeline is heard under its name, so it would never end such an alert.
Neither is the failure told again when its pipeline becomes known: the alert goes on as it was
told, until every failure in it was settled by a later success of its own pipeline, was followed by
a failure that is told under the name, or is of a pipeline that is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from monitor.alerting.compiled import Rule
from monitor.alerting.episodes.draft import EPISODE, MEMORY, Draft
from monitor.alerting.episodes.labels import subject_of
from monitor.alerting.episodes.lifecycle import Episode
from monitor.alerting.judging.evaluation import Case, Evaluator, Sitting, end, memory_key
from monitor.alerting.judging.retiring import Gone
from monitor.alerting.settings.rules import RuleKind
from monitor.alerting.store import Store
from monitor.alerting.verdicts import PIPELINE_REMOVED, About
from monitor.model.knowledge import PipelineStanding
from monitor.model.runs import RunKey, RunKind, RunState
from monitor.tracking.knowledge import KnowledgeView

_KINDS = frozenset(RunKind)
_WORDS_OF_A_RUN = 3
PIPELINE_KNOWN = "pipeline known since, and run again"


class MadeKnown:
    """Asks the store for the pipelines of such failures; costs nothing where there are none."""

    def __init__(self, evaluator: Evaluator, *, view: KnowledgeView) -> None:
        self._evaluator = evaluator
        self._view = view
        self._runs: dict[RunKey, RunState] = {}

    async def prepare(self, draft: Draft, bus: Store) -> None:
        """Learn what is known by now of what failed.

        Raises:
            BusUnavailableError: the store does not answer.
        """
        wanted = {run for _, one, _ in self._nameless(draft) for run in _runs_of(one)}
        self._runs = await bus.runs(wanted) if wanted else {}

    def end_settled(self, sitting: Sitting) -> None:
        """End the alerts whose failures all have a name, and are settled under it."""
        known = [run for run in self._runs.values() if run.pipeline is not None]
        if not known:
            return
        gone = Gone(self._view)
        lost = {one.key for one in known if gone.why(one.key.workspace, one.pipeline) is not None}
        later = {one.key: self._ends_of(one) for one in known}
        for key, episode, rule in list(self._nameless(sitting.draft)):
            failed = _runs_of(episode)
            if failed and all(
                one in lost or (one in later and _is_settled(self._runs[one], later[one], rule))
                for one in failed
            ):
                end(sitting, key, episode, PIPELINE_REMOVED if failed <= lost else PIPELINE_KNOWN)
                case = Case(rule=rule, subject=subject_of(rule, episode.alert))
                sitting.draft.put(MEMORY, memory_key(case), None)

    def _nameless(self, draft: Draft) -> Iterator[tuple[str, Episode, Rule]]:
        """Yield what is open, is of no pipeline, and ends by nothing but events of runs."""
        for key, episode in draft.rows(EPISODE):
            if not episode.is_open or episode.alert.pipeline is not None:
                continue
            rule = self._evaluator.rules.get(episode.alert.name)
            if rule is None or rule.condition.about is not About.PIPELINE:
                continue
            if rule.condition.look is None:
                yield key, episode, rule

    def _ends_of(self, run: RunState) -> list[PipelineStanding]:
        """Return how the newest runs have ended that can settle this one."""
        pipeline, recipe = run.pipeline, run.recipe
        is_part = run.key.kind is RunKind.JOB_GROUP and recipe is not None
        return [
            one
            for one in self._view.standings()
            if (one.workspace, one.run_kind) == (run.key.workspace, run.key.kind)
            and pipeline is not None
            and (one.pipeline.kind, one.pipeline.id) == (pipeline.kind, pipeline.id)
            and (not is_part or recipe is None or one.recipe_id == recipe.id)
        ]


def _runs_of(episode: Episode) -> set[RunKey]:
    """Return the runs of which an alert's evidence tells."""
    told = (one.rpartition(":")[0].split(":", 2) for one in episode.alert.evidence)
    return {
        RunKey(workspace=one[0], kind=RunKind(one[1]), id=one[2])
        for one in told
        if len(one) == _WORDS_OF_A_RUN and one[1] in _KINDS
    }


def _is_settled(run: RunState, later: Collection[PipelineStanding], rule: Rule) -> bool:
    at = run.finished_at or run.updated_at or run.confirmed_at
    if any(one.last_success_at is not None and one.last_success_at > at for one in later):
        return True
    # Only this rule tells each first failure under the name; others may not tell it at all.
    return rule.settings.rule is RuleKind.RUN_FAILED and any(
        _has_failed_after(one, at) for one in later
    )


def _has_failed_after(standing: PipelineStanding, at: datetime) -> bool:
    return any(failed_at > at for failed_at in standing.failed_at)
