"""``/api/v1/actions``: run again what a run has run, and cancel a run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta, Struct

from monitor.model.actions import Action, ActionResult, Cancel, Rerun
from monitor.model.outside import is_id_of, why_no_id
from monitor.model.runs import RunKind
from monitor.web.api.route_types import ApiWrite
from monitor.web.audit.recording import Write
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.principals import Role
from monitor.web.requests import Requests
from monitor.web.views.view import NoParameters, ViewSources

_LATEST = timedelta(seconds=60)  # what is sent later is not what the user expects any more
_OFF = "actions are off: with [server] actions = true, users of role operate may run again, cancel"
_PROBLEMS: Mapping[int, str] = MappingProxyType(
    {
        404: "There is no such run.",
        409: "The run does not allow it as it is, nor the edition, nor the workspace.",
    }
)


class RerunRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to run again. ``workspace`` may be left out where there is only one.

    ``execution_id`` is made up by the caller, best as a UUID. However often a request is sent with
    the same one, it starts one run.
    """

    kind: RunKind
    id: str
    execution_id: Annotated[str, Meta(pattern="^[A-Za-z0-9-]{16,64}$")]
    workspace: str | None = None


class CancelRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to cancel. ``workspace`` may be left out where there is only one."""

    kind: RunKind
    id: str
    workspace: str | None = None


def action_writes(requests: Requests, sources: ViewSources) -> tuple[ApiWrite, ApiWrite]:
    """Return the routes of all actions. They answer 403 where actions are off."""

    async def rerun(_: NoParameters, body: RerunRequest, _write: Write) -> ActionResult:
        again = Rerun(kind=body.kind, id=body.id, execution_id=body.execution_id)
        return await act(body.workspace, again)

    async def cancel(_: NoParameters, body: CancelRequest, _write: Write) -> ActionResult:
        return await act(body.workspace, Cancel(kind=body.kind, id=body.id))

    async def act(workspace: str | None, action: Action) -> ActionResult:
        if not sources.settings.actions:
            raise ProblemDetails(403, _OFF)
        if not is_id_of(action.kind, action.id):
            raise ProblemDetails(400, f"id: {why_no_id(action.kind, action.id)}")
        return await requests.act(workspace, action, sources.clock.now() + _LATEST)

    return (
        ApiWrite(
            name="rerun",
            summary="Run again what a run has run, with the parameters that it has now.",
            api="/api/v1/actions/rerun",
            role=Role.OPERATE,
            body=RerunRequest,
            answer=ActionResult,
            problems=_PROBLEMS,
            perform=rerun,
        ),
        ApiWrite(
            name="cancel",
            summary="Cancel a run that has not ended.",
            api="/api/v1/actions/cancel",
            role=Role.OPERATE,
            body=CancelRequest,
            answer=ActionResult,
            problems=_PROBLEMS,
            perform=cancel,
        ),
    )
