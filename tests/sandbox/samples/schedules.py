"""Samples of the operations on schedules."""

from __future__ import annotations

from typing import Any

from monitor.model.triggers import HourlyTrigger
from monitor.sandbox.world.records.objects import Schedule, ScheduleTask
from tests.sandbox.samples.sample import Living, Sample, of


def furnish(living: Living) -> None:
    """Make a schedule of a plan."""
    task = ScheduleTask(kind="plan", target_id=living.things.nightly.id)
    living.create(
        Schedule, name="hourly", triggers=(HourlyTrigger(minute_of_hour=5),), tasks=(task,)
    )


def definition(living: Living) -> dict[str, Any]:
    """Return what makes an hourly schedule of a plan."""
    hourly = {"timeBased": {"hourly": {"minuteOfHour": 5}, "timezone": "UTC"}}
    tasks = [{"runPlan": {"planId": living.things.nightly.id}}]
    return {"name": "hourly", "triggers": [hourly], "tasks": tasks}


SAMPLES = {
    "createSchedule": Sample(body=definition),
    "listSchedules": Sample(),
    "enableSchedule": Sample(path=of(Schedule), body=lambda _: {}),
    "disableSchedule": Sample(path=of(Schedule), body=lambda _: {}),
    "countSchedules": Sample(),
    "getSchedule": Sample(path=of(Schedule)),
    "updateSchedule": Sample(path=of(Schedule), body=definition),
    "deleteSchedule": Sample(path=of(Schedule)),
}
