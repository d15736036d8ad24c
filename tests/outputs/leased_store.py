"""A real store whose lease ends when a test says so."""

from __future__ import annotations

from collections.abc import Callable

from monitor.bus.contract import Step
from monitor.bus.sqlite import SqliteBus
from monitor.model.errors import BusLostError


class LeasedStore(SqliteBus):
    """What it stores is real; only the lease is the test's."""

    is_held: bool
    allowances: int | None  # so many times more it may be published; None: as often as asked
    after_step: Callable[[], None]  # called once a consumer's step is stored
    after_confirmation: Callable[[], None]
    _shard: str
    _lease_seconds: float

    @classmethod
    def of(cls, bus: SqliteBus, *, shard: str = "", lease_seconds: float = 0.0) -> LeasedStore:
        store = cls.__new__(cls)
        store.__dict__.update(bus.__dict__)
        store._shard, store._lease_seconds = shard, lease_seconds
        store.is_held, store.allowances = True, None
        store.after_step = store.after_confirmation = lambda: None
        return store

    def lose(self) -> None:
        """From now on the shard may be another daemon's."""
        self.is_held = False

    def allow(self, times: int) -> None:
        """Lose the lease when it is asked for after so many times more."""
        self.allowances = times

    def regain(self) -> None:
        self.is_held, self.allowances = True, None

    @property
    def shard(self) -> str:
        return self._shard

    @property
    def lease_seconds(self) -> float:
        return self._lease_seconds

    def may_publish(self) -> bool:
        if self.allowances == 0:
            self.lose()
        elif self.allowances is not None:
            self.allowances -= 1
        return self.is_held

    async def confirm(self) -> None:
        if not self.is_held:
            raise BusLostError("another daemon holds the shard")
        await super().confirm()
        self.after_confirmation()

    async def advance(
        self, step: Step, *, timeout_seconds: float, linger_seconds: float = 0.0
    ) -> None:
        await super().advance(step, timeout_seconds=timeout_seconds, linger_seconds=linger_seconds)
        self.after_step()
