"""The capabilities of a workspace, derived from the operations that it serves."""

from __future__ import annotations

from enum import StrEnum

from monitor.catalogue.operations import Edition, operation


class Capability(StrEnum):
    """One ability of the monitor; the label ``capability`` of ``dataprep_capability``."""

    LIST_CHANGES = "list_changes"
    FOLLOW_BY_ID = "follow_by_id"
    READ_JOBS = "read_jobs"
    FOLLOW_FLOW_RUNS = "follow_flow_runs"
    LIST_PLAN_RUNS = "list_plan_runs"
    MAP_PLAN_SNAPSHOTS = "map_plan_snapshots"
    LIST_FLOWS = "list_flows"
    LIST_PLANS = "list_plans"
    READ_SCHEDULES = "read_schedules"
    CREATE_WEBHOOK_TASKS = "create_webhook_tasks"
    TEST_WEBHOOKS = "test_webhooks"
    KNOW_THE_PERSON = "know_the_person"
    COUNT_OBJECTS = "count_objects"
    READ_CONNECTIONS = "read_connections"
    READ_TOKENS = "read_tokens"
    READ_CONFIGURATION = "read_configuration"
    READ_USAGE = "read_usage"
    READ_PROFILES = "read_profiles"


# What each ability rests on. An edition has it when it serves every operation named here.
NEEDS: dict[Capability, tuple[str, ...]] = {
    Capability.LIST_CHANGES: ("listJobLibrary",),
    Capability.FOLLOW_BY_ID: ("getJobGroup",),
    Capability.READ_JOBS: ("getJobsForJobGroup",),
    Capability.FOLLOW_FLOW_RUNS: ("getFlowRun", "getFlowRunStatus", "getFlowRunJobGroups"),
    Capability.LIST_PLAN_RUNS: ("listPlanSnapshotRuns", "getPlanSnapshotRun"),
    Capability.MAP_PLAN_SNAPSHOTS: ("listPlans", "readFull"),
    Capability.LIST_FLOWS: ("listFlows",),
    Capability.LIST_PLANS: ("listPlans",),
    Capability.READ_SCHEDULES: ("listSchedules",),
    Capability.CREATE_WEBHOOK_TASKS: (
        "createWebhookFlowTask",
        "getWebhookFlowTask",
        "deleteWebhookFlowTask",
    ),
    Capability.TEST_WEBHOOKS: ("testWebhook",),
    Capability.KNOW_THE_PERSON: ("getCurrentPerson",),
    # The one count of every edition with counts; each of the others is read where it is served.
    Capability.COUNT_OBJECTS: ("countOutputObjects",),
    Capability.READ_CONNECTIONS: ("listConnections", "getConnectionStatus"),
    Capability.READ_TOKENS: ("listApiAccessTokens",),
    Capability.READ_CONFIGURATION: ("getCurrentConfigurationForWorkspace",),
    Capability.READ_USAGE: ("listComputeUsage",),
    Capability.READ_PROFILES: ("getProfilingInformationForJobGroupConsistent",),
}


def capabilities_of(edition: Edition) -> frozenset[Capability]:
    """Return what the edition's set makes possible.

    For ``open`` that is everything, until a read proves otherwise: see `without`.
    """
    return frozenset(
        capability
        for capability, needs in NEEDS.items()
        if all(operation(need).is_part_of(edition) for need in needs)
    )


def without(
    capabilities: frozenset[Capability], unavailable_operation_ids: frozenset[str]
) -> frozenset[Capability]:
    """Return what is left of ``capabilities`` when reads found these operations unavailable."""
    return frozenset(
        capability
        for capability in capabilities
        if not unavailable_operation_ids.intersection(NEEDS[capability])
    )
