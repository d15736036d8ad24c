"""Who else works on a flow."""

from __future__ import annotations

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import found
from monitor.sandbox.api.crud.sharing import share, subjects
from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.flows.flow_kinds import FLOW
from monitor.sandbox.api.models.outcomes import status_of
from monitor.sandbox.api.people.person_shapes import people_of
from monitor.sandbox.api.response.rendering import reference, stamp
from monitor.sandbox.api.response.roles import role_of


def share_flow(call: Call) -> Reply:
    """Let people work on a flow, or only view it; the answer lists everybody who has access."""
    flow = found(call, FLOW)
    share(call, flow, subjects(call))
    permissions: list[Json] = [
        {
            "role": role_of(flow, person.id),
            "person": reference(person.id),
            "flow": reference(flow.id),
            "createdAt": stamp(flow.created_at),
            "updatedAt": stamp(flow.updated_at),
        }
        for person in people_of(call.view, flow)
    ]
    return Reply(
        status=status_of(call.operation), body={"data": permissions, "count": len(permissions)}
    )


HANDLERS: Handlers = {"shareFlow": share_flow}
