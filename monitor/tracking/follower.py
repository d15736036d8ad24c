"""The port through which callbacks reach the poller of their workspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from monitor.model.observations import Observation
from monitor.model.runs import RunKey, RunState


class WorkspaceFollower(Protocol):
    """Confirms and completes what callbacks report of one workspace."""

    def wake(self) -> None:
        """Poll for changes soon. Never waits; many calls cause one poll a second."""

    def must_wait(self, observation: Observation, known: RunState) -> bool:
        """Return True where `complete` may wait before it returns this, which must be a failure.

        Never waits itself.
        """

    def complete_later(self, observations: Sequence[Observation]) -> None:
        """Read what these ends lack when there is time, and observe it then. Never waits.

        For ends whose observation has changed something: others would cost another read.
        """

    async def complete(self, observations: Sequence[Observation]) -> list[Observation]:
        """Return the observations in their order, failures with what could be read in time.

        Returns after at most ``detail_wait_seconds``. Records that come later, also those of a
        cancelled call, are observed by the follower itself.

        Raises:
            WorkspaceError, BusUnavailableError: nothing was added.
        """

    async def confirm(self, key: RunKey) -> bool | None:
        """Read one run by its id and observe it.

        True: it exists and was observed. False: the workspace denies it, or it is none that is
        followed, such as a sample. None: the workspace could not be read now.
        """
