"""The JSON API of alerts: what is wrong, who does not want to hear it, and why nobody was told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from aiohttp import web
from msgspec import Struct

from monitor.alerting.alerts.silences import Labels, instant, made_silence
from monitor.alerting.explain.explanations import Explanation
from monitor.model.alerts import BRIDGE, Alert, AlertingSnapshot, AlertState, Silence
from monitor.model.clock import Clock
from monitor.model.errors import ConfigurationError
from monitor.model.runs import PipelineKind, RunKey, RunKind
from monitor.web.explain_api import answer_json, choice, read_body, refuse_unknown, unknown
from monitor.web.overview import worst_first
from monitor.web.problems import ProblemDetails
from monitor.web.view_models import AlertView, SilenceView, alert_view, silence_view

K = TypeVar("K", RunKind, PipelineKind)

_SHOWN = 40  # characters of what was asked for
_ASKED = {
    "alert": "FINGERPRINT",
    "run": "WORKSPACE/KIND/ID",
    "pipeline": "WORKSPACE/KIND/ID",
}
_LONGEST_SILENCE_SECONDS = 10 * 365 * 86_400.0


class AlertingRequests(Struct, frozen=True, kw_only=True):
    """What can be asked of alerting and of the outputs; `app` fills it in."""

    picture: Callable[[], AlertingSnapshot]
    ended: Callable[[str], Sequence[Alert]]  # a fingerprint's episodes that are over
    labels: Callable[[], Labels]  # that alerts may carry, for matchers
    add_silence: Callable[[Silence], Awaitable[None]]
    expire_silence: Callable[[str], Awaitable[bool]]
    explain_alert: Callable[[str], Awaitable[Explanation | None]]
    explain_run: Callable[[RunKey], Awaitable[Explanation | None]]
    explain_pipeline: Callable[[str, PipelineKind, str], Awaitable[Explanation | None]]
    outputs: Callable[[], Sequence[str]]
    replay: Callable[[str, datetime], Awaitable[Struct]]  # an output, from when on; what it took


class SilenceRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /api/v1/silences``; its end is told by one of the last two."""

    matchers: tuple[str, ...]
    author: str
    comment: str
    starts_at: str | None = None
    ends_at: str | None = None
    for_seconds: float | None = None


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
        workspaces: Callable[[], Sequence[str]],
    ) -> None:
        self._requests = requests
        self._clock = clock
        self._workspaces = workspaces

    def add_routes(self, router: web.UrlDispatcher) -> None:
        prefix = "/api/v1"
        router.add_get(f"{prefix}/alerts", self._alerts)
        router.add_get(f"{prefix}/alerts/{{fingerprint}}", self._alert)
        router.add_get(f"{prefix}/silences", self._silences)
        router.add_post(f"{prefix}/silences", self._silence)
        router.add_delete(f"{prefix}/silences/{{id}}", self._expire)
        router.add_get(f"{prefix}/explain", self._explain)
        router.add_post(f"{prefix}/replay", self._replay)

    async def _alerts(self, request: web.Request) -> web.Response:
        picture = self._requests.picture()
        state = choice(request, "state", AlertState)
        rule, workspace = request.query.get("rule"), request.query.get("workspace")
        names = [name for name, _ in picture.rules]
        if rule is not None and rule not in {*names, *(alert.name for alert in picture.alerts)}:
            raise ProblemDetails(400, f"rule: {unknown(rule, names)}")
        shown = [
            item
            for item in worst_first(picture.alerts)
            if state in (None, item.state)
            and rule in (None, item.name)
            and workspace in (None, item.workspace)
        ]
        if not shown:
            refuse_unknown(workspace, [*self._workspaces(), BRIDGE])
        return answer_json({"data": [alert_view(item) for item in shown]})

    async def _alert(self, request: web.Request) -> web.Response:
        asked = request.match_info["fingerprint"]
        alerts = self._requests.picture().alerts
        now = next((alert for alert in alerts if alert.fingerprint == asked), None)
        ended = [alert_view(item) for item in self._requests.ended(asked)]
        if now is None and not ended:
            raise self._no_alert(asked)
        told: AlertView | None = None if now is None else alert_view(now)
        return answer_json({"alert": told, "ended": ended})

    async def _silences(self, _: web.Request) -> web.Response:
        return answer_json({"data": self.silences()})

    def silences(self) -> list[SilenceView]:
        """Return the silences, those of the last day that are over behind the others."""
        now = self._clock.now()
        shown = [silence_view(silence, now=now) for silence in self._requests.picture().silences]
        return sorted(shown, key=lambda silence: (silence.state == "expired", silence.ends_at))

    async def _silence(self, request: web.Request) -> web.Response:
        body = await read_body(request, SilenceRequest)
        try:
            silence = self._made(body)
        except ConfigurationError as exc:
            raise ProblemDetails(400, _one_line("; ".join(exc.problems))) from exc
        await self._requests.add_silence(silence)
        picture = silence_view(silence, now=self._clock.now())
        return answer_json(picture, status=201)

    def _made(self, body: SilenceRequest) -> Silence:
        now = self._clock.now()
        ends_at = None if body.ends_at is None else instant(body.ends_at)
        if body.for_seconds is not None:
            if ends_at is not None:
                raise ProblemDetails(
                    400, "for_seconds: ends_at is given too; leave one of them out"
                )
            if not 0 < body.for_seconds <= _LONGEST_SILENCE_SECONDS:
                raise ProblemDetails(400, "for_seconds: is not above 0 and at most ten years")
            ends_at = now + timedelta(seconds=body.for_seconds)
        return made_silence(
            matchers=body.matchers,
            author=body.author,
            comment=body.comment,
            starts_at=None if body.starts_at is None else instant(body.starts_at),
            ends_at=ends_at,
            now=now,
            labels=self._requests.labels(),
        )

    async def _expire(self, request: web.Request) -> web.Response:
        asked = request.match_info["id"]
        silences = {silence.id: silence for silence in self._requests.picture().silences}
        found = silences.get(asked)
        if found is not None and found.origin == "config":
            raise ProblemDetails(
                409, f"silence {asked} stands in the configuration; remove it there"
            )
        if found is None or not await self._requests.expire_silence(asked):
            raise ProblemDetails(404, f"silence: {unknown(asked, silences)}")
        return answer_json({"detail": f"silence {asked} is over"})

    async def _explain(self, request: web.Request) -> web.Response:
        return answer_json(await self.explained(request))

    async def explained(self, request: web.Request) -> Explanation:
        """Return the answer to a query, or say in a problem why there is none."""
        asked = [(name, request.query[name]) for name in _ASKED if name in request.query]
        if len(asked) != 1:
            raise ProblemDetails(
                400, f"name one of {', '.join(f'{k}={v}' for k, v in _ASKED.items())}"
            )
        name, told = asked[0]
        if name == "alert":
            explanation = await self._requests.explain_alert(told)
            if explanation is None:
                raise self._no_alert(told)
            return explanation
        workspace, kind, key = _place(name, told)
        if name == "run":
            run = RunKey(workspace, _kind(name, kind, RunKind), key)
            explanation = await self._requests.explain_run(run)
        else:
            of = _kind(name, kind, PipelineKind)
            explanation = await self._requests.explain_pipeline(workspace, of, key)
        if explanation is None:
            refuse_unknown(workspace, self._workspaces())
            shown = _one_line(told)[:120]
            raise ProblemDetails(404, f"{name} {shown} is not known, or was forgotten")
        return explanation

    async def _replay(self, request: web.Request) -> web.Response:
        body = await read_body(request, ReplayRequest)
        outputs = self._requests.outputs()
        if body.output not in outputs:
            raise ProblemDetails(404, f"output: {unknown(body.output, outputs)}")
        try:
            since = instant(body.since)
        except ConfigurationError as exc:
            raise ProblemDetails(400, _one_line(f"since: {exc}")) from exc
        return answer_json(await self._requests.replay(body.output, since))

    def _no_alert(self, asked: str) -> ProblemDetails:
        known = [alert.fingerprint for alert in self._requests.picture().alerts]
        return ProblemDetails(404, f"alert: {unknown(asked, known)}")


def _place(name: str, told: str) -> tuple[str, str, str]:
    parts = told.split("/")
    if len(parts) != 3 or not all(parts):  # noqa: PLR2004 - as many as the form has
        raise ProblemDetails(400, f"{name}: {told[:_SHOWN]!r} is not {_ASKED[name]}")
    return parts[0], parts[1], parts[2]


def _kind(name: str, told: str, kinds: type[K]) -> K:
    try:
        return kinds(told)
    except ValueError as exc:
        problem = f"{name}: kind {told[:_SHOWN]!r} is none of {', '.join(kinds)}"
        raise ProblemDetails(400, problem) from exc


def _one_line(text: str) -> str:
    return "".join(
        other_text if other_text.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for other_text in text
    )
