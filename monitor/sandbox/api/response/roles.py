"""What people are to a flow or plan that they see."""

from __future__ import annotations

from monitor.sandbox.world.records.objects import Flow, Plan

OWNER, COLLABORATOR, READ_ONLY = "owner", "collaborator", "readOnly"
ROLES = (OWNER, COLLABORATOR, READ_ONLY)


def role_of(thing: Flow | Plan, person_id: int) -> str:
    """Return what somebody is who sees a flow or plan."""
    if person_id == thing.creator_id:
        return OWNER
    return READ_ONLY if person_id in thing.read_only else COLLABORATOR
