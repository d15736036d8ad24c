"""What third-party clients send and expect, beyond what the reference says."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import pytest

from monitor.catalogue.operations import Edition
from monitor.sandbox.world.records.objects import OutputObject
from monitor.sandbox.world.records.parts import DatasetNode, FlowEdge
from monitor.sandbox.world.records.runs import NativeStatus
from tests.sandbox.http_workspace import OWNER_TOKEN, Workspace, open_workspace


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    """A workspace in edition RL."""
    async with open_workspace() as opened:
        yield opened


@pytest.mark.parametrize("path", ["/v4/jobgroups/{}/status", "/V4/JOBGROUPS/{}/Status/"])
async def test_paths_ignore_case_and_a_last_slash(workspace: Workspace, path: str) -> None:
    """A path in another case, or with a slash at its end, names the same operation."""
    group = workspace.job_group()

    answer = await workspace.get(path.format(group.id))

    assert (answer.status, answer.body) == (200, "Created")


async def test_an_edition_refuses_in_any_case() -> None:
    """An operation that an edition lacks is an unknown route, however its path is written."""
    async with open_workspace(Edition.LE) as workspace:
        for path in ("/v4/flows", "/v4/FLOWS/"):
            answer = await workspace.get(path)
            assert answer.is_refused(404, "RouteNotFoundException", path)


async def test_quotas_count_in_any_case(workspace: Workspace) -> None:
    """The quota of an operation counts its requests together, however they are written."""
    body = {"wrangledDataset": {"id": workspace.things.clean.id}}
    paths = ("/v4/jobGroups", "/v4/JOBGROUPS/") * 15
    answers = [await workspace.request("POST", path, body=body) for path in (*paths, paths[0])]

    assert [answer.status for answer in answers] == [*[201] * 30, 429]


async def test_faults_strike_in_any_case(workspace: Workspace) -> None:
    """An operation that is lost by a fault is lost under every way to write it."""
    workspace.world.options.lose = {"listFlows": 0.0}

    for path in ("/v4/flows", "/v4/Flows/"):
        assert (await workspace.get(path)).is_refused(404, "RouteNotFoundException")


async def test_words_in_a_path_keep_their_case(workspace: Workspace) -> None:
    """Only the fixed part of a path ignores case: a value is taken as it is written."""
    answer = await workspace.get("/V4/FLOWS/Abc")

    assert answer.status == 400


async def test_nodes_say_whether_they_are_recipes(workspace: Workspace) -> None:
    """A recipe's node is wrangled, a dataset's is not and shows the recipe that parses it."""
    things, world = workspace.things, workspace.world
    dataset_id = things.clean.dataset_ids[0]
    links = {"flow_id": things.orders.id, "dataset_id": dataset_id}
    node = world.create(DatasetNode, by=things.owner.id, **links)
    flow = f"/v4/flows/{things.orders.id}"

    embedded = (await workspace.get(flow, embed="flowNodes.recipe")).body["flowNodes"]["data"]
    dataset = (await workspace.get(f"/v4/importedDatasets/{dataset_id}")).body

    shown = {row["id"]: (row["wrangled"], row["recipe"]["name"]) for row in embedded}
    assert shown == {
        things.clean.id: (True, things.clean.name),
        things.totals.id: (True, things.totals.name),
        node.id: (False, dataset["name"]),
    }
    plain = (await workspace.get(flow, embed="flownodes")).body["flowNodes"]["data"]
    assert plain[-1]["recipe"] == dataset["parsingRecipe"]


async def test_the_edges_of_a_flow_are_embedded(workspace: Workspace) -> None:
    """Edges name the nodes at both of their ends."""
    things = workspace.things
    ends = {"input_node_id": things.clean.id, "output_node_id": things.totals.id}
    workspace.world.create(FlowEdge, by=things.owner.id, flow_id=things.orders.id, **ends)

    flow = await workspace.get(f"/v4/flows/{things.orders.id}", embed="flowEdges")

    (edge,) = flow.body["flowEdges"]["data"]
    assert (edge["inputFlowNode"]["id"], edge["outputFlowNode"]["id"]) == tuple(ends.values())


async def test_recipes_embed_their_outputs(workspace: Workspace) -> None:
    """A recipe's outputs are embedded, scheduled and ad hoc ones; a new recipe has none."""
    things, world = workspace.things, workspace.world
    world.create(OutputObject, by=things.owner.id, recipe_id=things.clean.id)
    outputs = [output.id for output in world.outputs_of(things.clean.id)]
    body = {
        "flow": {"id": things.orders.id},
        "importedDataset": {"id": things.clean.dataset_ids[0]},
        "name": "new",
    }
    new = await workspace.request("POST", "/v4/wrangledDatasets", body=body)

    for recipe_id, expected in ((things.clean.id, outputs), (new.body["id"], [])):
        found = await workspace.get(f"/v4/wrangledDatasets/{recipe_id}", embed="outputObjects")
        assert [row["id"] for row in found.body["outputObjects"]["data"]] == expected


@pytest.mark.parametrize(
    ("execution", "job_type"), [("photon", "filewriter"), ("dataflow", "wrangle")]
)
async def test_results_hang_on_the_job_that_writes(
    workspace: Workspace, execution: str, job_type: str
) -> None:
    """Files are results of the filewriter; in the cloud the wrangling writes by itself."""
    for output in workspace.world.outputs_of(workspace.things.clean.id):
        workspace.world.update(output, execution=execution)
    group = workspace.job_group()
    for job in workspace.world.jobs_of(group):
        workspace.world.update(job, status=NativeStatus.COMPLETE)

    embed = "jobs.scriptResults.storageLocation"
    answer = await workspace.get(f"/v4/jobGroups/{group.id}", embed=embed)

    wrote_files = {
        job["jobType"]
        for job in answer.body["jobs"]["data"]
        if any(row["storageLocation"]["container"] == "out" for row in job["scriptResults"]["data"])
    }
    assert wrote_files == {job_type}


@pytest.mark.parametrize("path", ["/v4/flows", "/v4/outputObjects", "/v4/importedDatasets"])
async def test_a_new_object_is_first(workspace: Workspace, path: str) -> None:
    """A list shows the newest first, so that its first row is what was just made."""
    body = {
        "/v4/flows": {"name": "new"},
        "/v4/outputObjects": {
            "execution": "photon",
            "profiler": True,
            "isAdhoc": False,
            "flowNodeId": workspace.things.clean.id,
        },
        "/v4/importedDatasets": {"name": "new", "uri": "gs://in/new.csv"},
    }[path]
    listed = {"/v4/importedDatasets": "/v4/datasetLibrary?datasetsFilter=all"}.get(path, path)

    made = await workspace.request("POST", path, body=body)

    first = (await workspace.get(listed)).body["data"][0]
    assert made.status == 201
    assert first["id"] == made.body["id"]


async def test_the_suffix_of_files_is_shown(workspace: Workspace) -> None:
    """A write setting keeps the suffix that it is made with; it may be changed."""
    output = workspace.world.outputs_of(workspace.things.clean.id)[0]
    body = {"outputObjectId": output.id, "path": "gs://out", "action": "create", "format": "csv"}

    made = await workspace.request(
        "POST", "/v4/writeSettings/", body={**body, "suffix": "_increment"}
    )
    path = f"/v4/writeSettings/{made.body['id']}"
    await workspace.request("PATCH", path, body={"suffix": "_new"})

    assert made.body["suffix"] == "_increment"
    assert (await workspace.get(path)).body["suffix"] == "_new"


def basic(address: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{address}:{password}".encode()).decode()}


@pytest.mark.parametrize("edition", [Edition.OPEN, Edition.RL])
async def test_basic_authentication_is_for_self_managed(edition: Edition) -> None:
    """In edition open an address and a token of the same person are taken, and nothing else."""
    async with open_workspace(edition) as workspace:
        owner, colleague = workspace.things.owner, workspace.things.colleague
        answers = [
            await workspace.request("GET", "/v4/people/current", headers=headers, token="")
            for headers in (
                basic(owner.email, OWNER_TOKEN),
                basic(colleague.email, OWNER_TOKEN),
                basic(owner.email, "wrong"),
                {"Authorization": "Basic ?"},
            )
        ]

    assert [answer.status for answer in answers[1:]] == [401, 401, 401]
    assert answers[0].status == (200 if edition is Edition.OPEN else 401)


async def test_folder_0_is_no_folder(workspace: Workspace) -> None:
    """Clients send the folder 0 for none, when they make a flow and when they move it."""
    folder = await workspace.request("POST", "/v4/folders", body={"name": "f"})
    made = await workspace.request("POST", "/v4/flows", body={"name": "n", "folderId": 0})
    path = f"/v4/flows/{made.body['id']}"

    assert made.body["folder"] is None
    for folder_id, expected in ((folder.body["id"], {"id": folder.body["id"]}), (0, None)):
        await workspace.request("PATCH", path, body={"folderId": folder_id})
        assert (await workspace.get(path)).body["folder"] == expected
