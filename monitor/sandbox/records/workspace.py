"""What the workspace itself keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from monitor.sandbox.records.objects import Record


@dataclass(slots=True, kw_only=True)
class WorkspaceSetting(Record):
    """A setting that somebody saved. One without such a record has its default."""

    first_id: ClassVar[int] = 9_701
    key: str
    value: str | int | bool = field(repr=False)  # of some settings it is a secret
