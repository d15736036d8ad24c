"""The record of an output, for the rest of the program: light enough for a key press."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from monitor.model.events import EventType


class OutputRecord(Struct, frozen=True, kw_only=True):
    """One output. Its class loads when it is first used, with the libraries that it needs."""

    section: str  # of the configuration
    settings: type[Struct]
    output: str  # ``module:class`` of the `EventOutput`
    receivers: Callable[[Any], list[str]]  # of settings, without what may be a secret
    types: Callable[[Any], frozenset[EventType]]  # of events that settings let it take
    is_one_each: bool = False  # an output for each receiver; otherwise one for all
    # On in the reference; where it is off, summary, readiness and doctor say so.
    is_usual: bool = False

    def names(self, settings: Any) -> list[str]:
        """Return the names of the outputs that settings stand for, which are their consumers."""
        if not self.is_one_each:
            return [self.section]
        return [f"{self.section}:{receiver}" for receiver in self.receivers(settings)]

    def load(self) -> Any:
        """Return the class of the output, a kind of `EventOutput`."""
        module, _, name = self.output.partition(":")
        return getattr(importlib.import_module(module), name)
