"""Tokens of people and programs, and the hashes by which the configuration knows them.

A token is ``NAME.RANDOM``. Its name tells which hash to compare, so that a wrong token costs one
computation however many entries there are; an unknown name costs the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Sequence

import argon2

from monitor.model.bounded_memory import BoundedMemory

_RANDOM_BYTES = 32
_REMEMBERED = 1_000
# Where no entry has the name of a token, it is compared with this.
_OF_NO_ENTRY = (
    "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5bm9ib2R5$dwTzTfQOKFKKmT4iZhD2OK1D5xkYS1cRBkaHmj0Wjkw"
)
# The least that OWASP advises. A token is random, so that no hash could be guessed at any cost.
_HASHER = argon2.PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


def new_token(name: str) -> str:
    """Return a token that was never given out before."""
    return f"{name}.{secrets.token_urlsafe(_RANDOM_BYTES)}"


def hash_of(token: str) -> str:
    """Return what the configuration keeps of a token. Takes some ten ms."""
    return _HASHER.hash(token)


class TokenHashes:
    """Compares tokens with hashes, and remembers those that were right."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(_RANDOM_BYTES)
        # The digest of a token -> the hash that it fits.
        self._right: BoundedMemory[bytes, str] = BoundedMemory(_REMEMBERED)

    async def matching(self, token: str, hashes: Sequence[str]) -> str | None:
        """Return the hash that the token fits; None where none does, which takes as long."""
        digest = hmac.digest(self._key, token.encode(errors="surrogateescape"), hashlib.sha256)
        if (known := self._right.get(digest)) in hashes:
            return known
        for expected in hashes or (_OF_NO_ENTRY,):
            if await asyncio.to_thread(_is_right, token, expected) and expected in hashes:
                self._right.put(digest, expected)
                return expected
        return None


def _is_right(token: str, expected: str) -> bool:
    try:
        return _HASHER.verify(expected, token.encode(errors="surrogateescape"))
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False
