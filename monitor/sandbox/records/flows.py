"""What people keep about flows beside the flows themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from monitor.sandbox.records.objects import Record


@dataclass(slots=True, kw_only=True)
class Folder(Record):
    """A place for flows."""

    first_id: ClassVar[int] = 31
    name: str = "Untitled folder"
    description: str | None = None


@dataclass(slots=True, kw_only=True)
class FlowNotificationSettings(Record):
    """When a flow's people get a mail about the end of its job groups; one for each flow."""

    first_id: ClassVar[int] = 9_001
    flow_id: int
    on_job_failure: str
    on_job_success: str


@dataclass(slots=True, kw_only=True)
class FlowRunParameterOverride(Record):
    """The value that a parameter has in all runs of a flow."""

    first_id: ClassVar[int] = 9_301
    flow_id: int
    override_key: str
    value: Any


@dataclass(slots=True, kw_only=True)
class FlowEdge(Record):
    """A link that was committed between two nodes of a flow."""

    first_id: ClassVar[int] = 8_001
    flow_id: int
    input_node_id: int
    output_node_id: int
    in_port_id: int = 0
    out_port_id: int = 0
