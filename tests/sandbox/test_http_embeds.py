"""The associations that ``embed`` shows."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.sandbox.api.errors import ApiError
from monitor.sandbox.api.request.embedding import Embed, parse_embeds
from monitor.sandbox.world.records.objects import WebhookFlowTask
from monitor.sandbox.world.records.runs import NativeStatus
from tests.sandbox.http_workspace import Workspace, open_workspace


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


async def test_associations_nest(workspace: Workspace) -> None:
    """A dotted path embeds one thing in the other, in any spelling of case."""
    job_group = workspace.job_group()
    path = f"/v4/jobGroups/{job_group.id}"

    nested = await workspace.get(path, embed="wrangledDataset.flow,wrangleddataset.recipe,creator")

    wrangled = nested.body["wrangledDataset"]
    assert wrangled["id"] == workspace.things.clean.id
    assert wrangled["flow"]["name"] == "Orders"
    assert wrangled["recipe"]["name"] == "Clean orders"
    assert nested.body["creator"]["email"] == "owner@example.com"


async def test_lists_embed_in_every_row(workspace: Workspace) -> None:
    """The older list of job groups embeds too, in an envelope where there are several."""
    job_group = workspace.job_group()

    answer = await workspace.get("/v4/jobGroups", embed="jobs,flowRun,jobgroupdataflowoptions")

    row = answer.body["data"][0]
    assert [job["id"] for job in row["jobs"]["data"]] == job_group.job_ids
    assert row["flowRun"] is None
    assert row["jobGroupDataflowOptions"]["data"][0]["key"] == "region"


async def test_a_flow_run_is_embedded_under_both_spellings(workspace: Workspace) -> None:
    """The flow run is embedded as flowRun for one client and as flowrun for another."""
    flow_run = workspace.engine.start_flow_run(
        workspace.things.orders, by=workspace.things.owner.id
    )
    path = f"/v4/jobGroups/{flow_run.job_group_ids[0]}"

    plain = (await workspace.get(path)).body
    embedded = (await workspace.get(path, embed="flowrun.flow")).body

    assert plain["flowRun"] == plain["flowrun"] == {"id": flow_run.id}
    assert embedded["flowRun"] == embedded["flowrun"]
    assert embedded["flowRun"]["flow"]["name"] == "Orders"


async def test_jobs_embed_what_they_wrote(workspace: Workspace) -> None:
    """The write setting stands in the writing job itself, and in no other job."""
    job_group = workspace.job_group()

    answer = await workspace.get(
        f"/v4/jobGroups/{job_group.id}", embed="jobs.fileWriterJob.writeSetting"
    )

    jobs = {job["jobType"]: job for job in answer.body["jobs"]["data"]}
    assert jobs["filewriter"]["writeSetting"]["path"] == f"gs://out/{job_group.recipe_id}.csv"
    assert not [job for job in jobs.values() if "fileWriterJob" in job]
    assert [kind for kind, job in jobs.items() if "writeSetting" in job] == ["filewriter"]


async def test_jobs_embed_where_results_went(workspace: Workspace) -> None:
    """A wrangling names its tables, with a path that is a list in a text; a writer its file."""
    job_group = workspace.job_group()
    path = f"/v4/jobGroups/{job_group.id}"
    embed = "jobs.scriptResults.storageLocation"
    jobs = workspace.world.jobs_of(job_group)
    wrangle = next(job for job in jobs if job.job_type == "wrangle")

    async def results() -> list[Any]:
        jobs = (await workspace.get(path, embed=embed)).body["jobs"]["data"]
        found = {job["id"]: job["scriptResults"]["data"] for job in jobs}
        return [*found.pop(wrangle.id), *itertools.chain(*found.values())]

    before = await results()
    for job in jobs:
        workspace.world.update(job, status=NativeStatus.COMPLETE)
    table, file = await results()

    assert before == []
    assert (table["isPrimaryOutput"], file["isPrimaryOutput"]) == (True, False)
    place = table["storageLocation"]
    assert (place["container"], json.loads(place["path"])) == ("orders", ["public"])
    assert file["storageLocation"]["container"] == "out"


async def test_jobs_embed_their_error(workspace: Workspace) -> None:
    """An error is an object with its message, and null where there is none."""
    job_group = workspace.job_group()
    first, *others = workspace.world.jobs_of(job_group)
    workspace.world.update(first, error_message="no memory")

    answer = await workspace.get(f"/v4/jobGroups/{job_group.id}", embed="jobs.errorMessage")

    errors = [job["errorMessage"] for job in answer.body["jobs"]["data"]]
    assert errors == [{"message": "no memory"}, *[None] * len(others)]


async def test_an_embedded_list_has_options(workspace: Workspace) -> None:
    """Limit, fields and sort in brackets shape an embedded list."""
    path = f"/v4/flows/{workspace.things.orders.id}"

    answer = await workspace.get(path, embed="flownodes(limit=1,fields=id,sort=-id)")

    assert answer.body["flowNodes"] == {"data": [{"id": workspace.things.totals.id}]}


async def test_the_webhook_tasks_of_a_flow_are_embedded(workspace: Workspace) -> None:
    """All tasks of a flow come under webhookFlowTasks, more than a page of them too."""
    flow = workspace.things.orders
    owner = workspace.things.owner.id
    for number in range(30):
        workspace.world.create(
            WebhookFlowTask, by=owner, flow_id=flow.id, name=f"n{number}", url="http://x.example"
        )

    alone = await workspace.get(f"/v4/flows/{flow.id}", embed="webhookflowtasks")
    listed = await workspace.get("/v4/flows", embed="webhookflowtasks(fields=id;name)")

    assert len(alone.body["webhookFlowTasks"]["data"]) == 30
    assert listed.body["data"][0]["webhookFlowTasks"]["data"][0].keys() == {"id", "name"}


@pytest.mark.parametrize("embed", ["*", "nothing", "creator.nothing", "wrangledDataset.*"])
async def test_an_unknown_association_lists_the_valid_ones(
    workspace: Workspace, embed: str
) -> None:
    """An unknown association is 400 with the valid names, in a list without rows too."""
    job_group = workspace.job_group()

    one = await workspace.get(f"/v4/jobGroups/{job_group.id}", embed=embed)
    none = await workspace.get("/v4/jobGroups", embed=embed, filter="no such row", ranfor="refresh")

    for answer in (one, none):
        assert answer.is_refused(400, "ValidationFailed", "No association", "Valid associations")
    flows = await workspace.get("/v4/flows", embed="*")
    assert flows.is_refused(400, "ValidationFailed", "No association * in flows!", "creator")


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "a,",
        "a.",
        "a(",
        "a()",
        "a(limit)",
        "a(limit=x)",
        "a(limit=-1)",
        "a(colour=1)",
        "a b",
        "(",
        ".a",
        "a.b.c.d.e.f.g.h",
        ",".join(["a"] * 60),
        "a(limit=1",
        "ä" * 10 + "(",
    ],
)
def test_unreadable_embeds_are_refused(text: str) -> None:
    """Text that is not of the language is 400, naming the parameter."""
    with pytest.raises(ApiError, match='"embed"') as caught:
        parse_embeds([text])
    assert caught.value.status == 400


def test_embeds_of_one_association_are_merged() -> None:
    """Naming an association twice embeds it once, with everything requested."""
    found = parse_embeds(["", "a.b(limit=2)", "A.c , a(fields=id;name).b(sort=-id)"])

    assert found == (
        Embed(
            name="a",
            fields=("id", "name"),
            inner=(Embed(name="b", limit=2, sort=(("id", True),)), Embed(name="c")),
        ),
    )
