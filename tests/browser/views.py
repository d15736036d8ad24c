"""All pages, by the path that is registered. What stands in braces is of a living workspace."""

from __future__ import annotations

VIEWS = {
    "/": "/?limit=20&groups=8",
    "/runs": "/runs?limit=40",
    "/timeline": "/timeline",
    "/runs/{workspace}/{kind}/{id}": "/runs/{workspace}/{kind}/{failed}",
    "/pipelines/{workspace}/{kind}/{id}": "/pipelines/{workspace}/flow/{flow}",
    "/alerts": "/alerts",
    "/alerts/{fingerprint}": "/alerts/{fingerprint}",
    "/silences": "/silences",
    "/runbooks": "/runbooks",
    "/explain": "/explain?run={workspace}/job_group/{failed}",
    "/reports": "/reports?since=24h",
    "/schedules": "/schedules",
    "/monitor": "/monitor",
    "/monitor/audit": "/monitor/audit",
    "/cluster": "/cluster",
    "/outages": "/outages",
    "/outages/{workspace}/{at}": "/outages/{workspace}/{outage}",
    "/workspaces": "/workspaces",
    "/workspaces/{workspace}": "/workspaces/{workspace}",
}
# The same pages of other runs and pipelines, and with filters.
MORE = (
    "/?q=nothing+has+this+name",
    "/?state=failing&sort=duration&open={workspace}/flow/{flow}",
    "/runs?status=failed&workspace={workspace}",
    "/runs/{workspace}/job_group/{active}",
    "/runs/{workspace}/flow_run/{flow_run}",
    "/runs/{workspace}/plan_run/{plan_run}",
    "/reports?period=week",
    "/timeline?period=7d&group=plan&zone=Europe/Berlin",
    "/pipelines/{workspace}/plan/{plan}",
)
# Pages with a form that changes something: never refreshed, never kept.
FORMS = ("/alerts/{fingerprint}/acknowledge", "/silences/new?matcher=workspace%3D{workspace}")
# Of a report, which is not refreshed, nothing more is awaited than that it is there.
LIVE = """(() => {
  const link = document.getElementById('link');
  return link.dataset.state === 'live' || !document.querySelector('[sse-connect]') && link.hidden;
})()"""
