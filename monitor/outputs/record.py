"""What the rest of the program knows of an output: one record, light enough for a key press."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from monitor.outputs.event_output import EventOutput


class OutputRecord(Struct, frozen=True, kw_only=True):
    """One output. Its class loads when it is first used, with the libraries that it needs."""

    section: str  # of the configuration
    settings: type[Struct]
    output: str  # ``module:class`` of the `EventOutput`
    receivers: Callable[[Any], list[str]]  # of settings, without what may be a secret
    is_one_each: bool = False  # an output for each receiver; otherwise one for all
    is_usual: bool = False  # in the reference it is on, and elsewhere it is said if it is off

    def names(self, settings: Any) -> list[str]:
        """Return the names of the outputs that settings stand for, which are their consumers."""
        if not self.is_one_each:
            return [self.section]
        return [f"{self.section}:{receiver}" for receiver in self.receivers(settings)]

    def load(self) -> type[EventOutput]:
        """Return the class of the output."""
        module, _, name = self.output.partition(":")
        loaded: type[EventOutput] = getattr(importlib.import_module(module), name)
        return loaded
