"""Environment parameters and macros that were there before the sandbox began."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from monitor.sandbox.records.packages import EnvironmentParameter, Macro
from monitor.sandbox.world import World

# A secret says of itself that it is one; this one opens nothing.
_PARAMETERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("region", {"variable": {"value": "europe-west3"}}),
    ("stage", {"variable": {"value": "sandbox"}}),
    ("partnerKey", {"type": "secret", "variable": {"value": "not-a-real-secret"}}),
)
_MACROS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "Tidy text",
        "Trims a column and writes it in small letters",
        ("set col: $col value: TRIM($col)", "set col: $col value: LOWER($col)"),
    ),
    (
        "Drop empty rows",
        "Deletes rows that have nothing in a column",
        ("delete row: ISMISSING([$col])",),
    ),
)
_COLUMN = ({"name": "col", "type": "column"},)


def seed_packages(world: World, *, by: int) -> None:
    """Make the parameters and macros in the name of person ``by``, two months ago."""
    created_at = world.now() - timedelta(days=60)
    for key, value in _PARAMETERS:
        world.create(
            EnvironmentParameter, by=by, created_at=created_at, override_key=key, value=value
        )
    for name, description, steps in _MACROS:
        world.create(
            Macro,
            by=by,
            created_at=created_at,
            name=name,
            description=description,
            steps=steps,
            parameters=_COLUMN,
        )
