"""Which operations beyond the catalogue's 186 are served. They are part of no listed edition."""

from __future__ import annotations

from monitor.catalogue.operations import Operation, find


def _unlisted(
    operation_id: str, request: str, resource: str, *, query: tuple[str, ...] = ()
) -> Operation:
    method, path = request.split()
    return Operation(
        method=method,
        path=path,
        name=operation_id,
        resource=resource,
        editions=frozenset(),
        operation_id=operation_id,
        query=query,
        assigned=True,
    )


UNLISTED = (
    _unlisted("importAndAddDataset", "POST /v4/flows/:id/importAndAddDatasetToFlow", "Flow"),
    _unlisted("getCurrentAwsConfig", "GET /v4/awsConfigs/current", "AwsConfig"),
    _unlisted("wrangleToPython", "POST /v4/outputObjects/:id/wrangleToPython", "OutputObject"),
    _unlisted("downloadScriptResult", "GET /v4/scriptResults/:id/download", "ScriptResult"),
)


def find_operation(method: str, path: str) -> tuple[Operation, tuple[str, ...]] | None:
    """Return the operation that a request names, the catalogue's first, with its path values."""
    return find(method, path) or find(method, path, among=UNLISTED)
