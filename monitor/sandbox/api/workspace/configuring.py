"""Reading, saving and resetting the settings of the workspace."""

from __future__ import annotations

import msgspec

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.errors import Json, bad_field, bad_parameter, forbidden, not_found
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.api.workspace.configuration import Value, saved, setting, settings
from monitor.sandbox.world.records.parts import WorkspaceSetting
from monitor.sandbox.world.shelves import WORKSPACE_ID

MASK = "********"


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
    """Show what settings there are, of which type, with their defaults."""
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
