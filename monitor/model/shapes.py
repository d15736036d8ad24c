"""Fills public shapes: most of what is shown of a thing is known of it by the same names."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from msgspec import Struct

S = TypeVar("S", bound=Struct)


def filled(shape: type[S], known: object, **others: Any) -> S:
    """Return a shape with these fields, and every other one as ``known`` has it.

    Raises:
        AttributeError: ``known`` lacks one of them.
    """
    names, values_of = _copied(shape, *others)
    return shape(**dict(zip(names, values_of(known), strict=False)), **others)


@cache  # for each place that calls `filled`
def _copied(shape: type[Struct], *others: str) -> tuple[list[str], Callable[[object], Any]]:
    """Return the names of what is copied, and what gets their values, and two more, of a thing."""
    names = [name for name in shape.__struct_fields__ if name not in others]
    # Of fewer than two names it would return no tuple.
    return names, attrgetter(*names, "__class__", "__class__")
