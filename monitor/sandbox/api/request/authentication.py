"""The caller: the token of the ``Authorization`` header, as one of the world's people."""

from __future__ import annotations

import base64
import binascii

from monitor.catalogue.operations import Edition
from monitor.sandbox.api.errors import unauthorized
from monitor.sandbox.world.records.objects import Person
from monitor.sandbox.world.shelves import World


def authenticate(world: World, header: str, edition: Edition) -> Person:
    """Return the person whose access token the header carries.

    Self-managed workspaces, edition ``open``, take Basic too: a person's address, and as the
    password any of his tokens.

    Raises:
        ApiError: 401, when there is no token, or none that this workspace accepts.
    """
    scheme, _, token = header.strip().partition(" ")
    address = None
    if scheme.lower() == "basic" and edition is Edition.OPEN:
        address, token = _decoded(token.strip())
    elif scheme.lower() != "bearer" or not token.strip():
        raise unauthorized("An access token is required: Authorization: Bearer <token>")
    person = world.person_of(token.strip())
    if person is None or person.is_disabled:
        raise unauthorized("The access token is unknown or expired")
    if address is not None and address.casefold() != person.email.casefold():
        raise unauthorized("The password is no access token of this person")
    return person


def _decoded(credentials: str) -> tuple[str, str]:
    try:
        address, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError) as exc:
        raise unauthorized("The credentials are no Base64 of address:password") from exc
    return address, password
