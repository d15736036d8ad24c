"""What goes from one workspace to another in a package of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from monitor.sandbox.records.objects import Record


@dataclass(slots=True, kw_only=True)
class EnvironmentParameter(Record):
    """A value that flows of the whole workspace may use by its key, as ``$env.key``."""

    first_id: ClassVar[int] = 41
    override_key: str
    value: Mapping[str, Any] = field(repr=False)  # some are secrets

    @property
    def is_secret(self) -> bool:
        """True for a value that says of itself that it is a secret."""
        return "secret" in (*self.value, self.value.get("type"))


@dataclass(slots=True, kw_only=True)
class Macro(Record):
    """Steps of a recipe under a name, so that other recipes can use them."""

    first_id: ClassVar[int] = 1_001
    name: str
    description: str = ""
    steps: tuple[str, ...] = ()
    parameters: tuple[Mapping[str, Any], ...] = ()
