"""A real store that refuses the steps a test names."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from monitor.bus.contract import EventBus
from monitor.bus.settings import StorageSettings
from monitor.bus.sqlite.store import SqliteBus
from monitor.model.clock import Clock
from monitor.model.errors import BusUnavailableError

_STORE_STEPS = frozenset(
    name
    for name, _ in inspect.getmembers(EventBus, inspect.iscoroutinefunction)
    if name not in ("close", "watch", "confirm")
)


class RefusingStore(SqliteBus):
    """A store that refuses one call of one task, and all after it if it ``stays_away``."""

    _calls: int
    _refused: int | None  # which call of the task, from 0 on
    _task: asyncio.Task[Any] | None
    _stays_away: bool
    _away: frozenset[str]  # steps that are refused to everybody
    refusals: int  # of those

    @classmethod
    async def opened(
        cls, where: StorageSettings | Path, *, clock: Clock, registry: CollectorRegistry
    ) -> RefusingStore:
        bus = await SqliteBus.open(where, clock=clock, registry=registry)
        store = cls.__new__(cls)
        store.__dict__.update(bus.__dict__)
        store.refuse(None, stays_away=False)
        store.refuse_to_all()
        return store

    def refuse_to_all(self, *steps: str) -> None:
        """Refuse these steps to every caller, until set again."""
        self._away, self.refusals = frozenset(steps), 0

    def refuse(self, call: int | None, *, stays_away: bool) -> None:
        """Refuse this call that the current task makes from now on; None: answer all."""
        self._calls, self._refused, self._stays_away = 0, call, stays_away
        self._task = asyncio.current_task()

    @property
    def has_refused(self) -> bool:
        return self._refused is not None and self._calls > self._refused

    def __getattribute__(self, name: str) -> Any:
        attribute = super().__getattribute__(name)
        if name not in _STORE_STEPS:
            return attribute

        async def call(*arguments: Any, **options: Any) -> Any:
            if name in self._away:
                self.refusals += 1
                raise BusUnavailableError(f"{name} is refused")
            if self._refused is not None and asyncio.current_task() is self._task:
                number, self._calls = self._calls, self._calls + 1
                if number == self._refused or (self._stays_away and number > self._refused):
                    raise BusUnavailableError(f"{name} is refused")
            return await attribute(*arguments, **options)

        return call
