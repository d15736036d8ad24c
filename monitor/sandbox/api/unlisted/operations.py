"""The operations beyond the catalogue's 186 that are served. No listed edition has them."""

from __future__ import annotations

from monitor.catalogue.operations import Operation, find

_PAGES = ("fields", "embed", "limit", "offset", "sort", "filter", "includeCount")


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
    _unlisted("createDeployment", "POST /v4/deployments", "Deployment"),
    _unlisted("listDeployments", "GET /v4/deployments", "Deployment", query=_PAGES),
    _unlisted("getDeployment", "GET /v4/deployments/:id", "Deployment", query=("embed", "fields")),
    _unlisted("deleteDeployment", "DELETE /v4/deployments/:id", "Deployment"),
    _unlisted("patchValueImportRules", "PATCH /v4/deployments/:id/valueImportRules", "Deployment"),
    _unlisted(
        "patchObjectImportRules", "PATCH /v4/deployments/:id/objectImportRules", "Deployment"
    ),
    _unlisted("createRelease", "POST /v4/deployments/:id/releases", "Deployment"),
    _unlisted("listReleases", "GET /v4/deployments/:id/releases", "Deployment", query=_PAGES),
    _unlisted("runDeployment", "POST /v4/deployments/:id/run", "Deployment"),
)


def find_operation(method: str, path: str) -> tuple[Operation, tuple[str, ...]] | None:
    """Return the operation that a request names, the catalogue's first, with its path values."""
    return find(method, path) or find(method, path, among=UNLISTED)
