"""Where to go from an answer: the operations that take the id which it has."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from monitor.catalogue.operations import Edition, Operation, operations
from monitor.sandbox.api.errors import Json

# What an answer has besides the id of what is made or listed under the same path.
_ELSEWHERE = {
    "listJobLibrary": ("/v4/jobGroups", "$response.body#/data/0/id"),
    "runFlow": ("/v4/flowRuns", "$response.body#/flowRunId"),
    "runPlan": ("/v4/planSnapshotRuns", "$response.body#/planSnapshotRunId"),
    "createAccessToken": ("/v4/apiAccessTokens", "$response.body#/tokenInfo/tokenId"),
    "listApiAccessTokens": ("/v4/apiAccessTokens", "$response.body#/data/0/tokenId"),
    "copyFlow": ("/v4/flows", "$response.body#/id"),
    "getJobsForJobGroup": ("/v4/jobs", "$response.body#/data/0/id"),
}


def links_of(operation: Operation, edition: Edition) -> dict[str, Json]:
    """Return the links of an operation's answer, by the operation that each leads to."""
    root, expression = _source_of(operation)
    return {
        item.operation_id: {
            "operationId": item.operation_id,
            "parameters": {item.parameters[0]: expression},
        }
        for item in _taking_ids().get(root, ())
        if item.is_part_of(edition)
    }


def _source_of(operation: Operation) -> tuple[str, str]:
    if operation.operation_id in _ELSEWHERE:
        return _ELSEWHERE[operation.operation_id]
    if operation.parameters or operation.method not in {"GET", "POST"}:
        return "", ""
    place = "/id" if operation.method == "POST" else "/data/0/id"
    return operation.path, f"$response.body#{place}"


@functools.cache
def _taking_ids() -> Mapping[str, tuple[Operation, ...]]:
    """Return the operations that take one id and nothing else, by the path before it."""
    found: dict[str, list[Operation]] = {}
    for operation in operations():
        if len(operation.parameters) == 1:
            root, _, _ = operation.path.partition("/:")
            found.setdefault(root, []).append(operation)
    return {root: tuple(some) for root, some in found.items()}
