"""The little language of ``embed``: ``wrangledDataset.flow,jobs(limit=1,fields=id,sort=-id)``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from monitor.sandbox.api.errors import shortened, validation_failed
from monitor.sandbox.api.request.listing import read_sort
from monitor.sandbox.api.request.parameters import INTEGER, names

TOKEN = re.compile(r"\s*(?:(?P<name>[\w*:-]+)|(?P<mark>[.,()=]))")
# A part between brackets: everything up to the next comma or the end of the bracket.
OPTION_VALUE = re.compile(r"[^,()]*")
MOST_LEVELS = 6
MOST_NAMES = 50


class Embed(Struct, frozen=True, kw_only=True):
    """One association to embed, and what to embed in it. ``limit`` None means all of a list."""

    name: str
    limit: int | None = None
    fields: tuple[str, ...] = ()
    sort: tuple[tuple[str, bool], ...] = ()
    inner: tuple[Embed, ...] = ()


def parse_embeds(texts: Iterable[str]) -> tuple[Embed, ...]:
    """Return the associations that one or more ``embed`` parameters name; empty ones add none.

    Raises:
        ApiError: 400, when the text is not of this language.
    """
    found: tuple[Embed, ...] = ()
    for text in texts:
        if text.strip():
            found = merged([*found, *_Parser(text).parse()])
    return found


def merged(embeds: Iterable[Embed]) -> tuple[Embed, ...]:
    """Return each association once: ``a.b,a.c`` embeds both in one ``a``."""
    by_name: dict[str, Embed] = {}
    for embed in embeds:
        key = embed.name.lower()
        before = by_name.get(key)
        if before is None:
            by_name[key] = embed
            continue
        by_name[key] = Embed(
            name=before.name,
            limit=embed.limit if embed.limit is not None else before.limit,
            fields=embed.fields or before.fields,
            sort=embed.sort or before.sort,
            inner=merged([*before.inner, *embed.inner]),
        )
    return tuple(by_name.values())


class _Parser:
    """Reads one text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._names = 0

    def parse(self) -> Iterator[Embed]:
        yield self._path(level=1)
        while self._at < len(self._text.rstrip()):
            self._expect(",")
            yield self._path(level=1)

    def _path(self, *, level: int) -> Embed:
        self._names += 1
        if level > MOST_LEVELS or self._names > MOST_NAMES:
            raise self._refusal()
        name = self._name()
        options = self._options() if self._take("(") else {}
        inner = (self._path(level=level + 1),) if self._take(".") else ()
        limit = options.pop("limit", "")
        fields = names(options.pop("fields", ""))
        sort = read_sort(options.pop("sort", ""))
        if options or (limit and not INTEGER.fullmatch(limit)) or limit.startswith("-"):
            raise self._refusal()
        return Embed(
            name=name,
            limit=int(limit) if limit else None,
            fields=fields,
            sort=sort,
            inner=inner,
        )

    def _options(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while True:
            name = self._name()
            self._expect("=")
            value = OPTION_VALUE.match(self._text, self._at)
            if value is None:
                raise self._refusal()
            self._at = value.end()
            found[name] = value.group().strip()
            if self._take(")"):
                return found
            self._expect(",")

    def _name(self) -> str:
        token = TOKEN.match(self._text, self._at)
        if token is None or token.group("name") is None:
            raise self._refusal()
        self._at = token.end()
        return token.group("name")

    def _take(self, mark: str) -> bool:
        token = TOKEN.match(self._text, self._at)
        if token is None or token.group("mark") != mark:
            return False
        self._at = token.end()
        return True

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise self._refusal()

    def _refusal(self) -> Exception:
        return validation_failed(
            f'Parameter "embed" cannot be read at character {self._at + 1}: '
            f'"{shortened(self._text)}"'
        )
