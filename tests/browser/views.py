"""All pages, by the path that is registered. What stands in braces is of a living workspace."""

from __future__ import annotations

VIEWS = {
    "/": "/?limit=20&groups=8",
    "/runs": "/runs?limit=40",
    "/runs/{workspace}/{kind}/{id}": "/runs/{workspace}/{kind}/{failed}",
    "/pipelines/{workspace}/{kind}/{id}": "/pipelines/{workspace}/flow/{flow}",
    "/schedules": "/schedules",
    "/monitor": "/monitor",
    "/workspaces": "/workspaces",
    "/workspaces/{workspace}": "/workspaces/{workspace}",
}
LIVE = "document.getElementById('link').dataset.state === 'live'"
