"""What stands for data inside flows, and what is shown about it beside its own records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from monitor.sandbox.records.objects import Recipe, Record


@dataclass(slots=True, kw_only=True)
class DatasetNode(Record):
    """An imported dataset's place in a flow. Its id is a flow node's, like those of recipes."""

    counts_with: ClassVar[type[Record]] = Recipe
    flow_id: int
    dataset_id: int


@dataclass(slots=True, kw_only=True)
class ReferenceNode(Record):
    """The place in a flow of a recipe that belongs to another flow."""

    counts_with: ClassVar[type[Record]] = Recipe
    flow_id: int
    recipe_id: int  # of the other flow


@dataclass(slots=True, kw_only=True)
class ConnectorOverrides(Record):
    """What this workspace changes about one connector; ``document`` has its defaults' form."""

    first_id: ClassVar[int] = 9_951
    connector: str
    document: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ResourceTask(Record):
    """A piece of work on a dataset that was requested and is not waited for."""

    first_id: ClassVar[int] = 9_901
    dataset_id: int
