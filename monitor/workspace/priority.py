"""The priorities by which requests share a workspace's budget."""

from __future__ import annotations

from enum import IntEnum


class Priority(IntEnum):
    """What a request is for; the lower number goes first, and each class has a share."""

    CHANGES = 0  # the list of changes: everything else follows from it
    ENDS = 1  # how flow runs and plan runs ended
    LINKS = 2  # which runs a plan run has started
    FAILED_DETAILS = 3  # the job records of failures
    DETAILS = 4  # other job records
    RECONCILIATION = 5  # what is active, and what may have been missed
    NAMES = 6  # names of flows and plans
    SCHEDULES = 7  # schedules and webhook tasks: without them nothing shows what is missing
    INVENTORY = 8  # progress, objects, usage, everything that can wait

    @property
    def label(self) -> str:
        """Return the name for people."""
        return self.name.lower().replace("_", " ")
