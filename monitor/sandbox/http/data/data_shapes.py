"""The payloads of recipes and of the data that they read."""

from __future__ import annotations

from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.flows.flow_shapes import FLOW
from monitor.sandbox.http.kinds.shapes import NAMED, OWN, stamps
from monitor.sandbox.http.showing.rendering import Association, Resource, View, reference
from monitor.sandbox.objects import ImportedDataset, Recipe


def wrangled_dataset(view: View, one: Recipe) -> dict[str, Json]:
    del view
    return {
        **stamps(one),
        "wrangled": True,
        "flow": reference(one.flow_id),
        "recipe": reference(one.id),
        "activeSample": None,
        "referenceinfo": None,
    }


def recipe(view: View, one: Recipe) -> dict[str, Json]:
    del view
    return {**stamps(one), "name": one.name, "description": None, "active": True}


def imported_dataset(view: View, one: ImportedDataset) -> dict[str, Json]:
    del view
    return {
        **stamps(one),
        "name": one.name,
        "uri": one.uri,
        "connection": reference(one.connection_id),
    }


DATA_RESOURCES: dict[str, Resource] = {
    "wrangleddatasets": Resource(
        plural="wrangleddatasets",
        render=wrangled_dataset,
        columns=NAMED,
        associations={
            **OWN,
            "flow": FLOW,
            "recipe": Association(key="recipe", target="recipes", find=lambda _, one: one),
        },
    ),
    "recipes": Resource(plural="recipes", render=recipe, columns=NAMED, associations=OWN),
    "importeddatasets": Resource(
        plural="importeddatasets", render=imported_dataset, columns=NAMED, associations=OWN
    ),
}
