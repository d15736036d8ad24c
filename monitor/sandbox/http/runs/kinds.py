"""What the family's resources are: see `kinds.kind`."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.http.kinds.kind import Kind
from monitor.sandbox.http.runs.job_shapes import JOB_RESOURCES
from monitor.sandbox.http.runs.run_shapes import RUN_RESOURCES
from monitor.sandbox.http.showing.rendering import Resource

KINDS: tuple[Kind[Any], ...] = ()

RESOURCES: dict[str, Resource] = {
    **RUN_RESOURCES,
    **JOB_RESOURCES,
}
