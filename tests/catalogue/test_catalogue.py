"""The catalogue holds the whole API, and what the monitor can do follows from it."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from monitor.catalogue.capabilities import NEEDS, Capability, capabilities_of, without
from monitor.catalogue.operations import Edition, find, operation, operations
from monitor.catalogue.uses import USES, use_of

PER_RESOURCE = {
    "ApiAccessToken": 4,
    "AwsConfig": 3,
    "AwsRole": 4,
    "Connection": 6,
    "ConnectorMetadata": 5,
    "EnvironmentParameter": 6,
    "Flow": 19,
    "FlowNode": 1,
    "FlowNotificationSettings": 1,
    "FlowPermission": 1,
    "FlowRun": 3,
    "FlowRunParameterOverride": 4,
    "Folder": 6,
    "ImportedDataset": 10,
    "Job": 1,
    "JobGroup": 14,
    "Macro": 2,
    "Misc": 1,
    "OutputObject": 7,
    "Person": 6,
    "Plan": 14,
    "PlanNode": 3,
    "PlanOverride": 2,
    "PlanSnapshotRun": 5,
    "Publication": 6,
    "Schedule": 8,
    "SqlScript": 6,
    "Usage": 4,
    "UserDefinedFunction": 6,
    "WebhookFlowTask": 4,
    "Workspace": 9,
    "WrangledDataset": 9,
    "WriteSetting": 6,
}


def test_every_operation_of_the_api_is_there_once() -> None:
    """The catalogue holds 186 operations, spread over the resources as the API spreads them."""
    assert len(operations()) == 186
    assert Counter(operation.resource for operation in operations()) == PER_RESOURCE
    assert len({(operation.method, operation.path) for operation in operations()}) == 186
    assert len({operation.operation_id for operation in operations()}) == 186


@pytest.mark.parametrize(
    ("edition", "count"),
    [(Edition.PC, 5), (Edition.PL, 172), (Edition.RL, 173), (Edition.LE, 13), (Edition.OPEN, 186)],
)
def test_each_edition_serves_its_own_set(edition: Edition, count: int) -> None:
    """The editions offer as many operations as the API states; ``open`` refuses none."""
    assert sum(operation.is_part_of(edition) for operation in operations()) == count


def test_names_that_are_ours_are_marked() -> None:
    """Thirteen operations have no public id; ours are marked."""
    assert sum(operation.assigned for operation in operations()) == 13


def test_rows_are_well_formed() -> None:
    """A path is rooted at /v4 and lists its parameters; a method is an upper-case word."""
    assert all(listed.path.startswith("/v4/") for listed in operations())
    assert {listed.method for listed in operations()} == {
        "GET",
        "POST",
        "PUT",
        "PATCH",
        "DELETE",
    }
    assert operation("runFlow").parameters == ("id",)
    assert operation("deletePlanPermissions").parameters == ("id", "subjectId")


def test_the_small_edition_follows_by_id_reads_jobs_and_counts_outputs() -> None:
    """LE lists nothing that runs, so a run there must be named to be followed."""
    assert capabilities_of(Edition.LE) == {
        Capability.FOLLOW_BY_ID,
        Capability.READ_JOBS,
        Capability.COUNT_OBJECTS,
    }


def test_the_edition_without_runs_lists_flows_only() -> None:
    """PC has no run operations at all."""
    assert capabilities_of(Edition.PC) == {Capability.LIST_FLOWS}


def test_the_two_full_editions_differ_in_what_is_known_of_people_and_usage() -> None:
    """PL shows what was used, and neither whose token it is nor when it expires; RL the reverse."""
    full = frozenset(Capability)
    personal = {Capability.KNOW_THE_PERSON, Capability.READ_TOKENS}
    assert capabilities_of(Edition.RL) == full - {Capability.READ_USAGE}
    assert capabilities_of(Edition.PL) == full - personal
    assert capabilities_of(Edition.OPEN) == full


def test_failed_reads_remove_capabilities() -> None:
    """An unavailable operation makes everything that rests on it unavailable."""
    left = without(capabilities_of(Edition.OPEN), frozenset({"listPlans"}))
    assert frozenset(Capability) - left == {Capability.LIST_PLANS, Capability.MAP_PLAN_SNAPSHOTS}


def test_capabilities_and_uses_name_real_operations() -> None:
    """Required operations and those listed as used are in the catalogue."""
    known = {operation.operation_id for operation in operations()}
    needed = {need for needs in NEEDS.values() for need in needs}
    assert set(USES) <= known
    assert needed <= set(USES)
    assert use_of("deleteFlow") is None


def test_the_uses_are_what_the_rooms_call() -> None:
    """Every operation id in the rooms that talk to a workspace has its use, and no other has."""
    package = Path(__file__).parent.parent.parent / "monitor"
    known = {operation.operation_id for operation in operations()}
    named = {
        node.value
        for room in ("workspace", "polling", "callbacks")
        for path in (package / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in known
    }
    assert named == set(USES)


@pytest.mark.parametrize(
    ("method", "path", "operation_id", "values"),
    [
        ("GET", "/v4/people/current", "getCurrentPerson", ()),
        ("get", "/v4/people/12", "getPerson", ("12",)),
        ("GET", "/v4/flows/count", "countFlows", ()),
        ("GET", "/v4/jobGroups/7/status/", "getJobGroupStatus", ("7",)),
        ("GET", "/V4/jobgroups/7/Status", "getJobGroupStatus", ("7",)),
        ("GET", "/v4/CONNECTORMETADATA/MySQL", "getConnectorConfig", ("MySQL",)),
        ("DELETE", "/v4/plans/1/permissions/2", "deletePlanPermissions", ("1", "2")),
    ],
)
def test_a_concrete_path_finds_its_operation(
    method: str, path: str, operation_id: str, values: tuple[str, ...]
) -> None:
    """A literal segment wins over a parameter and ignores case; values come along as written."""
    match = find(method, path)
    assert match is not None
    assert (match[0].operation_id, match[1]) == (operation_id, values)


def test_an_unknown_path_finds_nothing() -> None:
    """A method or a path outside the catalogue has no operation."""
    assert find("GET", "/v4/nothing") is None
    assert find("PUT", "/v4/people/current") is None


def test_every_operation_finds_itself() -> None:
    """The path of each operation, filled in, leads back to it."""
    wrong = []
    for listed in operations():
        values = tuple(f"x{number}" for number in range(len(listed.parameters)))
        match = find(listed.method, listed.fill(*values))
        if match is None or (match[0].operation_id, match[1]) != (
            listed.operation_id,
            values,
        ):
            wrong.append(listed.operation_id)
    assert wrong == []


def test_path_values_are_quoted() -> None:
    """A value cannot leave its segment of the path."""
    assert operation("getFlow").fill("a/b?c") == "/v4/flows/a%2Fb%3Fc"


def test_the_number_of_path_values_must_fit() -> None:
    """Too few or too many path values are refused before anything is sent."""
    with pytest.raises(ValueError, match="takes 1 path values"):
        operation("getFlow").fill()
