"""The access tokens of the caller."""

from __future__ import annotations

import base64
from datetime import timedelta

import msgspec

from monitor.sandbox.api.calls import NO_CONTENT, Call, Handlers, Reply
from monitor.sandbox.api.errors import Json, bad_field, not_found, route_not_found
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.response.rendering import stamp
from monitor.sandbox.api.workspace.configuration import setting, whole_number
from monitor.sandbox.world.records.objects import Token

ENDLESS = -1
LONGEST_LIFETIME_SECONDS = 100 * 365 * 86_400


def create_token(call: Call) -> Reply:
    """Make a token of the caller; its value is returned this once."""
    _judge_feature(call)
    body = Body(call.body)
    lifetime = _lifetime_seconds(call, body)
    world = call.world
    number = len(world.tokens)
    token_id = world.uuid("token", number)
    secret = f"{world.random('token secret', number).getrandbits(256):064x}"
    document = msgspec.json.encode({"tokenId": token_id, "secret": secret})
    token = world.create(
        Token,
        by=call.person.id,
        token_id=token_id,
        value=base64.b64encode(document).decode(),
        description=body.optional_text("description"),
        expires_at=None if lifetime == ENDLESS else world.now() + timedelta(seconds=lifetime),
    )
    return Reply(status=201, body={"tokenValue": token.value, "tokenInfo": shown(token)})


def list_tokens(call: Call) -> Reply:
    """List the caller's own tokens, expired ones too."""
    _judge_feature(call)
    mine = [token for token in call.world.tokens.live() if token.creator_id == call.person.id]
    return Reply(body={"data": [shown(item) for item in reversed(mine)]})


def get_token(call: Call) -> Reply:
    """Show one of the caller's own tokens, without its value."""
    return Reply(body=shown(_token(call)))


def delete_token(call: Call) -> Reply:
    """Delete one of the caller's own tokens; requests with it are then refused."""
    call.world.delete(_token(call))
    return NO_CONTENT


def shown(token: Token) -> dict[str, Json]:
    """Return what can be read about a token."""
    return {
        "tokenId": token.token_id,
        "description": token.description,
        "expiredAt": stamp(token.expires_at),
        "lastUsed": stamp(token.last_used_at),
        "createdAt": stamp(token.created_at),
    }


def _lifetime_seconds(call: Call, body: Body) -> int:
    """Return how long the token shall live.

    Raises:
        ApiError: 400, when it is no lifetime, or longer than the workspace allows.
    """
    longest = whole_number(call.world, "apiAccessTokens.maximumLifetimeSeconds")
    seconds = body.integer("lifetimeSeconds", least=ENDLESS, most=LONGEST_LIFETIME_SECONDS)
    if seconds == 0:
        raise bad_field("lifetimeSeconds", "must be at least 1, or -1 for a token without end")
    if longest >= 0 and not 1 <= seconds <= longest:
        raise bad_field("lifetimeSeconds", f"must be from 1 to {longest} in this workspace")
    return seconds


def _token(call: Call) -> Token:
    """Return the token that the path names.

    Raises:
        ApiError: 404, when the caller has none with this id.
    """
    _judge_feature(call)
    for token in call.world.tokens.live():
        if token.token_id == call.path_values[0] and token.creator_id == call.person.id:
            return token
    raise not_found("access token", call.path_values[0])


def _judge_feature(call: Call) -> None:
    """Refuse where the workspace has switched access tokens off.

    Raises:
        ApiError: 404, as for what is no route at all.
    """
    if not setting(call.world, "apiAccessTokens.enabled"):
        operation = call.operation
        raise route_not_found(operation.method, operation.fill(*call.path_values))


HANDLERS: Handlers = {
    "createAccessToken": create_token,
    "listApiAccessTokens": list_tokens,
    "getApiAccessToken": get_token,
    "deleteApiAccessToken": delete_token,
}
