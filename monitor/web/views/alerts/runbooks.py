"""The runbooks as a page: `deploy/runbooks.md` itself, to which the file beside this one links."""

from __future__ import annotations

import functools
from importlib import resources
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

_SERVED = ("#", "https://")  # links that lead somewhere outside of a checkout


@functools.cache
def runbooks() -> Markup:
    """Return the document as HTML without its title, each heading with its anchor."""
    source = resources.files("monitor.web.views.alerts") / "runbooks.markdown"
    # What stands between angle brackets is to be read, and is no HTML.
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(source.read_text(encoding="utf-8"))[3:]
    for token, following in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", following.content.lower().replace(" ", "-"))
        if token.type.startswith("heading_"):
            token.tag = f"h{int(token.tag[1]) + 1}"  # below the title of the page
        _drop_links_into_the_project(token.children or [])
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))  # noqa: S704 - see above


def _drop_links_into_the_project(tokens: list[Token]) -> None:
    is_dropped = False
    for token in tokens:
        if token.type == "link_open":
            is_dropped = not str(token.attrGet("href")).startswith(_SERVED)
        if token.type in {"link_open", "link_close"}:
            token.hidden = is_dropped
