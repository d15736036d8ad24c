"""Runs follow their overrides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.sandbox.world.records.objects import Publication, WriteSetting
from monitor.sandbox.world.records.parts import FlowRunParameterOverride, SqlScript
from monitor.sandbox.world.records.runs import JobGroup, NativeStatus, RanFrom
from tests.sandbox.http_workspace import Workspace, open_workspace

FILE = {"path": "gs://elsewhere/x.json", "action": "overwrite", "format": "json"}
# Puts the value of "region" between the two slashes.
REGION = {
    "overrideKey": "region",
    "insertionIndices": [{"index": 9, "order": 0}],
    "value": {"variable": {"value": "all"}},
}


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


def with_region(workspace: Workspace) -> None:
    """Let the path of what the first recipe writes have a parameter."""
    (output,) = workspace.world.outputs_of(workspace.things.clean.id)
    (setting,) = workspace.world.write_settings_of(output.id)
    workspace.world.update(setting, path="gs://out//x.csv", run_parameters=(REGION,))


async def run(workspace: Workspace, **body: Any) -> JobGroup:
    """Run the first recipe to its end."""
    answer = await workspace.post(
        "/v4/jobGroups", {"wrangledDataset": {"id": workspace.things.clean.id}, **body}
    )
    assert answer.status == 201, answer.content
    job_group = workspace.world.job_groups.get(answer.body["id"])
    assert job_group is not None
    return job_group


async def files_of(workspace: Workspace, job_group: JobGroup) -> list[str]:
    workspace.world.update(job_group, status=NativeStatus.COMPLETE)
    answer = await workspace.get(f"/v4/jobGroups/{job_group.id}/outputs")
    return [file["uri"] for file in answer.body["files"]]


async def test_a_run_writes_to_overridden_settings(workspace: Workspace) -> None:
    """Overridden write settings replace those of the outputs, in this run and in no other."""
    listed = (await workspace.get("/v4/writeSettings/count")).body
    other = {**FILE, "path": "gs://elsewhere/y.json"}

    overridden = await run(workspace, overrides={"writesettings": [FILE, other]})
    usual = await run(workspace)

    assert await files_of(workspace, overridden) == [FILE["path"], other["path"]]
    assert await files_of(workspace, usual) == [f"gs://out/{workspace.things.clean.id}.csv"]
    jobs = await workspace.get(
        f"/v4/jobGroups/{overridden.id}", embed="jobs.fileWriterJob.writeSetting"
    )
    written = [job["writeSetting"] for job in jobs.body["jobs"]["data"] if "writeSetting" in job]
    assert [job["format"] for job in written] == ["json", "json"]
    assert (await workspace.get("/v4/writeSettings/count")).body == listed


async def test_a_run_uses_its_overrides(workspace: Workspace) -> None:
    """The engine and the profiling of a run are those of its overrides."""
    job_group = await run(workspace, overrides={"execution": "dataflow", "profiler": True})

    jobs = {job.job_type: job for job in workspace.world.jobs_of(job_group)}
    assert jobs["wrangle"].execution_language == "dataflow"
    assert "profile" in jobs
    assert job_group.profiling_enabled


@pytest.mark.parametrize(
    "overrides",
    [{"data": [{"key": "region", "value": "north"}]}, {"region": "north"}],
)
async def test_parameters_stand_in_the_path(
    workspace: Workspace, overrides: dict[str, Any]
) -> None:
    """A parameter has its own value, or the one that the run gives to its key."""
    with_region(workspace)

    overridden = await run(workspace, runParameters={"overrides": overrides})
    usual = await run(workspace)

    assert await files_of(workspace, overridden) == ["gs://out/north/x.csv"]
    assert await files_of(workspace, usual) == ["gs://out/all/x.csv"]


async def test_the_environment_stands_in_the_path(workspace: Workspace) -> None:
    """A key of the environment is its value in paths and parameters; a secret is never shown."""
    with_region(workspace)
    for key, value in (
        ("stage", {"variable": {"value": "test"}}),
        ("key", {"type": "secret", "variable": {"value": "hush"}}),
    ):
        body = {"overrideKey": key, "value": value}
        assert (await workspace.post("/v4/environmentParameters", body)).status == 201
    parameters = {"overrides": {"region": "$env.stage/$env.key/$env.nothing"}}

    job_group = await run(workspace, runParameters=parameters)

    assert await files_of(workspace, job_group) == ["gs://out/test/$env.key/$env.nothing/x.csv"]


async def test_dates_in_a_path_count_from_the_reference_date(workspace: Workspace) -> None:
    """A date in a path is the one that the run names, and the job group shows it."""
    with_region(workspace)
    value = {"timestamp": {"format": "YYYY-MM-DD"}}
    (setting,) = (
        write_setting
        for write_setting in workspace.world.write_settings.live()
        if write_setting.run_parameters
    )
    workspace.world.update(setting, run_parameters=({**REGION, "value": value},))

    job_group = await run(workspace, runParameters={"referenceDate": "2024-02-29T00:00:00.000Z"})

    assert await files_of(workspace, job_group) == ["gs://out/2024-02-29/x.csv"]
    shown = await workspace.get(f"/v4/jobGroups/{job_group.id}")
    assert shown.body["runParameterReferenceDate"] == "2024-02-29T00:00:00.000Z"


async def first_of_flow_run(workspace: Workspace, **body: Any) -> JobGroup:
    """Run the first recipe by a run of its flow."""
    things = workspace.things
    answer = await workspace.post(
        f"/v4/flows/{things.orders.id}/run", {"wrangledDatasetIds": [things.clean.id], **body}
    )
    job_group = workspace.world.job_groups.get(answer.body["data"][0]["id"])
    assert job_group is not None
    return job_group


async def test_the_run_wins_over_the_flow(workspace: Workspace) -> None:
    """A flow's own value holds in all its runs, except where a run gives another."""
    with_region(workspace)
    workspace.world.create(
        FlowRunParameterOverride,
        by=workspace.things.owner.id,
        flow_id=workspace.things.orders.id,
        override_key="region",
        value={"variable": {"value": "flow"}},
    )
    parameters = {"overrides": {"data": [{"key": "region", "value": 7}]}}

    assert await files_of(workspace, await run(workspace)) == ["gs://out/flow/x.csv"]
    by_flow = await first_of_flow_run(workspace)
    assert await files_of(workspace, by_flow) == ["gs://out/flow/x.csv"]
    by_run = await first_of_flow_run(workspace, runParameters=parameters)
    assert await files_of(workspace, by_run) == ["gs://out/7/x.csv"]


async def test_a_flow_run_is_overridden_by_recipe_name(workspace: Workspace) -> None:
    """An override of one recipe holds for it alone; one of the run holds for all."""
    things = workspace.things
    body = {"execution": "emrSpark", "overrides": {"Clean orders": {"writesettings": [FILE]}}}

    answer = await workspace.post(f"/v4/flows/{things.orders.id}/run", body)

    job_group = workspace.world.job_groups.get(answer.body["data"][0]["id"])
    assert job_group is not None
    assert job_group.execution == "emrSpark"
    assert await files_of(workspace, job_group) == [FILE["path"]]


@pytest.mark.parametrize(
    ("path", "part", "field"),
    [
        ("jobGroups", {"overrides": {"writesettings": [{**FILE, "format": "x"}]}}, "writesettings"),
        ("jobGroups", {"overrides": {"writesettings": {}}}, "overrides.writesettings"),
        ("jobGroups", {"overrides": {"profiler": "yes"}}, "overrides.profiler"),
        ("jobGroups", {"overrides": []}, "overrides"),
        ("jobGroups", {"runParameters": {"referenceDate": "soon"}}, "runParameters.referenceDate"),
        (
            "jobGroups",
            {"runParameters": {"overrides": {"data": [{"value": 1}]}}},
            "runParameters.overrides.data[0].key",
        ),
        ("flow", {"overrides": {"Unknown": {}}}, "overrides.Unknown"),
        ("flow", {"overrides": {"Totals": {"execution": 1}}}, "overrides.Totals.execution"),
        ("flow", {"execution": "spark"}, "execution"),
    ],
)
async def test_a_bad_override_names_its_field(
    workspace: Workspace, path: str, part: dict[str, Any], field: str
) -> None:
    """An override that a run cannot follow is 400 with the field, and starts nothing."""
    things = workspace.things
    where = "/v4/jobGroups" if path == "jobGroups" else f"/v4/flows/{things.orders.id}/run"

    answer = await workspace.post(where, {"wrangledDataset": {"id": things.clean.id}, **part})

    assert answer.is_refused(400, "ValidationFailed", field)
    assert len(workspace.world.job_groups) == 0


async def test_a_started_run_keeps_its_results(workspace: Workspace) -> None:
    """Editing or deleting an output later changes no run that was started before."""
    job_group = await run(workspace)
    world = workspace.world
    before = await files_of(workspace, job_group)
    for kind in (WriteSetting, Publication):
        for other_kind in list(world.shelf(kind).live()):
            world.update(other_kind, action="append")
            world.delete(other_kind)

    tables = (await workspace.get(f"/v4/jobGroups/{job_group.id}/outputs")).body["tables"]

    assert await files_of(workspace, job_group) == before
    assert [table["action"] for table in tables] == ["create"]


async def test_sql_is_executed_around_the_work(workspace: Workspace) -> None:
    """A script before the work is the first job, one after it the last."""
    (output,) = workspace.world.outputs_of(workspace.things.clean.id)
    for when in ("post", "pre"):
        workspace.world.create(
            SqlScript,
            by=workspace.things.owner.id,
            output_object_id=output.id,
            sql_script=f"select '{when}'",
            type=when,
            vendor="postgres",
        )

    job_group = await run(workspace)

    types = [job.job_type for job in workspace.world.jobs_of(job_group)]
    assert types == ["sqlexecution", "wrangle", "filewriter", "publish", "sqlexecution"]


async def test_a_schedules_outputs_can_be_run_by_hand(workspace: Workspace) -> None:
    """A run in the name of a schedule's execution makes the scheduled outputs, ran from the API."""
    things = workspace.things
    (output,) = workspace.world.outputs_of(things.clean.id)
    await workspace.post(
        "/v4/outputObjects",
        {
            "execution": "photon",
            "profiler": False,
            "isAdhoc": False,
            "flowNodeId": things.clean.id,
            "writeSettings": [FILE],
        },
    )
    assert output.is_adhoc

    answer = await workspace.post(f"/v4/flows/{things.orders.id}/run", {"scheduleExecutionId": 801})

    job_group = workspace.world.job_groups.get(answer.body["data"][0]["id"])
    assert job_group is not None
    assert job_group.ran_from is RanFrom.API
    assert await files_of(workspace, job_group) == [FILE["path"]]
