"""The operations of job groups and jobs, over real HTTP."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.catalogue.operations import Edition
from monitor.sandbox.world.records.runs import NativeStatus
from tests.sandbox.http_workspace import Workspace, open_workspace

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000Z")


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


async def test_a_job_group_is_run_with_its_jobs(workspace: Workspace) -> None:
    """Running a recipe answers 201 with the job group, its jobs in a chain and a session."""
    recipe_id = workspace.things.clean.id

    answer = await workspace.post("/v4/jobGroups", {"wrangledDataset": {"id": recipe_id}})

    assert answer.status == 201
    job_group = workspace.world.job_groups.get(answer.body["id"])
    assert job_group is not None
    assert job_group.recipe_id == recipe_id
    assert job_group.creator_id == workspace.things.owner.id
    assert job_group.ran_from == "api"
    assert answer.body["reason"] == "JobStarted"
    assert str(uuid.UUID(answer.body["sessionId"])) == answer.body["sessionId"]
    assert [job["id"] for job in answer.body["jobs"]["data"]] == job_group.job_ids
    assert answer.body["jobGraph"]["vertices"] == job_group.job_ids
    edges = answer.body["jobGraph"]["edges"]
    assert [edge["source"] for edge in edges] == job_group.job_ids[:-1]
    assert [edge["target"] for edge in edges] == job_group.job_ids[1:]


async def test_a_repeated_execution_id_starts_nothing(workspace: Workspace) -> None:
    """The same x-execution-id again answers 304 without a body and without a second run."""
    body = {"wrangledDataset": {"id": workspace.things.clean.id}}

    first = await workspace.post("/v4/jobGroups", body, x_execution_id="once")
    second = await workspace.post("/v4/jobGroups", body, x_execution_id="once")
    third = await workspace.post("/v4/jobGroups", body, x_execution_id="twice")

    assert [first.status, second.status, third.status] == [201, 304, 201]
    assert second.content == b""
    assert len(workspace.world.job_groups) == 2


async def test_the_test_mode_only_shows_what_would_run(workspace: Workspace) -> None:
    """With testMode the answer names the recipe and nothing is started."""
    recipe = workspace.things.clean
    body = {"wrangledDataset": {"id": recipe.id}, "testMode": True}

    answer = await workspace.post("/v4/jobGroups", body)

    assert answer.status == 201
    assert (answer.body["datasetId"], answer.body["datasetName"]) == (recipe.id, recipe.name)
    assert len(workspace.world.job_groups) == 0


async def test_only_dataflow_names_its_jobs(workspace: Workspace) -> None:
    """The override of the engine stands in the jobs; on Dataflow they have a name there."""
    found = {}
    for engine in ("photon", "dataflow"):
        body: dict[str, Any] = {"wrangledDataset": {"id": workspace.things.clean.id}}
        started = await workspace.post("/v4/jobGroups", body | {"overrides": {"execution": engine}})
        jobs = (await workspace.get(f"/v4/jobGroups/{started.body['id']}/jobs")).body["data"]
        found[engine] = next(job for job in jobs if job["jobType"] == "wrangle")

    assert {item["executionLanguage"] for item in found.values()} == {"photon", "dataflow"}
    assert "cpJobId" not in found["photon"]
    assert re.fullmatch(r"[\d_-]{19}-\d{19}", found["dataflow"]["cpJobId"])


async def test_profiling_follows_the_override(workspace: Workspace) -> None:
    """The body's override decides whether a job group is profiled."""
    body = {"wrangledDataset": {"id": workspace.things.clean.id}, "overrides": {"profiler": True}}

    answer = await workspace.post("/v4/jobGroups", body)

    found = await workspace.get(f"/v4/jobGroups/{answer.body['id']}")
    assert found.body["profilingEnabled"] is True


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (None, "body"),
        ([], "body"),
        ({}, "wrangledDataset"),
        ({"wrangledDataset": 7}, "wrangledDataset"),
        ({"wrangledDataset": {}}, "wrangledDataset.id"),
        ({"wrangledDataset": {"id": "seven"}}, "wrangledDataset.id"),
        ({"wrangledDataset": {"id": 999_999}}, "wrangledDataset.id"),
        ({"wrangledDataset": {"id": 1201}, "testMode": "yes"}, "testMode"),
        ({"wrangledDataset": {"id": 1201}, "ranfrom": "moon"}, "ranfrom"),
        ({"wrangledDataset": {"id": 1201}, "overrides": [1]}, "overrides"),
        ({"wrangledDataset": {"id": 1201}, "runParameters": 1}, "runParameters"),
    ],
)
async def test_a_bad_run_request_names_its_field(
    workspace: Workspace, body: object, field: str
) -> None:
    """A request that cannot run is 400 ValidationFailed, naming the field at fault."""
    answer = await workspace.post("/v4/jobGroups", body)

    assert answer.is_refused(400, "ValidationFailed", f'"{field}"')
    assert len(workspace.world.job_groups) == 0


async def test_unreadable_json_is_refused(workspace: Workspace) -> None:
    """A body that is no JSON is 400, never 500."""
    for content in (b"{", b"\xff\xfe", b"[" * 100_000, b"NaN", b'"\\ud800"'):
        answer = await workspace.request("POST", "/v4/jobGroups", content=content)
        assert answer.is_refused(400, "ValidationFailed", '"body"')


async def test_one_job_group_has_the_documented_shape(workspace: Workspace) -> None:
    """A job group shows its fields, a null name, and a flowRun key that is null on its own."""
    job_group = workspace.job_group(status=NativeStatus.IN_PROGRESS)

    answer = await workspace.get(f"/v4/jobGroups/{job_group.id}")

    assert answer.status == 200
    document = answer.body
    assert document["id"] == job_group.id
    assert document["name"] is None
    assert document["status"] == "InProgress"
    assert document["ranfor"] == "recipe"
    assert document["flowRun"] is document["flowrun"] is None
    assert document["wrangledDataset"] == {"id": workspace.things.clean.id}
    assert document["creator"] == {"id": workspace.things.owner.id}
    assert document["workspace"] == {"id": 1}
    for name in ("createdAt", "updatedAt", "runParameterReferenceDate"):
        assert STAMP.fullmatch(document[name])


async def test_statuses_are_bare_texts(workspace: Workspace) -> None:
    """The status of a job group and of a job is a JSON string and nothing else."""
    job_group = workspace.job_group(status=NativeStatus.FAILED)

    group_status = await workspace.get(f"/v4/jobGroups/{job_group.id}/status")
    job_status = await workspace.get(f"/v4/jobs/{job_group.job_ids[0]}/status")

    assert group_status.content == b'"Failed"'
    assert job_status.content == b'"Created"'


async def test_jobs_come_in_the_order_of_work(workspace: Workspace) -> None:
    """The jobs of a job group stand in an envelope, each with the documented fields."""
    job_group = workspace.job_group()

    answer = await workspace.get(f"/v4/jobGroups/{job_group.id}/jobs")

    assert answer.ids == job_group.job_ids
    first = answer.body["data"][0]
    assert first["jobGroup"] == {"id": job_group.id}
    assert first["errorMessage"] is None
    assert first["percentComplete"] == 0
    assert {"jobType", "status", "lastHeartbeatAt", "startedAt", "finishedAt"} <= first.keys()


async def test_inputs_and_outputs_of_a_job_group_are_shown(workspace: Workspace) -> None:
    """Inputs come in the envelope, outputs as files and tables without one."""
    job_group = workspace.job_group(status=NativeStatus.COMPLETE)
    path = f"/v4/jobGroups/{job_group.id}"

    inputs = await workspace.get(f"{path}/inputs")
    outputs = await workspace.get(f"{path}/outputs")
    publications = await workspace.get(f"{path}/publications")

    assert inputs.body["data"][0]["name"] == "orders.csv"
    assert inputs.body["data"][0]["inputs"][0]["uri"] == "gs://in/orders.csv"
    assert outputs.body.keys() == {"files", "tables"}
    assert outputs.body["files"][0]["isPrimaryOutput"] is True
    assert outputs.body["tables"][0]["relationalPath"] == ["public"]
    assert publications.body["data"][0]["tableName"] == "orders"


async def test_a_run_that_is_not_complete_made_nothing(workspace: Workspace) -> None:
    """Before the end, and after a failure, there are no outputs."""
    job_group = workspace.job_group(status=NativeStatus.FAILED)

    answer = await workspace.get(f"/v4/jobGroups/{job_group.id}/outputs")

    assert answer.body == {"files": [], "tables": []}


async def test_a_profile_exists_only_after_profiling(workspace: Workspace) -> None:
    """Profiles answer counts per column, or 400 ProfilingDataNotFoundException."""
    plain = workspace.job_group(status=NativeStatus.COMPLETE)
    profiled = workspace.job_group(status=NativeStatus.COMPLETE, profiling=True)

    for name in ("profile", "profileResults"):
        found = await workspace.get(f"/v4/jobGroups/{profiled.id}/{name}")
        missing = await workspace.get(f"/v4/jobGroups/{plain.id}/{name}")
        assert found.status == 200
        assert found.body["columnTypes"].keys() == found.body["profilerTypeCheckHistograms"].keys()
        assert missing.is_refused(400, "ProfilingDataNotFoundException", str(plain.id))


async def test_the_pdf_is_one(workspace: Workspace) -> None:
    """The PDF's table of offsets points at its objects, as a reader expects."""
    job_group = workspace.job_group(status=NativeStatus.COMPLETE)

    answer = await workspace.get(f"/v4/jobGroups/{job_group.id}/pdfResults")

    assert answer.headers["Content-Type"] == "application/pdf"
    content = answer.content
    assert content.startswith(b"%PDF-1.4")
    start = int(content.rstrip().splitlines()[-2])
    assert content[start:].startswith(b"xref")
    offsets = re.findall(rb"(\d{10}) 00000 n", content[start:])
    for number, offset in enumerate(offsets, start=1):
        assert content[int(offset) :].startswith(b"%d 0 obj" % number)


async def test_canceling_names_the_jobs(workspace: Workspace) -> None:
    """Cancel answers the stopped jobs once, and none for what is over."""
    job_group = workspace.job_group()

    first = await workspace.post(f"/v4/jobGroups/{job_group.id}/cancel", {})
    second = await workspace.post(f"/v4/jobGroups/{job_group.id}/cancel")

    assert first.body == {"jobIds": job_group.job_ids, "jobgroupId": job_group.id}
    assert second.body == {"jobIds": [], "jobgroupId": job_group.id}
    assert job_group.status is NativeStatus.CANCELED


@pytest.mark.parametrize(
    "suffix",
    ["", "/status", "/jobs", "/inputs", "/outputs", "/publications", "/profile", "/pdfResults"],
)
async def test_unknown_and_deleted_job_groups_are_not_found(
    workspace: Workspace, suffix: str
) -> None:
    """An unknown id and a deleted one are 404 DataNotFoundException; no number is 400."""
    deleted = workspace.job_group()
    workspace.engine.delete_run(deleted)

    unknown = await workspace.get(f"/v4/jobGroups/999999999{suffix}")
    gone = await workspace.get(f"/v4/jobGroups/{deleted.id}{suffix}")
    word = await workspace.get(f"/v4/jobGroups/seven{suffix}")

    assert unknown.is_refused(404, "DataNotFoundException", "999999999")
    assert gone.is_refused(404, "DataNotFoundException", str(deleted.id))
    assert word.is_refused(400, "ValidationFailed", '"id"')


async def test_deleted_job_groups_can_be_requested(workspace: Workspace) -> None:
    """With includeDeleted=true a deleted job group is served, in any spelling of case."""
    deleted = workspace.job_group()
    workspace.engine.delete_run(deleted)

    shown = await workspace.get(f"/v4/jobGroups/{deleted.id}", includeDeleted="true")
    hidden = await workspace.get(f"/v4/jobGroups/{deleted.id}", includeDeleted="False", embed="")

    assert shown.status == 200
    assert hidden.status == 404


async def test_the_legacy_edition_runs_and_reads_by_id() -> None:
    """In LE a job group is run and read with its jobs; neither list nor status is served."""
    async with open_workspace(Edition.LE) as workspace:
        body = {"wrangledDataset": {"id": workspace.things.clean.id}}
        started = await workspace.post("/v4/jobGroups", body)
        path = f"/v4/jobGroups/{started.body['id']}"

        assert (await workspace.get(path)).status == 200
        assert (await workspace.get(f"{path}/jobs")).status == 200
        for outside in ("/v4/jobGroups", "/v4/jobLibrary", f"{path}/status"):
            refused = await workspace.get(outside)
            assert refused.is_refused(404, "RouteNotFoundException", f"Cannot GET {outside}")
