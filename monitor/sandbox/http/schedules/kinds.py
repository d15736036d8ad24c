"""What the family's resources are: see `kinds.kind`."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.http.kinds.kind import Kind
from monitor.sandbox.http.schedules.schedule_shapes import SCHEDULE_RESOURCES
from monitor.sandbox.http.showing.rendering import Resource
from monitor.sandbox.records.objects import Schedule

SCHEDULE: Kind[Schedule] = Kind(
    record=Schedule,
    name="schedule",
    plural="schedules",
    model="ScheduleResponseWithTask",
    requests=("ScheduleCreateRequest", "ScheduleUpdateRequest"),
    resource=SCHEDULE_RESOURCES["schedules"],
    filter_fields=("flow",),
)

KINDS: tuple[Kind[Any], ...] = (SCHEDULE,)

RESOURCES: dict[str, Resource] = {}
