"""Environment parameters and macros as data."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.api.response.kinds import Kind, Visibility
from monitor.sandbox.world.records.parts import EnvironmentParameter, Macro
from monitor.sandbox.world.shelves import WORKSPACE_ID

ENVIRONMENT_PARAMETER: Kind[EnvironmentParameter] = Kind(
    record=EnvironmentParameter,
    visibility=Visibility.EVERYBODY,
    computed={"usageInfo": lambda _, __: None},  # shown on request
    filter_fields=("overrideKey",),
)

MACRO: Kind[Macro] = Kind(
    record=Macro,
    name="macro",
    model="ImportMacroPackageResponse",
    visibility=Visibility.EVERYBODY,
    constants={"workspaceId": WORKSPACE_ID},
    computed={
        "createdBy": lambda _, record: record.creator_id,
        "updatedBy": lambda _, record: record.updater_id,
    },
)

PACKAGE_KINDS: tuple[Kind[Any], ...] = (ENVIRONMENT_PARAMETER, MACRO)
