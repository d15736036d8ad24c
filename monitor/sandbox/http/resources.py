"""The table of everything that can be shown or embedded, by its name in the API's messages."""

from __future__ import annotations

from monitor.sandbox.http.job_shapes import JOB_RESOURCES
from monitor.sandbox.http.object_shapes import OBJECT_RESOURCES
from monitor.sandbox.http.plan_shapes import PLAN_RESOURCES
from monitor.sandbox.http.rendering import Resource
from monitor.sandbox.http.run_shapes import RUN_RESOURCES
from monitor.sandbox.http.schedule_shapes import SCHEDULE_RESOURCES

RESOURCES: dict[str, Resource] = {
    **RUN_RESOURCES,
    **JOB_RESOURCES,
    **OBJECT_RESOURCES,
    **PLAN_RESOURCES,
    **SCHEDULE_RESOURCES,
}
