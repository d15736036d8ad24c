"""The monitor's use of each operation. An operation that is not named here is never called."""

from __future__ import annotations

USES: dict[str, str] = {
    "getOpenApiSpec": "finds the edition (a hint)",
    "getCurrentPerson": "finds the edition, names the token's owner",
    "getPerson": "names the owners of flows and plans",
    "listApiAccessTokens": "shows when tokens expire",
    "listOutputObjects": "finds the edition",
    "listUserDefinedFunctions": "finds the edition",
    "listJobLibrary": "lists changed and active job groups",
    "getJobGroup": "reads one job group, its flow and its flow run",
    "getJobsForJobGroup": "reads a job group's times, errors and progress",
    "listJobGroups": "reads the job records of many job groups",
    "getFlowRun": "reads one flow run",
    "getFlowRunStatus": "reads how a flow run ended",
    "getFlowRunJobGroups": "finds a flow run's job groups",
    "listPlanSnapshotRuns": "lists changed and active plan runs",
    "getPlanSnapshotRun": "reads one plan run",
    "listPlans": "names plans, maps plan runs to them",
    "readFull": "maps a plan's snapshot to the plan",
    "listFlows": "names flows",
    "listWrangledDatasets": "names recipes",
    "listFolders": "names the folders of flows",
    "listSchedules": "reads when pipelines should start",
    "getSchedule": "verifies that a schedule that is no longer listed was deleted",
    "getFlow": "finds the webhook tasks of a flow",
    "createWebhookFlowTask": "registers a callback",
    "getWebhookFlowTask": "checks that a callback is still registered",
    "deleteWebhookFlowTask": "removes a callback that is no longer needed",
    "testWebhook": "tests the public URL of the callbacks",
    "countConnections": "counts connections",
    "countDatasetLibrary": "counts datasets",
    "countFlows": "counts flows",
    "countFolders": "counts folders",
    "countOutputObjects": "counts output objects",
    "countPlans": "counts plans",
    "countPublications": "counts publications",
    "countSchedules": "counts schedules",
    "countSqlScripts": "counts SQL scripts",
    "countUserDefinedFunctions": "counts user-defined functions",
    "countWrangledDatasets": "counts recipes",
    "countWriteSettings": "counts write settings",
    "listConnections": "names the connections",
    "getConnectionStatus": "asks whether a connection can be opened",
    "getCurrentConfigurationForWorkspace": "shows changes of the workspace's configuration",
    "getCurrentConfigurationSchema": "shows which settings are secret",
    "listComputeUsage": "reads what was used this month",
    "getProfilingInformationForJobGroupConsistent": "reads the quality of an output's data",
}


def use_of(operation_id: str) -> str | None:
    """Return what the monitor uses the operation for; None where it never calls it."""
    return USES.get(operation_id)
