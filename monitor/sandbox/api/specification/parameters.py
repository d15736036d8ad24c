"""The parameters of operations, as the specification describes them."""

from __future__ import annotations

from monitor.catalogue.operations import Operation
from monitor.sandbox.api.assumptions import LARGEST_SCHEDULE_LIMIT
from monitor.sandbox.api.data.connection_kinds import OPERATIONS, SHARED_ROLES
from monitor.sandbox.api.data.library_shapes import LIBRARY_TYPES
from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.models.outcomes import RUNS
from monitor.sandbox.api.request.listing import FILTER_TYPES, RAN_FOR, RAN_FROM, SCOPES, STATUSES

_WHOLE_NUMBERS = frozenset(
    {"folderId", "flowId", "flowNodeId", "currentFlowId", "datasourceFlowId", "userIdFilter"}
    | {"personId", "connectionId", "assetId", "workspaceId"}
)
_CHOICES = {
    "datasetsFilter": ("all", *LIBRARY_TYPES),
    "filterType": FILTER_TYPES,
    "flowsFilter": SCOPES,
    "operations": OPERATIONS,
    "ownershipFilter": SCOPES,
    "ranfor": RAN_FOR,
    "ranfrom": RAN_FROM,
    "sharedRole": SHARED_ROLES,
    "runBy": ("all", "currentUser"),
    "status": STATUSES,
}
_TRUTHS = frozenset(
    {"runAsync", "noLimit", "excludeFolders", "hideSecrets", "fromUI"}
    | {"schematized", "hidden", "baseStorage", "sanitizeColumnNames"}
)
_DATES = frozenset({"from", "to"})
_REQUIRED = frozenset({"datasetsFilter"})


def parameters_of(operation: Operation) -> list[Json]:
    """Return an operation's parameters: of its path, of its query, and the header of runs."""
    found = [_of_path(name) for name in operation.parameters]
    found += [_of_query(operation, name) for name in operation.query]
    if operation.operation_id in RUNS:
        found.append(
            {
                "name": "x-execution-id",
                "in": "header",
                "description": "A repeated one starts nothing and is answered 304.",
                "schema": {"type": "string"},
            }
        )
    return found


def _of_path(name: str) -> Json:
    schema: dict[str, Json] = {"type": "string", "minLength": 1}
    if name in {"id", "subjectId"}:
        schema = {"type": "integer", "format": "int64"}
    elif name in _DATES:
        schema = {"type": "string", "format": "date"}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _of_query(operation: Operation, name: str) -> Json:
    parameter: dict[str, Json] = {"name": name, "in": "query", "schema": {"type": "string"}}
    if name == "dateFilter":
        parameter["style"] = "deepObject"
        parameter["schema"] = {"type": "object"}
    elif name == "limit":
        most = {"maximum": LARGEST_SCHEDULE_LIMIT} if operation.resource == "Schedule" else {}
        parameter["schema"] = {"type": "integer", "minimum": 1, **most}
    elif name == "offset":
        parameter["schema"] = {"type": "integer", "minimum": 0}
    elif name in _WHOLE_NUMBERS:
        parameter["schema"] = {"type": "integer", "format": "int64"}
    elif name in _CHOICES:
        parameter["schema"] = {"type": "string", "enum": list(_CHOICES[name])}
    elif name.startswith("include") or name in _TRUTHS:
        parameter["schema"] = {"type": "boolean"}
    if name in _REQUIRED:
        parameter["required"] = True
    return parameter
