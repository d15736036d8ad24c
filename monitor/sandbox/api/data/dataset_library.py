"""The library of datasets: imported ones and recipes in one list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.rights import sees
from monitor.sandbox.api.data.dataset_kinds import is_schematized, storage_location
from monitor.sandbox.api.data.imported_datasets import subjects_of
from monitor.sandbox.api.data.recipes import is_referenced
from monitor.sandbox.api.errors import ApiError, Json
from monitor.sandbox.api.request.parameters import Query, boolean, integer, word
from monitor.sandbox.api.response.kinds import Resource, View, named
from monitor.sandbox.api.response.rendering import NAMED, OWN, reference, stamps
from monitor.sandbox.world.lineage import inputs_of
from monitor.sandbox.world.records.objects import ImportedDataset, Recipe

Dataset = ImportedDataset | Recipe
LIBRARY_TYPES = ("imported", "reference", "recipe")
Test = Callable[[Dataset], bool]


def type_in_library(view: View, dataset: Dataset) -> str:
    """Return which of the three kinds of dataset one is."""
    if isinstance(dataset, ImportedDataset):
        return "imported"
    return "reference" if is_referenced(view.world, dataset) else "recipe"


def library_row(view: View, dataset: Dataset) -> dict[str, Json]:
    row = {
        **stamps(dataset),
        "type": type_in_library(view, dataset),
        "name": dataset.name,
        "description": dataset.description,
    }
    if isinstance(dataset, Recipe):
        return row | {"flow": reference(dataset.flow_id), "isSchematized": True}
    return row | {
        "connection": reference(dataset.connection_id),
        "storageLocation": storage_location(dataset),
        "isSchematized": is_schematized(dataset),
    }


LIBRARY_ROWS = Resource(
    plural="datasetlibraryrows",
    render=library_row,
    columns={**NAMED, "type": type_in_library},
    associations=named(*OWN),
)


def list_datasets(call: Call) -> Reply:
    """List the datasets of the types that ``datasetsFilter`` names, with counts by type."""
    rows = [*_rows(call)]
    query = call.query.only(call.operation.query)
    with_subjects = boolean(query, "includeAssociatedSubjects")

    def extra(dataset: Dataset) -> dict[str, Json]:
        if not with_subjects or not isinstance(dataset, ImportedDataset):
            return {}
        return {"associatedSubjects": subjects_of(call, dataset)}

    reply = call.list(LIBRARY_ROWS.plural, rows, extra=extra)
    if "count" in reply.body:
        reply.body["count"] = _counts(call, rows)
    return reply


def count_datasets(call: Call) -> Reply:
    """Count what the list shows, by type and in all."""
    return Reply(body={"count": _counts(call, [*_rows(call)])})


def _counts(call: Call, rows: Iterable[Dataset]) -> dict[str, Json]:
    """Return how many rows of each type the query selects, and how many in all."""
    found = Counter(
        type_in_library(call.view, item) for item in call.admitted(LIBRARY_ROWS.plural, rows)
    )
    return {**{name: found[name] for name in LIBRARY_TYPES}, "all": found.total()}


def _rows(call: Call) -> Iterable[Dataset]:
    """Return the datasets that the query's own filters leave, those of ``flowId`` first.

    Imported ones come before recipes, and of both the newest first.
    """
    query = call.query.only(call.operation.query)
    requested = _requested_types(query)
    tests = [*_tests(call, query)]
    newest: tuple[Dataset, ...] = (
        *call.world.imported_datasets.newest(),
        *call.world.recipes.newest(),
    )
    datasets = [dataset for dataset in newest if dataset.deleted_at is None]
    rows = [
        dataset
        for dataset in datasets
        if type_in_library(call.view, dataset) in requested and all(test(dataset) for test in tests)
    ]
    flow_id = integer(query, "flowId", 0)
    if not flow_id:
        return rows
    is_here = _in_flow(call, flow_id)
    return sorted(rows, key=lambda row: not is_here(row))


def _requested_types(query: Query) -> frozenset[str]:
    """Return the types of dataset that the query selects.

    Raises:
        ApiError: 400 in words of its own where nothing says which.
    """
    if not query.get("datasetsFilter"):
        raise ApiError(
            400,
            "ApiValidationFailed",
            "Input validation failed",
            'Parameter "datasetsFilter" is required',
        )
    name = word(query, "datasetsFilter", ("all", *LIBRARY_TYPES))
    return frozenset(LIBRARY_TYPES if name == "all" else {name})


def _tests(call: Call, query: Query) -> Iterable[Test]:
    """Yield one test for each filter of the query."""
    person, scope = call.person, call.list_query().scope
    yield lambda item: sees(call.view, item)
    if scope != "all":
        yield lambda item: (item.creator_id == person.id) is (scope == "owned")
    if user_id := integer(query, "userIdFilter", 0):
        yield lambda item: item.creator_id == user_id
    for name in ("currentFlowId", "datasourceFlowId"):
        if flow_id := integer(query, name, 0):
            yield _in_flow(call, flow_id)
    if connection_id := integer(query, "connectionId", 0):
        yield lambda item: getattr(item, "connection_id", None) == connection_id
    if boolean(query, "baseStorage"):
        yield lambda item: isinstance(item, ImportedDataset) and item.connection_id is None
    if boolean(query, "schematized"):
        yield lambda item: not isinstance(item, ImportedDataset) or is_schematized(item)
    is_hidden = boolean(query, "hidden")
    yield lambda item: not isinstance(item, ImportedDataset) or item.is_hidden is is_hidden


def _in_flow(call: Call, flow_id: int) -> Test:
    """Return a test whether a dataset is a recipe of a flow, or one of its inputs."""
    inputs = {input_.id for input_ in inputs_of(call.world, flow_id)}
    return lambda item: (
        item.id in inputs if isinstance(item, ImportedDataset) else item.flow_id == flow_id
    )


HANDLERS: Handlers = {
    "listDatasetLibrary": list_datasets,
    "countDatasetLibrary": count_datasets,
}
