"""Data quality of the outputs of ended job groups, as their profiles show it."""

from __future__ import annotations

from heapq import nlargest

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import TryLaterError, UnauthorizedError, WorkspaceError
from monitor.model.inventory import OutputQuality, ValueCounts
from monitor.model.live_state import PipelineHealth
from monitor.model.runs import RunKey, RunKind, Status
from monitor.polling.inventory.inventory_poll import inventory_poll
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll
from monitor.polling.poll_loop.reads import is_about_the_object
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_WAIT_SECONDS = 300.0  # after everything that matters more

Output = tuple[str, str]  # pipeline, recipe


class Profiles:
    """Reads the profile of each output's newest successful run, once.

    A run without a profile leaves the quality of the one before.
    """

    def __init__(self, context: PollContext, *, at_once: int, outputs: int) -> None:
        self._context = context
        self._at_once = at_once
        self._outputs = outputs
        self._read: dict[Output, str] = {}  # the run whose profile was requested last
        self._attempts: dict[Output, int] = {}  # failed ones, of the run that is due
        self._qualities: dict[Output, OutputQuality] = {}

    def declared(self) -> tuple[Poll, ...]:
        return (
            inventory_poll(
                self._context,
                "profiles",
                self.poll,
                forget=self.forget,
                needs=Capability.READ_PROFILES,
            ),
        )

    async def poll(self) -> bool:
        """Read the profiles that are new; return whether a request was sent.

        Raises:
            WorkspaceError: the workspace cannot be read now and the rest is read next time; or
                some profiles cannot be read, and all others have been.
        """
        newest = self._newest()
        self._qualities = {
            output: quality for output, quality in self._qualities.items() if output in newest
        }
        self._read = {output: run_id for output, run_id in self._read.items() if output in newest}
        due = [output for output, health in newest.items() if self._is_due(output, health)]
        self._attempts = {
            output: attempts for output, attempts in self._attempts.items() if output in due
        }
        # What failed before comes last: many that fail must not use up the reads of the others.
        due.sort(key=lambda output: self._attempts.get(output, 0))
        failure: WorkspaceError | None = None
        try:
            for output in due[: self._at_once]:
                failure = await self._try(output, newest[output]) or failure
        finally:
            self._context.update_inventory(outputs=tuple(self._qualities.values()))
        if failure is not None:
            raise failure
        return bool(due)

    async def _try(self, output: Output, health: PipelineHealth) -> WorkspaceError | None:
        """Read one profile; return its failure until it has failed too often to be tried again."""
        try:
            await self._read_profile(output, health)
        except TryLaterError as error:
            if not is_about_the_object(error):
                raise
            attempts = self._attempts.get(output, 0) + (not self._context.is_unreachable())
            self._attempts[output] = attempts
            if attempts < self._context.settings.attempts:
                return error
            log.warning(
                "profile given up",
                workspace=self._context.name,
                run=health.last_run_id,
                reason=str(error),
            )
            self._read[output] = str(health.last_run_id)
        return None

    def forget(self) -> None:
        self._read = {}  # so that all is read again, should profiles come back
        self._qualities = {}
        self._context.update_inventory(outputs=())

    def _newest(self) -> dict[Output, PipelineHealth]:
        """Return the health of each output; of very many those that were made last."""
        pipeline_health = [
            health
            for health in self._context.live_state.pipeline_health.values()
            if health.workspace == self._context.name
            and health.run_kind is RunKind.JOB_GROUP
            and health.recipe_id is not None
        ]
        newest = nlargest(self._outputs, pipeline_health, key=_finished)
        return {(output.pipeline.id, str(output.recipe_id)): output for output in newest}

    def _is_due(self, output: Output, health: PipelineHealth) -> bool:
        run_id = health.last_run_id
        if run_id is None or health.last_status is not Status.SUCCEEDED:
            return False
        return self._read.get(output) != run_id

    async def _read_profile(self, output: Output, health: PipelineHealth) -> None:
        run_id = str(health.last_run_id)
        try:
            profile = await self._context.client.inventory.profile(run_id)
        except (TryLaterError, UnauthorizedError):
            raise
        except WorkspaceError as error:
            if error.operation_id in self._context.client.requester.unavailable:
                raise
            # Most often it ran without a profile, which the API answers with a refusal.
            log.debug(
                "run has no profile", workspace=self._context.name, run=run_id, reason=str(error)
            )
        else:
            counts = ValueCounts(
                valid=profile.valid, mismatched=profile.mismatched, missing=profile.missing
            )
            self._qualities[output] = OutputQuality(
                pipeline=health.pipeline,
                id=output[1],
                name=await self._name(output, run_id),
                run_id=run_id,
                counts=counts,
            )
        self._read[output] = run_id

    async def _name(self, output: Output, run_id: str) -> str | None:
        """Return the recipe's name, for which lists that leave it out cost one read."""
        key = RunKey(workspace=self._context.name, kind=RunKind.JOB_GROUP, id=run_id)
        run = (await self._context.observer.known((key,))).get(key)
        if run is not None and run.recipe is not None and run.recipe.name is not None:
            return run.recipe.name
        before = self._qualities.get(output)
        if before is not None and before.name is not None:
            return before.name
        return await self._read_name(run_id)

    async def _read_name(self, run_id: str) -> str | None:
        context = self._context
        if not context.can(Capability.FOLLOW_BY_ID):
            return None
        try:
            row = await context.client.runs.job_group(
                run_id, with_flow=True, priority=Priority.INVENTORY, wait_seconds=_WAIT_SECONDS
            )
        except WorkspaceError as error:
            # The figures are worth showing without it; the output then goes by its id.
            log.debug(
                "recipe name not readable", workspace=context.name, run=run_id, reason=str(error)
            )
            return None
        return row.recipe_name


def _finished(health: PipelineHealth) -> float:
    at = health.last_finished_at
    return 0.0 if at is None else at.timestamp()
