"""Routes of notebook clients: upload a table, fetch what a run made of it, and as Python."""

from __future__ import annotations

import asyncio
import re
from pathlib import PurePosixPath

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import create_record, found
from monitor.sandbox.api.crud.rights import require_right
from monitor.sandbox.api.data.dataset_kinds import DATASET_NODE, IMPORTED_DATASET
from monitor.sandbox.api.data.recipes import RECIPE
from monitor.sandbox.api.errors import bad_field, not_found
from monitor.sandbox.api.flows.edges import EDGE
from monitor.sandbox.api.flows.flows import FLOW
from monitor.sandbox.api.models.models import status_of
from monitor.sandbox.api.outputs.output_objects import OUTPUT_OBJECT
from monitor.sandbox.api.people.access import AWS_CONFIG
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.runs.job_shapes import result_of
from monitor.sandbox.api.runs.profiles import columns_of, made_up, table_in, uploaded, written
from monitor.sandbox.world.lineage import datasets_of
from monitor.sandbox.world.records.objects import ImportedDataset
from monitor.sandbox.world.records.parts import AwsConfig

UNNAMED = "Untitled dataset"


def import_and_add(call: Call) -> Reply:
    """Keep an uploaded CSV file as a dataset in a flow, with a recipe that reads it."""
    flow = found(call, FLOW)
    require_right(call, flow)
    name = PurePosixPath(call.upload_name.replace("\\", "/")).name or UNNAMED
    uri = f"{call.person.upload_dir or 'file:///uploads'}/{flow.id}/{name}"
    values = {"name": name, "uri": uri, "content": call.upload or b""}
    dataset = create_record(call, IMPORTED_DATASET, values)
    home = {"flow_id": flow.id}
    node = create_record(call, DATASET_NODE, {**home, "dataset_id": dataset.id})
    recipe = create_record(call, RECIPE, {**home, "name": name, "dataset_ids": (dataset.id,)})
    create_record(call, EDGE, {**home, "input_node_id": node.id, "output_node_id": recipe.id})
    return Reply(
        status=status_of(call.operation),
        body={"wrangledDatasetName": recipe.name, "wrangledDatasetId": recipe.id},
    )


def get_current_config(call: Call) -> Reply:
    """Read how the caller reaches AWS: by his own configuration, else by the workspace's."""
    configs = list(call.world.shelf(AwsConfig).live())
    for person_id in (call.person.id, None):
        for config in reversed(configs):
            if config.person_id == person_id:
                return call.show(AWS_CONFIG.plural, config)
    raise not_found("awsConfig", "current")


async def download(call: Call) -> Reply:
    """Fetch a file that a run made: the rows of the uploaded file, or rows that fit the profile."""
    result_id = call.path_id()
    result = result_of(call.world, result_id)
    if result is None:
        raise not_found("scriptResult", result_id)
    group, script_result = result
    call.require_sight(group, "scriptResult")
    setting = script_result.setting
    if setting is None:
        raise bad_field("id", "names a table; only files are downloaded")
    table = uploaded(call.world, group)
    columns, chance = columns_of(call.world, group), call.world.random("rows", group.id)
    # Up to half a million cells: not while other requests wait.
    content = await asyncio.to_thread(lambda: written(table or made_up(chance, columns), setting))
    return Reply(content=content, content_type="application/octet-stream")


def wrangle_to_python(call: Call) -> Reply:
    """Write what an output is made by as Python: its inputs, and which columns it takes."""
    output = found(call, OUTPUT_OBJECT)
    recipe = call.world.recipes.get(output.recipe_id)
    if recipe is None:
        raise not_found("wrangledDataset", output.recipe_id)
    ordered = Body(call.body).optional_text("orderedColumns") or ""
    columns = [name.strip() for name in ordered.split(",") if name.strip()]
    datasets = datasets_of(call.world, recipe)
    script = _script(recipe.name, datasets, columns or _columns_in(datasets))
    return Reply(body={"pythonScript": script})


def _columns_in(datasets: list[ImportedDataset]) -> list[str]:
    content = datasets[0].content if datasets else None
    return [] if content is None else list(table_in(content).names)


def _script(name: str, datasets: list[ImportedDataset], columns: list[str]) -> str:
    """Return a module of one function, whose arguments are the recipe's inputs as data frames."""
    arguments: dict[str, str] = {}
    for dataset in datasets:
        word = re.sub(r"\W", "_", PurePosixPath(dataset.name).stem, flags=re.ASCII).lstrip(
            "_0123456789"
        )
        argument = f"{word or 'input'}_{len(arguments)}"
        arguments[argument] = dataset.name
    table = next(iter(arguments), "pd.DataFrame()")
    lines = [
        "import pandas as pd",
        "",
        "",
        f"def run_transforms({', '.join(arguments)}):",
        f"    # Recipe {name!r}",
        *(f"    # {argument}: {source!r}" for argument, source in arguments.items()),
        f"    return {table}{f'[{columns!r}]' if columns else ''}",
        "",
    ]
    return "\n".join(lines)


HANDLERS: Handlers = {
    "importAndAddDataset": import_and_add,
    "getCurrentAwsConfig": get_current_config,
    "downloadScriptResult": download,
    "wrangleToPython": wrangle_to_python,
}
