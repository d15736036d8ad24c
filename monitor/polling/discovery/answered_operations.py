"""The operations that a workspace has ever answered: refused later, they were withdrawn.

An operation that was never answered is not offered here: by the edition, or to this token. One
that was answered and is refused now was withdrawn, and what rests on it is no longer watched.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec import Struct

from monitor.bus.contract import decode_entries
from monitor.catalogue.capabilities import NEEDS, Capability
from monitor.model.live_state import SCHEDULES, RefusedCapability
from monitor.model.runs import RunKind
from monitor.polling.poll_loop.context import PollContext

ANSWERED = "answered"  # topic of the state entry
_KEY = "operations"
_NEEDED = frozenset(need for needs in NEEDS.values() for need in needs)
# What is not watched without the capability. The others cost details, names or inventory.
_UNWATCHED: Mapping[Capability, tuple[str, ...]] = {
    Capability.LIST_CHANGES: (RunKind.JOB_GROUP, RunKind.FLOW_RUN),
    Capability.FOLLOW_FLOW_RUNS: (RunKind.FLOW_RUN,),
    Capability.LIST_PLAN_RUNS: (RunKind.PLAN_RUN,),
    Capability.READ_SCHEDULES: (SCHEDULES,),
}


class _Stored(Struct, frozen=True, kw_only=True):
    operations: frozenset[str] = frozenset()
    refused: tuple[RefusedCapability, ...] = ()


_STORED = msgspec.json.Decoder(_Stored)


class AnsweredOperations:
    """Remembers across restarts what was offered, and since when it is refused."""

    def __init__(self, context: PollContext) -> None:
        self._context = context
        self._stored: _Stored | None = None

    async def load(self) -> None:
        """Read back what was offered before the monitor was started; once is enough.

        Raises:
            BusError: it cannot be read.
        """
        if self._stored is None:
            entries = await self._context.bus.state_entries(self._context.name, ANSWERED)
            decoded = decode_entries(entries, _STORED, topic=ANSWERED)
            self._stored = decoded.get(_KEY, _Stored())

    @property
    def operations(self) -> frozenset[str]:
        """The operations that capabilities rest on and that were answered at any time."""
        stored = frozenset[str]() if self._stored is None else self._stored.operations
        return stored | (self._context.client.requester.answered & _NEEDED)

    async def update(self, *, missing: frozenset[Capability]) -> tuple[RefusedCapability, ...]:
        """Return which of the edition's missing capabilities were offered before; durable.

        One that was refused stays so until it is there again: no answer does not end a refusal.

        Raises:
            BusError: it could not be stored.
        """
        requester = self._context.client.requester
        refused_operations = self.operations & requester.unavailable
        before = (
            {}
            if self._stored is None
            else {known.capability: known for known in self._stored.refused}
        )
        refused = tuple(
            before.get(capability) or self._refusal(capability, refused_operations)
            for capability in sorted(missing)
            if capability in before or refused_operations.intersection(NEEDS[capability])
        )
        await self._store(_Stored(operations=self.operations, refused=refused))
        return refused

    def _refusal(
        self, capability: Capability, refused_operations: frozenset[str]
    ) -> RefusedCapability:
        requester, now = self._context.client.requester, self._context.clock.now()
        operation_id = next(need for need in NEEDS[capability] if need in refused_operations)
        return RefusedCapability(
            capability=str(capability),
            since=now,
            reason=_reason(capability, requester.refusal_of(operation_id), now),
            unwatched=_UNWATCHED.get(capability, ()),
        )

    async def _store(self, after: _Stored) -> None:
        if after == self._stored:
            return
        value = msgspec.json.encode(after)
        entry = self._context.state_entry(ANSWERED, _KEY, value)
        await self._context.observer.observe((), state_entries=(entry,))
        self._stored = after


def _reason(capability: Capability, refusal: str, now: datetime) -> str:
    ability = str(capability).replace("_", " ")
    return f"{ability}: offered before, refused since {now:%Y-%m-%dT%H:%M:%SZ} ({refusal})"
