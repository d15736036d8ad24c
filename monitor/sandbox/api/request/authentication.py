"""The caller: the token of the ``Authorization`` header, as one of the world's people."""

from __future__ import annotations

from monitor.sandbox.api.errors import unauthorized
from monitor.sandbox.world.records.objects import Person
from monitor.sandbox.world.shelves import World


def authenticate(world: World, header: str) -> Person:
    """Return the person whose access token the header carries.

    Raises:
        ApiError: 401, when there is no token, or none that this workspace accepts.
    """
    scheme, _, token = header.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise unauthorized("An access token is required: Authorization: Bearer <token>")
    person = world.person_of(token.strip())
    if person is None or person.is_disabled:
        raise unauthorized("The access token is unknown or expired")
    return person
