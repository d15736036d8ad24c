"""The workspace's settings: what there is, and what somebody saved."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources

import msgspec
from msgspec import Struct

from monitor.sandbox.api.errors import Json, bad_field
from monitor.sandbox.api.request.bodies import LARGEST_INTEGER, LONGEST_TEXT
from monitor.sandbox.world.records.parts import WorkspaceSetting
from monitor.sandbox.world.shelves import World

Value = str | int | bool
_TYPES: Mapping[str, tuple[type[Value], str]] = {
    "boolean": (bool, "a boolean"),
    "integer": (int, "an integer"),
    "string": (str, "a string"),
}


class Setting(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One setting as the schema defines it, and what a value has to be like."""

    type: str
    default: Value
    description: str
    secret: bool = False
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None

    def validated(self, value: Json, name: str) -> Value:
        """Return a value that the setting may have; ``name`` is where it stands in the body.

        Raises:
            ApiError: 400, naming it.
        """
        python_type, words = _TYPES[self.type]
        if type(value) is not python_type:
            raise bad_field(name, f"must be {words}")
        if isinstance(value, str):
            return self._judged_text(value, name)
        return value if isinstance(value, bool) else self._judged_number(int(value), name)

    def _judged_text(self, value: str, name: str) -> str:
        if len(value) > LONGEST_TEXT:
            raise bad_field(name, f"must be at most {LONGEST_TEXT} characters long")
        if self.enum and value not in self.enum:
            raise bad_field(name, f"must be one of [{', '.join(self.enum)}]")
        return value

    def _judged_number(self, value: int, name: str) -> int:
        least = -LARGEST_INTEGER if self.minimum is None else self.minimum
        most = LARGEST_INTEGER if self.maximum is None else self.maximum
        if not least <= value <= most:
            raise bad_field(name, f"must be from {least} to {most}")
        return value


@functools.cache
def settings() -> Mapping[str, Setting]:
    """Return all settings by their keys."""
    text = resources.files(__package__).joinpath("configuration.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, Setting])


def saved(world: World) -> dict[str, WorkspaceSetting]:
    """Return what somebody saved, by key."""
    return {
        workspace_setting.key: workspace_setting
        for workspace_setting in world.shelf(WorkspaceSetting).live()
    }


def setting(world: World, key: str) -> Value:
    """Return what a setting says now.

    Raises:
        KeyError: there is no such setting.
    """
    kept = saved(world).get(key)
    return settings()[key].default if kept is None else kept.value


def whole_number(world: World, key: str) -> int:
    """Return what a setting says that is a number.

    Raises:
        KeyError: there is no such setting.
    """
    return int(setting(world, key))
