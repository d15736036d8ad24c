"""Which status and which kind of body an operation takes and answers, the same for all to see.

The server answers by these rules, and the served specification lists them.
"""

from __future__ import annotations

from monitor.catalogue.operations import Operation
from monitor.sandbox.api.models.models import request_of, response_of

JSON_TYPE = "application/json"
ZIP_TYPE = "application/zip"
PDF_TYPE = "application/pdf"
FORM_TYPE = "multipart/form-data"
FILE_TYPES = (ZIP_TYPE, "application/octet-stream", FORM_TYPE)

# Answers of these models are the few fields that show what changed.
MINIMAL = frozenset({"UpdatedObjectSchema", "WrangledDatasetUpdateResponse"})
# A repeated x-execution-id is answered 304.
RUNS = frozenset({"runJobGroup", "runFlow", "runPlan"})

_MAKING = ("create", "copy", "import", "run", "add", "share", "commit")
_MAKES_NOTHING = frozenset({"importPackageDryRun"})
_ALSO_MAKES = frozenset({"updateConnectorOverrides"})  # by its name: "Create overrides ..."
_FILES = {
    "getFlowPackage": ZIP_TYPE,
    "getPlanPackage": ZIP_TYPE,
    "getMacroPackage": ZIP_TYPE,
    "getEnvironmentParametersPackage": ZIP_TYPE,
    "getJobGroupPdfResults": PDF_TYPE,
}
_TAKES_FILES_ONLY = frozenset(
    {"importPackage", "importPackageDryRun", "importMacroPackage", "importPlanPackage"}
)
_TAKES_FILES_TOO = frozenset({"importEnvironmentParametersPackage"})


def status_of(operation: Operation) -> int:
    """Return the status of success: 201 where something is made, 204 where there is no body."""
    if makes(operation):
        return 201
    return 200 if media_type_of(operation) is not None else 204


def makes(operation: Operation) -> bool:
    """True for what leaves something new behind."""
    name = operation.operation_id
    if operation.method != "POST" or name in _MAKES_NOTHING:
        return False
    return name in _ALSO_MAKES or name.startswith(_MAKING)


def media_type_of(operation: Operation) -> str | None:
    """Return the type of the answer's body; None where it has none."""
    if operation.operation_id in _FILES:
        return _FILES[operation.operation_id]
    return None if response_of(operation) is None else JSON_TYPE


def takes_files(operation: Operation) -> bool:
    """True where the request's body is, or may be, a file."""
    return operation.operation_id in _TAKES_FILES_ONLY | _TAKES_FILES_TOO


def body_types_of(operation: Operation) -> tuple[str, ...]:
    """Return the types of body that an operation takes; none where it takes no body."""
    name = operation.operation_id
    if name in _TAKES_FILES_ONLY:
        return FILE_TYPES
    if request_of(operation) is None:
        return ()
    return (JSON_TYPE, *FILE_TYPES) if name in _TAKES_FILES_TOO else (JSON_TYPE,)
