"""What the family's resources are: see `kinds.kind`."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.http.kinds.kind import Kind
from monitor.sandbox.http.people.aws_kinds import AWS_CONFIG, AWS_ROLE
from monitor.sandbox.http.people.person_shapes import PERSON_RESOURCES
from monitor.sandbox.http.showing.rendering import Resource

KINDS: tuple[Kind[Any], ...] = (AWS_CONFIG, AWS_ROLE)

RESOURCES: dict[str, Resource] = {
    **PERSON_RESOURCES,
}
