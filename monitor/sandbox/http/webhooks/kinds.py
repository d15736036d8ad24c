"""What the family's resources are: see `kinds.kind`."""

from __future__ import annotations

from typing import Any

from monitor.sandbox.http.kinds.kind import Kind
from monitor.sandbox.http.showing.rendering import Resource
from monitor.sandbox.http.webhooks.webhook_kinds import WEBHOOK_FLOW_TASK

KINDS: tuple[Kind[Any], ...] = (WEBHOOK_FLOW_TASK,)

RESOURCES: dict[str, Resource] = {}
