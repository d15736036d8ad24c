"""Path, query and headers of one request to an operation."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from monitor.catalogue.operations import Operation
from monitor.model.errors import RequestRejectedError

QueryValue = str | int | Sequence[str | int]

EXECUTION_ID = "x-execution-id"
# The workspace starts each of these once for one execution id, and answers 304 from then on.
STARTS_A_RUN = frozenset({"runJobGroup", "runFlow", "runPlan"})


def path_of(operation: Operation, values: Sequence[object]) -> str:
    if any(str(value) in ("", ".", "..") for value in values):
        # Such a segment would make another path of it.
        raise RequestRejectedError("not an id", operation_id=operation.operation_id)
    return operation.fill(*values)


def headers_of(operation: Operation, given: Mapping[str, str]) -> Mapping[str, str]:
    headers = dict(given)
    if operation.operation_id in STARTS_A_RUN and EXECUTION_ID not in map(str.lower, given):
        headers[EXECUTION_ID] = str(uuid.uuid4())
    if operation.answers_file:
        headers.setdefault("Accept", "*/*")
    return headers


def flat_query(query: Mapping[str, QueryValue]) -> list[tuple[str, str]]:
    return [
        (name, str(single))
        for name, value in query.items()
        for single in ([value] if isinstance(value, str | int) else value)
    ]
