"""The document of all routes and their roles, made from the routes themselves."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.web.access.routes import Route

_HEAD = """\
# Routes of the server

What the server answers, and the least role that a user needs for it; config/README.md says what
each role may. A route that is not listed needs `read` for a GET, and `admin` for anything else,
before it is answered 404. GET stands for HEAD too.

| route | role |
|---|---|
"""


def routes_markdown(routes: Iterable[Route]) -> str:
    """Return the document."""
    rows = sorted((route.path, route.method, route.role) for route in routes)
    return _HEAD + "".join(
        f"| `{method} {path}` | {'none: open to strangers' if role is None else role} |\n"
        for path, method, role in rows
    )
