"""Notices that something about a workspace itself has changed, and publishes each change once.

It is compared with the store, so a change while the monitor was away is published, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

import msgspec
from msgspec import Struct

from monitor.bus.contract import Change, EventBus, StateEntry, decode_entries, decode_entry
from monitor.model.clock import Clock
from monitor.model.events import EventType, WorkspaceEvent, workspace_event_id

CHANGES = "changes"  # topic of the state entries that number a workspace's own changes
MANY = "changes of many"  # topic of the state entries that do so for many things of one kind


class TrackedValue(Struct, frozen=True, kw_only=True, rename={"stored": "held"}):
    """How one thing is now. ``stored`` is stored and compared, ``shown`` is what events carry."""

    stored: str
    shown: str
    is_hidden: bool = False  # then events do not carry either the old value


class _LastChange(Struct, frozen=True, kw_only=True):
    number: int
    value: str | None


class _LastChanges(Struct, frozen=True, kw_only=True):
    """``number`` counts the changes of all the things together, so that no id comes twice."""

    number: int
    things: dict[str, TrackedValue]


_CHANGE = msgspec.json.Decoder(_LastChange)
_MANY = msgspec.json.Decoder(_LastChanges)


class WorkspaceChanges:
    """Compares, stores and publishes, one commit at a time."""

    def __init__(self, *, bus: EventBus, clock: Clock, commit_timeout_seconds: float) -> None:
        self._bus = bus
        self._clock = clock
        self._commit_timeout_seconds = commit_timeout_seconds
        self._changing = asyncio.Lock()

    async def last(self, workspace: str) -> dict[str, str | None]:
        """Return what `learn` was told last, in this life or another; what was never is absent."""
        stored = await self._bus.state_entries(workspace, CHANGES)
        return {
            what: last.value
            for what, last in decode_entries(stored, _CHANGE, topic=CHANGES).items()
        }

    async def learn(self, workspace: str, what: str, after: str | None) -> bool:
        """Remember that ``what`` is ``after``; publish a change if it was otherwise.

        What is learned for the first time is no change. True if one was published.
        """
        async with self._changing:
            stored = (await self._bus.state_entries(workspace, CHANGES)).get(what)
            what_is_stored = f"{workspace}'s last {what}"
            last = None if stored is None else decode_entry(stored, _CHANGE, what=what_is_stored)
            if last is not None and last.value == after:
                return False
            number = 0 if last is None else last.number + 1
            value = msgspec.json.encode(_LastChange(number=number, value=after))
            state_entry = StateEntry(workspace=workspace, topic=CHANGES, key=what, value=value)
            events = []
            if last is not None:
                events.append(self._event(workspace, what, number, last.value, after))
            await self._commit(Change(events=tuple(events), state_entries=(state_entry,)))
            return bool(events)

    async def learn_many(
        self,
        workspace: str,
        kind: str,
        things: Mapping[str, TrackedValue],
        *,
        unread: Collection[str] = (),
        reports_additions: bool = False,
    ) -> list[str]:
        """Remember how all things of one kind are; return the names of those that changed.

        Each is published as ``kind:name``; the first reading of a kind publishes nothing. Things
        that could not be read are named by ``unread`` and stay as they were. What comes and goes
        is published only with ``reports_additions``.
        """
        async with self._changing:
            stored = (await self._bus.state_entries(workspace, MANY)).get(kind)
            what = f"{workspace}'s last {kind}"
            last = None if stored is None else decode_entry(stored, _MANY, what=what)
            before = {} if last is None else last.things
            kept = {name: before[name] for name in unread if name in before}
            after = {**kept, **things}
            if last is not None and after == before:
                return []
            changed = (
                [] if last is None else _changed(before, after, reports_additions=reports_additions)
            )
            number = 0 if last is None else last.number
            events = tuple(
                self._event(
                    workspace,
                    f"{kind}:{name}",
                    number + place,
                    *_shown(before.get(name), after.get(name)),
                )
                for place, name in enumerate(changed, start=1)
            )
            value = msgspec.json.encode(_LastChanges(number=number + len(events), things=after))
            state_entry = StateEntry(workspace=workspace, topic=MANY, key=kind, value=value)
            await self._commit(Change(events=events, state_entries=(state_entry,)))
            return changed

    def _event(
        self, workspace: str, what: str, number: int, before: str | None, after: str | None
    ) -> WorkspaceEvent:
        return WorkspaceEvent(
            id=workspace_event_id(workspace, what, number),
            type=EventType.WORKSPACE_CHANGED,
            workspace=workspace,
            what=what,
            number=number,
            before=before,
            after=after,
            occurred_at=None,
            recorded_at=self._clock.now(),
        )

    async def _commit(self, change: Change) -> None:
        await self._bus.commit(change, timeout_seconds=self._commit_timeout_seconds)


def _changed(
    before: Mapping[str, TrackedValue],
    after: Mapping[str, TrackedValue],
    *,
    reports_additions: bool,
) -> list[str]:
    names = before.keys() | after.keys() if reports_additions else before.keys() & after.keys()
    return sorted(
        name
        for name in names
        if (before[name].stored if name in before else None)
        != (after[name].stored if name in after else None)
    )


def _shown(
    before: TrackedValue | None, after: TrackedValue | None
) -> tuple[str | None, str | None]:
    if before is not None and after is not None and after.is_hidden:
        return after.shown, after.shown
    return (
        None if before is None else before.shown,
        None if after is None else after.shown,
    )
