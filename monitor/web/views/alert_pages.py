"""The pages about alerts."""

from __future__ import annotations

from monitor.web.views.alerts.alert_details import alert_explanation_view, alert_view_of
from monitor.web.views.alerts.alerts import alerts_view
from monitor.web.views.alerts.explain import explain_view
from monitor.web.views.alerts.runbooks import runbooks
from monitor.web.views.alerts.silences import silences_view
from monitor.web.views.sources import ViewSources
from monitor.web.views.view import WebPage

_STYLES = ("alerts.css",)


def alert_pages(sources: ViewSources) -> tuple[WebPage, ...]:
    """Return the pages; the forms that change something are `monitor.web.forms`."""
    return (
        WebPage(
            path="/alerts",
            title="Alerts",
            boxes=(alerts_view(sources),),
            in_menu="Alerts",
            styles=_STYLES,
        ),
        WebPage(
            path="/alerts/{fingerprint}",
            title="Alert",
            boxes=(alert_view_of(sources), alert_explanation_view(sources)),
            styles=_STYLES,
        ),
        WebPage(
            path="/silences", title="Silences", boxes=(silences_view(sources),), styles=_STYLES
        ),
        WebPage(
            path="/explain",
            title="Why was I notified, or not?",
            boxes=(explain_view(sources),),
            styles=_STYLES,
        ),
        WebPage(path="/runbooks", title="Runbooks", boxes=(), styles=_STYLES, document=runbooks),
    )
