"""Serves the files of the page: scripts, styles and their licences, from memory."""

from __future__ import annotations

import functools
import gzip
import hashlib
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable

from aiohttp import web
from msgspec import Struct

from monitor.web.access.routes import Routes
from monitor.web.http.problem_details import ProblemDetails
from monitor.web.http.response_writing import holds, takes_gzip

_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class StaticFile(Struct, frozen=True, kw_only=True):
    """One file. ``tag`` changes with its content."""

    body: bytes
    compressed: bytes
    content_type: str
    tag: str


class StaticFiles:
    """All files under ``static``, by their path below it."""

    def __init__(self) -> None:
        self._files = _all_files()
        # By name: each changes with its file, so that browsers may keep that.
        self.urls = {
            name: f"/static/{name}?v={file.tag[:12]}" for name, file in self._files.items()
        }

    def add_routes(self, routes: Routes) -> None:
        # Open: the form to log in needs them.
        routes.add("GET", "/static/{name:.+}", self._serve, None)

    async def _serve(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        file = self._files.get(name)
        if file is None:
            raise ProblemDetails(404, f"there is no file {name[:80]!r}")
        is_exact = request.query.get("v") == file.tag[:12]
        headers = {
            "ETag": f'W/"{file.tag}"',
            "Cache-Control": "public, max-age=31536000, immutable" if is_exact else "no-cache",
            "Vary": "Accept-Encoding",
        }
        if holds(request, file.tag):
            return web.Response(status=304, headers=headers)
        body = file.body
        if takes_gzip(request):
            headers["Content-Encoding"], body = "gzip", file.compressed
        return web.Response(
            body=body, content_type=file.content_type, charset="utf-8", headers=headers
        )


@functools.cache
def _all_files() -> Mapping[str, StaticFile]:
    return dict(_files(resources.files("monitor.web.page") / "static", ""))


def _files(folder: Traversable, prefix: str) -> list[tuple[str, StaticFile]]:
    found: list[tuple[str, StaticFile]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _files(entry, f"{prefix}{entry.name}/")
            continue
        body = entry.read_bytes()
        suffix = entry.name[entry.name.rfind(".") :]
        file = StaticFile(
            body=body,
            compressed=gzip.compress(body, mtime=0),
            content_type=_TYPES.get(suffix, "text/plain"),
            tag=hashlib.sha256(body).hexdigest(),
        )
        found.append((prefix + entry.name, file))
    return found
