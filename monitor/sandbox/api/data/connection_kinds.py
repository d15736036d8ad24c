"""Connections: ways to data outside the workspace, whose secrets no answer shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.response.kinds import Kind, View
from monitor.sandbox.api.response.rendering import reference
from monitor.sandbox.world.records.objects import Connection
from monitor.sandbox.world.shelves import WORKSPACE_ID

# What a list of connections can be narrowed to.
SHARED_ROLES = ("owner", "collaborator", "readOnly")
OPERATIONS = ("import", "publish")
# The fields of credentials that may be shown: the user, never the secret.
OPEN_CREDENTIALS = ("username", "user", "email", "iamRoleArn", "iamDbUser")


def without_secrets(credentials: Mapping[str, Any]) -> dict[str, Json]:
    """Return what an answer may show of credentials."""
    return {name: credentials[name] for name in OPEN_CREDENTIALS if name in credentials}


def _credentials(view: View, connection: Connection) -> Json:
    del view
    return [without_secrets(credentials) for credentials in connection.credentials]


def _advanced_credentials(view: View, connection: Connection) -> Json:
    del view
    return [without_secrets(credentials) for credentials in connection.advanced_credentials]


def _has_credentials(view: View, connection: Connection) -> bool:
    del view
    return bool(connection.credentials)


def is_visible(view: View, connection: Connection) -> bool:
    """True for the owner and administrators, and for everybody where it is global."""
    return connection.is_global or view.person.is_admin or connection.creator_id == view.person.id


CONNECTION: Kind[Connection] = Kind(
    record=Connection,
    name="connection",
    plural="connections",
    model="Connection",
    requests=("ConnectionCreateRequest",),
    is_visible_to=is_visible,
    constants={"workspace": reference(WORKSPACE_ID)},
    computed={
        "hasCredentials": _has_credentials,
        "credentials": _credentials,
        "advancedCredentials": _advanced_credentials,
    },
    # The bucket of a remote file system is one of its ``params``; see the handler.
    unkept=frozenset({"hasCredentials", "oauth2StateId", "bucket"}),
)
