"""What the newest ended runs of each pipeline were like; job groups by recipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from monitor.bus.contract import EventBus, Note
from monitor.model.knowledge import PipelineStanding
from monitor.model.runs import RunKey, RunKind, RunState, Status
from monitor.tracking.knowledge import Knowledge, StandingId

STANDING = "standing"  # topic of the notes that keep them over a restart


class Standings:
    """Keeps `Knowledge.standings` true: durable with the run that changed it."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    async def load(self, bus: EventBus, workspace: str) -> None:
        """Read back what earlier runs left."""
        for value in (await bus.notes(workspace, STANDING)).values():
            standing = msgspec.json.decode(value, type=PipelineStanding)
            self._knowledge.standings[_identity(standing)] = standing
            pipeline = standing.pipeline
            self._knowledge.name_pipeline(workspace, pipeline.kind, pipeline.id, pipeline.name)

    def notes(
        self, runs: Iterable[RunState], before: Mapping[RunKey, RunState]
    ) -> tuple[Note, ...]:
        """Return the notes that belong into the commit of these runs."""
        return tuple(
            Note(
                workspace=standing.workspace,
                topic=STANDING,
                key=f"{standing.run_kind}/{standing.pipeline.id}/{standing.recipe_id or ''}",
                value=msgspec.json.encode(standing),
            )
            for standing in self._changed(runs, before).values()
        )

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
            identity = (
                run.key.workspace,
                run.key.kind,
                run.pipeline.id,
                _recipe_id(run),
            )
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
    if run.pipeline is None:
        return held
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
    was_counted = before is not None and before.status.is_terminal and before.pipeline is not None
    return _after_an_end(standing, run, was_counted=was_counted)


def _after_an_end(
    standing: PipelineStanding, run: RunState, *, was_counted: bool
) -> PipelineStanding:
    ended_at = run.finished_at or run.updated_at or run.confirmed_at
    last_success_at = standing.last_success_at
    is_after_success = last_success_at is None or ended_at > last_success_at
    is_newest = standing.last_finished_at is None or ended_at >= standing.last_finished_at
    failures = standing.consecutive_failures
    is_refined = was_counted and standing.last_run_id == run.key.id
    if run.status is Status.SUCCEEDED and (is_after_success or is_refined):
        last_success_at = ended_at
        failures = 0 if is_newest else failures
    elif run.status is Status.FAILED and is_after_success and not was_counted:
        failures += 1
    standing = msgspec.structs.replace(
        standing, last_success_at=last_success_at, consecutive_failures=failures
    )
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


def _recipe_id(run: RunState) -> str | None:
    is_job_group = run.key.kind is RunKind.JOB_GROUP
    return run.recipe.id if is_job_group and run.recipe is not None else None


def _identity(standing: PipelineStanding) -> StandingId:
    return standing.workspace, standing.run_kind, standing.pipeline.id, standing.recipe_id
