"""The results of the newest ended runs of each pipeline; job groups by recipe."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import msgspec

from monitor.bus.contract import EventBus, StateEntry, decode_entries
from monitor.model.ends import run_end
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import (
    Implausible,
    Pipeline,
    PipelineKind,
    RunKey,
    RunKind,
    RunState,
    Status,
)
from monitor.tracking.kept_ends import with_end_of_run, without_end_of_run
from monitor.tracking.live_state import HealthId, LiveState

HEALTH = "pipeline_health"  # topic of its state entries

# The pipelines that a workspace listed and then denied, with when that was (its time).
FoundGone = Mapping[tuple[PipelineKind, str], datetime]
ChangedHealth = Mapping[HealthId, PipelineHealth]
_DECODER = msgspec.json.Decoder(PipelineHealth)


def show_health(live_state: LiveState, entries: Mapping[str, bytes]) -> None:
    """Show what is stored under topic `HEALTH`, and name those pipelines."""
    for health in decode_entries(entries, _DECODER, topic=HEALTH).values():
        live_state.pipeline_health[_identity(health)] = health
        pipeline = health.pipeline
        live_state.name_pipeline(health.workspace, pipeline.kind, pipeline.id, pipeline.name)


class PipelineHealthTracker:
    """Keeps `LiveState.pipeline_health` true: durable with the run that changed it."""

    def __init__(self, live_state: LiveState) -> None:
        self._live_state = live_state

    async def load(self, bus: EventBus, workspace: str) -> None:
        """Read back what earlier runs left."""
        show_health(self._live_state, await bus.state_entries(workspace, HEALTH))

    def state_entries(self, changed: ChangedHealth) -> tuple[StateEntry, ...]:
        """Return the state entries that belong into the commit of the runs that changed these."""
        return tuple(
            _state_entry(health, msgspec.json.encode(health)) for health in changed.values()
        )

    def removal(
        self, workspace: str, kind: PipelineKind, pipeline_id: str
    ) -> tuple[StateEntry, ...]:
        """Return the state entries that delete what is kept of one pipeline."""
        return tuple(
            _state_entry(health, None)
            for health in self._live_state.pipeline_health.values()
            if health.workspace == workspace
            and (health.pipeline.kind, health.pipeline.id) == (kind, pipeline_id)
        )

    def idle(
        self, workspace: str, *, before: datetime, listed: Collection[tuple[PipelineKind, str]]
    ) -> list[PipelineHealth]:
        """Return what nothing has moved since ``before`` and that stands for nothing present.

        That is a pipeline that is neither ``listed`` nor running, or a recipe beside another one
        that is still used.
        """
        own = [
            health
            for health in self._live_state.pipeline_health.values()
            if health.workspace == workspace
        ]
        busy = self.busy(workspace, before)
        used = {(run.run_kind, run.pipeline.id) for run in own if _moved_since(run, before)}
        return [
            run
            for run in own
            if not _moved_since(run, before)
            and (
                _pipeline_id(run.pipeline) not in busy.union(listed)
                or (run.recipe_id is not None and (run.run_kind, run.pipeline.id) in used)
            )
        ]

    def busy(
        self, workspace: str, since: datetime, gone: FoundGone | None = None
    ) -> set[tuple[PipelineKind, str]]:
        """Return the pipelines that run, or with a run that has moved since (workspace time).

        Of what is in ``gone`` a run must have started after the time there.
        """
        moved = {
            _pipeline_id(health.pipeline)
            for health in self._live_state.pipeline_health.values()
            if health.workspace == workspace
            and _moved_since(health, since)
            and _is_back(health, gone)
        }
        return moved | self._live_state.running_pipelines(workspace)

    def pipelines(self, workspace: str) -> set[tuple[PipelineKind, str]]:
        """Return the pipelines with anything kept."""
        pipeline_health = self._live_state.pipeline_health.values()
        return {
            _pipeline_id(health.pipeline)
            for health in pipeline_health
            if health.workspace == workspace
        }

    def removal_of(self, pipeline_health: Iterable[PipelineHealth]) -> tuple[StateEntry, ...]:
        """Return the state entries that delete these."""
        return tuple(_state_entry(health, None) for health in pipeline_health)

    def drop(self, pipeline_health: Iterable[PipelineHealth]) -> None:
        """Forget these, once their deletion is durable."""
        for health in pipeline_health:
            self._live_state.pipeline_health.pop(_identity(health), None)

    def learn(self, runs: Iterable[RunState], before: Mapping[RunKey, RunState]) -> None:
        """Overwrite the health that these runs change, which were known as ``before``."""
        self.overwrite(self.changed(runs, before))

    def overwrite(self, changed: ChangedHealth) -> None:
        """Overwrite what runs have changed, once their commit has returned."""
        self._live_state.pipeline_health.update(changed)

    def changed(self, runs: Iterable[RunState], before: Mapping[RunKey, RunState]) -> ChangedHealth:
        """Return the health that these runs change, which were known as ``before``."""
        changed: dict[HealthId, PipelineHealth] = {}
        for run in runs:
            if run.pipeline is None or run == before.get(run.key):
                continue
            former = before.get(run.key)
            if former is not None and is_known_end(former, run) and not _is_counted(former, run):
                # Its recipe has become known: the end leaves what was kept of no recipe.
                elsewhere = self._health(changed, former)
                if elsewhere is not None:
                    left = without_end_of_run(elsewhere, run.key.id)
                    changed[_identity(left)] = left
            known = self._health(changed, run)
            after = fold(known, run, former)
            if after is not None and after != known:
                changed[_identity(after)] = after
        return changed

    def _health(self, changed: ChangedHealth, run: RunState) -> PipelineHealth | None:
        if run.pipeline is None:
            return None
        identity = run.key.workspace, run.key.kind, run.pipeline.id, _recipe_id(run)
        return changed.get(identity) or self._live_state.pipeline_health.get(identity)


def fold(
    known: PipelineHealth | None, run: RunState, before: RunState | None
) -> PipelineHealth | None:
    """Return the health after one run became what it is now; None where nothing is known yet.

    ``before`` is the same run as it was known until now. An end that only a callback reported
    changes nothing.
    """
    if run.pipeline is None or (known is None and _is_counted(before, run)):
        return known  # of what was forgotten a late detail brings nothing back
    health = known or PipelineHealth(
        workspace=run.key.workspace,
        run_kind=run.key.kind,
        pipeline=run.pipeline,
        recipe_id=_recipe_id(run),
    )
    begun_at = _begun_at(run, is_new=before is None)
    if begun_at is not None and run.status is not Status.PENDING:
        newest = max(begun_at, health.last_started_at or begun_at)
        health = msgspec.structs.replace(health, last_started_at=newest)
    end = run_end(run)
    if end is None or run.unconfirmed_end is not None:
        return health
    counted = before.status if before is not None and _is_counted(before, run) else None
    after = with_end_of_run(health, end, before=counted)
    is_last = after.last_run_id == run.key.id
    return msgspec.structs.replace(after, pipeline=run.pipeline) if is_last else after


def _begun_at(run: RunState, *, is_new: bool) -> datetime | None:
    """Return when the run began. A start in the future is when it was first seen, and no later."""
    # Job groups and flow runs report no start; their creation is the nearest stamp.
    begun_at, seen_at = run.started_at or run.created_at, run.end_seen_at or run.unfinished_at
    if begun_at is None or seen_at is None or begun_at <= seen_at:
        return begun_at
    if Implausible.IN_THE_FUTURE not in run.implausible:
        return begun_at
    return seen_at if is_new else None


def is_known_end(before: RunState | None, run: RunState) -> bool:
    """True where it was known before that a run of that pipeline had ended."""
    return (
        before is not None
        and before.status.is_terminal
        and before.unconfirmed_end is None
        and before.pipeline is not None
        and run.pipeline is not None
        and before.pipeline.id == run.pipeline.id
    )


def _is_counted(before: RunState | None, run: RunState) -> bool:
    """True where the run has already brought its end into the same health."""
    if before is None or not is_known_end(before, run):
        return False
    return _recipe_id(before) == _recipe_id(run)


def _moved_since(health: PipelineHealth, instant: datetime) -> bool:
    moves = (health.last_started_at, health.last_finished_at)
    return any(at is not None and at >= instant for at in moves)


def _is_back(health: PipelineHealth, gone: FoundGone | None) -> bool:
    """True where it was not found gone, or has started since."""
    started_at, gone_at = health.last_started_at, (gone or {}).get(_pipeline_id(health.pipeline))
    return gone_at is None or (started_at is not None and started_at > gone_at)


def _pipeline_id(pipeline: Pipeline) -> tuple[PipelineKind, str]:
    return pipeline.kind, pipeline.id


def _recipe_id(run: RunState) -> str | None:
    is_job_group = run.key.kind is RunKind.JOB_GROUP
    return run.recipe.id if is_job_group and run.recipe is not None else None


def _state_entry(health: PipelineHealth, value: bytes | None) -> StateEntry:
    return StateEntry(
        workspace=health.workspace,
        topic=HEALTH,
        key=f"{health.run_kind}/{health.pipeline.id}/{health.recipe_id or ''}",
        value=value,
    )


def _identity(health: PipelineHealth) -> HealthId:
    return health.workspace, health.run_kind, health.pipeline.id, health.recipe_id
