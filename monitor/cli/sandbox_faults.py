"""The faults that the sandbox can inject: as a table, for completion, and from options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from monitor.cli import tables
from monitor.model.errors import ConfigurationError
from monitor.sandbox.settings import WorldOptions
from monitor.sandbox.world.faults import FaultError, parse_faults, table

__all__ = ["parse", "print_table", "table"]


def parse(specs: Sequence[str]) -> WorldOptions:
    """Return the faults that options name.

    Raises:
        ConfigurationError: there is no such fault, or its value cannot be used.
    """
    try:
        return parse_faults(specs)
    except FaultError as exc:
        raise ConfigurationError(str(exc)) from exc


def print_table(*, as_json: bool) -> None:
    """Print every fault with what it takes."""
    faults = table()
    if as_json:
        tables.print_json([asdict(fault) for fault in faults])
        return
    tables.print_table(
        ("fault", "takes", "alone", "what goes wrong"),
        [(fault.name, fault.takes, fault.alone or "", fault.description) for fault in faults],
    )
