"""What the newest ended runs of each pipeline were like; job groups by recipe."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import msgspec

from monitor.bus.contract import EventBus, Note, legible
from monitor.model.knowledge import PipelineStanding
from monitor.model.runs import Pipeline, PipelineKind, RunKey, RunKind, RunState, Status
from monitor.tracking.knowledge import Knowledge, StandingId

STANDING = "standing"  # topic of the notes that keep them over a restart

_FAILURES_KEPT = 50
_DECODER = msgspec.json.Decoder(PipelineStanding)


class Standings:
    """Keeps `Knowledge.standings` true: durable with the run that changed it."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    async def load(self, bus: EventBus, workspace: str) -> None:
        """Read back what earlier runs left."""
        noted = await bus.notes(workspace, STANDING)
        for standing in legible(noted, _DECODER, topic=STANDING).values():
            self._knowledge.standings[_identity(standing)] = standing
            pipeline = standing.pipeline
            self._knowledge.name_pipeline(workspace, pipeline.kind, pipeline.id, pipeline.name)

    def notes(
        self, runs: Iterable[RunState], before: Mapping[RunKey, RunState]
    ) -> tuple[Note, ...]:
        """Return the notes that belong into the commit of these runs."""
        return tuple(
            _note(standing, msgspec.json.encode(standing))
            for standing in self._changed(runs, before).values()
        )

    def removal(self, workspace: str, kind: PipelineKind, pipeline_id: str) -> tuple[Note, ...]:
        """Return the notes that delete what is kept of one pipeline."""
        return tuple(
            _note(standing, None)
            for standing in self._knowledge.standings.values()
            if standing.workspace == workspace
            and (standing.pipeline.kind, standing.pipeline.id) == (kind, pipeline_id)
        )

    def idle(
        self, workspace: str, *, before: datetime, listed: Collection[tuple[PipelineKind, str]]
    ) -> list[PipelineStanding]:
        """Return what nothing has moved since ``before`` and that stands for nothing present.

        That is a pipeline that is neither ``listed`` nor running, or a recipe beside another one
        that is still used.
        """
        own = [one for one in self._knowledge.standings.values() if one.workspace == workspace]
        busy = self.busy(workspace, since=before)
        used = {(one.run_kind, one.pipeline.id) for one in own if _moved_since(one, before)}
        return [
            one
            for one in own
            if not _moved_since(one, before)
            and (
                _pipeline_id(one.pipeline) not in busy.union(listed)
                or (one.recipe_id is not None and (one.run_kind, one.pipeline.id) in used)
            )
        ]

    def busy(self, workspace: str, *, since: datetime) -> set[tuple[PipelineKind, str]]:
        """Return the pipelines that run, or of which a run has moved since."""
        moved = {
            _pipeline_id(one.pipeline)
            for one in self._knowledge.standings.values()
            if one.workspace == workspace and _moved_since(one, since)
        }
        return moved | self._knowledge.running_pipelines(workspace)

    def pipelines(self, workspace: str) -> set[tuple[PipelineKind, str]]:
        """Return the pipelines of which anything is kept."""
        standings = self._knowledge.standings.values()
        return {_pipeline_id(one.pipeline) for one in standings if one.workspace == workspace}

    def removal_of(self, standings: Iterable[PipelineStanding]) -> tuple[Note, ...]:
        """Return the notes that delete these."""
        return tuple(_note(standing, None) for standing in standings)

    def drop(self, standings: Iterable[PipelineStanding]) -> None:
        """Forget these, once their deletion is durable."""
        for standing in standings:
            self._knowledge.standings.pop(_identity(standing), None)

    def learn(self, runs: Iterable[RunState], before: Mapping[RunKey, RunState]) -> None:
        """Overwrite the standings that these runs changed, once their commit has returned."""
        self._knowledge.standings.update(self._changed(runs, before))

    def _changed(
        self, runs: Iterable[RunState], before: Mapping[RunKey, RunState]
    ) -> dict[StandingId, PipelineStanding]:
        changed: dict[StandingId, PipelineStanding] = {}
        for run in runs:
            if run.pipeline is None or run == before.get(run.key):
                continue
            identity = run.key.workspace, run.key.kind, run.pipeline.id, _recipe_id(run)
            held = changed.get(identity) or self._knowledge.standings.get(identity)
            after = fold(held, run, before.get(run.key))
            if after is not None and after != held:
                changed[identity] = after
        return changed


def fold(
    held: PipelineStanding | None, run: RunState, before: RunState | None
) -> PipelineStanding | None:
    """Return the standing after one run became what it is now; None where nothing is told yet.

    ``before`` is the same run as it was known until now. A run that ended before the one that
    ended last changes only what it can: a late success or failure still counts.
    """
    if run.pipeline is None or (held is None and _is_counted(before, run)):
        return held  # of what was forgotten a late detail brings nothing back
    standing = held or PipelineStanding(
        workspace=run.key.workspace,
        run_kind=run.key.kind,
        pipeline=run.pipeline,
        recipe_id=_recipe_id(run),
    )
    # Job groups and flow runs report no start; their creation is the nearest stamp.
    begun_at = run.started_at or run.created_at
    if begun_at is not None and run.status is not Status.PENDING:
        newest = max(begun_at, standing.last_started_at or begun_at)
        standing = msgspec.structs.replace(standing, last_started_at=newest)
    if not run.status.is_terminal:
        return standing
    return _after_an_end(standing, run, before if _is_counted(before, run) else None)


def is_known_end(before: RunState | None, run: RunState) -> bool:
    """True where it was known before that a run of that pipeline had ended."""
    return (
        before is not None
        and before.status.is_terminal
        and before.pipeline is not None
        and run.pipeline is not None
        and before.pipeline.id == run.pipeline.id
    )


def _is_counted(before: RunState | None, run: RunState) -> bool:
    """True where the run has already brought its end into the same standing."""
    if before is None or not is_known_end(before, run):
        return False
    return _recipe_id(before) == _recipe_id(run)


def _after_an_end(
    standing: PipelineStanding, run: RunState, counted: RunState | None
) -> PipelineStanding:
    """``counted`` is the same end as it was told before, None where it is new."""
    ended_at = _ended_at(run)
    is_newest = standing.last_finished_at is None or ended_at >= standing.last_finished_at
    is_refined = counted is not None and standing.last_run_id == run.key.id
    if run.status is Status.SUCCEEDED:
        standing = _with_success(standing, ended_at, is_refined=is_refined)
    elif run.status is Status.FAILED:
        standing = _with_failure(standing, ended_at, _ended_at(counted) if counted else None)
    if not is_newest and not is_refined:
        return standing
    return msgspec.structs.replace(
        standing,
        pipeline=run.pipeline,
        last_finished_at=ended_at,
        last_status=run.status,
        last_duration_seconds=run.duration_seconds,
        last_run_id=run.key.id,
    )


def _ended_at(run: RunState) -> datetime:
    return run.finished_at or run.updated_at or run.confirmed_at


def _with_success(
    standing: PipelineStanding, ended_at: datetime, *, is_refined: bool
) -> PipelineStanding:
    last = standing.last_success_at
    if last is not None and ended_at <= last and not is_refined:
        return standing
    later = tuple(at for at in standing.failed_at if at > ended_at)
    return msgspec.structs.replace(
        standing, last_success_at=ended_at, consecutive_failures=len(later), failed_at=later
    )


def _with_failure(
    standing: PipelineStanding, ended_at: datetime, counted_at: datetime | None
) -> PipelineStanding:
    failures, ends = standing.consecutive_failures, list(standing.failed_at)
    if counted_at is not None:
        if counted_at not in ends:
            return standing
        ends.remove(counted_at)
        failures -= 1
    if standing.last_success_at is None or ended_at > standing.last_success_at:
        ends.append(ended_at)
        failures += 1
    kept = tuple(sorted(ends)[-_FAILURES_KEPT:])
    return msgspec.structs.replace(standing, consecutive_failures=failures, failed_at=kept)


def _moved_since(standing: PipelineStanding, instant: datetime) -> bool:
    moves = (standing.last_started_at, standing.last_finished_at, standing.last_success_at)
    return any(at is not None and at >= instant for at in moves)


def _pipeline_id(pipeline: Pipeline) -> tuple[PipelineKind, str]:
    return pipeline.kind, pipeline.id


def _recipe_id(run: RunState) -> str | None:
    is_job_group = run.key.kind is RunKind.JOB_GROUP
    return run.recipe.id if is_job_group and run.recipe is not None else None


def _note(standing: PipelineStanding, value: bytes | None) -> Note:
    return Note(
        workspace=standing.workspace,
        topic=STANDING,
        key=f"{standing.run_kind}/{standing.pipeline.id}/{standing.recipe_id or ''}",
        value=value,
    )


def _identity(standing: PipelineStanding) -> StandingId:
    return standing.workspace, standing.run_kind, standing.pipeline.id, standing.recipe_id
