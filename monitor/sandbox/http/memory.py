"""What the HTTP side itself remembers between two requests."""

from __future__ import annotations

from collections import OrderedDict

from monitor.sandbox.http.assumptions import REMEMBERED_EXECUTION_IDS


class ExecutionIds:
    """The values of ``x-execution-id`` that started something; the oldest are forgotten."""

    def __init__(self, *, most: int = REMEMBERED_EXECUTION_IDS) -> None:
        self._remembered: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._most = most

    def knows(self, operation_id: str, execution_id: str) -> bool:
        return (operation_id, execution_id) in self._remembered

    def remember(self, operation_id: str, execution_id: str) -> None:
        """Keep an id; an empty one is none."""
        if not execution_id:
            return
        self._remembered[operation_id, execution_id] = None
        while len(self._remembered) > self._most:
            self._remembered.popitem(last=False)
