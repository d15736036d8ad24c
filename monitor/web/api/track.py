"""``/api/v1/track``: follow a run that no list shows."""

from __future__ import annotations

from msgspec import Struct

from monitor.model.outside import is_run_id
from monitor.model.runs import RunKind
from monitor.web.api.routes import ApiWrite, Confirmation, NoParameters
from monitor.web.http.problems import ProblemDetails
from monitor.web.http.request_parsing import SHOWN
from monitor.web.requests import Requests


class TrackRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to follow. ``workspace`` may be left out where there is only one."""

    kind: RunKind
    id: str
    workspace: str | None = None


def track_write(requests: Requests) -> ApiWrite:
    async def track(_: NoParameters, body: TrackRequest) -> Confirmation:
        if not is_run_id(body.id):
            raise ProblemDetails(400, f"id: {body.id[:SHOWN]!r} is not the id of a run")
        return Confirmation(detail=await requests.track(body.workspace, body.kind, body.id))

    return ApiWrite(
        name="track",
        summary="Follow a run that no list of the workspace shows.",
        api="/api/v1/track",
        body=TrackRequest,
        answer=Confirmation,
        status=202,
        problems={404: "The workspace denies the run.", 409: "No such workspace is followed."},
        perform=track,
    )
