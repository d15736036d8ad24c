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


def _key(method: str, path: str) -> tuple[str, str]:
    return method, _PATTERN.sub(r"{\1}", path)


class Route(NamedTuple):
    """What serves a method and path, and for whom; role None: it is open to strangers.

    A part of the path may be a name in braces, with a pattern: ``/static/{name:.+}``.
    """

    method: str
    path: str
    handler: Handler
    role: Role | None
    is_whole: bool = False  # about everything: not for who sees some workspaces only
    what: str | None = None  # it changes something, which the audit calls so


class Routes:
    """All routes by method and path; GET stands for HEAD too."""

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], Route] = {}

    def add(
        self,
        method: str,
        path: str,
        handler: Handler,
        role: Role | None,
        *,
        is_whole: bool = False,
        what: str | None = None,
    ) -> None:
        """Add a route; there is one of each method and path."""
        key = _key(method, path)
        assert key not in self._routes, key  # noqa: S101 - a fault of ours
        self._routes[key] = Route(method, path, handler, role, is_whole, what)

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes.values())

    def handler_of(self, route: Route) -> Handler:
        """Return what serves the method and path of a route here."""
        return self._routes[_key(route.method, route.path)].handler

    def register(self, router: web.UrlDispatcher) -> None:
        """Let a router lead to every route."""
        for route in self:
            if route.method == hdrs.METH_GET:
                router.add_get(route.path, route.handler)  # and HEAD
            else:
                router.add_route(route.method, route.path, route.handler)

    def of(self, request: web.Request) -> Route | None:
        """Return the route of a request; None where none takes it."""
        method = hdrs.METH_GET if request.method in READING else request.method
        resource = request.match_info.route.resource
        return self._routes.get((method, "" if resource is None else resource.canonical))

    def needed(self, request: web.Request) -> Role | None:
        """Return the role that a request needs; None: it is open to strangers.

        Where no route takes the request, a read needs `Role.READ`, and a write `Role.ADMIN`: a
        stranger is not told what there is.
        """
        route = self.of(request)
        if route is not None:
            return route.role
        return Role.READ if request.method in READING else Role.ADMIN
