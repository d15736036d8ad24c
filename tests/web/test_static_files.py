"""The files of the page: scripts, styles, pictures, and the licences of what others wrote."""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.web.site import Site

VENDOR = resources.files("monitor.web.page") / "static" / "vendor"


class Vendored(NamedTuple):
    """A file of others: its package in the registry of npm, and what it is known by."""

    package: str
    version: str
    licence: str  # as SPDX names it
    words: str  # of the licence, in the file beside it
    licence_file: str
    sha256: str


# A replaced file gets its new line here.
VENDORED = {
    "htmx.min.js": Vendored(
        "htmx.org",
        "2.0.11",
        "0BSD",
        "Zero-Clause BSD",
        "htmx",
        "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    ),
    "htmx-sse.min.js": Vendored(
        "htmx-ext-sse",
        "2.2.4",
        "0BSD",
        "BSD Zero Clause License",
        "htmx-sse",
        "98a46496de0c3605fbffdce9167ba427bdd9553184f83f149c261891a92c0136",
    ),
    "idiomorph-htmx.min.js": Vendored(
        "idiomorph",
        "0.8.0",
        "0BSD",
        "Zero-Clause BSD",
        "idiomorph",
        "5811b9a7eda14878b7dab4378bf60432e1bb6f11fcfb970cc26540642650181e",
    ),
    "uPlot.iife.min.js": Vendored(
        "uplot",
        "1.6.32",
        "MIT",
        "The MIT License",
        "uPlot",
        "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    ),
    "uPlot.min.css": Vendored(
        "uplot",
        "1.6.32",
        "MIT",
        "The MIT License",
        "uPlot",
        "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    ),
}
LICENCE_OF = {name: known.licence_file for name, known in VENDORED.items()}
# Where a file says its own version.
SAID = {"htmx.min.js": r'version:"([\d.]+)"', "uPlot.iife.min.js": r"\(v([\d.]+)\)"}


def test_each_file_of_others_has_its_licence() -> None:
    """Nothing of others is shipped without the words under which it may be."""
    files = {entry.name for entry in VENDOR.iterdir()}
    assert files == LICENCE_OF.keys() | {f"{name}.LICENSE" for name in LICENCE_OF.values()}
    for known in VENDORED.values():
        assert known.words in (VENDOR / f"{known.licence_file}.LICENSE").read_text()


@pytest.mark.parametrize("name", VENDORED)
def test_each_file_of_others_has_its_bytes_and_version(name: str) -> None:
    """No file of others changes unseen, or into another version than the table and README say."""
    known = VENDORED[name]
    content = (VENDOR / name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == known.sha256
    if name in SAID:
        said = re.search(SAID[name], content.decode())
        assert said is not None
        assert said[1] == known.version
    readme = (Path(__file__).parents[2] / "monitor" / "README.md").read_text()
    assert known.version in readme.partition("static/vendor/` has ")[2].partition("\n")[0]


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
