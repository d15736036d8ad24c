"""The form that acknowledges an alert."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar

from monitor.alerting.alerts.silences import parse_instant, words_problem
from monitor.model.alerts import Alert
from monitor.model.errors import ConfigurationError
from monitor.web.forms.form_page import FormState, PageForm, Refused
from monitor.web.http.form_bodies import Fields
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.views.alerts.alert_details import find_alert, no_alert
from monitor.web.views.alerts.alert_models import alert_views
from monitor.web.views.sources import ViewSources


class AcknowledgeForm(PageForm):
    """Stops the reminders of one open alert."""

    path: ClassVar[str] = "/alerts/{fingerprint}/acknowledge"
    title: ClassVar[str] = "Acknowledge an alert"
    template: ClassVar[str] = "acknowledge_form.html"
    fields: ClassVar[tuple[str, ...]] = ("starts_at", "author", "comment")

    def __init__(self, sources: ViewSources) -> None:
        self._sources = sources
        self._alerting = sources.alerting

    async def begin(self, path: Mapping[str, str], query: Mapping[str, str]) -> FormState:
        alert = self._open_alert(path["fingerprint"])
        before = alert.acknowledged
        values = {name: query.get(name, "") for name in self.fields}
        values["starts_at"] = alert.starts_at.isoformat()
        if before is not None:
            values = {**values, "author": before.author, "comment": before.comment}
        return FormState(values=values, shown=await self.beside(path, values))

    async def beside(self, path: Mapping[str, str], values: Fields) -> Mapping[str, Any]:
        del values
        (alert,) = await alert_views(self._sources, [self._open_alert(path["fingerprint"])])
        return {"alert": alert}

    async def submit(self, path: Mapping[str, str], values: Fields, *, token: str) -> str:
        del token
        fingerprint = path["fingerprint"]
        author, comment = values.get("author", "").strip(), values.get("comment", "").strip()
        problems = {
            name: problem
            for name, problem in (
                ("author", words_problem(author)),
                ("comment", words_problem(comment, is_needed=False)),
            )
            if problem is not None
        }
        if problems:
            raise Refused(problems)
        starts_at = _start(values)
        if not await self._alerting.acknowledge(fingerprint, starts_at, author, comment):
            raise _ended(fingerprint)
        return f"/alerts/{fingerprint}"

    def _open_alert(self, fingerprint: str) -> Alert:
        alerts = self._alerting.snapshot().alerts
        alert = find_alert(alerts, fingerprint)
        if alert is None and not self._alerting.ended(fingerprint):
            raise no_alert(fingerprint, alerts)
        if alert is None or alert.ends_at is not None:
            raise _ended(fingerprint)
        return alert


def _start(values: Fields) -> datetime:
    try:
        return parse_instant(values.get("starts_at", ""))
    except ConfigurationError as exc:
        raise ProblemDetails(400, f"starts_at: {exc}") from exc


def _ended(fingerprint: str) -> ProblemDetails:
    return ProblemDetails(
        409,
        f"alert {fingerprint} has ended, or fired again, since this form was made; there is "
        "nothing to acknowledge",
    )
