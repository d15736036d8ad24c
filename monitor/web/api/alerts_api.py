"""The JSON API of alerts and silences."""

from __future__ import annotations

from datetime import timedelta

from aiohttp import web
from msgspec import Struct

from monitor.alerting.alerts.silences import new_silence, parse_instant
from monitor.model.alerts import BRIDGE, Alert, AlertingSnapshot, AlertState, Silence
from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError
from monitor.model.slices import in_slices
from monitor.web.http.problems import ProblemDetails
from monitor.web.http.request_parsing import (
    answer_json,
    answer_rows,
    choice,
    one_line,
    read_body,
    refuse_unknown,
    unknown,
)
from monitor.web.requests import AlertingRequests
from monitor.web.views.overview import Overview, worst_first
from monitor.web.views.view_models import AlertView, SilenceView, alert_view, silence_view

_IN_A_SLICE = 500  # alerts that are only compared
_LONGEST_SILENCE_SECONDS = 10 * 365 * 86_400.0


class SilenceRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /api/v1/silences``; one of the last two names its end."""

    matchers: tuple[str, ...]
    author: str
    comment: str
    starts_at: str | None = None
    ends_at: str | None = None
    for_seconds: float | None = None


class AlertsApi:
    """The handlers of ``/api/v1`` that are about alerts."""

    def __init__(
        self,
        requests: AlertingRequests,
        *,
        clock: Clock,
        overview: Overview,
    ) -> None:
        self._requests = requests
        self._clock = clock
        self._overview = overview

    def add_routes(self, router: web.UrlDispatcher) -> None:
        prefix = "/api/v1"
        router.add_get(f"{prefix}/alerts", self._alerts)
        router.add_get(f"{prefix}/alerts/{{fingerprint}}", self._alert)
        router.add_get(f"{prefix}/silences", self._silences)
        router.add_post(f"{prefix}/silences", self._silence)
        router.add_delete(f"{prefix}/silences/{{id}}", self._expire)

    async def _alerts(self, request: web.Request) -> web.Response:
        snapshot = self._requests.snapshot()
        state = choice(request, "state", AlertState)
        rule, workspace = request.query.get("rule"), request.query.get("workspace")
        names = [name for name, _ in snapshot.rules]
        if rule is not None and rule not in {*names, *(alert.name for alert in snapshot.alerts)}:
            raise ProblemDetails(400, f"rule: {unknown(rule, names)}")
        shown = [
            alert
            async for alert in in_slices(await worst_first(snapshot.alerts), size=_IN_A_SLICE)
            if state in (None, alert.state)
            and rule in (None, alert.name)
            and workspace in (None, alert.workspace)
        ]
        if not shown:
            refuse_unknown(workspace, [*self._overview.workspace_names(), BRIDGE])
        return await answer_rows(self._view(alert) for alert in shown)

    async def _alert(self, request: web.Request) -> web.Response:
        fingerprint = request.match_info["fingerprint"]
        alerts = self._requests.snapshot().alerts
        now = next((alert for alert in alerts if alert.fingerprint == fingerprint), None)
        ended = [alert_view(alert) for alert in self._requests.ended(fingerprint)]
        if now is None and not ended:
            raise no_alert(fingerprint, self._requests.snapshot())
        alert: AlertView | None = None if now is None else self._view(now)
        return answer_json({"alert": alert, "ended": ended})

    def _view(self, alert: Alert) -> AlertView:
        return alert_view(alert, unjudged=self._overview.why_unjudged(alert))

    async def _silences(self, _: web.Request) -> web.Response:
        return answer_json({"data": self.silences()})

    def silences(self) -> list[SilenceView]:
        """Return the silences; those that expired in the last day come last."""
        now = self._clock.now()
        shown = [silence_view(silence, now=now) for silence in self._requests.snapshot().silences]
        return sorted(shown, key=lambda silence: (silence.state == "expired", silence.ends_at))

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


def no_alert(fingerprint: str, snapshot: AlertingSnapshot) -> ProblemDetails:
    """Return the problem that no alert has that fingerprint."""
    known = [alert.fingerprint for alert in snapshot.alerts]
    return ProblemDetails(404, f"alert: {unknown(fingerprint, known)}")
