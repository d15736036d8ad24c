"""What somebody set about the runs of a flow: parameters and notifications."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.api.calls import Call, Handlers, Reply
from monitor.sandbox.api.crud.handlers import (
    Hooks,
    answer,
    create_record,
    crud,
    require_right_around,
)
from monitor.sandbox.api.crud.values import values_of
from monitor.sandbox.api.errors import bad_field
from monitor.sandbox.api.response.kinds import Kind, Reference
from monitor.sandbox.world.records.objects import Flow
from monitor.sandbox.world.records.parts import (
    FlowNotificationSettings,
    FlowRunParameterOverride,
)

_OF_FLOW = Reference("flow_id", Flow, shown="flow", sent="flowId")

PARAMETER_OVERRIDE: Kind[FlowRunParameterOverride] = Kind(
    record=FlowRunParameterOverride,
    references=(_OF_FLOW,),
    home="flow_id",
    filter_fields=("overrideKey",),
)

NOTIFICATION_SETTINGS: Kind[FlowNotificationSettings] = Kind(
    record=FlowNotificationSettings,
    plural="flownotificationsettings",
    references=(_OF_FLOW,),
    home="flow_id",
    filter_fields=("id",),
)


def _prepare(
    call: Call, record: FlowRunParameterOverride | None, values: dict[str, Any]
) -> dict[str, Any]:
    """Let each key stand once in a flow."""
    flow_id = values.get("flow_id") if record is None else record.flow_id
    for other in call.world.shelf(FlowRunParameterOverride).having("flow_id", flow_id):
        if other is not record and other.override_key == values.get("override_key"):
            raise bad_field("overrideKey", f"is overridden in flow {flow_id} already")
    return values


def create_override(call: Call) -> Reply:
    """Give a parameter a value in all runs of a flow."""
    values = values_of(call, PARAMETER_OVERRIDE, "FlowRunParameterOverrideCreateRequest")
    require_right_around(call, PARAMETER_OVERRIDE, values)
    record = create_record(call, PARAMETER_OVERRIDE, _prepare(call, None, values))
    return answer(call, PARAMETER_OVERRIDE, record, extra={"flowId": record.flow_id})


def create_notification_settings(call: Call) -> Reply:
    """Set when a flow's people are notified; replaces the settings that a flow has."""
    values = values_of(call, NOTIFICATION_SETTINGS, "FlowNotificationSettingsCreateRequest")
    require_right_around(call, NOTIFICATION_SETTINGS, values)
    for settings in call.world.shelf(FlowNotificationSettings).having("flow_id", values["flow_id"]):
        call.world.update(settings, by=call.person.id, **values)
        return answer(call, NOTIFICATION_SETTINGS, settings)
    return answer(call, NOTIFICATION_SETTINGS, create_record(call, NOTIFICATION_SETTINGS, values))


_HOOKS: Hooks[FlowRunParameterOverride] = Hooks(prepare=_prepare)

HANDLERS: Handlers = {
    **crud(PARAMETER_OVERRIDE, _HOOKS),
    "createFlowRunParameterOverride": create_override,
    "createFlowNotificationSettings": create_notification_settings,
}
