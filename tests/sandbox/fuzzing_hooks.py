"""Gives schemathesis ids and bodies that exist: what it makes up finds little but refusals."""

from __future__ import annotations

import base64
import json
import os
import zlib
from typing import Any

import schemathesis

_KNOWN: dict[str, Any] = json.loads(os.environ.get("FUZZING_KNOWN", "{}"))


def number_of(value: Any) -> int:
    """Return a number from 0 to 3, always the same for the same value."""
    return zlib.crc32(repr(value).encode(errors="replace")) % 4


def known(context: Any, what: str) -> Any:
    """Return what an operation succeeds with; None where there is nothing of the sort."""
    operation_id = context.operation.definition.raw.get("operationId")
    return _KNOWN.get(what, {}).get(operation_id)


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    """Put ids that exist into three of four paths."""
    ids = known(context, "paths")
    if not ids or not isinstance(path_parameters, dict) or number_of(path_parameters) == 0:
        return path_parameters
    return {**path_parameters, **dict(zip(path_parameters, ids, strict=False))}


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """Let a fourth of the bodies be, mend some or all fields of others, or replace them."""
    upload, good = known(context, "uploads"), known(context, "bodies")
    number = number_of(getattr(body, "data", body))
    if number == 0:
        return body
    if upload is not None and isinstance(body, bytes | str):  # made-up files are texts here
        return base64.b64decode(upload)
    if upload is not None and isinstance(body, dict) and "data" in body:
        return {**body, "data": base64.b64decode(upload)}
    if not isinstance(good, dict) or not isinstance(body, dict):
        return body
    if number == 1:
        return good
    return {**body, **{name: good[name] for name in good if number == 2 or number_of((name, body))}}
