"""Names that a shell completes and the daemon's rooms define: labels, kinds of rule, outputs."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

from monitor.alerting.alerts.silences import SHOWN_LABELS
from monitor.alerting.rules.rule_settings import RuleKind
from monitor.outputs.records import RECORDS

__all__ = ["SHOWN_LABELS", "RuleKind", "outputs_in"]


def outputs_in(document: dict[str, Any]) -> list[str]:
    """Return the names of the outputs in a configuration as it was written."""
    names: list[str] = []
    for record in RECORDS:
        # Of a table that is not right, what can be read.
        with contextlib.suppress(LookupError, TypeError, ValueError, AttributeError):
            tables = document[record.section]
            for table in tables if isinstance(tables, list) else [tables]:
                names += record.names(SimpleNamespace(**table))
    return names
