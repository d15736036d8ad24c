"""What outputs have beside files and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from monitor.sandbox.records.objects import Record


@dataclass(slots=True, kw_only=True)
class SqlScript(Record):
    """SQL that a run of an output has executed: ``type`` says before its work (pre) or after."""

    first_id: ClassVar[int] = 4_901
    output_object_id: int
    sql_script: str
    type: str
    vendor: str
    connection_id: int | None = None
    run_parameters: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_before(self) -> bool:
        return self.type.casefold().startswith("pre")
