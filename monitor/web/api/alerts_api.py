"""The JSON API of alerts, silences and replays."""

from __future__ import annotations

from datetime import timedelta

from aiohttp import web
from msgspec import Struct

from monitor.alerting.alerts.silences import new_silence, parse_instant, words_problem
from monitor.model.alerts import Silence
from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError
from monitor.web.http.problems import ProblemDetails
from monitor.web.http.request_parsing import (
    SHOWN,
    answer_json,
    one_line,
    read_body,
    unknown,
)
from monitor.web.requests import AlertingRequests
from monitor.web.views.alert_models import silence_view

_LONGEST_SILENCE_SECONDS = 10 * 365 * 86_400.0


class SilenceRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /api/v1/silences``; one of the last two names its end."""

    matchers: tuple[str, ...]
    author: str
    comment: str
    starts_at: str | None = None
    ends_at: str | None = None
    for_seconds: float | None = None


class AcknowledgementRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /api/v1/acknowledgements``: an open alert, who knows of it, and why."""

    fingerprint: str
    starts_at: str
    author: str
    comment: str = ""


class ReplayRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /api/v1/replay``."""

    output: str
    since: str


class AlertsApi:
    """The handlers of ``/api/v1`` that are about alerts."""

    def __init__(
        self,
        requests: AlertingRequests,
        *,
        clock: Clock,
    ) -> None:
        self._requests = requests
        self._clock = clock

    def add_routes(self, router: web.UrlDispatcher) -> None:
        prefix = "/api/v1"
        router.add_post(f"{prefix}/silences", self._silence)
        router.add_post(f"{prefix}/acknowledgements", self._acknowledge)
        router.add_delete(f"{prefix}/silences/{{id}}", self._expire)
        router.add_post(f"{prefix}/replay", self._replay)

    async def _silence(self, request: web.Request) -> web.Response:
        body = await read_body(request, SilenceRequest)
        try:
            silence = self._made(body)
        except ConfigurationError as exc:
            raise ProblemDetails(400, one_line("; ".join(exc.problems))) from exc
        await self._requests.add_silence(silence)
        return answer_json(silence_view(silence, now=self._clock.now()), status=201)

    def _made(self, body: SilenceRequest) -> Silence:
        now = self._clock.now()
        ends_at = None if body.ends_at is None else parse_instant(body.ends_at)
        if body.for_seconds is not None:
            if ends_at is not None:
                raise ProblemDetails(
                    400, "for_seconds: ends_at is given too; leave one of them out"
                )
            if not 0 < body.for_seconds <= _LONGEST_SILENCE_SECONDS:
                raise ProblemDetails(400, "for_seconds: is not above 0 and at most ten years")
            ends_at = now + timedelta(seconds=body.for_seconds)
        return new_silence(
            matchers=body.matchers,
            author=body.author,
            comment=body.comment,
            starts_at=None if body.starts_at is None else parse_instant(body.starts_at),
            ends_at=ends_at,
            now=now,
            labels=self._requests.labels(),
        )

    async def _acknowledge(self, request: web.Request) -> web.Response:
        body = await read_body(request, AcknowledgementRequest)
        try:
            starts_at = parse_instant(body.starts_at)
        except ConfigurationError as exc:
            raise ProblemDetails(400, one_line(f"starts_at: {exc}")) from exc
        for key, problem in (
            ("author", words_problem(body.author)),
            ("comment", words_problem(body.comment, is_needed=False)),
        ):
            if problem:
                raise ProblemDetails(400, f"{key}: {problem}")
        is_open = await self._requests.acknowledge(
            body.fingerprint, starts_at, body.author.strip(), body.comment.strip()
        )
        if not is_open:
            raise ProblemDetails(
                404, f"alert: no open alert {body.fingerprint[:SHOWN]!r} began then"
            )
        return answer_json({"detail": "acknowledged: no more reminders of this alert"}, status=201)

    async def _expire(self, request: web.Request) -> web.Response:
        silence_id = request.match_info["id"]
        silences = {silence.id: silence for silence in self._requests.snapshot().silences}
        silence = silences.get(silence_id)
        if silence is not None and silence.origin == "config":
            raise ProblemDetails(
                409, f"silence {silence_id} is part of the configuration; remove it there"
            )
        if silence is None or not await self._requests.expire_silence(silence_id):
            raise ProblemDetails(404, f"silence: {unknown(silence_id, silences)}")
        return answer_json({"detail": f"silence {silence_id} has expired"})

    async def _replay(self, request: web.Request) -> web.Response:
        body = await read_body(request, ReplayRequest)
        outputs = self._requests.outputs()
        if body.output not in outputs:
            raise ProblemDetails(404, f"output: {unknown(body.output, outputs)}")
        try:
            since = parse_instant(body.since)
        except ConfigurationError as exc:
            raise ProblemDetails(400, one_line(f"since: {exc}")) from exc
        return answer_json(await self._requests.replay(body.output, since))
