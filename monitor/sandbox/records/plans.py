"""What plans have beside nodes and edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from monitor.sandbox.records.objects import Record


@dataclass(slots=True, kw_only=True)
class PlanOverride(Record):
    """The value of a run parameter in all runs of one node of a plan."""

    first_id: ClassVar[int] = 9_601
    plan_node_id: int
    override_key: str
    value: Any
