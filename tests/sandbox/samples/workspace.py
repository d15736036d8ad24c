"""Samples of the operations on the workspace, usage and functions."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.api.workspace.usage import ENTITLEMENT_ID, PROJECT_ID
from monitor.sandbox.world.records.parts import UserDefinedFunction
from monitor.sandbox.world.shelves import WORKSPACE_ID
from tests.sandbox.samples.sample import Living, Sample, of

PERIOD = ("2026-11-01", "2026-11-30")
KEY = "webhooks.maximumPerFlow"


def furnish(living: Living) -> None:
    """Let a recipe use a function."""
    function = living.create(UserDefinedFunction, name="CLEAN_PHONE", input_types=("String",))
    living.things.clean.function_ids = (function.id,)


def this_workspace(_: Living) -> tuple[int]:
    return (WORKSPACE_ID,)


def change(_: Living) -> dict[str, Any]:
    return {"configuration": [{"key": KEY, "value": 60}]}


def reset(_: Living) -> dict[str, Any]:
    return {"settings": [KEY]}


def transfer(living: Living) -> dict[str, Any]:
    things = living.things
    return {"fromPersonId": things.colleague.id, "toPersonId": things.owner.id}


SAMPLES = {
    "getCurrentConfigurationForWorkspace": Sample(),
    "getConfigurationForWorkspace": Sample(path=this_workspace, query={"key": KEY}),
    "getCurrentConfigurationSchema": Sample(),
    "getConfigurationSchema": Sample(path=this_workspace),
    "saveCurrentWorkspaceConfiguration": Sample(body=change, as_admin=True),
    "saveWorkspaceConfiguration": Sample(path=this_workspace, body=change, as_admin=True),
    "deleteCurrentWorkspaceConfigurationSettings": Sample(body=reset, as_admin=True),
    "deleteWorkspaceConfigurationSettings": Sample(path=this_workspace, body=reset, as_admin=True),
    "transferUserAssetsInCurrentWorkspace": Sample(body=transfer, as_admin=True),
    "listComputeUsage": Sample(path=lambda _: PERIOD),
    "getTheUsageDetailedReportForThePeriod": Sample(path=lambda _: PERIOD),
    "listUserUsagesForProject": Sample(path=lambda _: (PROJECT_ID, *PERIOD)),
    "listUserUsagesForEntitlement": Sample(path=lambda _: (ENTITLEMENT_ID, *PERIOD)),
    "listUserDefinedFunctions": Sample(),
    "getUserDefinedFunction": Sample(path=of(UserDefinedFunction)),
    "deleteUserDefinedFunction": Sample(path=of(UserDefinedFunction)),
    "countUserDefinedFunctions": Sample(),
    "getListOfRecipesUsingThisFunction": Sample(path=of(UserDefinedFunction)),
    "getCountOfAllFlowsAndRecipesUsingThisFunction": Sample(path=of(UserDefinedFunction)),
}
