"""Functions that people wrote for their recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monitor.sandbox.records.objects import Record


@dataclass(slots=True, kw_only=True)
class UserDefinedFunction(Record):
    """A function written outside the workspace. `Recipe.function_ids` names its users."""

    first_id: ClassVar[int] = 1_101
    name: str
    description: str | None = None
    language: str = "java"
    input_types: tuple[str, ...] = ()
    output_type: str = "String"
