"""The stored state of a workspace's token pair, and what follows from it. Pure.

A refresh makes the former refresh token invalid, so that each step must be known after a crash:
``sent`` is stored before a refresh is sent, and the new pair before its access token is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from monitor.model.secrets import RegisterSecrets, Secret, not_logged

# An administrator may enable a disabled pair again; that must not need a restart.
_REFUSED_AGAIN = timedelta(hours=1)
_SPENT_KEPT = 8
_AHEAD = 2 / 3  # of an access token's life, after which it is refreshed


class TokenPair(Struct, frozen=True, kw_only=True):
    """The newest pair. All instants are ours.

    ``configured`` is the digest of the configured refresh token from which it descends.
    """

    refresh_token: Secret
    access_token: Secret
    obtained_at: datetime
    expires_at: datetime | None  # of the access token; None: it is used until it is refused
    configured: str

    @property
    def life_seconds(self) -> float | None:
        """The life of the access token; None where nothing says that."""
        if self.expires_at is None:
            return None
        return (self.expires_at - self.obtained_at).total_seconds()

    def left_seconds(self, now: datetime) -> float | None:
        """Return what is left of that, by a clock that may have been set since: never more."""
        if self.expires_at is None or (life := self.life_seconds) is None:
            return None
        return min((self.expires_at - now).total_seconds(), life)


class RefusedToken(Struct, frozen=True, kw_only=True):
    """A refresh token that the endpoint does not accept any more."""

    since: datetime
    tried_at: datetime  # last
    reason: str
    unanswered_at: datetime | None = None  # an earlier refresh with it whose answer was lost


class StoredTokens(Struct, frozen=True, kw_only=True):
    """``sent`` and ``refused`` are by digest of a refresh token.

    ``sent`` is when a refresh was first sent whose answer was not stored. ``spent`` are the
    newest configured ones that a refresh has replaced: they are dead.
    """

    pair: TokenPair | None = None
    sent: dict[str, datetime] = {}
    refused: dict[str, RefusedToken] = {}
    spent: tuple[str, ...] = ()


class UnstoredPair(Struct, frozen=True, kw_only=True):
    """A new pair that the store has not taken, and the one whose place it takes."""

    tokens: StoredTokens
    before: TokenPair | None
    ends: float | None  # monotonic; of the access token

    def follows(self, stored: StoredTokens, configured: Secret) -> bool:
        """Return True where no other pair came meanwhile, and it is still wanted."""
        if self.tokens.pair is None or stored.pair != self.before:
            return False
        return self.before is not None or self.tokens.pair.configured == digest(configured)


class TokenMemory:
    """What a daemon remembers of tokens while it runs, whatever shards come and go.

    ``unstored`` is by workspace: a daemon that loses its shard to an outage of the database, and
    gets it again, has the only copy of such a pair.
    """

    def __init__(self, register: RegisterSecrets = not_logged) -> None:
        self.register = register
        self.unstored: dict[str, UnstoredPair] = {}


class TokenStore(Protocol):
    """Keeps the tokens of one workspace. Both may raise `BusError`."""

    async def load(self) -> StoredTokens:
        """Return what was stored last."""

    async def store(self, tokens: StoredTokens) -> None:
        """Return once they are durable, in the place of all before."""


class Candidate(Struct, frozen=True, kw_only=True):
    """The refresh token that is to be sent next, and the configured one that it stands for."""

    token: Secret
    digest: str
    configured: str


def digest(token: Secret) -> str:
    """Return what tells one token from another and gives none away."""
    return hashlib.sha256(token.reveal().encode(errors="surrogatepass")).hexdigest()[:32]


def candidates(tokens: StoredTokens, configured: Secret) -> list[Candidate]:
    """Return the refresh tokens that may be alive, the one to try first before the other.

    A configured one that is new goes first: a person has put it there. It takes the place of the
    stored pair when the endpoint has accepted it, so a broken file costs no pair that works. One
    that is spent stands in the file of a daemon that has got no new one yet; some endpoints revoke
    the whole pair where it is sent again.
    """
    own = digest(configured)
    pair = tokens.pair
    if pair is None:
        return [Candidate(token=configured, digest=own, configured=own)]
    stored = Candidate(
        token=pair.refresh_token, digest=digest(pair.refresh_token), configured=pair.configured
    )
    if own in (pair.configured, stored.digest, *tokens.spent):
        return [stored]
    return [Candidate(token=configured, digest=own, configured=own), stored]


def next_candidate(
    tokens: StoredTokens, configured: Secret, now: datetime, *, but: str | None = None
) -> Candidate | None:
    """Return the refresh token to send next, but not that one; None while all are refused."""
    for candidate in candidates(tokens, configured):
        if candidate.digest == but:
            continue
        refusal = tokens.refused.get(candidate.digest)
        if refusal is None or not timedelta(0) <= now - refusal.tried_at < _REFUSED_AGAIN:
            return candidate
    return None


def is_beside_pair(
    tokens: StoredTokens, candidate: Candidate, configured: Secret, now: datetime
) -> bool:
    """Return True for a new configured token beside a stored pair that is not refused."""
    if tokens.pair is None or tokens.pair.configured == candidate.configured:
        return False
    return next_candidate(tokens, configured, now, but=candidate.digest) is not None


def refresh_due_in(
    tokens: StoredTokens, candidate: Candidate, *, left_seconds: float | None
) -> float | None:
    """Return in how many seconds to refresh with that token, by what is left of the access token.

    None: when the workspace refuses the access token.
    """
    pair = tokens.pair
    is_pending = candidate.digest in tokens.sent or candidate.digest in tokens.refused
    if pair is None or pair.configured != candidate.configured or is_pending:
        return 0.0
    if left_seconds is None or (life := pair.life_seconds) is None:
        return None
    return left_seconds - (1 - _AHEAD) * life


def with_sent(tokens: StoredTokens, candidate: Candidate, at: datetime) -> StoredTokens:
    """Return the tokens with a refresh under way; one that is unanswered keeps its time."""
    return msgspec.structs.replace(tokens, sent={candidate.digest: at, **tokens.sent})


def without_sent(tokens: StoredTokens, candidate: Candidate) -> StoredTokens:
    return msgspec.structs.replace(tokens, sent=_without(tokens.sent, candidate.digest))


def with_refusal(
    tokens: StoredTokens,
    candidate: Candidate,
    *,
    at: datetime,
    reason: str,
    unanswered_at: datetime | None,
) -> StoredTokens:
    """Return the tokens where the endpoint does not accept that refresh token."""
    before = tokens.refused.get(candidate.digest)
    refusal = RefusedToken(
        since=at if before is None else before.since,
        tried_at=at,
        reason=reason,
        unanswered_at=unanswered_at if before is None else before.unanswered_at,
    )
    return msgspec.structs.replace(
        without_sent(tokens, candidate), refused={**tokens.refused, candidate.digest: refusal}
    )


def with_pair(tokens: StoredTokens, candidate: Candidate, pair: TokenPair) -> StoredTokens:
    """Return the tokens with the pair that the candidate brought; what was said of it is over."""
    refused = {name: each for name, each in tokens.refused.items() if name != candidate.digest}
    spent = tokens.spent
    if candidate.digest == candidate.configured and pair.refresh_token != candidate.token:
        spent = (*spent, candidate.digest)[-_SPENT_KEPT:]
    return msgspec.structs.replace(
        without_sent(tokens, candidate), pair=pair, refused=refused, spent=spent
    )


def trimmed(tokens: StoredTokens, configured: Secret) -> StoredTokens:
    """Return the tokens without what is about refresh tokens that are never sent again."""
    alive = {candidate.digest for candidate in candidates(tokens, configured)}
    return msgspec.structs.replace(
        tokens,
        sent={name: at for name, at in tokens.sent.items() if name in alive},
        refused={name: refusal for name, refusal in tokens.refused.items() if name in alive},
    )


def encoded(tokens: StoredTokens) -> bytes:
    """Return the tokens as they are stored, with their secrets."""
    return msgspec.json.encode(tokens, enc_hook=_text_of)


def decoder() -> msgspec.json.Decoder[StoredTokens]:
    return msgspec.json.Decoder(StoredTokens, dec_hook=_secret_of)


def _text_of(value: Any) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    raise TypeError(f"{type(value).__name__} is not stored")


def _secret_of(kind: type, value: Any) -> Any:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise TypeError(f"{kind.__name__} is not stored")


def _without(values: Mapping[str, datetime], name: str) -> dict[str, datetime]:
    return {other: value for other, value in values.items() if other != name}
