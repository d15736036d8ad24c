"""What each edition serves."""

from __future__ import annotations

from typing import Any

import pytest

from monitor.catalogue.operations import Edition, Operation, operations
from monitor.sandbox.api.routes import HANDLERS
from tests.sandbox.http_workspace import Workspace, open_workspace

LISTED = [Edition.PC, Edition.PL, Edition.RL, Edition.LE]


async def call(workspace: Workspace, operation: Operation) -> Any:
    path = operation.fill(*["1"] * len(operation.parameters))
    return await workspace.request(
        operation.method, path, body={} if operation.method != "GET" else None
    )


@pytest.mark.parametrize("edition", [*LISTED, Edition.OPEN])
async def test_an_edition_serves_its_own_operations_only(edition: Edition) -> None:
    """All 186 operations are called: what is not served answers 404 RouteNotFoundException."""
    async with open_workspace(edition) as workspace:
        for operation in operations():
            answer = await call(workspace, operation)
            is_served = operation.operation_id in HANDLERS and operation.is_part_of(edition)
            is_missing = (
                answer.status == 404 and answer.exception["name"] == "RouteNotFoundException"
            )
            assert is_missing is not is_served, (operation.operation_id, answer.content)
            assert answer.status < 500
            if is_missing:
                path = operation.fill(*["1"] * len(operation.parameters))
                assert answer.exception["message"] == "This route does not exist"
                assert answer.exception["details"] == f"Cannot {operation.method} {path}"


def test_the_operations_that_runs_need_are_served() -> None:
    """Every operation of runs, schedules and webhook tasks has a handler."""
    needed = {
        operation.operation_id
        for operation in operations()
        if operation.resource in {"JobGroup", "Job", "FlowRun", "PlanSnapshotRun", "Schedule"}
        or operation.resource == "WebhookFlowTask"
    }
    named = {"listFlows", "getFlow", "runFlow", "countFlows", "getCurrentPerson", "getOpenApiSpec"}
    plans = {"listPlans", "readFull", "runPlan", "countPlans", "getSchedulesForPlan"}

    assert needed | named | plans <= HANDLERS.keys()


async def test_wrong_methods_and_paths_are_no_routes() -> None:
    """Another method on a known path, an unknown path and one outside /v4 are not found."""
    async with open_workspace() as workspace:
        for method, path in (
            ("DELETE", "/v4/jobGroups"),
            ("PATCH", "/v4/schedules/1"),
            ("OPTIONS", "/v4/flows"),
            ("GET", "/v4/jobGroups/1/logs"),
            ("GET", "/v4"),
            ("GET", "/"),
            ("GET", "/v4/flows/1/2/3"),
            ("POST", "/sandbox/ledger"),
        ):
            answer = await workspace.request(method, path)
            assert answer.is_refused(404, "RouteNotFoundException", f"Cannot {method} {path}")


async def test_the_token_is_checked_before_the_route() -> None:
    """An unknown caller learns nothing about routes."""
    async with open_workspace(Edition.LE) as workspace:
        for path in ("/v4/jobLibrary", "/v4/nothing", "/v4/jobGroups/1"):
            for header in ({}, {"Authorization": "Basic eDp5"}, {"Authorization": "Bearer "}):
                answer = await workspace.request("GET", path, token="", headers=header)
                assert answer.is_refused(401, "UnauthorizedException")
