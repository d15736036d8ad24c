"""Every route by every role and way in, and the document that lists them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from monitor.web.access.routes import Route
from monitor.web.principals import Role
from monitor.web.routes_reference import routes_markdown
from tests.web.people import PEOPLE, WAYS, headers_of
from tests.web.site import Site

REFERENCE = Path(__file__).parent.parent.parent / "deploy" / "ROUTES.md"

pytestmark = pytest.mark.parametrize("settings", [PEOPLE], ids=["people"])


async def status_of(site: Site, route: Route, headers: dict[str, str]) -> tuple[int, str]:
    """Return status and detail of a route; of a stream, which has no end, the status alone."""
    path = re.sub(r"\{[^}]+\}", "x", route.path)
    async with site.session.request(
        route.method, site.url + path, headers=headers, allow_redirects=False
    ) as response:
        if response.content_type == "text/event-stream":
            return response.status, ""
        return response.status, await response.text()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("role", list(Role))
async def test_a_role_reaches_its_routes_and_no_others(site: Site, role: Role, way: str) -> None:
    """By every way in, 403 names the role that a route needs, exactly where it is not had."""
    headers = dict(await headers_of(site, f"{role}-user", way))
    wrong: list[tuple[str, str, int]] = []
    for route in site.server.routes():
        status, text = await status_of(site, route, headers)
        is_let_in = route.role is None or role.includes(route.role)
        is_refused = status == 403 and f"this needs {route.role}" in text
        if is_refused == is_let_in or status == 401:
            wrong.append((route.method, route.path, status))

    assert wrong == []


async def test_a_stranger_reaches_open_routes_only(site: Site) -> None:
    """Without credentials every route that needs a role answers 401, also one that is not there."""
    wrong: list[tuple[str, str, int]] = []
    for route in site.server.routes():
        status, _ = await status_of(site, route, {})
        if (status == 401) == (route.role is None):
            wrong.append((route.method, route.path, status))
    missing = await site.get("/none")

    assert wrong == []
    assert missing.status == 401


async def test_every_write_needs_more_than_reading(site: Site) -> None:
    """No route that changes something is open to strangers or readers, but to log in and out."""
    writes = {(route.path, route.role) for route in site.server.routes() if route.method != "GET"}

    assert {path for path, role in writes if role in (None, Role.METRICS, Role.READ)} == {
        "/login",
        "/logout",
    }


async def test_the_document_lists_every_route(site: Site) -> None:
    """``deploy/ROUTES.md`` is made of the routes; run this module with its path to make it."""
    assert REFERENCE.read_text() == routes_markdown(site.server.routes())
