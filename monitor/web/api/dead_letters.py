"""``/api/v1/dead-letters``: send what an output refused for good to it again, or drop it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from monitor.outputs.dead_letters import LetterAction, LettersProcessed
from monitor.web.api.route_types import ApiWrite
from monitor.web.audit.recording import Write
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import unknown
from monitor.web.principals import Role
from monitor.web.views.view import NoParameters, ViewSources

_MOST_IDS = 1_000
_NO_OUTPUT = {404: "There is no such output."}


class LettersRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An output, and the ids of the events that it refused, or all of them."""

    output: str
    event_ids: Annotated[tuple[str, ...], Meta(max_length=_MOST_IDS)] = ()
    all: bool = False


def resend_write(sources: ViewSources) -> ApiWrite:
    async def resend(_: NoParameters, body: LettersRequest, _write: Write) -> LettersProcessed:
        return await _processed(sources, LetterAction.RESEND, body)

    return ApiWrite(
        name="resend_dead_letters",
        summary="Send events that an output refused to it again, with the same ids.",
        api="/api/v1/dead-letters/resend",
        role=Role.ADMIN,
        is_whole=True,
        body=LettersRequest,
        answer=LettersProcessed,
        problems=_NO_OUTPUT,
        perform=resend,
    )


def drop_write(sources: ViewSources) -> ApiWrite:
    async def drop(_: NoParameters, body: LettersRequest, _write: Write) -> LettersProcessed:
        return await _processed(sources, LetterAction.DROP, body)

    return ApiWrite(
        name="drop_dead_letters",
        summary="Delete dead letters of an output, which is never sent these events any more.",
        api="/api/v1/dead-letters/drop",
        role=Role.ADMIN,
        is_whole=True,
        body=LettersRequest,
        answer=LettersProcessed,
        problems=_NO_OUTPUT,
        perform=drop,
    )


async def _processed(
    sources: ViewSources, action: LetterAction, body: LettersRequest
) -> LettersProcessed:
    outputs = sources.alerting.outputs()
    if body.output not in outputs:
        raise ProblemDetails(404, f"output: {unknown(body.output, outputs)}")
    if body.all == bool(body.event_ids):
        raise ProblemDetails(400, "event_ids: name the events, or set all to true; one of the two")
    event_ids = None if body.all else body.event_ids
    return await sources.alerting.process_letters(body.output, action, event_ids)
