"""The audit in the store: who changed what, from where, what was there before, and the result.

A line is stored before anything is changed, and again with the result: where the daemon or its
store ends between the two, the line stays `unknown`, and no change is without a line. Lines are of
the whole store, so each daemon of a cluster shows those of all.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import count
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from monitor.bus.contract import StoreEntries
from monitor.bus.contract.store_entries import AUDIT_TOPIC
from monitor.model.clock import Clock
from monitor.model.errors import BusError, BusFullError, BusSchemaError

log = structlog.get_logger()

_COMMIT_SECONDS = 10.0
_VALUE_BYTES = 4_000  # of what was asked, of what was before, and of what is after
_REASON_CHARACTERS = 500
_NAME_CHARACTERS = 200
_NUMBERS = 10_000
_HALVINGS = 40  # of a year this is below a second
LOCAL = "local"  # the source of what comes by no connection

# Returns a value as plain JSON types, without secrets.
Redact = Callable[[Any], Any]


def as_it_is(value: Any) -> Any:
    """Return the value: for where no secret can be in it."""
    return value


class AuditResult(StrEnum):
    """What became of a write."""

    UNKNOWN = "unknown"  # it was begun, and its end was not stored
    DONE = "done"
    REFUSED = "refused"  # nothing was changed
    FAILED = "failed"  # a part of it may be done


class AuditLine(Struct, frozen=True, kw_only=True):
    """One write. ``id`` sorts by time, which is ours.

    ``request``, ``before`` and ``after`` are what the write is about: JSON, None where there is
    none, and only their length where they are long.
    """

    id: str
    at: datetime
    person: str
    # The [[access]] that gives the rights: a provider may name a user as an entry is named.
    entry: str | None = None
    source: str  # an address, or "local"
    what: str  # the write, as the API names it: "add_silence"
    request: Any = None
    before: Any = None
    after: Any = None
    result: AuditResult = AuditResult.UNKNOWN
    reason: str | None = None  # why it was refused, or failed
    daemon: str = ""  # that did it, where daemons share the store


_DECODER = msgspec.json.Decoder(AuditLine)


class AuditLog:
    """Stores, reads and removes audit lines."""

    def __init__(
        self, entries: StoreEntries, *, clock: Clock, redact: Redact, daemon: str = ""
    ) -> None:
        self._entries = entries
        self._clock = clock
        self._redact = redact
        self._daemon = daemon
        self._numbers = count()  # lines of one instant keep their order

    def line(self, what: str, *, person: str, source: str, entry: str | None = None) -> AuditLine:
        """Return a new line, which is not stored yet."""
        at = self._clock.now()
        return AuditLine(
            id=f"{_key(at)}-{next(self._numbers) % _NUMBERS:04d}-{secrets.token_hex(4)}",
            at=at,
            person=_words(self._redact(person), _NAME_CHARACTERS),
            entry=entry,
            source=source,
            what=what,
            daemon=self._daemon,
        )

    async def store(self, line: AuditLine) -> None:
        """Return once the line is durable, in the place of what was stored of it before.

        Raises:
            BusUnavailableError: it is not.
        """
        reason = None if line.reason is None else self._redact(line.reason)
        shown = msgspec.structs.replace(
            line,
            request=await self._shown(line.request),
            before=await self._shown(line.before),
            after=await self._shown(line.after),
            reason=None if reason is None else _words(reason, _REASON_CHARACTERS),
        )
        entry = {line.id: msgspec.json.encode(shown)}
        try:
            await self._entries.put(AUDIT_TOPIC, entry, timeout_seconds=_COMMIT_SECONDS)
        except BusFullError:
            await self._make_room()
            await self._entries.put(AUDIT_TOPIC, entry, timeout_seconds=_COMMIT_SECONDS)

    async def finish(
        self, line: AuditLine, result: AuditResult, *, after: Any = None, reason: str | None = None
    ) -> None:
        """Store the end of a write; where that fails, the line stays `unknown`, and a log line."""
        ended = msgspec.structs.replace(line, result=result, after=after, reason=reason)
        try:
            await self.store(ended)
        except BusError as exc:
            log.warning("audit line has no result", audit=line.id, result=result, reason=str(exc))

    async def lines(
        self,
        *,
        before: str | None,
        since: datetime | None,
        until: datetime | None = None,
        limit: int,
    ) -> Sequence[AuditLine]:
        """Return lines, the newest first: those below the id ``before``.

        Of them those from ``since`` on and before ``until``.

        Raises:
            BusUnavailableError: the store cannot be read.
            BusSchemaError: a line in it is damaged.
        """
        if until is not None:
            before = _key(until) if before is None else min(before, _key(until))
        found = await self._entries.newest(AUDIT_TOPIC, before=before, limit=limit)
        first = "" if since is None else _key(since)
        return [_decoded(key, value) for key, value in found if key >= first]

    async def forget(self, before: datetime) -> int:
        """Remove the lines of before that instant; return how many there were."""
        return await self._entries.drop_before(AUDIT_TOPIC, _key(before))

    async def _make_room(self) -> None:
        """Remove the oldest lines; the newest must find a place."""
        now, seconds = self._clock.now(), 365 * 86_400.0
        for _ in range(_HALVINGS):
            removed = await self.forget(now - timedelta(seconds=seconds))
            if removed:
                log.warning("audit is full, its oldest lines were removed", lines=removed)
                return
            seconds /= 2

    async def _shown(self, value: Any) -> Any:
        if value is None:
            return None
        await asyncio.sleep(0)  # to search one for secrets takes as long as a step may
        encoded = msgspec.json.encode(value)
        if len(encoded) > _VALUE_BYTES:
            # Cut, it might show a part of a secret that is masked only as a whole.
            return f"{len(encoded):,} bytes, too long for the audit"
        return self._redact(msgspec.json.decode(encoded))


def _key(at: datetime) -> str:
    """Return what sorts as instants do. Those before 1970 are all the same."""
    return f"{max(0, int(at.timestamp() * 1_000_000)):016d}"


def _words(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def _decoded(key: str, value: bytes) -> AuditLine:
    try:
        return _DECODER.decode(value)
    except (msgspec.MsgspecError, ValueError, RecursionError) as exc:
        raise BusSchemaError(f"audit line {key} is damaged: {exc}; restore a backup") from exc
