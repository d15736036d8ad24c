"""What the family's resources are: see `kinds.kind`."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.http.kinds.kind import Kind
from monitor.sandbox.http.plans.plan_kinds import PLAN_KINDS
from monitor.sandbox.http.showing.rendering import Resource

KINDS: tuple[Kind[Any], ...] = PLAN_KINDS

RESOURCES: dict[str, Resource] = {}
