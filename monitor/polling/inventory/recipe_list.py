"""Names of recipes; lists of job groups show no more than their ids."""

from __future__ import annotations

import structlog

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import (
    NoSuchObjectError,
    NotAvailableError,
    RequestRejectedError,
)
from monitor.model.slices import in_slices
from monitor.polling.job_groups.enrichment import RecipeNames
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll, every
from monitor.workspace.priority import Priority

log = structlog.get_logger()

_FIRST_AFTER_SECONDS = 20.0  # when the first lists of runs are mostly read
_RENAMED_SECONDS = 86_400.0  # after which all are listed again, because some may be renamed
_SLICE = 500  # of the health of 10,000 pipelines and each recipe of them


class RecipeList:
    """Lists the recipes where some have run whose names are not known, and once a day."""

    def __init__(self, context: PollContext, recipes: RecipeNames) -> None:
        self._context = context
        self._recipes = recipes
        self._unlisted: set[str] = set()  # the list lacks them, or does not name them
        self._listed_at: float | None = None  # monotonic

    def declared(self) -> tuple[Poll, ...]:
        settings = self._context.settings
        return (
            Poll(
                name="recipes",
                priority=Priority.NAMES,
                timing=every(
                    settings.names_seconds,
                    first_after_seconds=min(settings.names_seconds, _FIRST_AFTER_SECONDS),
                ),
                run=self.poll,
                needs=Capability.LIST_FLOWS,
            ),
        )

    async def poll(self) -> bool:
        """List the recipes, where that can show a name. Return False where it cannot.

        Raises:
            MonitorError: the list cannot be read now.
        """
        unnamed = await self._unnamed()
        now = self._context.clock.monotonic()
        is_due = self._listed_at is None or now - self._listed_at >= _RENAMED_SECONDS
        if unnamed <= self._unlisted and (self._listed_at is None or not is_due):
            return False
        try:
            async for page in self._context.client.pipelines.recipes(priority=Priority.NAMES):
                for row in page.rows:
                    if row.name is not None:
                        self._recipes.name(row.id, row.name)
        except (NotAvailableError, NoSuchObjectError, RequestRejectedError) as error:
            # Not of every edition, and nothing rests on it: pages show ids.
            log.info("recipes not listed", workspace=self._context.name, reason=str(error))
        self._listed_at = now
        self._unlisted = {id_ for id_ in unnamed if self._recipes.recipe_name_of(id_) is None}
        return True

    async def _unnamed(self) -> set[str]:
        """Return the recipes that have run and have no known name."""
        context = self._context
        return {
            health.recipe_id
            async for health in in_slices(
                list(context.live_state.pipeline_health.values()), size=_SLICE
            )
            if health.workspace == context.name
            and health.recipe_id is not None
            and self._recipes.recipe_name_of(health.recipe_id) is None
        }
