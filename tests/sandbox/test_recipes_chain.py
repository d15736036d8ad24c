"""One pipeline made and run over HTTP alone, as a client does: each answer leads to the next."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from monitor.sandbox.running.engine import Order, Outcome
from monitor.sandbox.world.records.runs import JobGroup
from tests.sandbox.http_workspace import Workspace, open_workspace
from tests.sandbox.test_profiles_fit import text_of
from tests.sandbox.working import at_work, until_over


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with open_workspace() as opened:
        yield opened


async def make(workspace: Workspace, path: str, /, **body: Any) -> int:
    """Make something; the bodies are those of Airflow's operators."""
    answer = await workspace.post(f"/v4/{path}", body)
    assert answer.status == 201, answer.content
    found = answer.body["id"]
    assert isinstance(found, int)
    return found


async def test_a_pipeline_from_its_data_to_its_page(workspace: Workspace) -> None:
    """Dataset, flow, recipe, output, file, copy, run: what the run shows fits what was made."""
    dataset = await make(workspace, "importedDatasets", uri="gs://in/sales.csv", name="Sales")
    flow = await make(workspace, "flows", name="Made by a client")
    recipe = await make(
        workspace,
        "wrangledDatasets",
        importedDataset={"id": dataset},
        flow={"id": flow},
        name="Clean",
    )
    output = await make(
        workspace, "outputObjects", execution="dataflow", profiler=True, flowNodeId=recipe
    )
    await make(
        workspace,
        "writeSettings",
        path="gs://out/sales.csv",
        action="create",
        format="csv",
        outputObjectId=output,
    )
    copied = await make(workspace, f"flows/{flow}/copy", name="", description="")
    workspace.engine.order(Order(outcome=Outcome.COMPLETE))
    started = await workspace.post("/v4/jobGroups", {"wrangledDataset": {"id": recipe}})
    run = workspace.world.job_groups.get(started.body["id"])
    async with at_work(workspace):
        await until_over(workspace, run)
    assert run is not None

    await check_consistency(workspace, run)

    assert (await workspace.request("DELETE", f"/v4/importedDatasets/{dataset}")).status == 400
    for flow_id in (flow, copied):
        assert (await workspace.request("DELETE", f"/v4/flows/{flow_id}")).status == 204
    assert (await workspace.request("DELETE", f"/v4/importedDatasets/{dataset}")).status == 204
    assert (await workspace.get(f"/v4/wrangledDatasets/{recipe}")).status == 404
    assert (await workspace.get(f"/v4/jobGroups/{run.id}/inputs")).body["data"] != []


async def check_consistency(workspace: Workspace, run: JobGroup) -> None:
    """Compare all that a finished run shows."""
    path = f"/v4/jobGroups/{run.id}"
    parts = ("status", "inputs", "outputs", "jobs", "profileResults", "pdfResults")
    answers = {part: await workspace.get(f"{path}/{part}") for part in parts}
    assert {answer.status for answer in answers.values()} == {200}
    assert answers["status"].body == "Complete"
    assert answers["inputs"].body["data"] == [
        {"name": "Sales", "inputs": [{"uri": "gs://in/sales.csv", "fileType": "FILE"}]}
    ]
    files = answers["outputs"].body["files"]
    assert [file["uri"] for file in files] == ["gs://out/sales.csv"]
    jobs = [job["jobType"] for job in answers["jobs"].body["data"]]
    assert jobs == ["wrangle", "profile", "filewriter"]
    checks = answers["profileResults"].body["profilerTypeCheckHistograms"].values()
    rows = {sum(bucket["count"] for bucket in column) for column in checks}
    page = text_of(answers["pdfResults"].content)
    assert len(rows) == 1
    assert f"Rows: {rows.pop()}" in page
    assert "Flow: Made by a client" in page
