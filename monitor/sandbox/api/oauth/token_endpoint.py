"""The token endpoint of RFC 6749 (refresh) and RFC 7009 (revocation), where pairs are in use."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.request.admission import readable
from monitor.sandbox.api.response.faults import Chances
from monitor.sandbox.world.records.objects import TokenPair
from monitor.sandbox.world.shelves import World
from monitor.sandbox.world.token_pairs import pair_with, refreshed, replaced, revoke

TOKEN_PATH = "/as/token"  # noqa: S105 - a path, no secret
REVOCATION_PATH = "/as/revoke"
NEW_PAIR_PATH = "/sandbox/token-pair"
_FORM = "application/x-www-form-urlencoded"


class TokenRefusal(Exception):  # noqa: N818 - an answer of the protocol
    """An error answer of RFC 6749, section 5.2: ``error`` is its code."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        self.description = description


class TokenEndpoint:
    """Refreshes and revokes the pairs of one world; serves nothing where it has none."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chances = Chances(world)

    def serves(self, method: str, path: str) -> bool:
        """True where this answers the request, in place of the operations."""
        paths = (TOKEN_PATH, REVOCATION_PATH, NEW_PAIR_PATH)
        return method == "POST" and path in paths and len(self._world.shelf(TokenPair)) > 0

    async def answer(self, request: web.Request, path: str) -> web.StreamResponse:
        """Answer a request that this `serves`, with the faults of the token endpoint."""
        if path == NEW_PAIR_PATH:
            return _response(200, self._new_pair())
        if path == TOKEN_PATH and (refusal := self._fault()) is not None:
            return refusal
        try:
            form = _form(await request.read(), request.content_type)
            if path == REVOCATION_PATH:
                self._revoke(form)
                return _response(200, None)
            answer = _response(200, self._refresh(form))
        except TokenRefusal as refusal:
            return _refused(refusal)
        return await self._late_or_lost(request, answer)

    def _fault(self) -> web.Response | None:
        if self._chances.strikes("token_status_503"):
            return web.Response(status=503, text="Service Unavailable")
        if self._chances.strikes("token_refused"):
            return _refused(TokenRefusal("invalid_grant", "The refresh token is not accepted"))
        return None

    async def _late_or_lost(self, request: web.Request, answer: web.Response) -> web.Response:
        """Spoil the answer to a refresh: the old refresh token is dead in any case."""
        if self._chances.strikes("token_answer_lost") and request.transport is not None:
            request.transport.abort()  # what is written to it afterwards goes nowhere
        elif self._world.options.token_answer_latency > 0:
            await self._world.clock.sleep(self._world.options.token_answer_latency)
        return answer

    def _refresh(self, form: Mapping[str, str]) -> Json:
        _check_grant(form)
        self._check_client(form)
        pair = self._pair(form["refresh_token"])
        scope = form.get("scope", pair.scope)
        if not set(scope.split()) <= set(pair.scope.split()):
            raise TokenRefusal("invalid_scope", f"The refresh token is for scope {pair.scope}")
        token = refreshed(self._world, pair)
        return {
            "access_token": token.value,
            "refresh_token": pair.refresh_token,
            "token_type": "Bearer",
            "expires_in": pair.access_token_seconds,
            "scope": scope,
        }

    def _pair(self, value: str) -> TokenPair:
        pair = pair_with(self._world, value)
        if pair is None:
            raise TokenRefusal("invalid_grant", "The refresh token is unknown or revoked")
        if value != pair.refresh_token:
            if self._world.options.token_reuse_revokes:
                revoke(self._world, pair)
            raise TokenRefusal("invalid_grant", "The refresh token has been used before")
        if pair.expires_at <= self._world.now():
            raise TokenRefusal("invalid_grant", "The refresh token has expired")
        person = self._world.people.get(pair.creator_id)
        if person is None or person.is_disabled:
            raise TokenRefusal("invalid_grant", "The owner of the refresh token is disabled")
        return pair

    def _check_client(self, form: Mapping[str, str]) -> None:
        """Hold the client against the workspace's own: there is one for all pairs."""
        client = next(iter(self._world.shelf(TokenPair)))
        if "client_id" not in form:
            raise TokenRefusal("invalid_request", "client_id is missing")
        if form["client_id"] != client.client_id:
            raise TokenRefusal("invalid_client", "The client is unknown")
        secret = form.get("client_secret", "").encode()
        if not hmac.compare_digest(secret, (client.client_secret or "").encode()):
            raise TokenRefusal("invalid_client", "The client's secret is missing or wrong")

    def _revoke(self, form: Mapping[str, str]) -> None:
        """Revoke the pair of any of its tokens; one that is unknown is no error."""
        self._check_client(form)
        if "token" not in form:
            raise TokenRefusal("invalid_request", "token is missing")
        pair = pair_with(self._world, form["token"])
        for token in self._world.tokens.having("value", form["token"]):
            pair = self._world.shelf(TokenPair).get(token.pair_id or 0)
        if pair is not None:
            revoke(self._world, pair)

    def _new_pair(self) -> Json:
        """Generate a pair for the first person, who is the administrator; the old one ends."""
        owner_id = next(iter(self._world.people)).id
        pairs = [pair for pair in self._world.shelf(TokenPair) if pair.creator_id == owner_id]
        pair = replaced(self._world, pairs[-1])
        return {"client_id": pair.client_id, "refresh_token": pair.refresh_token}


def _form(content: bytes, content_type: str) -> dict[str, str]:
    """Return the fields of a form; empty ones count as absent, as RFC 6749 says."""
    if content_type != _FORM:
        raise TokenRefusal("invalid_request", f"The body must be {_FORM}")
    pairs = parse_qsl(content.decode(errors="replace"))
    form = {readable(name): readable(value) for name, value in pairs}
    if len(form) < len(pairs):
        raise TokenRefusal("invalid_request", "A parameter is repeated")
    return form


def _check_grant(form: Mapping[str, str]) -> None:
    if "grant_type" not in form:
        raise TokenRefusal("invalid_request", "grant_type is missing")
    if form["grant_type"] != "refresh_token":
        raise TokenRefusal("unsupported_grant_type", "The grant type must be refresh_token")
    if "refresh_token" not in form:
        raise TokenRefusal("invalid_request", "refresh_token is missing")


def _refused(refusal: TokenRefusal) -> web.Response:
    return _response(400, {"error": refusal.error, "error_description": refusal.description})


def _response(status: int, body: Json) -> web.Response:
    return web.Response(
        status=status,
        body=b"" if body is None else msgspec.json.encode(body),
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
