"""The daemon's tasks, by name: started in one task group, restarted by the supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from monitor.supervisor import Supervisor

Run = Callable[[], Awaitable[None]]


class DaemonTasks:
    """Starts and cancels tasks. Their group is there while the daemon runs."""

    def __init__(self, supervisor: Supervisor, *, shard: str = "") -> None:
        self._supervisor = supervisor
        self._of_shard = f" of {shard}" if shard else ""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def use(self, group: asyncio.TaskGroup) -> None:
        """Start every task in this group from now on."""
        self._group = group

    def start(self, name: str, run: Run, *, vital: bool = False) -> None:
        # The store's watch returns when the store is closed; everything else runs until cancelled.
        full_name = name + self._of_shard
        supervised = self._supervisor.supervise(full_name, run, vital=vital, finite=vital)
        self._tasks[name] = self._group.create_task(supervised, name=full_name)

    def start_all(self, tasks: Mapping[str, Run]) -> None:
        for name, run in tasks.items():
            self.start(name, run)

    async def cancel(self, names: Iterable[str]) -> None:
        """Cancel those that run, and return when they have ended."""
        tasks = [self._tasks.pop(name) for name in list(names) if name in self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def cancel_all(self) -> None:
        await self.cancel(self._tasks)


def first_failure(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error inside, however deep the groups are nested."""
    first = failures.exceptions[0]
    return first_failure(first) if isinstance(first, BaseExceptionGroup) else first
