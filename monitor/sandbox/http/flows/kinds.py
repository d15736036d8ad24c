"""What the family's resources are: see `kinds.kind`."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.http.flows.flow_kinds import FLOW, FOLDER
from monitor.sandbox.http.flows.flow_part_kinds import (
    EDGE,
    NOTIFICATION_SETTINGS,
    PARAMETER_OVERRIDE,
)
from monitor.sandbox.http.flows.flow_shapes import FLOW_RESOURCES
from monitor.sandbox.http.flows.library_shapes import LIBRARY_ROWS
from monitor.sandbox.http.kinds.kind import Kind
from monitor.sandbox.http.showing.rendering import Resource

KINDS: tuple[Kind[Any], ...] = (
    FOLDER,
    FLOW,
    EDGE,
    PARAMETER_OVERRIDE,
    NOTIFICATION_SETTINGS,
)

RESOURCES: dict[str, Resource] = {
    **FLOW_RESOURCES,
    "flowslibraryrows": LIBRARY_ROWS,
}
