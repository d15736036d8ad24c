"""``/api/v1/replay``: send recorded events to one output again."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from monitor.alerting.alerts.silences import parse_instant
from monitor.model.errors import ConfigurationError
from monitor.outputs.replaying import Replayed
from monitor.web.api.route_types import ApiWrite
from monitor.web.audit.recording import Write
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import one_line, unknown
from monitor.web.principals import Role
from monitor.web.views.view import NoParameters, ViewSources


class ReplayRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which output, and the instant from which on events are sent again."""

    output: str
    since: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


def replay_write(sources: ViewSources) -> ApiWrite:
    async def replay(_: NoParameters, body: ReplayRequest, _write: Write) -> Replayed:
        requests = sources.alerting
        outputs = requests.outputs()
        if body.output not in outputs:
            raise ProblemDetails(404, f"output: {unknown(body.output, outputs)}")
        try:
            since = parse_instant(body.since)
        except ConfigurationError as exc:
            raise ProblemDetails(400, one_line(f"since: {exc}")) from exc
        return await requests.replay(body.output, since)

    return ApiWrite(
        name="replay",
        summary="Send recorded events to one output again, with the same ids.",
        api="/api/v1/replay",
        role=Role.ADMIN,
        is_whole=True,
        body=ReplayRequest,
        answer=Replayed,
        problems={404: "There is no such output."},
        perform=replay,
    )
