"""Operations beyond the catalogue that clients in notebooks use, in edition open only."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.catalogue.operations import Edition
from monitor.sandbox.api.routes import UNLISTED_HANDLERS
from monitor.sandbox.api.runs.profiles import ColumnProfile, columns_of, made_up, measured
from monitor.sandbox.api.unlisted.operations import UNLISTED
from monitor.sandbox.world.records.objects import Recipe, WriteSetting
from monitor.sandbox.world.records.parts import AwsConfig
from monitor.sandbox.world.records.runs import NativeStatus
from monitor.sandbox.world.shelves import World
from tests.clocks import ManualClock
from tests.sandbox.http_workspace import Workspace, open_workspace

LETTERS = b'letter,number\na,1\nb,2\n"c,d",\n'


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace(Edition.OPEN) as opened:
        yield opened


async def upload(workspace: Workspace, content: bytes, name: str = "letters.csv") -> Any:
    part = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    path = f"/v4/flows/{workspace.things.orders.id}/importAndAddDatasetToFlow"
    answer = await workspace.request(
        "POST",
        path,
        content=part.encode() + content + b"\r\n--b--\r\n",
        headers={"Content-Type": "multipart/form-data; boundary=b"},
    )
    assert answer.status == 201, answer.content
    return answer.body


async def result_ids(workspace: Workspace, recipe: Recipe, **changes: Any) -> list[int]:
    """Run a recipe to its end, with one file to write, and return what may be downloaded."""
    world = workspace.world
    for output in world.outputs_of(recipe.id):
        world.delete(output)
    body = {"execution": "photon", "profiler": True, "isAdhoc": True, "flowNodeId": recipe.id}
    made = await workspace.request("POST", "/v4/outputObjects", body=body)
    world.create(
        WriteSetting,
        by=workspace.things.owner.id,
        output_object_id=made.body["id"],
        path="file:///out/letters",
        **changes,
    )
    group = workspace.job_group(recipe, status=NativeStatus.COMPLETE, profiling=True)
    for job in world.jobs_of(group):
        world.update(job, status=NativeStatus.COMPLETE)
    answer = await workspace.get(f"/v4/jobGroups/{group.id}", embed="jobs.scriptResults")
    jobs = answer.body["jobs"]["data"]
    return [row["id"] for job in jobs for row in job["scriptResults"]["data"]]


async def test_other_editions_do_not_have_them() -> None:
    """Each is an unknown route in the listed editions, and served in edition open."""
    assert {operation.operation_id for operation in UNLISTED} == UNLISTED_HANDLERS.keys()
    for edition in Edition:
        async with open_workspace(edition) as workspace:
            for operation in UNLISTED:
                path = operation.path.replace(":id", "999999")
                answer = await workspace.request(operation.method, path, body={})
                is_unknown = b"RouteNotFoundException" in answer.content
                assert is_unknown is (edition is not Edition.OPEN), (operation, answer.content)


async def test_an_uploaded_file_is_a_dataset_with_a_recipe(workspace: Workspace) -> None:
    """The file lies in the flow as a dataset, and a recipe of its name reads it over an edge."""
    made = await upload(workspace, LETTERS)

    flow = f"/v4/flows/{workspace.things.orders.id}"
    shown = (await workspace.get(flow, embed="flowNodes.recipe,flowEdges")).body
    nodes = {node["id"]: node for node in shown["flowNodes"]["data"]}
    (edge,) = shown["flowEdges"]["data"]
    assert made["wrangledDatasetName"] == "letters.csv"
    assert nodes[made["wrangledDatasetId"]]["wrangled"] is True
    assert edge["outputFlowNode"]["id"] == made["wrangledDatasetId"]
    assert nodes[edge["inputFlowNode"]["id"]]["recipe"]["name"] == "letters.csv"
    listed = await workspace.get(f"{flow}/inputs")
    assert "letters.csv" in {row["name"] for row in listed.body["data"]}


async def test_a_run_gives_back_what_was_uploaded(workspace: Workspace) -> None:
    """Profile and downloaded file agree with the rows that were uploaded."""
    made = await upload(workspace, LETTERS)
    recipe = workspace.world.recipes.get(made["wrangledDatasetId"])
    assert recipe is not None

    (result_id,) = await result_ids(workspace, recipe)
    found = await workspace.get(f"/v4/scriptResults/{result_id}/download")

    assert found.content == LETTERS
    (group,) = (group for group in workspace.world.job_groups if group.recipe_id == recipe.id)
    profile = (await workspace.get(f"/v4/jobGroups/{group.id}/profile")).body
    assert profile["columnTypes"] == {"letter": ["String"], "number": ["Integer"]}
    letters, numbers = profile["profilerValidValueHistograms"].values()
    assert letters == {
        "topk": [{"key": key, "count": 1} for key in ("a", "b", "c,d")],
        "k": 3,
        "c": 3,
        "ub": 3,
    }
    assert (numbers["min"], numbers["max"]) == (1, 2)
    assert profile["profilerTypeCheckHistograms"]["number"][2] == {"key": "EMPTY", "count": 1}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"header": False, "delim": ";"}, b"a;1\nb;2\nc,d;\n"),
        ({"compression": "gzip"}, gzip.compress(LETTERS, mtime=0)),
        ({"compression": "bzip2"}, bz2.compress(LETTERS)),
        ({"has_quotes": False, "delim": "|"}, b"letter|number\na|1\nb|2\nc,d|\n"),
    ],
)
async def test_files_are_written_as_described(
    workspace: Workspace, changes: dict[str, Any], expected: bytes
) -> None:
    """Header, delimiter, quotes and compression are those of the write setting."""
    made = await upload(workspace, LETTERS)
    recipe = workspace.world.recipes.get(made["wrangledDatasetId"])
    assert recipe is not None

    (result_id,) = await result_ids(workspace, recipe, **changes)

    found = await workspace.get(f"/v4/scriptResults/{result_id}/download")
    assert found.content == expected


async def test_rows_that_were_not_uploaded_fit_their_profile(workspace: Workspace) -> None:
    """A file of another run is made up, in JSON too, with as many of each word as the profile."""
    results = await result_ids(workspace, workspace.things.clean, format="json")
    (group,) = workspace.world.job_groups
    columns = columns_of(workspace.world, group)

    found = await workspace.get(f"/v4/scriptResults/{results[0]}/download")

    rows = [json.loads(line) for line in found.content.splitlines()]
    assert list(rows[0]) == [column.name for column in columns]
    for column in columns:
        cells = [row[column.name] for row in rows]
        assert cells.count("") == column.empty
        for word, count in zip(column.words, column.parts, strict=False):
            assert cells.count(word) == count


def test_made_up_numbers_lie_in_their_buckets() -> None:
    """Measuring what was made up gives as many values as were wanted, none outside the bounds."""
    wanted = ColumnProfile(
        name="n", type="Decimal", valid=7, invalid=0, empty=2, parts=(3, 0, 4), low=0, high=50
    )

    (found,) = measured(made_up(World(clock=ManualClock()).random("rows"), [wanted]))

    assert (found.type, found.valid, found.empty) == ("Decimal", 7, 2)
    assert (found.low, found.high) == (0, 13.75)


async def test_an_id_that_is_no_file_is_not_downloaded(workspace: Workspace) -> None:
    """An unknown id is 404; a format that is not written here is 400 and is named."""
    (result_id,) = await result_ids(workspace, workspace.things.clean, format="pqt")

    refused = await workspace.get(f"/v4/scriptResults/{result_id}/download")
    unknown = await workspace.get("/v4/scriptResults/1/download")

    assert refused.is_refused(400, "ValidationFailed", "id", "pqt")
    assert unknown.is_refused(404, "DataNotFoundException", "scriptResult")


async def test_an_output_is_written_as_python(workspace: Workspace) -> None:
    """The code takes the recipe's inputs as arguments, and the columns that are asked for."""
    made = await upload(workspace, LETTERS, name="2 l'etters.csv")
    body = {
        "execution": "photon",
        "profiler": False,
        "isAdhoc": True,
        "flowNodeId": made["wrangledDatasetId"],
    }
    output = (await workspace.request("POST", "/v4/outputObjects", body=body)).body["id"]
    path = f"/v4/outputObjects/{output}/wrangleToPython"
    scripts = [
        (await workspace.request("POST", path, body={"orderedColumns": text})).body["pythonScript"]
        for text in (" ", "number")
    ]

    for script, columns in zip(scripts, (["letter", "number"], ["number"]), strict=True):
        names: dict[str, Any] = {}
        exec(compile(script.replace("import pandas as pd", ""), "script", "exec"), names)  # noqa: S102
        table = {str(columns): "taken"}

        class Frame:
            def __getitem__(self, wanted: list[str], table: dict[str, str] = table) -> str:
                return table[str(wanted)]

        assert names["run_transforms"](Frame()) == "taken"


async def test_the_current_aws_config_is_ones_own(workspace: Workspace) -> None:
    """One's own configuration comes before the workspace's; without any it is 404."""
    path, world = "/v4/awsConfigs/current", workspace.world
    answers = [await workspace.get(path)]
    for person_id, bucket in ((None, "everybody"), (workspace.things.owner.id, "mine")):
        values = {"credential_provider": "default", "default_bucket": bucket}
        world.create(AwsConfig, by=workspace.things.admin.id, person_id=person_id, **values)
        answers.append(await workspace.get(path, limit="1"))

    assert answers[0].is_refused(404, "DataNotFoundException")
    assert [answer.body["defaultBucket"] for answer in answers[1:]] == ["everybody", "mine"]
