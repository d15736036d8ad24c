"""Runs a job group: it waits, its jobs work one after the other, and it ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from monitor.sandbox.running.destinations import (
    Destinator,
    RunOverrides,
    outputs_to_make,
    parameters_of_flow,
)
from monitor.sandbox.running.rhythm import work_factor
from monitor.sandbox.running.states import RunContext
from monitor.sandbox.world.lineage import dataset_ids_of
from monitor.sandbox.world.records.objects import Recipe
from monitor.sandbox.world.records.runs import (
    SAMPLING_LIKE,
    Job,
    JobGroup,
    NativeStatus,
    RanFor,
    RanFrom,
)

_ENGINE = "photon"
_CLOUD_ENGINE = "dataflow"
# Work that makes none of the recipe's outputs is one job.
_WITHOUT_RESULTS = {
    RanFor.SAMPLING: "wrangle",
    RanFor.REFRESH: "wrangle",
    RanFor.PENDING_DATASOURCE: "ingest",
    RanFor.PROFILE: "profile",
    RanFor.PUBLISH: "publish",
}
_ERRORS = (
    "Dataflow job failed: workers could not be started within the quota of the project",
    "Column 'amount' could not be converted to Decimal",
    "The connection was closed while reading the table",
    "Output path is not writable by the service account",
    "Executor lost: container exceeded its memory limit",
)


class Outcome(StrEnum):
    """How a job group is to end. ``hang`` never ends: its heartbeat stops.

    ``doubtful`` is reported as complete although one of its jobs failed.
    """

    COMPLETE = "complete"
    FAILED = "failed"
    CANCELED = "canceled"
    HANG = "hang"
    DOUBTFUL = "doubtful"


@dataclass(slots=True, kw_only=True)
class Order:
    """What the next ``count`` job groups that fit shall be like; None leaves it to chance.

    Seconds are of work: ``speed`` divides them.
    """

    count: int = 1
    flow_id: int | None = None
    recipe_id: int | None = None
    outcome: Outcome | None = None
    queue_seconds: float | None = None
    work_seconds: float | None = None
    error_message: str | None = None

    def fits(self, recipe: Recipe) -> bool:
        return self.flow_id in (None, recipe.flow_id) and self.recipe_id in (None, recipe.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fate:
    """What will become of one job group, decided when it is made."""

    outcome: Outcome
    queue_seconds: float
    step_seconds: float
    steps: int  # done until the end; fewer than all of them where it does not complete
    error_message: str
    silent_before: int | None = None  # the step, counted from the end, that comes late by a fault


class JobGroups:
    """Makes job groups and does their work."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._world, self._states, self._tasks = context.world, context.states, context.tasks
        self._destinator = Destinator(self._world)
        self._orders: list[Order] = []

    def order(self, order: Order) -> None:
        """Decide about job groups to come; earlier orders are served first."""
        self._orders.append(order)

    def start(
        self,
        recipe: Recipe,
        *,
        by: int,
        ran_from: RanFrom = RanFrom.UI,
        ran_for: RanFor = RanFor.RECIPE,
        profiling: bool = False,
        overrides: RunOverrides | None = None,
        flow_run_id: int | None = None,
        plan_run_id: int | None = None,
        fires_webhooks: bool = True,
        is_scheduled: bool | None = None,
    ) -> JobGroup:
        """Make a job group with its jobs, all ``Created``, and let it go; a sample by ``ran_for``.

        ``is_scheduled`` says whose outputs are made; None goes by ``ran_from``.
        """
        world = self._world
        job_group = world.create(
            JobGroup,
            by=by,
            flow_id=recipe.flow_id,
            recipe_id=recipe.id,
            ran_from=ran_from,
            ran_for=ran_for,
            profiling_enabled=profiling,
            unfit_values=world.options.unfit_values,
            flow_run_id=flow_run_id,
            plan_run_id=plan_run_id,
            fires_webhooks=fires_webhooks
            and (ran_for not in SAMPLING_LIKE or world.options.samples_fire_webhooks),
        )
        job_group.snapshot_id = 100_000 + job_group.id
        job_group.session_id = world.uuid("session", job_group.id)
        if is_scheduled is None:
            is_scheduled = ran_from is RanFrom.SCHEDULE
        self._equip(job_group, recipe, overrides or RunOverrides(), is_scheduled=is_scheduled)
        self._make_jobs(recipe, job_group)
        fate = self._fate(recipe, job_group)
        self._states.create(job_group)
        self._tasks.begin(f"job-group-{job_group.id}", lambda: self._work(job_group, fate))
        return job_group

    def _equip(
        self, job_group: JobGroup, recipe: Recipe, overrides: RunOverrides, *, is_scheduled: bool
    ) -> None:
        """Decide with what a job group runs, by the present state of its recipe and outputs."""
        world = self._world
        outputs = outputs_to_make(world, recipe, is_scheduled=is_scheduled)
        execution = outputs[0].execution if outputs else _ENGINE
        job_group.execution = overrides.execution or execution
        job_group.dataset_ids = dataset_ids_of(world, recipe)
        job_group.parameters = {
            **parameters_of_flow(world, recipe.flow_id),
            **overrides.parameters,
        }
        job_group.reference_date = overrides.reference_date
        if job_group.ran_for not in _WITHOUT_RESULTS:
            job_group.destinations = self._destinator.destinations(job_group, outputs, overrides)

    def _make_jobs(self, recipe: Recipe, job_group: JobGroup) -> None:
        for job_type in self._job_types(recipe, job_group):
            job = self._world.create(
                Job,
                by=job_group.creator_id,
                job_group_id=job_group.id,
                job_type=job_type,
                created_at=job_group.created_at,
            )
            if job_type in ("wrangle", "profile"):
                job.execution_language = job_group.execution
                job.cp_job_id = self._cloud_job_id(job)
            job_group.job_ids.append(job.id)

    def _cloud_job_id(self, job: Job) -> str | None:
        """Return what the cloud calls a job; only Dataflow has names of its own for them."""
        if job.execution_language != _CLOUD_ENGINE:
            return None
        number = self._world.random("cloud job", job.id).randrange(10**18, 10**19)
        return f"{job.created_at:%Y-%m-%d_%H_%M_%S}-{number}"

    def cancel(self, job_group: JobGroup, *, by: int | None = None) -> list[int]:
        """End an active job group as ``Canceled``; return the ids of the jobs that this stopped."""
        if not self._states.is_active(job_group):
            return []
        if by is not None:
            job_group.updater_id = by
        stopped = self._end_jobs(job_group, NativeStatus.CANCELED)
        self._states.end(job_group, NativeStatus.CANCELED)
        return stopped

    async def _work(self, job_group: JobGroup, fate: _Fate) -> None:
        await self._context.pause(fate.queue_seconds)
        self._states.begin(job_group)
        steps_left = fate.steps
        for job in self._world.jobs_of(job_group):
            if not self._states.is_active(job_group) or steps_left == 0:
                break
            self._begin_job(job)
            for step in range(min(self._context.settings.steps_per_job, steps_left)):
                await self._context.pause(fate.step_seconds)
                if steps_left == fate.silent_before:
                    await self._world.clock.sleep(self._world.options.stuck_seconds)
                if not self._states.is_active(job_group):
                    return
                steps_left -= 1
                self._beat(job, step + 1)
            if job.percent_complete == 100:  # noqa: PLR2004 - a percentage
                self._end_job(job, NativeStatus.COMPLETE)
        await self._end(job_group, fate)

    async def _end(self, job_group: JobGroup, fate: _Fate) -> None:
        if not self._states.is_active(job_group):
            return
        if fate.outcome is Outcome.HANG:
            await self._states.over(job_group)
        elif fate.outcome is Outcome.CANCELED:
            self.cancel(job_group)
        elif fate.outcome in (Outcome.FAILED, Outcome.DOUBTFUL):
            self._fail(job_group, fate.error_message)
            is_failed = fate.outcome is Outcome.FAILED
            status = NativeStatus.FAILED if is_failed else NativeStatus.COMPLETE
            self._states.end(job_group, status)
        else:
            self._states.end(job_group, NativeStatus.COMPLETE)

    def _fail(self, job_group: JobGroup, message: str) -> None:
        guilty = next(job for job in self._world.jobs_of(job_group) if not job.status.is_over)
        if guilty.started_at is None:
            self._begin_job(guilty)
        guilty.error_message = message
        self._end_job(guilty, NativeStatus.FAILED)
        self._end_jobs(job_group, NativeStatus.CANCELED)

    def _begin_job(self, job: Job) -> None:
        now = self._world.now()
        job.status = NativeStatus.IN_PROGRESS
        job.started_at = job.updated_at = job.last_heartbeat_at = now

    def _beat(self, job: Job, step: int) -> None:
        job.percent_complete = 100 * step // self._context.settings.steps_per_job
        job.updated_at = job.last_heartbeat_at = self._world.now()

    def _end_job(self, job: Job, status: NativeStatus) -> None:
        job.status = status
        job.finished_at = job.updated_at = self._world.now()

    def _end_jobs(self, job_group: JobGroup, status: NativeStatus) -> list[int]:
        unfinished = [job for job in self._world.jobs_of(job_group) if not job.status.is_over]
        for job in unfinished:
            self._end_job(job, status)
        return [job.id for job in unfinished]

    def _job_types(self, recipe: Recipe, job_group: JobGroup) -> list[str]:
        alone = _WITHOUT_RESULTS.get(job_group.ran_for)
        if alone is not None:
            return [alone]
        world = self._world
        destinations = job_group.destinations
        datasets = [world.imported_datasets.get(dataset_id_) for dataset_id_ in recipe.dataset_ids]
        types = ["sqlexecution" for sql_script in destinations.sql_scripts if sql_script.is_before]
        if any(dataset and dataset.connection_id for dataset in datasets):
            types.append("ingest")
        types.append("wrangle")
        if job_group.profiling_enabled:
            types.append("profile")
        types.extend("filewriter" for _ in destinations.write_settings)
        types.extend("publish" for _ in destinations.publications)
        types.extend(
            "sqlexecution" for sql_script in destinations.sql_scripts if not sql_script.is_before
        )
        return types

    def _fate(self, recipe: Recipe, job_group: JobGroup) -> _Fate:
        """Decide by the seed and the id, so that the order of other things does not matter."""
        settings = self._context.settings
        chance = self._world.random("fate", job_group.id)
        queue_seconds = chance.uniform(*settings.queue_seconds)
        work_seconds = chance.uniform(*settings.work_seconds)
        if settings.is_regular:
            work_seconds = self._regular_seconds(recipe, job_group)
        error_message = chance.choice(_ERRORS)
        outcome = self._outcome_by_chance(recipe, chance.random())
        all_steps = settings.steps_per_job * len(job_group.job_ids)
        steps_if_cut = chance.randrange(1, all_steps)  # at least one job is left unfinished
        order = self._take_order(recipe)
        if order is not None:
            outcome = order.outcome or outcome
            error_message = order.error_message or error_message
            queue_seconds = _given(order.queue_seconds, queue_seconds)
            work_seconds = _given(order.work_seconds, work_seconds)
        steps = all_steps if outcome is Outcome.COMPLETE else steps_if_cut
        return _Fate(
            outcome=outcome,
            queue_seconds=queue_seconds,
            step_seconds=work_seconds / steps,
            steps=steps,
            error_message=error_message,
            silent_before=self._silent_before(job_group, steps),
        )

    def _regular_seconds(self, recipe: Recipe, job_group: JobGroup) -> float:
        world = self._world
        flow = world.flows.get(recipe.flow_id, with_deleted=True)
        of_recipe = world.random("rhythm", recipe.id)
        phase, usual_seconds = (
            of_recipe.random(),
            of_recipe.uniform(*self._context.settings.work_seconds),
        )
        if flow is not None and flow.usual_seconds is not None:
            usual_seconds = flow.usual_seconds
        of_run = world.random("rhythm", recipe.id, job_group.id)
        return usual_seconds * work_factor(job_group.created_at, phase=phase, of_run=of_run)

    def _silent_before(self, job_group: JobGroup, steps: int) -> int | None:
        chance = self._world.struck("stuck_runs", job_group.id)
        return None if chance is None else chance.randrange(1, steps + 1)

    def _outcome_by_chance(self, recipe: Recipe, drawn: float) -> Outcome:
        flow = self._world.flows.get(recipe.flow_id, with_deleted=True)
        failure_ratio = self._context.settings.failure_factor * (
            flow.failure_ratio if flow else 0.0
        )
        if drawn < failure_ratio:
            return Outcome.FAILED
        if drawn < failure_ratio + self._context.settings.cancel_ratio:
            return Outcome.CANCELED
        return Outcome.COMPLETE

    def _take_order(self, recipe: Recipe) -> Order | None:
        for order in self._orders:
            if order.fits(recipe):
                order.count -= 1
                if order.count <= 0:
                    self._orders.remove(order)
                return order
        return None


def _given(ordered: float | None, drawn: float) -> float:
    return drawn if ordered is None else ordered
