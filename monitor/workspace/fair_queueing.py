"""Fair queueing among classes of requests, so that none starves. Pure: no I/O, no clock.

Classes go in their order. With every turn that is taken, each class that waits is owed `SHARE` of
one; a class that is owed a whole turn takes it before the others. The turn after it goes by the
order again, so the first class never waits for more than one other.
"""

from __future__ import annotations

from collections.abc import Collection

from monitor.workspace.priority import Priority

# The least share of the turns that each waiting class has; together they have half of all.
SHARE = 0.5 / len(Priority)


class TurnShares:
    """What each class is owed. What a class is owed stays when it gives up, for when it returns."""

    def __init__(self) -> None:
        self._owed = dict.fromkeys(Priority, 0.0)  # turns
        self._is_order_next = False  # the last turn was one that its class was owed

    def owed(self, waiting: Collection[Priority]) -> Priority | None:
        """Return the waiting class that is owed the next turn; None where the order decides."""
        if self._is_order_next or not waiting:
            return None
        most = max(waiting, key=lambda priority: self._owed[priority])
        return most if self._owed[most] >= 1.0 else None

    def record(self, taken: Priority, waiting: Collection[Priority]) -> None:
        """Count a turn. ``waiting`` are the classes that wanted it, with the one that took it."""
        self._is_order_next = self.owed(waiting) is not None
        for priority in waiting:
            self._owed[priority] += SHARE
        self._owed[taken] = max(0.0, self._owed[taken] - 1.0)
