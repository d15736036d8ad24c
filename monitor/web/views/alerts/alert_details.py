"""One alert: what it says, its evidence, its earlier instances, and why people were notified."""

from __future__ import annotations

from msgspec import Struct

from monitor.alerting.explain.explanation import Explanation
from monitor.model.alerts import Alert
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.request_parsing import unknown
from monitor.web.views.alerts.alert_models import AlertFact, AlertView, alert_views, facts_of
from monitor.web.views.view import ViewSources, view


class AlertQuery(Struct, frozen=True, kw_only=True):
    fingerprint: str


class AlertDetails(Struct, frozen=True, kw_only=True):
    """The alert of a fingerprint, None where none is shown now; ``ended``: oldest first.

    ``facts`` are of the newest.
    """

    alert: AlertView | None
    ended: tuple[AlertView, ...]
    facts: tuple[AlertFact, ...]

    @property
    def newest(self) -> AlertView:
        return self.alert or self.ended[-1]


@view("alert", "/api/v1/alerts/{fingerprint}", "One alert: facts, evidence and earlier instances.")
async def alert_view(sources: ViewSources, query: AlertQuery) -> AlertDetails:
    alerting = sources.alerting
    snapshot = alerting.snapshot()
    now = find_alert(snapshot.alerts, query.fingerprint)
    ended = alerting.ended(query.fingerprint)
    if now is None and not ended:
        raise no_alert(query.fingerprint, snapshot.alerts)
    newest, *others = await alert_views(sources, [now or ended[-1], *ended])
    return AlertDetails(
        alert=newest if now is not None else None,
        ended=tuple(others),
        facts=facts_of(now or ended[-1]),
    )


@view(
    "alert_explanation",
    "/api/v1/alerts/{fingerprint}/explanation",
    "Why people were notified of an alert, or not.",
)
async def alert_explanation_view(sources: ViewSources, query: AlertQuery) -> Explanation:
    """Return why people were notified of it, or not."""
    explanation = await sources.alerting.explain_alert(query.fingerprint)
    if explanation is None:
        raise no_alert(query.fingerprint, sources.alerting.snapshot().alerts)
    return sources.as_read(explanation)


def find_alert(alerts: tuple[Alert, ...], fingerprint: str) -> Alert | None:
    return next((alert for alert in alerts if alert.fingerprint == fingerprint), None)


def no_alert(fingerprint: str, alerts: tuple[Alert, ...]) -> ProblemDetails:
    """Return the problem that no alert has that fingerprint."""
    known = [alert.fingerprint for alert in alerts]
    return ProblemDetails(404, f"alert: {unknown(fingerprint, known)}")
