"""The files of the page: scripts, styles, pictures, and the licences of what others wrote."""

from __future__ import annotations

import re
from importlib import resources

from tests.web.site import Site

VENDOR = resources.files("monitor.web.page") / "static" / "vendor"
LICENCE_OF = {
    "htmx.min.js": "htmx",
    "htmx-sse.min.js": "htmx-sse",
    "idiomorph-htmx.min.js": "idiomorph",
    "uPlot.iife.min.js": "uPlot",
    "uPlot.min.css": "uPlot",
}


def test_each_file_of_others_has_its_licence() -> None:
    """Nothing of others is shipped without the words under which it may be."""
    files = {entry.name for entry in VENDOR.iterdir()}
    assert files == LICENCE_OF.keys() | {f"{name}.LICENSE" for name in LICENCE_OF.values()}
    for name in LICENCE_OF.values():
        assert re.search("BSD|MIT", (VENDOR / f"{name}.LICENSE").read_text())


async def test_a_file_of_the_page_is_kept_by_the_browser(site: Site) -> None:
    """Under its exact address it never changes; under another it is asked for again."""
    page = (await site.get("/")).text
    addresses = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert len(addresses) >= 6
    for address in addresses:
        answer = await site.get(address)
        assert (answer.status, "immutable" in answer.headers["Cache-Control"]) == (200, True)
        plain = await site.get(address.partition("?")[0])
        assert plain.headers["Cache-Control"] == "no-cache"
        known = {"If-None-Match": plain.headers["Etag"]}
        assert (await site.get(address, headers=known)).status == 304


async def test_only_files_of_the_page_are_served(site: Site) -> None:
    """A path that leads elsewhere is no file."""
    for path in ("none.js", "../shell.py", "%2e%2e/shell.py", "/etc/passwd", "vendor"):
        assert (await site.get(f"/static/{path}")).status == 404
