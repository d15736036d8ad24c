"""Gives schemathesis names that exist: what it makes up finds little but refusals."""

from __future__ import annotations

import json
import os
import zlib
from typing import Any

import schemathesis

KNOWN_VARIABLE = "FUZZING_KNOWN"
_KNOWN: dict[str, str] = json.loads(os.environ.get(KNOWN_VARIABLE, "{}"))


def is_left(values: Any) -> bool:
    """Return True for a fourth of the values, always the same ones."""
    return zlib.crc32(repr(values).encode(errors="replace")) % 4 == 0


def with_known(values: Any) -> Any:
    """Put names that exist into three of four requests, where they have such a parameter."""
    if not isinstance(values, dict) or is_left(values):
        return values
    return {**values, **{name: text for name, text in _KNOWN.items() if name in values}}


@schemathesis.hook
def map_path_parameters(_context: Any, path_parameters: Any) -> Any:
    return with_known(path_parameters)


@schemathesis.hook
def map_query(_context: Any, query: Any) -> Any:
    return with_known(query)


@schemathesis.hook
def map_body(_context: Any, body: Any) -> Any:
    return with_known(body)
