"""All assumptions, gathered from the families."""

from __future__ import annotations

from monitor.sandbox.api.assumptions import (
    data,
    everywhere,
    flows,
    outputs,
    packages,
    people,
    plans,
    runs,
    schedules,
    webhooks,
    workspace,
)
from monitor.sandbox.api.assumptions.assumption import Assumption

_FAMILIES = (
    everywhere,
    runs,
    flows,
    data,
    outputs,
    plans,
    schedules,
    webhooks,
    packages,
    people,
    workspace,
)

ASSUMPTIONS: tuple[Assumption, ...] = tuple(
    assumption for family in _FAMILIES for assumption in family.ASSUMPTIONS
)


def assumed_of(operation_id: str) -> tuple[Assumption, ...]:
    """Return what is assumed of one operation, beside what is assumed of all."""
    return tuple(assumption for assumption in ASSUMPTIONS if operation_id in assumption.operations)
