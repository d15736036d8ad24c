"""The rows of the dataset library, which shows imported datasets and recipes in one list."""

from __future__ import annotations

from monitor.sandbox.api.data.dataset_kinds import is_schematized, storage_location
from monitor.sandbox.api.data.recipe_kinds import is_referenced
from monitor.sandbox.api.errors import Json
from monitor.sandbox.api.response.kinds import Resource, View
from monitor.sandbox.api.response.rendering import NAMED, OWN, reference, stamps
from monitor.sandbox.world.records.objects import ImportedDataset, Recipe

Dataset = ImportedDataset | Recipe
LIBRARY_TYPES = ("imported", "reference", "recipe")


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
    associations=OWN,
)
