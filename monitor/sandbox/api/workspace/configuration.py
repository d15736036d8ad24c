"""The settings of the workspace: what there is, what users saved, and what it means."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources

import msgspec
from msgspec import Struct

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.errors import Json, bad_field, bad_parameter, forbidden, not_found
from monitor.sandbox.api.request.bodies import LARGEST_INTEGER, LONGEST_TEXT, Body
from monitor.sandbox.world.records.parts import WorkspaceSetting
from monitor.sandbox.world.shelves import WORKSPACE_ID, World

Value = str | int | bool
_TYPES: Mapping[str, tuple[type[Value], str]] = {
    "boolean": (bool, "a boolean"),
    "integer": (int, "an integer"),
    "string": (str, "a string"),
}
MASK = "********"


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
    """Return the saved settings, by key."""
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


def get_configuration(call: Call) -> Reply:
    """Show all settings, or the one that ``key`` names."""
    _judge_workspace(call)
    key = call.query.get("key")
    if key and key not in settings():
        raise bad_parameter("key", key, "the key of a setting")
    return Reply(
        body={setting: _shown(call, setting) for setting in ([key] if key else settings())}
    )


def get_schema(call: Call) -> Reply:
    """Show what settings there are, with their types and defaults."""
    _judge_workspace(call)
    return Reply(body={key: msgspec.to_builtins(setting) for key, setting in settings().items()})


def save_configuration(call: Call) -> Reply:
    """Save settings, all or none."""
    _judge_workspace(call)
    _judge_right(call)
    changes = _changes(Body(call.body))
    kept = saved(call.world)
    for key, value in changes.items():
        if key in kept:
            call.world.update(kept[key], by=call.person.id, value=value)
        else:
            call.world.create(WorkspaceSetting, by=call.person.id, key=key, value=value)
    return Reply(
        body={"configuration": [{"key": key, "value": _shown(call, key)} for key in changes]}
    )


def reset_configuration(call: Call) -> Reply:
    """Reset settings to their defaults; return how many were saved ones."""
    _judge_workspace(call)
    _judge_right(call)
    keys = Body(call.body).array("settings")
    for index, key in enumerate(keys):
        if not isinstance(key, str) or key not in settings():
            raise bad_field(f"settings[{index}]", "is no setting of the workspace")
    kept = saved(call.world)
    gone = [kept[key] for key in kept if key in keys]
    for item in gone:
        call.world.delete(item)
    return Reply(body={"numberOfRowsDeleted": len(gone)})


def _changes(body: Body) -> dict[str, Value]:
    """Return the validated values by their keys; of two for one key the later one counts.

    Raises:
        ApiError: 400, naming the field.
    """
    changes: dict[str, Value] = {}
    for object_ in body.objects("configuration"):
        key = object_.text("key")
        if key not in settings():
            raise bad_field(object_.name_of("key"), "is no setting of the workspace")
        changes[key] = settings()[key].validated(object_.raw("value"), object_.name_of("value"))
    return changes


def _shown(call: Call, key: str) -> Json:
    """Return a setting's value; a secret one only to administrators."""
    value = setting(call.world, key)
    return MASK if settings()[key].secret and value and not call.person.is_admin else value


def _judge_workspace(call: Call) -> None:
    """Refuse another workspace than this one.

    Raises:
        ApiError: 400 when the id is no number, 404 for another one.
    """
    if call.path_values and call.path_id() != WORKSPACE_ID:
        raise not_found("workspace", call.path_values[0])


def _judge_right(call: Call) -> None:
    """Refuse anybody but an administrator.

    Raises:
        ApiError: 403.
    """
    if not call.person.is_admin:
        raise forbidden("Only an administrator may change the configuration")


HANDLERS: Handlers = {
    "getCurrentConfigurationForWorkspace": get_configuration,
    "getConfigurationForWorkspace": get_configuration,
    "getCurrentConfigurationSchema": get_schema,
    "getConfigurationSchema": get_schema,
    "saveCurrentWorkspaceConfiguration": save_configuration,
    "saveWorkspaceConfiguration": save_configuration,
    "deleteCurrentWorkspaceConfigurationSettings": reset_configuration,
    "deleteWorkspaceConfigurationSettings": reset_configuration,
}
