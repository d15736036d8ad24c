"""Polls the number of objects of each type."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.catalogue.capabilities import Capability
from monitor.model.errors import NotAvailableError, WorkspaceError
from monitor.model.inventory import Figures
from monitor.polling.inventory.inventory_poll import inventory_poll
from monitor.polling.poll_loop.context import PollContext
from monitor.polling.poll_loop.poll import Poll
from monitor.polling.poll_loop.reads import is_about_the_object

# Type -> the operation that counts it, and what makes it count those of everybody.
_COUNTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "connection": ("countConnections", {}),
    "dataset": ("countDatasetLibrary", {"datasetsFilter": "all", "ownershipFilter": "all"}),
    "flow": ("countFlows", {"flowsFilter": "all"}),
    "folder": ("countFolders", {}),
    "output_object": ("countOutputObjects", {}),
    "plan": ("countPlans", {"ownershipFilter": "all"}),
    "publication": ("countPublications", {}),
    "recipe": ("countWrangledDatasets", {}),
    "schedule": ("countSchedules", {}),
    "sql_script": ("countSqlScripts", {}),
    "user_defined_function": ("countUserDefinedFunctions", {}),
    "write_setting": ("countWriteSettings", {}),
}


class Objects:
    """Counts them, as far as the token's owner may see them."""

    def __init__(self, context: PollContext) -> None:
        self._context = context

    def declared(self) -> tuple[Poll, ...]:
        return (
            inventory_poll(
                self._context,
                "objects",
                self.poll,
                forget=self.forget,
                needs=Capability.COUNT_OBJECTS,
            ),
        )

    async def poll(self) -> None:
        """Read every count that is served.

        Raises:
            WorkspaceError: one failed; the others are known.
        """
        context = self._context
        values: dict[str, float] = {}
        failure: WorkspaceError | None = None
        for kind, (operation_id, query) in _COUNTS.items():
            try:
                values[kind] = await context.client.inventory.count(operation_id, query=query)
            except NotAvailableError:
                continue
            except WorkspaceError as error:
                if not is_about_the_object(error):
                    raise
                failure = failure or error
        context.update_inventory(objects=Figures(values=values, until=context.holds_until()))
        if failure is not None:
            raise failure

    def forget(self) -> None:
        self._context.update_inventory(objects=None)
