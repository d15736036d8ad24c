"""What the family's resources are: see `kinds.kind`."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.http.data.connection_kinds import CONNECTION
from monitor.sandbox.http.data.dataset_kinds import DATA_SOURCES, DATASET_NODE, IMPORTED_DATASET
from monitor.sandbox.http.data.library_shapes import LIBRARY_ROWS
from monitor.sandbox.http.data.recipe_kinds import RECIPE, RECIPES, REFERENCE_NODE
from monitor.sandbox.http.kinds.kind import Kind
from monitor.sandbox.http.showing.rendering import Resource

KINDS: tuple[Kind[Any], ...] = (
    CONNECTION,
    IMPORTED_DATASET,
    DATASET_NODE,
    RECIPE,
    REFERENCE_NODE,
)

RESOURCES: dict[str, Resource] = {
    item.plural: item for item in (RECIPES, DATA_SOURCES, LIBRARY_ROWS)
}
