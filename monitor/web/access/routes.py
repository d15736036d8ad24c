"""The routes of the server: each with its handler and the least role that it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from aiohttp import hdrs, web

from monitor.web.http.access import READING
from monitor.web.http.problem_details import Handler
from monitor.web.principals import Role

_PATTERN = re.compile(r"\{(\w+):[^}]*\}")  # which the router leaves out of a canonical path


class Route(NamedTuple):
    """What serves a method and path, and for whom; role None: it is open to strangers.

    A part of the path may be a name in braces, with a pattern: ``/static/{name:.+}``.
    """

    method: str
    path: str
    handler: Handler
    role: Role | None


class Routes:
    """All routes by method and path; GET stands for HEAD too."""

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], Route] = {}

    def add(self, method: str, path: str, handler: Handler, role: Role | None) -> None:
        """Add a route; there is one of each method and path."""
        key = method, _PATTERN.sub(r"{\1}", path)
        assert key not in self._routes, key  # noqa: S101 - a fault of ours
        self._routes[key] = Route(method, path, handler, role)

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes.values())

    def register(self, router: web.UrlDispatcher) -> None:
        """Let a router lead to every route."""
        for route in self:
            if route.method == hdrs.METH_GET:
                router.add_get(route.path, route.handler)  # and HEAD
            else:
                router.add_route(route.method, route.path, route.handler)

    def needed(self, request: web.Request) -> Role | None:
        """Return the role that a request needs; None: it is open to strangers.

        Where no route takes the request, a read needs `Role.READ`, and a write `Role.ADMIN`: a
        stranger is not told what there is.
        """
        is_read = request.method in READING
        resource = request.match_info.route.resource
        method = hdrs.METH_GET if is_read else request.method
        route = self._routes.get((method, "" if resource is None else resource.canonical))
        if route is not None:
            return route.role
        return Role.READ if is_read else Role.ADMIN
