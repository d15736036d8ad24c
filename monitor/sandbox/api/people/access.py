"""Access: the tokens of the API, and the configurations and roles of AWS."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec

from monitor.sandbox.api.calls import NO_CONTENT, Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import Hooks, crud
from monitor.sandbox.api.errors import (
    Json,
    bad_field,
    bad_parameter,
    forbidden,
    not_found,
    route_not_found,
)
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.request.parameters import INTEGER
from monitor.sandbox.api.response.kinds import Kind, OnDelete, Reference, View
from monitor.sandbox.api.response.rendering import reference, stamp
from monitor.sandbox.api.workspace.configuration import setting, whole_number
from monitor.sandbox.world.records.objects import Person, Token
from monitor.sandbox.world.records.parts import AwsConfig, AwsRole
from monitor.sandbox.world.shelves import WORKSPACE_ID

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


def config_of(view: View, role: AwsRole) -> AwsConfig | None:
    """Return the configuration that a role belongs to."""
    return view.world.shelf(AwsConfig).get(role.aws_config_id, with_deleted=True)


def _sees_config(view: View, aws_config: AwsConfig) -> bool:
    return view.person.is_admin or aws_config.person_id in (None, view.person.id)


def _sees_role(view: View, aws_role: AwsRole) -> bool:
    config = config_of(view, aws_role)
    return config is not None and _sees_config(view, config)


def _credential(view: View, aws_config: AwsConfig) -> Json:
    """Name the stored key; one configuration has one, so that they share an id."""
    del view
    return None if aws_config.key is None else reference(aws_config.id)


AWS_CONFIG = Kind(
    record=AwsConfig,
    references=(
        Reference("person_id", Person, sent="personId"),
        Reference("active_role_id", AwsRole, on_delete=OnDelete.CLEAR),
    ),
    computed={"credential": _credential},
    unkept=frozenset({"id", "workspaceId"}),
    is_visible_to=_sees_config,
    filter_fields=("defaultBucket", "role"),
)
AWS_ROLE = Kind(
    record=AwsRole,
    references=(Reference("aws_config_id", AwsConfig, shown="awsConfig"),),
    # A role is answered by two models, one with the configuration and one with its id.
    computed={"awsConfigId": lambda _, record: record.aws_config_id},
    unkept=frozenset({"personId", "workspaceId", "createdAt", "updatedAt", "deletedAt"}),
    is_visible_to=_sees_role,
    filter_fields=("role",),
)


def _prepare_config(call: Call, config: AwsConfig | None, values: dict[str, Any]) -> dict[str, Any]:
    """Decide whose configuration it is: the caller's own where no person is named."""
    values = dict(values)
    if config is None or _names_a_person(call):
        values["person_id"] = _owner_id(call)
    return values


def _prepare_role(call: Call, role: AwsRole | None, values: dict[str, Any]) -> dict[str, Any]:
    """Find the configuration that the role belongs to, or make one."""
    values = dict(values)
    if role is None or _names_a_person(call):
        values["aws_config_id"] = _config_for(call, _owner_id(call)).id
    return values


def _config_for(call: Call, person_id: int | None) -> AwsConfig:
    """Return the newest configuration of a person or of the workspace."""
    shelf = call.world.shelf(AwsConfig)
    found = [aws_config for aws_config in shelf.live() if aws_config.person_id == person_id]
    if found:
        return found[-1]
    return call.world.create(
        AwsConfig, by=call.person.id, person_id=person_id, credential_provider="temporary"
    )


def _activate(call: Call, role: AwsRole) -> None:
    """Let a configuration use its first role."""
    config = config_of(call.view, role)
    if config is not None and config.active_role_id is None:
        call.world.update(config, active_role_id=role.id)


def _narrow_roles(call: Call, roles: Iterable[AwsRole]) -> Iterable[AwsRole]:
    """Return the roles of the person whom the query names."""
    text = call.query.get("personId").strip()
    if not text:
        return roles
    if not INTEGER.fullmatch(text) or call.world.people.get(int(text)) is None:
        raise bad_parameter("personId", text, "the id of a person")
    wanted = int(text)
    return [
        role
        for role in roles
        if (config := config_of(call.view, role)) is not None and config.person_id == wanted
    ]


def _names_a_person(call: Call) -> bool:
    body = Body(call.body)
    return body.has("personId") or body.has("workspaceId")


def _owner_id(call: Call) -> int | None:
    """Return who is named by ``personId``, None for the workspace, or else the caller's id.

    Raises:
        ApiError: 400 for an unknown person or workspace, 403 for that of another person.
    """
    body = Body(call.body)
    if body.has("personId"):
        return _person(call, body).id
    if body.has("workspaceId"):
        if body.integer("workspaceId") != WORKSPACE_ID:
            raise bad_field("workspaceId", "is not this workspace")
        if not call.person.is_admin:
            raise forbidden("Only an administrator may configure AWS for the workspace")
        return None
    return call.person.id


def _person(call: Call, body: Body) -> Person:
    person = call.world.people.get(body.integer("personId"))
    if person is None:
        raise bad_field("personId", "names no person of this workspace")
    if person.id != call.person.id and not call.person.is_admin:
        raise forbidden("Only an administrator may configure AWS for another person")
    return person


def _may_change_config(call: Call, config: AwsConfig) -> None:
    if not call.person.is_admin and config.person_id != call.person.id:
        raise forbidden(f"You may not change awsConfig {config.id}")


def _may_change_role(call: Call, role: AwsRole) -> None:
    config = config_of(call.view, role)
    if config is not None:
        _may_change_config(call, config)


HANDLERS: Handlers = {
    "createAccessToken": create_token,
    "listApiAccessTokens": list_tokens,
    "getApiAccessToken": get_token,
    "deleteApiAccessToken": delete_token,
    **crud(AWS_CONFIG, Hooks(prepare=_prepare_config, may_change=_may_change_config)),
    **crud(
        AWS_ROLE,
        Hooks(
            prepare=_prepare_role,
            narrow=_narrow_roles,
            after=_activate,
            may_change=_may_change_role,
        ),
    ),
}
