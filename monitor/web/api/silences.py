"""``/api/v1/silences`` and ``/api/v1/acknowledgements``: what people say of alerts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Meta, Struct

from monitor.alerting.alerts.acknowledging import end_problem
from monitor.alerting.alerts.silences import new_silence, parse_instant, words_problem
from monitor.model.alerts import Acknowledgement, Silence
from monitor.model.errors import ConfigurationError
from monitor.web.api.route_types import ApiWrite, Confirmation
from monitor.web.audit.recording import Write
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import SHOWN, one_line
from monitor.web.principals import Role
from monitor.web.views.alerts.alert_models import SilenceView, silence_view
from monitor.web.views.alerts.silences import acknowledged_before, expired, silence_to_end
from monitor.web.views.view import NoParameters, ViewSources

_LONGEST_SECONDS = 10 * 365 * 86_400.0

_InstantText = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class SilenceRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A silence; one of the last two names its end.

    ``author`` counts where requests are anonymous; otherwise the silence is of who sends it.
    """

    matchers: tuple[str, ...]
    author: str = ""
    comment: str
    starts_at: _InstantText | None = None
    ends_at: _InstantText | None = None
    for_seconds: float | None = None


class AcknowledgementRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An open alert, who knows of it, and what they do about it.

    Reminders go out again at ``ends_at`` or after ``for_seconds``; without both, never for it.
    ``author`` counts where requests are anonymous; otherwise it is of who sends it.
    """

    fingerprint: str
    starts_at: _InstantText
    author: str = ""
    comment: str = ""
    ends_at: _InstantText | None = None
    for_seconds: float | None = None


class SilencePath(Struct, frozen=True, kw_only=True):
    """The silence of a path."""

    id: str


def silence_write(sources: ViewSources) -> ApiWrite:
    async def add(_: NoParameters, body: SilenceRequest, write: Write) -> SilenceView:
        try:
            silence = _made(sources, body, author=write.author(body.author))
        except ConfigurationError as exc:
            raise ProblemDetails(400, one_line("; ".join(exc.problems))) from exc
        await sources.alerting.add_silence(silence)
        return silence_view(silence, now=sources.clock.now())

    return ApiWrite(
        name="add_silence",
        summary="Suppress the notifications of matching alerts until a time.",
        api="/api/v1/silences",
        role=Role.OPERATE,
        body=SilenceRequest,
        answer=SilenceView,
        status=201,
        problems={409: "There are too many silences."},
        perform=add,
    )


def expire_write(sources: ViewSources) -> ApiWrite:
    async def expire(path: SilencePath, _: None, write: Write) -> Confirmation:
        silence = silence_to_end(sources.alerting, path.id)
        write.before, write.after = expired(silence, now=sources.clock.now())
        if not await sources.alerting.expire_silence(path.id):
            return Confirmation(detail=f"silence {path.id} had expired before")
        return Confirmation(detail=f"silence {path.id} has expired")

    return ApiWrite(
        name="expire_silence",
        summary="End a silence now.",
        api="/api/v1/silences/{id}",
        method="DELETE",
        role=Role.OPERATE,
        path=SilencePath,
        body=None,
        answer=Confirmation,
        problems={404: "There is no such silence.", 409: "It is part of the configuration."},
        perform=expire,
    )


def acknowledge_write(sources: ViewSources) -> ApiWrite:
    async def acknowledge(
        _: NoParameters, body: AcknowledgementRequest, write: Write
    ) -> Confirmation:
        author = write.author(body.author)
        for key, problem in (
            ("author", words_problem(author)),
            ("comment", words_problem(body.comment, is_needed=False)),
        ):
            if problem:
                raise ProblemDetails(400, f"{key}: {problem}")
        now = sources.clock.now()
        starts_at, until = _instant("starts_at", body.starts_at), _end(body, now=now)
        if (problem := end_problem(until, now=now)) is not None:
            raise ProblemDetails(400, f"ends_at: {problem}")
        by = Acknowledgement(
            author=author.strip(), comment=body.comment.strip(), at=now, until=until
        )
        write.before, write.after = acknowledged_before(sources.alerting, body.fingerprint), by
        is_open = await sources.alerting.acknowledge(
            body.fingerprint, starts_at, by.author, by.comment, until
        )
        if not is_open:
            raise ProblemDetails(
                404, f"alert: no open alert {one_line(body.fingerprint[:SHOWN])!r} began then"
            )
        lasts = "" if until is None else " until then"
        return Confirmation(detail=f"acknowledged: no more reminders of this alert{lasts}")

    return ApiWrite(
        name="acknowledge",
        summary="Stop the reminders of one open alert, for some time or until it ends.",
        api="/api/v1/acknowledgements",
        role=Role.OPERATE,
        body=AcknowledgementRequest,
        answer=Confirmation,
        status=201,
        problems={404: "No alert of that fingerprint and start is open."},
        perform=acknowledge,
    )


def _made(sources: ViewSources, body: SilenceRequest, *, author: str) -> Silence:
    now = sources.clock.now()
    return new_silence(
        matchers=body.matchers,
        author=author,
        comment=body.comment,
        starts_at=None if body.starts_at is None else parse_instant(body.starts_at),
        ends_at=_end(body, now=now),
        now=now,
        longest_seconds=sources.daemon().longest_silence_seconds,
        labels=sources.alerting.labels(),
    )


def _end(body: SilenceRequest | AcknowledgementRequest, *, now: datetime) -> datetime | None:
    """Return the end that a request names in one of two ways, None where it names none."""
    ends_at = None if body.ends_at is None else _instant("ends_at", body.ends_at)
    if body.for_seconds is None:
        return ends_at
    if ends_at is not None:
        raise ProblemDetails(400, "for_seconds: ends_at is given too; leave one of them out")
    if not 0 < body.for_seconds <= _LONGEST_SECONDS:
        raise ProblemDetails(400, "for_seconds: is not above 0 and at most ten years")
    return now + timedelta(seconds=body.for_seconds)


def _instant(key: str, text: str) -> datetime:
    try:
        return parse_instant(text)
    except ConfigurationError as exc:
        raise ProblemDetails(400, one_line(f"{key}: {exc}")) from exc
