"""The declaration of a view: a box of a page and a route of the JSON API, in one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, get_type_hints

from markupsafe import Markup
from msgspec import Struct

from monitor.web.views.sources import ViewSources


class NoParameters(Struct, frozen=True, kw_only=True):
    """No parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One read, shown as a box of a page and as JSON.

    ``read`` gets the parsed query and returns the view model. The fields of ``query`` are the
    parameters of the URL, those named in the path among them; each has a default but for those of
    the path. The box's template is ``boxes/{name}.html``.

    Raises, from ``read``:
        ProblemDetails: what the query names does not exist, or fits nothing.
    """

    name: str  # lower case, with underscores; also the id of the box
    summary: str  # one sentence: what it shows
    api: str  # its route, such as "/api/v1/runs/{workspace}/{kind}/{id}"
    query: type[Struct]
    answer: type[Struct]
    read: Callable[[Any], Awaitable[Struct]]  # of ``query``, which a type cannot say here


def view(
    name: str, api: str, summary: str
) -> Callable[[Callable[[ViewSources, Any], Awaitable[Struct]]], Callable[[ViewSources], View]]:
    """Make a view of a function that reads it: of the sources, by a query of the type it names."""

    def declare(
        read: Callable[[ViewSources, Any], Awaitable[Struct]],
    ) -> Callable[[ViewSources], View]:
        _, query, answer = get_type_hints(read).values()

        def made(sources: ViewSources) -> View:
            return View(
                name=name,
                summary=summary,
                api=api,
                query=query,
                answer=answer,
                read=partial(read, sources),
            )

        return made

    return declare


@dataclass(frozen=True, slots=True, kw_only=True)
class WebPage:
    """A page: boxes under one URL, which share its query."""

    path: str  # such as "/runs/{workspace}/{kind}/{id}"
    # Such as "Run {id}", with fields of the query in braces; or what names the query's object.
    title: str | Callable[[Any], str]
    boxes: tuple[View, ...]
    in_menu: str | None = None  # the word of the menu that leads here
    scripts: tuple[str, ...] = ()  # files of ``static`` that this page needs beside the usual ones
    styles: tuple[str, ...] = ()
    is_live: bool = True  # refreshed whenever something has changed
    document: Callable[[], Markup] | None = None  # below the boxes; may take longer than a step
