"""Query parameters, read one at a time; every refusal names the parameter."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from monitor.sandbox.api.errors import bad_parameter

INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


class Query:
    """A query string; a name may stand there more than once."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, text in pairs:
            self._values.setdefault(name, []).append(text)

    def get(self, name: str) -> str:
        """Return the first value, or an empty text, which counts as absent."""
        return self._values.get(name, [""])[0]

    def all(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def items(self) -> Iterator[tuple[str, str]]:
        return ((name, text) for name, texts in self._values.items() for text in texts)

    def only(self, names: Collection[str]) -> Query:
        """Return what is left when other names are not seen; ``name[x]`` goes by ``name``."""
        return Query(pair for pair in self.items() if pair[0].split("[")[0] in names)


def integer(
    query: Query, name: str, default: int, *, least: int = 0, most: int | None = None
) -> int:
    """Return a whole number between two limits.

    Raises:
        ApiError: 400, naming the parameter.
    """
    text = query.get(name).strip()
    if not text:
        return default
    number = int(text) if INTEGER.fullmatch(text) else None
    if number is None or number < least or (most is not None and number > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise bad_parameter(name, text, f"a whole number {limits}")
    return number


def boolean(query: Query, name: str, *, default: bool = False) -> bool:
    """Return a truth value; ``True`` and ``False`` are accepted in any spelling of case.

    Raises:
        ApiError: 400, naming the parameter.
    """
    text = query.get(name).strip()
    if not text:
        return default
    if text.lower() not in {"true", "false"}:
        raise bad_parameter(name, text, "true or false")
    return text.lower() == "true"


def word(query: Query, name: str, allowed: Collection[str], *, default: str = "") -> str:
    """Return one of the ``allowed`` words, or ``default`` when none is given.

    Raises:
        ApiError: 400, naming the parameter.
    """
    text = query.get(name).strip()
    if not text:
        return default
    if text not in allowed:
        raise bad_parameter(name, text, f"one of {', '.join(allowed)}")
    return text


def words(query: Query, name: str, allowed: Collection[str]) -> frozenset[str]:
    """Return several ``allowed`` words, given with commas, repeated or as ``name[]``.

    Raises:
        ApiError: 400, naming the parameter.
    """
    given = [*query.all(name), *query.all(f"{name}[]")]
    found = [part.strip() for text in given for part in text.split(",") if part.strip()]
    for text in found:
        if text not in allowed:
            raise bad_parameter(name, text, f"one of {', '.join(allowed)}")
    return frozenset(found)


def names(text: str) -> tuple[str, ...]:
    """Return the parts of a list that is separated by semicolons (or commas)."""
    return tuple(part.strip() for part in re.split("[;,]", text) if part.strip())
