"""``/api/v1/track`` and ``untrack``: follow a run that no list shows; drop such a request."""

from __future__ import annotations

from msgspec import Struct

from monitor.model.outside import is_id_of, why_no_id
from monitor.model.runs import RunKind
from monitor.web.api.route_types import ApiWrite, Confirmation
from monitor.web.audit.recording import Write
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.principals import Role
from monitor.web.requests import Requests
from monitor.web.views.view import NoParameters


class TrackRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to follow. ``workspace`` may be left out where there is only one.

    The ids of job groups and flow runs are numbers.
    """

    kind: RunKind
    id: str
    workspace: str | None = None


def track_write(requests: Requests) -> ApiWrite:
    async def track(_: NoParameters, body: TrackRequest, _write: Write) -> Confirmation:
        _require_id(body)
        return Confirmation(detail=await requests.track(body.workspace, body.kind, body.id))

    return ApiWrite(
        name="track",
        summary="Follow a run that no list of the workspace shows.",
        api="/api/v1/track",
        role=Role.OPERATE,
        body=TrackRequest,
        answer=Confirmation,
        status=202,
        problems={404: "The workspace denies the run.", 409: "No such workspace is followed."},
        perform=track,
    )


def untrack_write(requests: Requests) -> ApiWrite:
    async def untrack(_: NoParameters, body: TrackRequest, _write: Write) -> Confirmation:
        _require_id(body)
        return Confirmation(detail=await requests.untrack(body.workspace, body.kind, body.id))

    return ApiWrite(
        name="untrack",
        summary="Drop a request to follow a run that the workspace has not answered yet.",
        api="/api/v1/untrack",
        role=Role.OPERATE,
        body=TrackRequest,
        answer=Confirmation,
        problems={
            404: "No such request waits.",
            409: "The run was read and is followed to its end, or no such workspace is followed.",
        },
        perform=untrack,
    )


def _require_id(body: TrackRequest) -> None:
    if not is_id_of(body.kind, body.id):
        raise ProblemDetails(400, f"id: {why_no_id(body.kind, body.id)}")
