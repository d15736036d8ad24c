"""Log-ins of people in a browser, kept in the store.

So they survive a restart, and every daemon of a cluster knows them.

The browser holds a random id in a cookie, and the store only its digest: who reads the store can
log in nowhere. What the person may do is decided again at each request, by the configuration of
then; a session whose token was withdrawn is over.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from monitor.bus.contract import StoreEntries
from monitor.bus.contract.store_entries import SESSION_TOPIC
from monitor.model.bounded_memory import BoundedMemory
from monitor.model.clock import Clock
from monitor.model.errors import BusSchemaError
from monitor.web.access.people import People, Recognised
from monitor.web.principals import Principal, WayIn

_ID_BYTES = 32
# When it ends, in seconds since 1970, and what cannot be guessed.
_ID = re.compile(r"([0-9]{10})\.([A-Za-z0-9_-]{43})")
_REMEMBERED = 1_000
# So long a session that was ended at another daemon may go on at this one.
_FRESH_SECONDS = 5.0
_COMMIT_SECONDS = 10.0
# Anybody can make up ids: they must not fill the queue of those who read the store.
_READS_AT_ONCE = 8


class _Session(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One log-in, as it is stored."""

    user: str
    expires_at: datetime
    groups: tuple[str, ...] = ()
    entry: str | None = None
    proof: str = ""  # digest of what it was recognised by, with the id; empty for a vouched name
    issuer: str | None = None  # the provider that vouches for the name


_DECODER = msgspec.json.Decoder(_Session)


class Sessions:
    """Begins, finds and ends sessions."""

    def __init__(self, entries: StoreEntries, *, clock: Clock, lasts_seconds: float) -> None:
        self._room = asyncio.Semaphore(_READS_AT_ONCE)
        self._entries = entries
        self._clock = clock
        self._lasts = timedelta(seconds=lasts_seconds)
        self.lasts_seconds = int(lasts_seconds)
        # Key -> when it was read (monotonic), and the session.
        self._read: BoundedMemory[str, tuple[float, _Session | None]] = BoundedMemory(_REMEMBERED)

    async def begin(
        self, recognised: Recognised, *, groups: tuple[str, ...] = (), issuer: str | None = None
    ) -> str:
        """Return the id of a new session, for a cookie. Those that are over are forgotten."""
        now = self._clock.now()
        expires_at = now + self._lasts
        seconds = int(expires_at.timestamp())
        session_id = f"{seconds:010d}.{secrets.token_urlsafe(_ID_BYTES)}"
        principal = recognised.principal
        session = _Session(
            user=principal.name,
            groups=groups,
            entry=principal.entry,
            expires_at=expires_at,
            proof=_proof(session_id, recognised.proof),
            issuer=issuer,
        )
        key = _key(session_id)
        encoded = msgspec.json.encode(session)
        await self._entries.put(SESSION_TOPIC, {key: encoded}, timeout_seconds=_COMMIT_SECONDS)
        await self._entries.drop_before(SESSION_TOPIC, f"{int(now.timestamp()):010d}")
        self._read.forget(key)
        return session_id

    async def principal(self, session_id: str, people: People) -> Principal | None:
        """Return who has this session; None where it is over, or never was."""
        now = self._clock.now()
        if _ID.fullmatch(session_id) is None or int(session_id[:10]) < int(now.timestamp()):
            return None
        session = await self._session(_key(session_id))
        if session is None or now >= session.expires_at:
            return None
        if not session.proof:
            if session.issuer != people.issuer:
                return None  # the configuration does not trust it any more
            return people.of_user(session.user, session.groups, way=WayIn.SESSION, now=now)
        for known in people.proofs(session.entry, now=now):
            if hmac.compare_digest(session.proof, _proof(session_id, known.proof)):
                return msgspec.structs.replace(known.principal, way=WayIn.SESSION)
        return None

    async def end(self, session_id: str) -> None:
        """Let the session be over everywhere."""
        if _ID.fullmatch(session_id) is None:
            return
        key = _key(session_id)
        await self._entries.put(SESSION_TOPIC, {key: None}, timeout_seconds=_COMMIT_SECONDS)
        self._read.forget(key)

    async def _session(self, key: str) -> _Session | None:
        now = self._clock.monotonic()
        kept = self._read.get(key)
        if kept is not None and now - kept[0] < _FRESH_SECONDS:
            return kept[1]
        async with self._room:
            value = await self._entries.get(SESSION_TOPIC, key)
        session = None if value is None else _decoded(value)
        self._read.put(key, (now, session))
        return session


def _decoded(value: bytes) -> _Session:
    try:
        return _DECODER.decode(value)
    except msgspec.MsgspecError as exc:
        raise BusSchemaError("a session in the store cannot be read; log in again") from exc


def _key(session_id: str) -> str:
    """Return the key of the entry: those that are over sort before the others."""
    return f"{session_id[:10]}-{hashlib.sha256(session_id.encode()).hexdigest()}"


def _proof(session_id: str, proof: str) -> str:
    """Return a digest that shows nothing of the proof to who has only the store."""
    if not proof:
        return ""
    return hmac.digest(session_id.encode(), proof.encode(), "sha256").hex()
