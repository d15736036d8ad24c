"""Everybody whom the configuration knows. A reload replaces all of it at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from msgspec import Struct

from monitor.model.secrets import Secret
from monitor.web.access.token_hashes import TokenHashes
from monitor.web.principals import Principal, Role, WayIn
from monitor.web.settings import AccessEntry, ServerSettings

# The name of whom [server] knows by its token, with the rights that it always had.
_TOKEN_NAME = "token"  # noqa: S105 - a name


class Recognised(Struct, frozen=True, kw_only=True):
    """A principal, and what the configuration holds of it: without that, no session goes on."""

    principal: Principal
    proof: str = ""  # secret; empty where a proxy or provider vouches for the name


class People:
    """Finds the principal of a token, a password or a name. Nothing here says what was wrong."""

    def __init__(self, settings: ServerSettings, hashes: TokenHashes) -> None:
        self._settings = settings
        self._hashes = hashes
        self._entries = settings.access

    @property
    def issuer(self) -> str | None:
        """The provider whose users may come in; None where there is none."""
        return None if self._settings.oidc is None else self._settings.oidc.issuer

    async def of_token(self, token: str, *, now: datetime) -> Recognised | None:
        """Return whose token it is; None for a wrong one."""
        own = self._settings.token
        if own is not None and own.matches(token):
            return _of_server(_TOKEN_NAME, WayIn.TOKEN, own)
        if not self._entries:
            return None
        entry = next(self._named(token.partition(".")[0], now), None)
        hashes = () if entry is None else entry.token_hash
        matching = await self._hashes.matching(token, hashes)
        if matching is None or entry is None:
            return None
        return Recognised(principal=_principal(entry, WayIn.TOKEN), proof=matching)

    async def of_password(
        self, username: str, password: str, *, now: datetime
    ) -> Recognised | None:
        """Return who has this name and password, or this name and token."""
        own = self._settings.password
        if own is not None:
            # Both are compared, so that the time does not reveal which of them failed.
            is_password = own.matches(password)
            is_username = Secret(self._settings.username or "").matches(username)
            if is_password and is_username:
                return _of_server(username, WayIn.PASSWORD, own)
        is_whole = username in ("", _TOKEN_NAME) or password.startswith(f"{username}.")
        return await self.of_token(password if is_whole else f"{username}.{password}", now=now)

    def of_user(
        self, user: str, groups: Collection[str], *, way: WayIn, now: datetime
    ) -> Principal | None:
        """Return what a name and groups that others vouch for may do; None where nothing."""
        for entry in self._entries:
            is_meant = user in entry.users or not set(groups).isdisjoint(entry.groups)
            if is_meant and _is_accepted(entry, now):
                return _principal(entry, way, name=user)
        return None

    def proofs(self, entry: str | None, *, now: datetime) -> list[Recognised]:
        """Return by what an entry is recognised now; of [server] itself without one."""
        if entry is not None:
            return [
                Recognised(principal=_principal(found, WayIn.TOKEN), proof=token_hash)
                for found in self._named(entry, now)
                for token_hash in found.token_hash
            ]
        settings = self._settings
        known = []
        if settings.token is not None:
            known.append(_of_server(_TOKEN_NAME, WayIn.TOKEN, settings.token))
        if settings.password is not None:
            username = settings.username or ""
            known.append(_of_server(username, WayIn.PASSWORD, settings.password))
        return known

    def _named(self, name: str, now: datetime) -> Iterator[AccessEntry]:
        return (
            entry
            for entry in self._entries
            if entry.name == name and entry.token_hash and _is_accepted(entry, now)
        )


def _is_accepted(entry: AccessEntry, now: datetime) -> bool:
    return entry.expires_at is None or now < entry.expires_at


def _principal(entry: AccessEntry, way: WayIn, *, name: str | None = None) -> Principal:
    return Principal(
        name=name or entry.name,
        role=entry.role,
        way=way,
        workspaces=entry.workspaces,
        entry=entry.name,
    )


def _of_server(name: str, way: WayIn, secret: Secret) -> Recognised:
    principal = Principal(name=name, role=Role.ADMIN, way=way)
    return Recognised(principal=principal, proof=secret.reveal())
