"""The document of all routes and their roles, made from the routes themselves."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.web.access.routes import Route

_HEAD = """\
# Routes of the server

What the server answers, and the least role that a user needs for it; config/README.md says what
each role may. A route that is not listed needs `read` for a GET, and `admin` for anything else,
before it is answered 404. GET stands for HEAD too. What needs a role "of all workspaces" is about
the whole daemon, and refused to users who see some workspaces only.

| route | role |
|---|---|
"""


def routes_markdown(routes: Iterable[Route]) -> str:
    """Return the document."""
    return _HEAD + "".join(map(_row, sorted(routes, key=lambda route: (route.path, route.method))))


def _row(route: Route) -> str:
    role = "none: open to strangers" if route.role is None else str(route.role)
    extent = ", of all workspaces" if route.is_whole else ""
    return f"| `{route.method} {route.path}` | {role}{extent} |\n"
